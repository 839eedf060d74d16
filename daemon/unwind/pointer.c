/* Encoded pointers: see pointer.h. Runs in the daemon. */
#include "daemon/unwind/pointer.h"

#include <dwarf.h>

#define FORMAT 0x0f
#define APPLICATION 0x70

bool kp_pointer_read_plain(struct kp_bytes *bytes, uint8_t encoding, uint64_t *ret)
{
	switch (encoding & FORMAT) {
	case DW_EH_PE_absptr:
	case DW_EH_PE_udata8:
	case DW_EH_PE_sdata8:
	case DW_EH_PE_signed: /* a signed absptr */
		*ret = kp_bytes_u64(bytes);
		break;
	case DW_EH_PE_uleb128:
		*ret = kp_bytes_uleb(bytes);
		break;
	case DW_EH_PE_sleb128:
		*ret = (uint64_t)kp_bytes_sleb(bytes);
		break;
	case DW_EH_PE_udata2:
		*ret = kp_bytes_u16(bytes);
		break;
	case DW_EH_PE_sdata2:
		*ret = (uint64_t)(int64_t)(int16_t)kp_bytes_u16(bytes);
		break;
	case DW_EH_PE_udata4:
		*ret = kp_bytes_u32(bytes);
		break;
	case DW_EH_PE_sdata4:
		*ret = (uint64_t)(int64_t)(int32_t)kp_bytes_u32(bytes);
		break;
	default:
		return false;
	}
	return !bytes->cut;
}

static bool read_indirect(const struct kp_image *image, uint64_t *address)
{
	struct kp_image_part part;
	struct kp_bytes bytes;

	if (!kp_image_at(image, *address, &part))
		return false;
	bytes = kp_bytes(part.data, part.size);
	*address = kp_bytes_u64(&bytes);
	return !bytes.cut;
}

bool kp_pointer_read(const struct kp_pointer_base *base, struct kp_bytes *bytes, uint8_t encoding,
		     uint64_t *ret)
{
	uint64_t here, value;

	if (encoding == DW_EH_PE_omit)
		return false;
	if (encoding == DW_EH_PE_aligned) {
		here = base->address + (uint64_t)(bytes->at - base->data);
		kp_bytes_take(bytes, -here & 7);
		encoding = DW_EH_PE_absptr;
	}
	here = base->address + (uint64_t)(bytes->at - base->data);
	if (!kp_pointer_read_plain(bytes, encoding, &value))
		return false;
	switch (encoding & APPLICATION) {
	case DW_EH_PE_absptr:
		break;
	case DW_EH_PE_pcrel:
		value += here;
		break;
	case DW_EH_PE_datarel:
		if (!base->data_base)
			return false;
		value += base->data_base;
		break;
	default: /* relative to text or function: no system of ours has it */
		return false;
	}
	if ((encoding & DW_EH_PE_indirect) && !read_indirect(base->image, &value))
		return false;
	*ret = value;
	return true;
}
