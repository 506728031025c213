/* core/library.c: a damaged, truncated or foreign file is refused before the loader sees it. What passes holds what the
 * loader takes on trust; the loader itself is kept out (linked with --wrap=dlopen), for it would run the code. */
#include <elf.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "core/library.h"
#include "support.h"

#define SEGMENTS_MAX 8
#define FILE_BYTES 4096

static struct {
    uint8_t bytes[FILE_BYTES];
    size_t size;
    unsigned opened;
} file;

static bool segment_at(const Elf64_Ehdr *header, size_t index, Elf64_Phdr *ret_segment)
{
    uint64_t offset;

    if (__builtin_add_overflow(header->e_phoff, index * sizeof *ret_segment, &offset) || offset > file.size ||
        file.size - offset < sizeof *ret_segment)
        return false;
    memcpy(ret_segment, file.bytes + offset, sizeof *ret_segment);
    return true;
}

static bool inside(uint64_t inner, uint64_t inner_size, uint64_t outer, uint64_t outer_size)
{
    return inner >= outer && inner - outer <= outer_size && inner_size <= outer_size - (inner - outer);
}

/* What the loader takes on trust, written down a second time. */
static bool sound(void)
{
    Elf64_Ehdr header;
    Elf64_Phdr segment, other, dynamic = { .p_type = PT_NULL };
    uint64_t end = 0;
    bool loaded = false;

    if (file.size < sizeof header)
        return false;
    memcpy(&header, file.bytes, sizeof header);
    if (memcmp(header.e_ident, ELFMAG, SELFMAG) != 0 || header.e_ident[EI_CLASS] != ELFCLASS64 ||
        header.e_ident[EI_DATA] != ELFDATA2LSB || header.e_machine != EM_X86_64 || header.e_type != ET_DYN ||
        header.e_phentsize != sizeof segment || header.e_phnum == 0 || header.e_phnum > 128)
        return false;
    for (size_t i = 0; i < header.e_phnum; i++) {
        if (!segment_at(&header, i, &segment))
            return false;
        if (segment.p_type == PT_DYNAMIC)
            dynamic = segment;
        if (segment.p_type != PT_LOAD)
            continue;
        if (!inside(segment.p_offset, segment.p_filesz, 0, file.size) || segment.p_memsz < segment.p_filesz ||
            segment.p_vaddr < end || __builtin_add_overflow(segment.p_vaddr, segment.p_memsz, &end))
            return false;
    }
    for (size_t i = 0; i < header.e_phnum && dynamic.p_type == PT_DYNAMIC; i++) {
        if (segment_at(&header, i, &other) && other.p_type == PT_LOAD)
            loaded = loaded || inside(dynamic.p_vaddr, dynamic.p_filesz, other.p_vaddr, other.p_filesz);
    }
    return loaded;
}

void *__wrap_dlopen(const char *path, int flags);
void *__wrap_dlopen(const char *path, int flags)
{
    (void)path;
    (void)flags;
    file.opened++;
    return NULL;
}

/* --- a file -------------------------------------------------------------------------------------------------------- */

static Elf64_Phdr make_segment(struct fuzz_input *input, uint64_t *address)
{
    static const uint32_t types[] = { PT_LOAD, PT_LOAD, PT_DYNAMIC, PT_NOTE };
    Elf64_Phdr segment = { .p_type = types[fuzz_u8(input) % 4] };

    segment.p_offset = fuzz_number(input, 0x200);
    segment.p_filesz = fuzz_number(input, 0x100);
    segment.p_memsz = fuzz_one_in(input, 4) ? fuzz_number(input, segment.p_filesz) : segment.p_filesz;
    segment.p_vaddr = fuzz_one_in(input, 3) ? fuzz_number(input, *address) : *address;
    if (segment.p_type == PT_LOAD)
        *address = segment.p_vaddr + segment.p_memsz;
    return segment;
}

/* Another machine's file, or another kind of file. */
static void bend_header(struct fuzz_input *input, Elf64_Ehdr *header)
{
    switch (fuzz_u8(input) % 5) {
    case 0:
        header->e_ident[EI_CLASS] = fuzz_u8(input) % 3;
        break;
    case 1:
        header->e_ident[EI_DATA] = fuzz_u8(input) % 3;
        break;
    case 2:
        header->e_machine = fuzz_one_in(input, 2) ? EM_386 : EM_AARCH64;
        break;
    case 3:
        header->e_type = fuzz_u8(input) % 5;
        break;
    default:
        header->e_phentsize = (uint16_t)fuzz_number(input, sizeof(Elf64_Phdr));
        break;
    }
}

/* Right in all but what the input bends. */
static void make_file(struct fuzz_input *input)
{
    Elf64_Ehdr header = { .e_ident = { 0x7F, 'E', 'L', 'F', ELFCLASS64, ELFDATA2LSB, EV_CURRENT } };
    uint64_t address = 0;

    memset(&file, 0, sizeof file);
    header.e_type = ET_DYN;
    header.e_machine = EM_X86_64;
    header.e_phentsize = sizeof(Elf64_Phdr);
    header.e_phoff = fuzz_one_in(input, 8) ? fuzz_number(input, FILE_BYTES) : sizeof header;
    header.e_phnum = (uint16_t)(fuzz_one_in(input, 8) ? fuzz_number(input, 128) : 1u + fuzz_u8(input) % SEGMENTS_MAX);
    for (size_t i = 0; i < SEGMENTS_MAX; i++) {
        Elf64_Phdr segment = make_segment(input, &address);

        memcpy(file.bytes + sizeof header + i * sizeof segment, &segment, sizeof segment);
    }
    if (fuzz_one_in(input, 4))
        bend_header(input, &header);
    memcpy(file.bytes, &header, sizeof header);
    if (fuzz_one_in(input, 4))
        file.bytes[fuzz_u8(input) % sizeof header] = fuzz_u8(input);
    file.size = fuzz_one_in(input, 4) ? fuzz_number(input, sizeof header) % (FILE_BYTES + 1) : FILE_BYTES;
}

/* The input's own bytes as the file, for corpora of real libraries' heads. */
static void take_file(struct fuzz_input *input)
{
    memset(&file, 0, sizeof file);
    file.size = input->left < FILE_BYTES ? input->left : FILE_BYTES;
    fuzz_fill(input, file.bytes, file.size);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t length)
{
    static int descriptor = -1;
    static char path[32] = "/proc/self/fd/";
    struct fuzz_input input = { data, length };
    struct nxm_library library;
    struct nxm_error error = { .code = NXM_OK };

    if (descriptor < 0) {
        descriptor = memfd_create("library", MFD_CLOEXEC);
        FUZZ_CHECK(descriptor >= 0 && descriptor < 10);
        path[14] = (char)('0' + descriptor);
    }
    if (fuzz_one_in(&input, 4))
        take_file(&input);
    else
        make_file(&input);
    FUZZ_CHECK(ftruncate(descriptor, 0) == 0);
    FUZZ_CHECK(pwrite(descriptor, file.bytes, file.size, 0) == (ssize_t)file.size);
    FUZZ_CHECK(nxm_library_open(path, &library, &error) == NXM_EOPEN && error.code == NXM_EOPEN);
    FUZZ_CHECK(file.opened == sound());
    return 0;
}
