/* core/image: addresses of libraries that are there anyway, and of small ones that the test builds. */
#include <dlfcn.h>
#include <link.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <unistd.h>

#include <cmocka.h>

#include "core/image.h"

static char directory[] = "/tmp/nxm-image-XXXXXX";

static int setup(void **state)
{
    (void)state;
    return mkdtemp(directory) == NULL ? -1 : 0;
}

static int teardown(void **state)
{
    char command[64];

    (void)state;
    snprintf(command, sizeof command, "rm -rf %s", directory);
    return system(command);
}

static void *build_and_open(const char *name, const char *source, const char *options)
{
    char path[128], command[512];
    FILE *compiler;
    void *library;

    snprintf(path, sizeof path, "%s/%s.so", directory, name);
    snprintf(command, sizeof command, "%s -x c -shared -fPIC -O1 %s -o %s -", getenv("CC") != NULL ? getenv("CC") : "cc", options, path);
    compiler = popen(command, "w");
    assert_non_null(compiler);
    fputs(source, compiler);
    assert_int_equal(pclose(compiler), 0);
    library = dlopen(path, RTLD_NOW);
    assert_non_null(library);
    return library;
}

/* The symbol at an address, which has to be in a known image. */
static const char *name_at(uint64_t address, uint64_t *ret_value)
{
    struct nxm_image image;
    const char *name = NULL;

    assert_true(nxm_image_at(address, &image));
    assert_true(address >= image.start && address < image.end);
    return nxm_image_symbol(&image, address, &name, ret_value) ? name : NULL;
}

static uint64_t address_of(void *library, const char *name)
{
    void *address = dlsym(library, name);

    assert_non_null(address);
    return (uintptr_t)address;
}

static void a_function_of_libc_is_found_with_its_start(void **state)
{
    void *libc = dlopen("libc.so.6", RTLD_NOW | RTLD_NOLOAD);
    uint64_t start = address_of(libc, "qsort_r"), value;
    struct nxm_image image;

    (void)state;
    assert_string_equal(name_at(start + 1, &value), "qsort_r");
    assert_int_equal(value, start);
    assert_true(nxm_image_at(start, &image));
    assert_non_null(strstr(image.path, "libc.so.6"));
    dlclose(libc);
}

static void an_address_in_no_image_is_in_none(void **state)
{
    struct nxm_image image = { .base = 77 };
    void *heap = malloc(16);

    (void)state;
    assert_false(nxm_image_at((uintptr_t)heap, &image));
    assert_false(nxm_image_at(0, &image));
    assert_false(nxm_image_at(UINT64_MAX, &image));
    assert_int_equal(image.base, 77);
    free(heap);
}

static void the_program_itself_has_the_path_of_its_file(void **state)
{
    struct nxm_image image;
    char self[512];
    ssize_t length = readlink("/proc/self/exe", self, sizeof self - 1);

    (void)state;
    assert_true(length > 0);
    self[length] = '\0';
    assert_true(nxm_image_at((uintptr_t)&the_program_itself_has_the_path_of_its_file, &image));
    assert_string_equal(image.path, self);
}

/* Its dynamic section is read-only: the loader could not relocate the pointers in it. */
static void the_kernels_own_library_is_read_like_any_other(void **state)
{
    void *vdso = dlopen("linux-vdso.so.1", RTLD_NOW | RTLD_NOLOAD);
    uint64_t start, value;

    (void)state;
    if (getauxval(AT_SYSINFO_EHDR) == 0) { /* valgrind hides it: then there is nothing to be read, and nothing is found */
        assert_null(vdso);
        return;
    }
    assert_non_null(vdso);
#ifdef __x86_64__
    start = address_of(vdso, "__vdso_getcpu");
#else
    start = address_of(vdso, "__kernel_clock_gettime");
#endif
    assert_non_null(name_at(start + 1, &value));
    assert_int_equal(value, start);
    dlclose(vdso);
}

static const char two_functions[] = "int first(int x) { return x + 1; }\nstatic __attribute__((noinline)) int hidden(int x) { return x * 3; }\n"
                                    "int second(int x) { return hidden(x) + 1; }\nint datum = 4;\n";

static void both_kinds_of_hash_give_the_length_of_the_table(void **state)
{
    static const char *const styles[] = { "-Wl,--hash-style=sysv", "-Wl,--hash-style=gnu" };

    (void)state;
    for (int i = 0; i < 2; i++) {
        char name[8];
        void *library;
        uint64_t value;

        snprintf(name, sizeof name, "style%d", i);
        library = build_and_open(name, two_functions, styles[i]);
        assert_string_equal(name_at(address_of(library, "first"), &value), "first");
        assert_int_equal(value, address_of(library, "first"));
        assert_string_equal(name_at(address_of(library, "second") + 1, &value), "second");
        dlclose(library);
    }
}

static void data_is_no_function(void **state)
{
    void *library = build_and_open("data", two_functions, "");
    uint64_t value;

    (void)state;
    assert_null(name_at(address_of(library, "datum"), &value));
    dlclose(library);
}

static void a_library_that_exports_nothing_has_no_names(void **state)
{
    void *library = build_and_open("silent", "static int hidden(void) { return 1; }\nint (*volatile keep)(void) __attribute__((visibility(\"hidden\"))) = hidden;\n", "");
    struct nxm_image image;
    struct link_map *map = NULL;
    const char *name;
    uint64_t value;

    (void)state;
    assert_int_equal(dlinfo(library, RTLD_DI_LINKMAP, &map), 0);
    assert_true(nxm_image_at(map->l_addr, &image));
    assert_int_equal(image.base, map->l_addr);
    assert_string_equal(image.path, map->l_name);
    for (uint64_t offset = 0; offset < image.end - image.start; offset += 16)
        assert_false(nxm_image_symbol(&image, image.start + offset, &name, &value));
    dlclose(library);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_function_of_libc_is_found_with_its_start),
        cmocka_unit_test(an_address_in_no_image_is_in_none),
        cmocka_unit_test(the_program_itself_has_the_path_of_its_file),
        cmocka_unit_test(the_kernels_own_library_is_read_like_any_other),
        cmocka_unit_test(both_kinds_of_hash_give_the_length_of_the_table),
        cmocka_unit_test(data_is_no_function),
        cmocka_unit_test(a_library_that_exports_nothing_has_no_names),
    };

    return cmocka_run_group_tests(tests, setup, teardown);
}
