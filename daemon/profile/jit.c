/* Names of compiled code: jit.h. Runs in the daemon. */
#include "daemon/profile/jit.h"

#include "common/cleanup.h"
#include "daemon/profile/array.h"

#include <stdlib.h>
#include <string.h>

static struct kp_jit_process *find(const struct kp_jit *jit, uint32_t pid)
{
	for (uint32_t i = 0; i < jit->process_count; i++)
		if (jit->process[i].pid == pid)
			return &jit->process[i];
	return NULL;
}

static int get(struct kp_jit *jit, uint32_t pid, struct kp_jit_process **ret, struct kp_err *err)
{
	int r;

	*ret = find(jit, pid);
	if (*ret)
		return 0;
	r = kp_array_reserve(jit->process, &jit->process_capacity, jit->process_count + UINT64_C(1),
			     err);
	if (r < 0)
		return r;
	*ret = &jit->process[jit->process_count++];
	**ret = (struct kp_jit_process){ .pid = pid };
	return 0;
}

int kp_jit_apply(struct kp_jit *jit, const struct kp_raw_record *record, struct kp_err *err)
{
	const struct kp_raw_symbol *symbol = &record->symbol;
	struct kp_address_range range;
	struct kp_jit_process *process;
	char *name;
	int r;

	if (record->type != KP_RAW_SYMBOL)
		return 0;
	r = get(jit, symbol->pid, &process, err);
	if (r == 0)
		r = kp_array_reserve(jit->function, &jit->capacity, jit->count + UINT64_C(1), err);
	if (r < 0)
		return r;
	name = strndup(symbol->name.text, symbol->name.len);
	if (!name)
		return kp_fail_nomem(err);
	jit->function[jit->count++] = (struct kp_frame){ .name = name };
	range = (struct kp_address_range){ symbol->start, symbol->end, jit->count };
	return kp_address_space_map(&process->space, &range, err);
}

const struct kp_frame *kp_jit_find(const struct kp_jit *jit, uint32_t pid, uint64_t address)
{
	const struct kp_jit_process *process = find(jit, pid);
	uint32_t found = process ? kp_address_space_find(&process->space, address) : 0;

	return found ? &jit->function[found - 1] : NULL;
}

void kp_jit_deinit(struct kp_jit *jit)
{
	for (uint32_t i = 0; i < jit->count; i++)
		free((void *)(uintptr_t)jit->function[i].name);
	for (uint32_t i = 0; i < jit->process_count; i++)
		kp_address_space_deinit(&jit->process[i].space);
	free(jit->function);
	free(jit->process);
	*jit = (struct kp_jit){ 0 };
}
