#include "program.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "say.h"

#if defined(__x86_64__)
#define OUR_MACHINE EM_X86_64
#elif defined(__aarch64__)
#define OUR_MACHINE EM_AARCH64
#else
#error "name this machine's ELF number here"
#endif

#define HEAD_BYTES 512      /* more than the kernel reads of a #! line */
#define INTERPRETERS_MAX 5  /* as the kernel: a script's interpreter may be a script */
#define SEGMENTS_MAX 256
#define DYNAMIC_BYTES_MAX (1 << 16)

/* What the kernel would load for a path, and how it got there. */
struct program {
    char path[PATH_MAX];
    char script[PATH_MAX]; /* the script it started from, or "" */
    char head[HEAD_BYTES + 1];
    size_t length;
    struct stat stat;
};

static int refuse(int status, const char *path, const char *why) {
    probe_say("%s: %s", path, why);
    return status;
}

static void warn(const struct program *program, const char *why) {
    probe_say("warning: %s %s: it will run without the shim, and nothing will be reported", program->path, why);
}

static int open_program(struct program *program) {
    int file = open(program->path, O_RDONLY | O_CLOEXEC);
    if (file < 0 && errno == EACCES) { /* executable but not readable: nothing to say about it */
        program->length = 0;
        return stat(program->path, &program->stat) == 0 ? 0 : 126;
    }
    if (file < 0) return refuse(errno == ENOENT ? 127 : 126, program->path, strerror(errno));
    ssize_t length = pread(file, program->head, HEAD_BYTES, 0);
    int failed = fstat(file, &program->stat);
    close(file);
    if (failed || !S_ISREG(program->stat.st_mode)) return refuse(126, program->path, "is not a program");
    program->length = length > 0 ? (size_t)length : 0;
    program->head[program->length] = '\0';
    return 0;
}

/* --- scripts --- */

/* The directory list is the caller's PATH, which is what env(1) will use. */
static bool find_in_path(const char *name, char *ret_path) {
    const char *list = getenv("PATH");
    for (const char *at = list ? list : ""; at;) {
        const char *end = strchr(at, ':');
        int length = end ? (int)(end - at) : (int)strlen(at);
        int written = snprintf(ret_path, PATH_MAX, "%.*s%s%s", length, at, length ? "/" : "./", name);
        if (written > 0 && written < PATH_MAX && access(ret_path, X_OK) == 0) return true;
        at = end ? end + 1 : NULL;
    }
    return false;
}

/* Of "env [options] [NAME=value] command" the command. */
static const char *command_of_env(char *arguments) {
    char *save = NULL;
    for (char *word = strtok_r(arguments, " \t", &save); word; word = strtok_r(NULL, " \t", &save))
        if (*word != '-' && !strchr(word, '=')) return word;
    return NULL;
}

/* The first line of a script that the kernel takes on itself: one that names an interpreter. */
static bool names_interpreter(const struct program *program) {
    return program->length > 2 && memcmp(program->head, "#!", 2) == 0 &&
           !strchr("\n", program->head[2 + strspn(program->head + 2, " \t")]);
}

/* Moves on from a script to what runs it. */
static int follow_script(struct program *program) {
    char *line = program->head + 2;
    line[strcspn(line, "\n")] = '\0';
    line += strspn(line, " \t");
    char *arguments = line + strcspn(line, " \t");
    if (*arguments) *arguments++ = '\0';

    if (!*program->script) memcpy(program->script, program->path, sizeof program->script);
    const char *base = strrchr(line, '/');
    const char *command = strcmp(base ? base + 1 : line, "env") == 0 ? command_of_env(arguments) : NULL;
    char path[PATH_MAX];
    if (command && find_in_path(command, path)) {
        memcpy(program->path, path, sizeof path);
        return 0;
    }
    snprintf(path, sizeof path, "%s", command ? command : line);
    if (command || access(path, F_OK) != 0) {
        bool dos = path[strlen(path) - 1] == '\r'; /* to the kernel it belongs to the name */
        probe_say("%s: its interpreter %s is not there%s", program->script, path,
                  dos ? ", because the script has DOS line ends (sed -i 's/\\r$//' removes them)" : "");
        return 127;
    }
    memcpy(program->path, path, sizeof path);
    return 0;
}

/* --- ELF files --- */

/* Reads one segment's header; false behind the last. */
static bool segment_at(int file, const Elf64_Ehdr *elf, unsigned index, Elf64_Phdr *ret_segment) {
    if (index >= elf->e_phnum || index >= SEGMENTS_MAX) return false;
    off_t at = (off_t)(elf->e_phoff + (uint64_t)index * elf->e_phentsize);
    return pread(file, ret_segment, sizeof *ret_segment, at) == (ssize_t)sizeof *ret_segment;
}

/* Copies the path of the dynamic loader; false for a file without one. */
static bool loader_of(const struct program *program, char *ret_loader, size_t capacity) {
    const Elf64_Ehdr *elf = (const void *)program->head;
    int file = open(program->path, O_RDONLY | O_CLOEXEC);
    bool found = false;
    Elf64_Phdr segment;
    for (unsigned i = 0; file >= 0 && !found && segment_at(file, elf, i, &segment); i++) {
        if (segment.p_type != PT_INTERP) continue;
        size_t length = segment.p_filesz < capacity - 1 ? segment.p_filesz : capacity - 1;
        ssize_t got = pread(file, ret_loader, length, (off_t)segment.p_offset);
        ret_loader[got > 0 ? got : 0] = '\0';
        found = true;
    }
    if (file >= 0) close(file);
    return found;
}

/* Linkers mark what can be started: every program has a place for the debugger's DT_DEBUG, or says that it is a PIE. */
static bool is_marked_as_program(int file, const Elf64_Phdr *dynamic) {
    Elf64_Dyn entry;
    for (uint64_t at = 0; at + sizeof entry <= dynamic->p_filesz && at < DYNAMIC_BYTES_MAX; at += sizeof entry) {
        if (pread(file, &entry, sizeof entry, (off_t)(dynamic->p_offset + at)) != (ssize_t)sizeof entry) return true;
        if (entry.d_tag == DT_DEBUG || (entry.d_tag == DT_FLAGS_1 && (entry.d_un.d_val & DF_1_PIE))) return true;
        if (entry.d_tag == DT_NULL) return false;
    }
    return true; /* unheard of */
}

/* Of a file without a loader: started all the same, it would crash. */
static bool is_library(const struct program *program) {
    const Elf64_Ehdr *elf = (const void *)program->head;
    int file = elf->e_type == ET_DYN ? open(program->path, O_RDONLY | O_CLOEXEC) : -1;
    bool library = false;
    Elf64_Phdr segment;
    for (unsigned i = 0; file >= 0 && segment_at(file, elf, i, &segment); i++)
        if (segment.p_type == PT_DYNAMIC) library = !is_marked_as_program(file, &segment);
    if (file >= 0) close(file);
    return library;
}

/* The loader run by hand (ld.so program …) is static itself and honours LD_PRELOAD. */
static bool is_the_loader(const char *path) {
    const char *base = strrchr(path, '/');
    base = base ? base + 1 : path;
    return strncmp(base, "ld-linux", 8) == 0 || strncmp(base, "ld.so", 5) == 0;
}

/* Whether the kernel will raise privileges, upon which the loader ignores the preload. */
static const char *privileges_of(const struct program *program) {
    if ((program->stat.st_mode & S_ISUID) && program->stat.st_uid != getuid()) return "is set-user-ID";
    if ((program->stat.st_mode & S_ISGID) && program->stat.st_gid != getgid()) return "is set-group-ID";
    if (getuid() != 0 && getxattr(program->path, "security.capability", NULL, 0) > 0) return "has file capabilities";
    return NULL;
}

static int judge_elf(const struct program *program, bool show) {
    char loader[PATH_MAX] = "";
    const char *kind = "dynamic";
    const Elf64_Ehdr *elf = (const void *)program->head;
    const char *privileges = privileges_of(program);
    if (program->length < sizeof *elf) return refuse(126, program->path, "is truncated (copy or build it again)");
    if (program->head[EI_CLASS] != ELFCLASS64) {
        warn(program, kind = "is a 32-bit program");
    } else if (elf->e_machine != OUR_MACHINE) {
        warn(program, kind = "is a program for another machine");
    } else if (!loader_of(program, loader, sizeof loader) && !is_the_loader(program->path)) {
        if (is_library(program))
            return refuse(126, program->path, "is a shared library, not a program (a plugin is named with --plugin)");
        warn(program, kind = "is linked statically");
    } else if (strstr(loader, "ld-musl")) {
        warn(program, kind = "runs on musl, the shim needs glibc");
    } else if (privileges) {
        warn(program, kind = privileges);
    }
    if (show)
        printf("program    %s (%s)%s%s\n", program->path, kind, *program->script ? " runs " : "", program->script);
    return 0;
}

int probe_program(const char *path, bool show) {
    static struct program program; /* large, and there is one */
    if (snprintf(program.path, sizeof program.path, "%s", path) >= (int)sizeof program.path)
        return refuse(126, path, strerror(ENAMETOOLONG));
    for (int depth = 0; depth <= INTERPRETERS_MAX; depth++) {
        int status = open_program(&program);
        if (status) return status;
        if (program.length >= SELFMAG && memcmp(program.head, ELFMAG, SELFMAG) == 0) return judge_elf(&program, show);
        if (!names_interpreter(&program)) {
            /* unreadable, or a script without an interpreter, which the shell takes on itself */
            if (show) printf("program    %s\n", program.path);
            return 0;
        }
        if ((status = follow_script(&program)) != 0) return status;
    }
    return refuse(126, path, strerror(ELOOP));
}
