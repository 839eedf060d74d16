// CPU time in a function template of a class template, for names that must be demangled.
#include "burn.h"

namespace shop
{
struct Apple {
	long weight = 3;
};

template <typename Fruit> struct Basket {
	Fruit fruit;

	template <int N> __attribute__((noinline)) long weigh(const char *)
	{
		volatile char frame = 0;

		(void)frame;
		BURN(N * 50000000L);
		return fruit.weight * N;
	}
};
} // namespace shop

int main()
{
	shop::Basket<shop::Apple> basket;

	return basket.weigh<7>("") != 21;
}
