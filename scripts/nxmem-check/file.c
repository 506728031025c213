#include "file.h"

#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static bool read_header(int fd, ElfW(Ehdr) *ret_header) {
    return pread(fd, ret_header, sizeof *ret_header, 0) == (ssize_t)sizeof *ret_header;
}

/* A plugin is for the machine that this program is for. */
static const char *machine_fault(const ElfW(Ehdr) *header) {
    ElfW(Ehdr) own;
    int fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
    bool known = fd >= 0 && read_header(fd, &own);
    if (fd >= 0) close(fd);
    if (!known) return NULL; /* then the loader says it in its own words */
    if (header->e_ident[EI_CLASS] != own.e_ident[EI_CLASS]) return "built for another word size";
    if (header->e_ident[EI_DATA] != own.e_ident[EI_DATA] || header->e_machine != own.e_machine) return "built for another machine";
    return NULL;
}

/* The loader maps a segment that ends behind the file, and touching it is a SIGBUS. */
static bool is_whole(int fd, const ElfW(Ehdr) *header, uint64_t size) {
    for (unsigned i = 0; i < header->e_phnum; i++) {
        ElfW(Phdr) segment;
        uint64_t at = header->e_phoff + (uint64_t)i * sizeof segment;
        if (at > size || pread(fd, &segment, sizeof segment, (off_t)at) != (ssize_t)sizeof segment) return false;
        if (segment.p_type == PT_LOAD && (segment.p_offset > size || segment.p_filesz > size - segment.p_offset)) return false;
    }
    return true;
}

static const char *open_file_fault(int fd) {
    struct stat facts;
    ElfW(Ehdr) header = {.e_ident = {0}};
    if (fstat(fd, &facts) != 0) return strerror(errno);
    if (S_ISDIR(facts.st_mode)) return "it is a folder";
    if (!S_ISREG(facts.st_mode)) return "not a regular file";
    if (pread(fd, header.e_ident, SELFMAG, 0) != SELFMAG || memcmp(header.e_ident, ELFMAG, SELFMAG) != 0) return "not an ELF file";
    if (!read_header(fd, &header)) return "truncated";
    const char *fault = machine_fault(&header);
    if (!fault && header.e_phentsize == sizeof(ElfW(Phdr)) && !is_whole(fd, &header, (uint64_t)facts.st_size)) fault = "truncated";
    return fault;
}

const char *file_fault(const char *path) {
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (fd < 0) return strerror(errno);
    const char *fault = open_file_fault(fd);
    close(fd);
    return fault;
}
