/*
 * The copy of a stopped thread's stack, and reading it: look.h. The copying runs in the onlooker
 * while the thread stands still, so it is a few system calls and bounded; the reading in the daemon.
 */
#include "daemon/attach/look.h"

#include "proto/ring.h"

#include <sys/uio.h>

static uint64_t page_of(uint64_t addr)
{
	return addr & ~(uint64_t)(KP_LOOK_PAGE - 1);
}

/* As many of count pages from addr up as can be read. */
static void copy_pages(struct kp_look *look, uint64_t addr, uint32_t count)
{
	struct iovec local = { look->page[look->page_count], (size_t)count * KP_LOOK_PAGE };
	struct iovec remote[KP_LOOK_TOP_PAGES];
	ssize_t n;

	for (uint32_t i = 0; i < count; i++)
		remote[i] = (struct iovec){ (void *)(uintptr_t)(addr + (uint64_t)i * KP_LOOK_PAGE),
					    KP_LOOK_PAGE };
	n = process_vm_readv(look->tid, &local, 1, remote, count, 0);
	for (; n >= (ssize_t)KP_LOOK_PAGE; n -= KP_LOOK_PAGE, addr += KP_LOOK_PAGE)
		look->page_at[look->page_count++] = addr;
}

static const uint64_t *find_page(const struct kp_look *look, uint64_t page)
{
	uint64_t near = look->page_count ? (page - look->page_at[0]) / KP_LOOK_PAGE : 0;

	/* Most are among the first, which follow each other. */
	if (near < look->page_count && look->page_at[near] == page)
		return look->page[near];
	for (uint32_t i = 0; i < look->page_count; i++)
		if (look->page_at[i] == page)
			return look->page[i];
	return NULL;
}

int kp_look_word(void *ctx, uint64_t addr, uint64_t *ret)
{
	const struct kp_look *look = ctx;
	const uint64_t *page = addr % 8 ? NULL : find_page(look, page_of(addr));

	if (!page)
		return -1;
	*ret = page[addr % KP_LOOK_PAGE / 8];
	return 0;
}

void kp_look_begin(struct kp_look *look, pid_t pid, pid_t tid)
{
	look->pid = pid;
	look->tid = tid;
	look->page_count = 0;
}

/* As kp_look_word(); a page that is not there is fetched if there is room. */
int kp_look_fetch_word(void *ctx, uint64_t addr, uint64_t *ret)
{
	struct kp_look *look = ctx;

	if (addr % 8 == 0 && !find_page(look, page_of(addr)) && look->page_count < KP_LOOK_PAGES)
		copy_pages(look, page_of(addr), 1);
	return kp_look_word(look, addr, ret);
}

/*
 * Frames of more than the top's size, and stacks that another one was switched from, are reached
 * along the frame pointers only. Whether a rule lets the walk go to another stack is seen later;
 * what is copied for nothing are a few pages.
 */
void kp_look_copy_stack(struct kp_look *look)
{
	const struct kp_frame_layout *layout = &kp_cpu_arch()->frame;
	struct kp_regs regs;
	uint32_t depth = 1, switches = 0;

	kp_look_regs(look, &regs);
	look->page_count = 0;
	copy_pages(look, page_of(regs.sp & layout->data_mask), KP_LOOK_TOP_PAGES);
	while (depth < KP_DEPTH_MAX && look->page_count < KP_LOOK_PAGES &&
	       (kp_fp_step(layout, &regs, depth == 1, kp_look_fetch_word, look) == KP_WALK_ON ||
		(switches++ < KP_FP_SWITCHES_MAX &&
		 kp_fp_switch(layout, &regs, kp_look_fetch_word, look) == KP_WALK_ON)))
		depth++;
}

void kp_look_regs(const struct kp_look *look, struct kp_regs *ret)
{
	kp_cpu_walk_regs(&look->regs, ret);
}

int kp_look_register(void *ctx, uint32_t dwarf_number, uint64_t *ret)
{
	const struct kp_look *look = ctx;

	return kp_cpu_dwarf_register(&look->regs, dwarf_number, ret);
}
