// throws SECONDS: throws through frames with something to destroy, all the time. What is sampled is
// mostly the unwinder of the run-time library, between throw and catch.
#include "tests/e2e/truth/burn.h"
#include "cpu_time.h"

#include <cstdlib>
#include <stdexcept>
#include <string>
#include <unistd.h>

#define NOINLINE __attribute__((noinline, noclone))

struct Guard {
	std::string text;
	explicit Guard(int n) : text(std::to_string(n) + " is more than fits in a short string") {}
	NOINLINE ~Guard() { BURN(200); }
};

NOINLINE static int throw_it(int n)
{
	if (n >= 0)
		throw std::runtime_error("thrown");
	return n;
}

NOINLINE static int descend(int levels)
{
	Guard guard(levels);

	if (levels == 0)
		return throw_it(levels);
	return descend(levels - 1) + 1;
}

NOINLINE static int catch_it(int levels)
{
	try {
		return descend(levels);
	} catch (const std::exception &e) {
		BURN(500);
		return static_cast<int>(e.what()[0]);
	}
}

int main(int argc, char **argv)
{
	int seconds = argc > 1 ? atoi(argv[1]) : 1;
	int sum = 0;

	alarm(120);
	while (!used_seconds(seconds))
		for (int i = 0; i < 100; i++)
			sum += catch_it(8);
	return sum == 1;
}
