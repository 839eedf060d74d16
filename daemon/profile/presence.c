/* In how many samples each module is: presence.h. Runs in the daemon. */
#include "daemon/profile/presence.h"

#include "daemon/profile/array.h"

#include <stdlib.h>
#include <string.h>

void kp_presence_deinit(struct kp_presence *p)
{
	free(p->of);
	*p = (struct kp_presence){ 0 };
}

int kp_presence_add(struct kp_presence *p, uint32_t module, uint64_t sample, struct kp_err *err)
{
	uint32_t before = p->capacity;
	int r = kp_array_reserve(p->of, &p->capacity, module + UINT64_C(1), err);

	if (r < 0)
		return r;
	memset(p->of + before, 0, (p->capacity - before) * sizeof(*p->of));
	if (p->of[module].last != sample)
		p->of[module].samples++;
	p->of[module].last = sample;
	return 0;
}

uint64_t kp_presence_samples(const struct kp_presence *p, uint32_t module)
{
	return module < p->capacity ? p->of[module].samples : 0;
}
