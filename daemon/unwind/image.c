/*
 * ELF files in memory: see image.h. Runs in the daemon. Program headers are what the loader goes
 * by, so damage there is an error; section headers are a help, and damaged ones are as good as none.
 */
#include "daemon/unwind/image.h"

#include <elf.h>
#include <string.h>

static int check_header(struct kp_image *image, Elf64_Ehdr *ret, struct kp_err *err)
{
	if (image->size < sizeof(*ret))
		return kp_fail(err, KP_EBADDATA, "%s: not an ELF file: %zu bytes", image->name,
			       image->size);
	memcpy(ret, image->data, sizeof(*ret));
	if (memcmp(ret->e_ident, ELFMAG, SELFMAG) != 0)
		return kp_fail(err, KP_EBADDATA, "%s: not an ELF file", image->name);
	if (ret->e_ident[EI_CLASS] != ELFCLASS64 || ret->e_ident[EI_DATA] != ELFDATA2LSB)
		return kp_fail(err, KP_EBADDATA, "%s: not a 64-bit little-endian ELF file",
			       image->name);
	image->arch = kp_arch_by_machine(ret->e_machine);
	if (!image->arch)
		return kp_fail(err, KP_EBADDATA, "%s: for a CPU that is not supported (machine %u)",
			       image->name, ret->e_machine);
	return 0;
}

static int add_segment(struct kp_image *image, const Elf64_Phdr *phdr, struct kp_err *err)
{
	struct kp_image_segment *segment = &image->segment[image->segment_count];

	if (phdr->p_memsz == 0)
		return 0;
	if (phdr->p_vaddr + phdr->p_memsz < phdr->p_vaddr)
		return kp_fail(err, KP_EBADDATA,
			       "%s: the segment at %#llx is longer than the address space",
			       image->name, (unsigned long long)phdr->p_vaddr);
	if (image->segment_count == KP_IMAGE_SEGMENT_MAX)
		return kp_fail(err, KP_EBADDATA, "%s: more than %d segments", image->name,
			       KP_IMAGE_SEGMENT_MAX);
	*segment = (struct kp_image_segment){
		.start = phdr->p_vaddr,
		.end = phdr->p_vaddr + phdr->p_memsz,
		.executable = phdr->p_flags & PF_X,
	};
	if (phdr->p_offset < image->size) {
		uint64_t there = image->size - phdr->p_offset;
		uint64_t wanted = phdr->p_filesz < phdr->p_memsz ? phdr->p_filesz : phdr->p_memsz;

		segment->data = image->data + phdr->p_offset;
		segment->data_size = wanted < there ? wanted : there;
	}
	image->segment_count++;
	return 0;
}

static void find_got(struct kp_image *image, const Elf64_Phdr *phdr)
{
	uint64_t at = phdr->p_offset, end;

	if (at > image->size)
		return;
	end = phdr->p_filesz < image->size - at ? at + phdr->p_filesz : image->size;
	for (Elf64_Dyn dyn; end - at >= sizeof(dyn); at += sizeof(dyn)) {
		memcpy(&dyn, image->data + at, sizeof(dyn));
		if (dyn.d_tag == DT_NULL)
			return;
		if (dyn.d_tag == DT_PLTGOT)
			image->got = dyn.d_un.d_ptr;
	}
}

static int read_segments(struct kp_image *image, const Elf64_Ehdr *header, struct kp_err *err)
{
	Elf64_Phdr phdr;

	if (header->e_phnum && header->e_phentsize != sizeof(phdr))
		return kp_fail(err, KP_EBADDATA, "%s: program headers of %u bytes", image->name,
			       header->e_phentsize);
	if (header->e_phoff > image->size ||
	    (image->size - header->e_phoff) / sizeof(phdr) < header->e_phnum)
		return kp_fail(err, KP_EBADDATA, "%s: %u program headers at %#llx are not there",
			       image->name, header->e_phnum, (unsigned long long)header->e_phoff);
	for (unsigned i = 0; i < header->e_phnum; i++) {
		int r = 0;

		memcpy(&phdr, image->data + header->e_phoff + i * sizeof(phdr), sizeof(phdr));
		if (phdr.p_type == PT_LOAD)
			r = add_segment(image, &phdr, err);
		else if (phdr.p_type == PT_GNU_EH_FRAME)
			image->eh_frame_hdr = phdr.p_vaddr;
		else if (phdr.p_type == PT_INTERP)
			image->is_program = true;
		else if (phdr.p_type == PT_DYNAMIC)
			find_got(image, &phdr);
		if (r < 0)
			return r;
	}
	return 0;
}

static bool read_section_header(const struct kp_image *image, uint64_t n, Elf64_Shdr *ret)
{
	if (n >= image->section_count)
		return false;
	memcpy(ret, image->data + image->section_at + n * sizeof(*ret), sizeof(*ret));
	return true;
}

/* Numbers that do not fit the header are in section 0 (gABI, "ELF Header"). */
static void find_sections(struct kp_image *image, const Elf64_Ehdr *header)
{
	Elf64_Shdr zero;

	if (header->e_shoff == 0 || header->e_shentsize != sizeof(zero) ||
	    header->e_shoff > image->size || image->size - header->e_shoff < sizeof(zero))
		return;
	image->section_at = header->e_shoff;
	image->section_count = 1;
	read_section_header(image, 0, &zero);
	image->section_count = header->e_shnum ? header->e_shnum : zero.sh_size;
	image->section_names = header->e_shstrndx == SHN_XINDEX ? zero.sh_link : header->e_shstrndx;
	if ((image->size - header->e_shoff) / sizeof(zero) < image->section_count)
		image->section_count = 0;
}

int kp_image_open(struct kp_image *ret, const void *data, size_t size, const char *name,
		  struct kp_err *err)
{
	Elf64_Ehdr header;
	int r;

	*ret = (struct kp_image){ .name = name, .data = data, .size = size };
	r = check_header(ret, &header, err);
	if (r == 0) {
		ret->entry = header.e_entry;
		ret->is_program = header.e_type == ET_EXEC;
	}
	if (r == 0)
		r = read_segments(ret, &header, err);
	if (r == 0)
		find_sections(ret, &header);
	return r;
}

static bool section_content(const struct kp_image *image, const Elf64_Shdr *shdr,
			    struct kp_image_part *ret)
{
	if (shdr->sh_type == SHT_NOBITS || shdr->sh_offset > image->size ||
	    shdr->sh_size > image->size - shdr->sh_offset)
		return false;
	*ret = (struct kp_image_part){
		.data = image->data + shdr->sh_offset,
		.size = shdr->sh_size,
		.address = shdr->sh_addr,
		.compressed = shdr->sh_flags & SHF_COMPRESSED,
	};
	return true;
}

bool kp_image_section(const struct kp_image *image, const char *name, struct kp_image_part *ret)
{
	struct kp_image_part names;
	size_t length = strlen(name) + 1;
	Elf64_Shdr shdr;

	if (!read_section_header(image, image->section_names, &shdr) ||
	    !section_content(image, &shdr, &names))
		return false;
	for (uint64_t i = 1; read_section_header(image, i, &shdr); i++)
		if (shdr.sh_name < names.size && names.size - shdr.sh_name >= length &&
		    memcmp(names.data + shdr.sh_name, name, length) == 0)
			return section_content(image, &shdr, ret);
	return false;
}

bool kp_image_code_section(const struct kp_image *image, uint64_t *at, struct kp_image_part *ret)
{
	const uint64_t flags = SHF_ALLOC | SHF_EXECINSTR;
	Elf64_Shdr shdr;

	for (; read_section_header(image, *at, &shdr); ++*at)
		if ((shdr.sh_flags & flags) == flags && !(shdr.sh_flags & SHF_COMPRESSED) &&
		    section_content(image, &shdr, ret))
			return true;
	return false;
}

static const struct kp_image_segment *find_segment(const struct kp_image *image, uint64_t address,
						   bool code)
{
	for (uint32_t i = 0; i < image->segment_count; i++) {
		const struct kp_image_segment *segment = &image->segment[i];

		if (address >= segment->start && address < segment->end &&
		    (segment->executable || !code))
			return segment;
	}
	return NULL;
}

bool kp_image_at(const struct kp_image *image, uint64_t address, struct kp_image_part *ret)
{
	const struct kp_image_segment *segment = find_segment(image, address, false);

	if (!segment || address - segment->start >= segment->data_size)
		return false;
	*ret = (struct kp_image_part){
		.data = segment->data + (address - segment->start),
		.size = segment->data_size - (address - segment->start),
		.address = address,
	};
	return true;
}

const struct kp_image_segment *kp_image_code(const struct kp_image *image, uint64_t address)
{
	return find_segment(image, address, true);
}

uint64_t kp_image_code_bytes(const struct kp_image *image)
{
	const uint64_t flags = SHF_ALLOC | SHF_EXECINSTR;
	uint64_t bytes = 0;
	bool found = false;
	Elf64_Shdr shdr;

	for (uint64_t i = 1; read_section_header(image, i, &shdr); i++)
		if ((shdr.sh_flags & flags) == flags) {
			bytes += shdr.sh_size;
			found = true;
		}
	for (uint32_t i = 0; !found && i < image->segment_count; i++)
		if (image->segment[i].executable)
			bytes += image->segment[i].end - image->segment[i].start;
	return bytes;
}
