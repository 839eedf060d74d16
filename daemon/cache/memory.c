/* Memory for what is in the cache: memory.h. Daemon. */
#include "daemon/cache/memory.h"

#include <stddef.h>
#include <sys/mman.h>

void *kp_cache_memory_create(uint64_t bytes)
{
	void *memory =
		mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (memory == MAP_FAILED)
		return NULL;
	madvise(memory, bytes, MADV_DONTFORK);
	return memory;
}

void kp_cache_memory_seal(void *memory, uint64_t bytes)
{
	mprotect(memory, bytes, PROT_READ);
}

void kp_cache_memory_destroy(void *memory, uint64_t bytes)
{
	if (memory)
		munmap(memory, bytes);
}
