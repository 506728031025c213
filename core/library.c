#include "library.h"

#include <dlfcn.h>
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <link.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "error.h"
#include "lock.h"
#include "text.h"

#if defined(__x86_64__)
#define OUR_MACHINE EM_X86_64
#elif defined(__aarch64__)
#define OUR_MACHINE EM_AARCH64
#else
#error "name this machine's ELF number here"
#endif

#define PROGRAM_HEADERS_MAX 128
#define TRUNCATED "truncated (copy or build it again)"
#define DAMAGED "its program headers are damaged (copy or build it again)"

/* --- the file, before the loader sees it --------------------------------------------------------------- */

/* Of a long path the end is shown, which names the file, so that the cause behind it is never cut off. */
#define PATH_SHOWN 160u

static int unusable(struct nxm_error *ret_error, const char *path, const char *why)
{
    size_t length = strlen(path);
    bool cut = length > PATH_SHOWN;

    return nxm_error_set(ret_error, NXM_EOPEN, 0, "cannot load plugin %s%s: %s", cut ? "..." : "",
                         cut ? path + length - PATH_SHOWN : path, why);
}

static bool read_at(int fd, void *ret_bytes, size_t count, uint64_t offset)
{
    return offset <= INT64_MAX && pread(fd, ret_bytes, count, (off_t)offset) == (ssize_t)count;
}

static const char *header_fault(const Elf64_Ehdr *header)
{
    if (memcmp(header->e_ident, ELFMAG, SELFMAG) != 0)
        return "not an ELF file (name a shared library)";
    if (header->e_ident[EI_CLASS] != ELFCLASS64)
        return "built for another word size (build it 64-bit)";
    if (header->e_ident[EI_DATA] != ELFDATA2LSB || header->e_machine != OUR_MACHINE)
        return "built for another machine (build it for this one)";
    if (header->e_type != ET_DYN)
        return "not a shared library (link it with -shared)";
    if (header->e_phentsize != sizeof(Elf64_Phdr) || header->e_phnum == 0 || header->e_phnum > PROGRAM_HEADERS_MAX)
        return DAMAGED;
    return NULL;
}

/* Read one at a time: this may run on a small stack, inside the program's first allocation. */
static bool read_segment(int fd, const Elf64_Ehdr *header, size_t index, Elf64_Phdr *ret_segment)
{
    return header->e_phoff <= INT64_MAX &&
           read_at(fd, ret_segment, sizeof *ret_segment, header->e_phoff + index * sizeof *ret_segment);
}

/* What the loader takes on trust. A segment that ends behind the file is mapped all the same, and touching it is a
 * SIGBUS; one segment may be mapped over another. */
static const char *load_fault(const Elf64_Phdr *segment, uint64_t file_size, uint64_t *mapped_end)
{
    if (segment->p_offset > file_size || segment->p_filesz > file_size - segment->p_offset)
        return TRUNCATED;
    if (segment->p_memsz < segment->p_filesz || segment->p_vaddr < *mapped_end ||
        __builtin_add_overflow(segment->p_vaddr, segment->p_memsz, mapped_end))
        return DAMAGED;
    return NULL;
}

static bool covers(const Elf64_Phdr *outer, const Elf64_Phdr *inner)
{
    return outer->p_type == PT_LOAD && inner->p_vaddr >= outer->p_vaddr &&
           inner->p_vaddr - outer->p_vaddr <= outer->p_filesz &&
           inner->p_filesz <= outer->p_filesz - (inner->p_vaddr - outer->p_vaddr);
}

static bool is_loaded(int fd, const Elf64_Ehdr *header, const Elf64_Phdr *inner)
{
    Elf64_Phdr outer;

    for (size_t i = 0; i < header->e_phnum; i++) {
        if (read_segment(fd, header, i, &outer) && covers(&outer, inner))
            return true;
    }
    return false;
}

static const char *segment_fault(int fd, const Elf64_Ehdr *header, uint64_t file_size)
{
    Elf64_Phdr segment, dynamic = { .p_type = PT_NULL };
    uint64_t mapped_end = 0;
    const char *fault = NULL;

    for (size_t i = 0; fault == NULL && i < header->e_phnum; i++) {
        if (!read_segment(fd, header, i, &segment))
            return TRUNCATED;
        if (segment.p_type == PT_LOAD)
            fault = load_fault(&segment, file_size, &mapped_end);
        else if (segment.p_type == PT_DYNAMIC)
            dynamic = segment;
    }
    /* The loader reads its instructions wherever the dynamic segment says that they are. */
    if (fault == NULL && (dynamic.p_type == PT_NULL || !is_loaded(fd, header, &dynamic)))
        fault = DAMAGED;
    return fault;
}

static const char *file_fault(int fd)
{
    struct stat facts;
    Elf64_Ehdr header;
    const char *fault;

    if (fstat(fd, &facts) != 0)
        return strerror(errno);
    if (S_ISDIR(facts.st_mode))
        return "it is a directory (name the shared library in it)";
    if (!S_ISREG(facts.st_mode))
        return "not a regular file (name a shared library)";
    if (!read_at(fd, header.e_ident, SELFMAG, 0) || memcmp(header.e_ident, ELFMAG, SELFMAG) != 0)
        return "not an ELF file (name a shared library)";
    if (!read_at(fd, &header, sizeof header, 0))
        return TRUNCATED;
    fault = header_fault(&header);
    return fault != NULL ? fault : segment_fault(fd, &header, (uint64_t)facts.st_size);
}

static const char *open_fault(int error)
{
    switch (error) {
    case ENOENT:
        return "no such file (check the path)";
    case EACCES:
        return "permission denied (make the file readable and its folders passable)";
    case ENOTDIR:
        return "something in the path is no folder (check the path)";
    case ELOOP:
        return "its symbolic links lead in a circle (check the path)";
    case ENAMETOOLONG:
        return "a name in the path is too long (check the path)";
    case EMFILE:
    case ENFILE:
        return "too many open files (raise the limit, ulimit -n)";
    default:
        return strerror(error);
    }
}

static int check_file(const char *path, struct nxm_error *ret_error)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    const char *fault;

    if (fd < 0)
        return unusable(ret_error, path, open_fault(errno));
    fault = file_fault(fd);
    close(fd);
    return fault == NULL ? NXM_OK : unusable(ret_error, path, fault);
}

#define LOADER_WORDS_SHOWN 140

/* --- the loader -------------------------------------------------------------------------------------- */

struct extent {
    const struct link_map *map;
    struct nxm_library *library;
};

static int measure(struct dl_phdr_info *info, size_t size, void *argument)
{
    const struct extent *extent = argument;
    bool same = false;

    (void)size;
    for (size_t i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *segment = &info->dlpi_phdr[i];

        same = same ||
               (segment->p_type == PT_DYNAMIC && info->dlpi_addr + segment->p_vaddr == (uintptr_t)extent->map->l_ld);
    }
    for (size_t i = 0; same && i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *segment = &info->dlpi_phdr[i];
        uintptr_t low = info->dlpi_addr + segment->p_vaddr, high = low + segment->p_memsz;

        if (segment->p_type != PT_LOAD)
            continue;
        extent->library->code.low = low < extent->library->code.low ? low : extent->library->code.low;
        extent->library->code.high = high > extent->library->code.high ? high : extent->library->code.high;
    }
    return same;
}

static void find_extent(struct nxm_library *library)
{
    struct extent extent = { .library = library };
    struct link_map *map = NULL;

    library->code.low = UINTPTR_MAX;
    library->code.high = 0;
    if (dlinfo(library->handle, RTLD_DI_LINKMAP, &map) != 0 || map == NULL)
        return; /* contains nothing, then */
    extent.map = map;
    dl_iterate_phdr(measure, &extent);
}

/* A name without a slash would be searched for; the caller named a file. A longer one than fits names none. */
static int spell_out(const char *name, char *ret_path, size_t capacity, struct nxm_error *ret_error)
{
    struct nxm_text text;

    nxm_text_init(&text, ret_path, capacity);
    nxm_text_printf(&text, "./%s", name);
    return strlen(name) + 3 <= capacity ? NXM_OK : unusable(ret_error, name, open_fault(ENAMETOOLONG));
}

/* The loader names the file that it is about, which may be one that the plugin needs. */
static int refused_by_loader(struct nxm_error *ret_error, const char *path)
{
    const char *words = dlerror();
    size_t length = strlen(path);
    char why[NXM_ERROR_TEXT / 2];
    struct nxm_text text;

    if (words == NULL)
        words = "the loader gives no reason";
    if (strncmp(words, path, length) == 0 && strncmp(words + length, ": ", 2) == 0)
        words += length + 2;
    nxm_text_init(&text, why, sizeof why);
    nxm_text_printf(&text, "%.*s (build it again, or provide what it needs)", LOADER_WORDS_SHOWN, words);
    return unusable(ret_error, path, why);
}

int nxm_library_open(const char *path, struct nxm_library *ret_library, struct nxm_error *ret_error)
{
    struct nxm_library library;
    char spelt[NAME_MAX + 3];
    int result = NXM_OK;

    if (strchr(path, '/') == NULL) {
        result = spell_out(path, spelt, sizeof spelt, ret_error);
        path = spelt;
    }
    if (result == NXM_OK)
        result = check_file(path, ret_error);
    if (result != NXM_OK)
        return result;
    nxm_lock_assert_none();
    library.handle = dlopen(path, RTLD_LAZY | RTLD_LOCAL);
    if (library.handle == NULL)
        return refused_by_loader(ret_error, path);
    find_extent(&library);
    *ret_library = library;
    return NXM_OK;
}

void nxm_library_close(struct nxm_library *library)
{
    nxm_lock_assert_none();
    dlclose(library->handle);
    library->handle = NULL;
}

void *nxm_library_symbol(const struct nxm_library *library, const char *name)
{
    nxm_lock_assert_none();
    return dlsym(library->handle, name);
}
