/*
 * .gnu_debugdata: see minidebug.h. Runs in the daemon. libdw unpacks; that it does not unpack more
 * than we want to have is seen before.
 */
#include "daemon/symbol/minidebug.h"

#include "daemon/symbol/xz.h"

#define UNPACKED_MAX ((size_t)128 << 20)

int kp_minidebug_open(const struct kp_elf_file *file, struct kp_elf_file **ret, struct kp_err *err)
{
	GElf_Shdr shdr;
	Elf_Scn *scn = kp_elf_file_section(file, ".gnu_debugdata", &shdr);
	Elf_Data *data = scn ? elf_rawdata(scn, NULL) : NULL;
	struct kp_err why = { 0 };
	size_t unpacked;
	int r;

	if (!scn)
		return KP_MINIDEBUG_NONE;
	if (!data || !data->d_buf)
		return kp_fail(err, KP_EBADDATA, "%s: .gnu_debugdata cannot be read", file->path);
	r = kp_xz_unpacked_size(data->d_buf, data->d_size, UNPACKED_MAX, &unpacked, &why);
	if (r < 0)
		return kp_fail(err, KP_EBADDATA, "%s: .gnu_debugdata %s", file->path, why.text);
	r = kp_elf_file_open_packed(data->d_buf, data->d_size, ".gnu_debugdata", ret, &why);
	if (r == -KP_ENOMEM)
		return kp_fail_nomem(err);
	return r < 0 ? kp_fail(err, KP_EBADDATA, "%s: %s", file->path, why.text) : 0;
}
