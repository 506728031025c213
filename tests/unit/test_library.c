/* core/library.c: what a file that will not do is told, before the loader can trip over it. */
#include "core/library.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cmocka.h>

#include "core/module.h"

#define PLUGIN UNIT_DIR "/plugins/fake.so"

static char folder[] = "/tmp/nxm_library_XXXXXX";

static int make_folder(void **state)
{
    (void)state;
    return mkdtemp(folder) == NULL ? -1 : 0;
}

static int remove_folder(void **state)
{
    (void)state;
    return rmdir(folder);
}

static void refused(const char *path, const char *word)
{
    struct nxm_error error = { .text = "" };
    struct nxm_library library;

    assert_int_equal(nxm_library_open(path, &library, &error), NXM_EOPEN);
    if (strstr(error.text, word) == NULL)
        fail_msg("'%s' does not say '%s'", error.text, word);
}

/* --- damage ---------------------------------------------------------------------------------------- */

struct image {
    char *bytes;
    size_t size;
    Elf64_Phdr *segments; /* into bytes */
    size_t count;
};

static void image_read(struct image *image)
{
    int fd = open(PLUGIN, O_RDONLY);
    struct stat facts;
    Elf64_Ehdr *header;

    assert_int_equal(fstat(fd, &facts), 0);
    image->size = (size_t)facts.st_size;
    image->bytes = malloc(image->size);
    assert_int_equal(read(fd, image->bytes, image->size), (ssize_t)image->size);
    close(fd);
    header = (Elf64_Ehdr *)(void *)image->bytes;
    image->segments = (Elf64_Phdr *)(void *)(image->bytes + header->e_phoff);
    image->count = header->e_phnum;
}

static Elf64_Phdr *image_segment(const struct image *image, Elf64_Word type, size_t which)
{
    for (size_t i = 0; i < image->count; i++) {
        if (image->segments[i].p_type == type && which-- == 0)
            return &image->segments[i];
    }
    fail_msg("no such segment");
    return NULL;
}

static void image_is_told(const struct image *image, const char *word)
{
    char path[64];
    int fd;

    snprintf(path, sizeof path, "%s/damaged.so", folder);
    fd = open(path, O_CREAT | O_TRUNC | O_WRONLY, 0700);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, image->bytes, image->size), (ssize_t)image->size);
    close(fd);
    refused(path, word);
    unlink(path);
}

static void image_is_damaged(const struct image *image)
{
    image_is_told(image, "damaged");
}

static void every_claim_of_the_header_is_checked(void **state)
{
    struct image image;
    Elf64_Ehdr *header, sound;

    (void)state;
    image_read(&image);
    header = (Elf64_Ehdr *)(void *)image.bytes;
    sound = *header;
    header->e_ident[EI_DATA] = ELFDATA2MSB;
    image_is_told(&image, "another machine");
    *header = sound;
    header->e_machine = EM_SPARC;
    image_is_told(&image, "another machine");
    *header = sound;
    header->e_phentsize = sizeof(Elf64_Phdr) - 1;
    image_is_damaged(&image);
    *header = sound;
    header->e_phnum = 0;
    image_is_damaged(&image);
    header->e_phnum = UINT16_MAX;
    image_is_damaged(&image);
    *header = sound;
    header->e_phoff = (Elf64_Off)INT64_MAX + 1;
    image_is_told(&image, "truncated");
    header->e_phoff = INT64_MAX - 8; /* the second one would wrap */
    image_is_told(&image, "truncated");
    free(image.bytes);
}

static void a_segment_beyond_the_end_of_the_file_is_a_cut(void **state)
{
    struct image image;

    (void)state;
    image_read(&image);
    image_segment(&image, PT_LOAD, 1)->p_offset = image.size + 1;
    image_is_told(&image, "truncated");
    image_segment(&image, PT_LOAD, 1)->p_offset = image.size - 1;
    image_is_told(&image, "truncated");
    free(image.bytes);
}

static void segments_that_cover_each_other_are_damage(void **state)
{
    struct image image;

    (void)state;
    image_read(&image);
    image_segment(&image, PT_LOAD, 0)->p_memsz = image_segment(&image, PT_LOAD, 1)->p_vaddr + 1;
    image_is_damaged(&image);
    free(image.bytes);
}

static void a_segment_that_wraps_or_is_smaller_than_its_bytes_is_damage(void **state)
{
    struct image image;

    (void)state;
    image_read(&image);
    image_segment(&image, PT_LOAD, 1)->p_memsz = UINT64_MAX;
    image_is_damaged(&image);
    image_segment(&image, PT_LOAD, 1)->p_memsz = image_segment(&image, PT_LOAD, 1)->p_filesz - 1;
    image_is_damaged(&image);
    free(image.bytes);
}

static void a_dynamic_segment_that_is_not_loaded_or_not_there_is_damage(void **state)
{
    struct image image;
    Elf64_Phdr *dynamic;

    (void)state;
    image_read(&image);
    dynamic = image_segment(&image, PT_DYNAMIC, 0);
    dynamic->p_vaddr += 1u << 24;
    image_is_damaged(&image);
    dynamic->p_vaddr -= 1u << 24;
    dynamic->p_filesz = UINT64_MAX;
    image_is_damaged(&image);
    dynamic->p_type = PT_NULL;
    image_is_damaged(&image);
    free(image.bytes);
}

/* --- words ----------------------------------------------------------------------------------------- */

static void the_cause_is_seen_behind_a_long_path(void **state)
{
    char path[PATH_MAX];

    (void)state;
    for (size_t i = 0; i + 1 < sizeof path; i++)
        path[i] = i % 100 == 0 ? '/' : 'd';
    path[3000] = '\0';
    refused(path, "no such file");
    memset(path + 1, 'd', NAME_MAX + 1);
    refused(path, "too long");
}

static void a_name_without_a_slash_is_a_file_of_this_folder(void **state)
{
    char name[NAME_MAX + 2];

    (void)state;
    refused("libc.so.6", "no such file");
    memset(name, 'n', sizeof name - 1);
    name[sizeof name - 1] = '\0';
    refused(name, "too long");
}

static void a_long_name_is_cut_and_still_told_what_to_do(void **state)
{
    struct nxm_error error = { .text = "" };
    char name[2000], path[PATH_MAX];

    (void)state;
    memset(name, 'n', sizeof name - 1);
    name[sizeof name - 1] = '\0';
    assert_int_equal(nxm_module_find_path(name, folder, path, sizeof path, &error), NXM_EOPEN);
    assert_non_null(strstr(error.text, "give a path"));
    assert_non_null(strstr(error.text, folder));
}

static void each_reason_of_the_system_has_its_own_advice(void **state)
{
    struct sockaddr_un name = { .sun_family = AF_UNIX };
    int listener = socket(AF_UNIX, SOCK_STREAM, 0);
    char path[64];

    (void)state;
    refused(PLUGIN "/below.so", "no folder");
    snprintf(path, sizeof path, "%s/circle.so", folder);
    assert_int_equal(symlink(path, path), 0);
    refused(path, "circle");
    unlink(path);
    snprintf(name.sun_path, sizeof name.sun_path, "%s/socket.so", folder);
    assert_int_equal(bind(listener, (struct sockaddr *)&name, sizeof name), 0);
    refused(name.sun_path, strerror(ENXIO)); /* no advice: the system's own words */
    unlink(name.sun_path);
    close(listener);
    refused("/dev/null", "not a regular file");
}

/* The loader's words are about another file: they stay whole. */
static void a_library_that_the_plugin_needs_is_named(void **state)
{
    char needed[64], path[64], command[512];
    struct nxm_error error = { .text = "" };
    struct nxm_library library;

    (void)state;
    snprintf(needed, sizeof needed, "%s/libneeded.so", folder);
    snprintf(path, sizeof path, "%s/needs.so", folder);
    snprintf(command, sizeof command,
             "cc=${CC:-cc}; echo 'int needed(void) { return 1; }' | $cc -x c -shared -fPIC -o %s - && "
             "echo 'int needed(void); int needs(void) { return needed(); }' | $cc -x c -shared -fPIC -o %s - -L%s -lneeded && rm %s",
             needed, path, folder, needed);
    assert_int_equal(system(command), 0);
    assert_int_equal(nxm_library_open(path, &library, &error), NXM_EOPEN);
    assert_non_null(strstr(error.text, "libneeded.so"));
    assert_non_null(strstr(error.text, "needs.so: libneeded.so"));
    unlink(path);
}

static void a_lack_of_descriptors_is_not_blamed_on_the_path(void **state)
{
    struct rlimit before, few;
    struct nxm_error error = { .text = "" };
    struct nxm_library library;
    int result;

    (void)state;
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
    few = before;
    few.rlim_cur = 0;
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &few), 0);
    result = nxm_library_open(PLUGIN, &library, &error);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
    assert_int_equal(result, NXM_EOPEN);
    assert_non_null(strstr(error.text, "ulimit -n"));
}

/* A program of its own is a shared object to the ELF header, and to the loader it is not. */
static void what_the_loader_refuses_names_the_file_once(void **state)
{
    struct nxm_error error = { .text = "" };
    struct nxm_library library;
    const char *first;

    (void)state;
    assert_int_equal(nxm_library_open("/bin/true", &library, &error), NXM_EOPEN);
    first = strstr(error.text, "/bin/true");
    assert_non_null(first);
    assert_null(strstr(first + 1, "/bin/true"));
    assert_non_null(strstr(error.text, "build it again"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_claim_of_the_header_is_checked),
        cmocka_unit_test(a_segment_beyond_the_end_of_the_file_is_a_cut),
        cmocka_unit_test(segments_that_cover_each_other_are_damage),
        cmocka_unit_test(a_segment_that_wraps_or_is_smaller_than_its_bytes_is_damage),
        cmocka_unit_test(a_dynamic_segment_that_is_not_loaded_or_not_there_is_damage),
        cmocka_unit_test(the_cause_is_seen_behind_a_long_path),
        cmocka_unit_test(a_name_without_a_slash_is_a_file_of_this_folder),
        cmocka_unit_test(a_long_name_is_cut_and_still_told_what_to_do),
        cmocka_unit_test(each_reason_of_the_system_has_its_own_advice),
        cmocka_unit_test(a_library_that_the_plugin_needs_is_named),
        cmocka_unit_test(a_lack_of_descriptors_is_not_blamed_on_the_path),
        cmocka_unit_test(what_the_loader_refuses_names_the_file_once),
    };

    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
