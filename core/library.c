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

/* --- the file, before the loader sees it --------------------------------------------------------------- */

static int unusable(struct nxm_error *ret_error, const char *path, const char *why)
{
    return nxm_error_set(ret_error, NXM_EOPEN, 0, "cannot load plugin %s: %s", path, why);
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
        return "its program headers are damaged (copy or build it again)";
    return NULL;
}

/* A segment that ends behind the file is mapped all the same, and touching it is a SIGBUS in the loader. */
static const char *segment_fault(int fd, const Elf64_Ehdr *header, uint64_t file_size)
{
    for (uint64_t i = 0; i < header->e_phnum; i++) {
        Elf64_Phdr segment;

        if (header->e_phoff > file_size || !read_at(fd, &segment, sizeof segment, header->e_phoff + i * sizeof segment))
            return "truncated (copy or build it again)";
        if (segment.p_type == PT_LOAD &&
            (segment.p_offset > file_size || segment.p_filesz > file_size - segment.p_offset))
            return "truncated (copy or build it again)";
    }
    return NULL;
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
        return "truncated (copy or build it again)";
    fault = header_fault(&header);
    return fault != NULL ? fault : segment_fault(fd, &header, (uint64_t)facts.st_size);
}

static int check_file(const char *path, struct nxm_error *ret_error)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK), saved = errno;
    const char *fault;

    if (fd < 0)
        return nxm_error_set(ret_error, NXM_EOPEN, 0, "cannot load plugin %s: %s (check the path)", path,
                             saved == ENOENT   ? "no such file"
                             : saved == EACCES ? "permission denied"
                                               : strerror(saved));
    fault = file_fault(fd);
    close(fd);
    return fault == NULL ? NXM_OK : unusable(ret_error, path, fault);
}

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
        extent->library->low = low < extent->library->low ? low : extent->library->low;
        extent->library->high = high > extent->library->high ? high : extent->library->high;
    }
    return same;
}

static void find_extent(struct nxm_library *library)
{
    struct extent extent = { .library = library };
    struct link_map *map = NULL;

    library->low = UINTPTR_MAX;
    library->high = 0;
    if (dlinfo(library->handle, RTLD_DI_LINKMAP, &map) != 0 || map == NULL)
        return; /* contains nothing, then */
    extent.map = map;
    dl_iterate_phdr(measure, &extent);
}

/* A name without a slash would be searched for; the caller named a file. */
static int spell_out(const char *path, char *ret_path, size_t capacity, struct nxm_error *ret_error)
{
    struct nxm_text text;

    nxm_text_init(&text, ret_path, capacity);
    nxm_text_printf(&text, "%s%s", strchr(path, '/') == NULL ? "./" : "", path);
    return strlen(path) + 3 <= capacity ? NXM_OK : unusable(ret_error, path, "the path is too long");
}

int nxm_library_open(const char *path, struct nxm_library *ret_library, struct nxm_error *ret_error)
{
    struct nxm_library library;
    char spelt[PATH_MAX];
    int result = spell_out(path, spelt, sizeof spelt, ret_error);

    if (result == NXM_OK)
        result = check_file(spelt, ret_error);
    if (result != NXM_OK)
        return result;
    nxm_lock_assert_none();
    library.handle = dlopen(spelt, RTLD_LAZY | RTLD_LOCAL);
    if (library.handle == NULL) {
        const char *words = dlerror();

        return nxm_error_set(ret_error, NXM_EOPEN, 0, "cannot load plugin %s: %s (provide what it is linked against)",
                             path, words == NULL ? "the loader gives no reason" : words);
    }
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

bool nxm_library_contains(const struct nxm_library *library, const void *code)
{
    return library->low <= (uintptr_t)code && (uintptr_t)code < library->high;
}
