/*
 * Files of split DWARF (daemon/symbol/splitfile.h, split.h). An input is the size of the file that
 * has the skeleton units, that file, and a .dwo file or a package.
 */
#include "common/cleanup.h"
#include "daemon/symbol/split.h"
#include "daemon/symbol/unit.h"
#include "tests/fuzz/fuzz.h"

#include <stdlib.h>
#include <string.h>

#define UNITS_MAX 16

static void check(int condition)
{
	if (!condition)
		abort();
}

static void join(const struct kp_elf_file *main, const struct kp_elf_file *half,
		 Dwarf_Die *skeleton, uint64_t id)
{
	struct kp_unit unit = { .cu = *skeleton };
	struct kp_split_pieces pieces;
	struct kp_split *split = NULL;
	struct kp_err err = { 0 };
	Dwarf_Die die;
	int r = kp_splitfile_pieces(half, id, &pieces, &err);

	check(r == 0 || r == KP_SPLITFILE_NONE || r == -KP_EBADDATA);
	if (r != 0)
		return;
	r = kp_split_open(main, skeleton, &pieces, &split, &die, &err);
	check(r == 0 || r == KP_SPLIT_NONE_HERE || r == -KP_EBADDATA);
	if (r == 0)
		check(kp_unit_load(&unit, &die, main, &err) == 0);
	kp_unit_deinit(&unit);
	kp_split_close(split);
}

static void join_all(const struct kp_elf_file *main, const struct kp_elf_file *half)
{
	Dwarf *dwarf = dwarf_begin_elf(main->elf, DWARF_C_READ, NULL);
	Dwarf_CU *cu = NULL;
	Dwarf_Die die;
	uint64_t id;

	for (unsigned i = 0; dwarf && i < UNITS_MAX; i++) {
		if (dwarf_get_units(dwarf, cu, &cu, NULL, NULL, &die, NULL) != 0)
			break;
		if (kp_split_id(&die, &id))
			join(main, half, &die, id);
	}
	dwarf_end(dwarf);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	_cleanup_(kp_elf_file_destroyp) struct kp_elf_file *main = NULL, *half = NULL;
	uint32_t first;

	if (size < sizeof(first))
		return 0;
	memcpy(&first, data, sizeof(first));
	data += sizeof(first);
	size -= sizeof(first);
	if (first > size)
		return 0;
	if (kp_elf_file_open_image(data, first, "main", &main, NULL) == 0 &&
	    kp_elf_file_open_image(data + first, size - first, "half", &half, NULL) == 0)
		join_all(main, half);
	return 0;
}
