/* core/image as it works where the loader has no lock-free lookup (glibc before 2.35): compiled in here under other names,
 * with a dlsym that finds nothing. It must say what the other way says. */
#include <dlfcn.h>
#include <stddef.h>

#include "core/image.h"

static void *find_nothing(void *handle, const char *name)
{
    (void)handle;
    (void)name;
    return NULL;
}

#define nxm_image_at older_image_at
#define nxm_image_symbol older_image_symbol
#define dlsym find_nothing
bool older_image_at(uint64_t address, struct nxm_image *ret_image);
bool older_image_symbol(const struct nxm_image *image, uint64_t address, const char **ret_name, uint64_t *ret_value);
#include "core/image.c"
#undef dlsym
#undef nxm_image_symbol
#undef nxm_image_at

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

static void assert_same(const void *address)
{
    struct nxm_image newer, older;

    assert_true(nxm_image_at((uintptr_t)address, &newer));
    assert_true(older_image_at((uintptr_t)address, &older));
    assert_ptr_equal(older.map, newer.map);
    assert_int_equal(older.base, newer.base);
    assert_int_equal(older.start, newer.start);
    assert_int_equal(older.end, newer.end);
    assert_string_equal(older.path, newer.path);
}

static void a_library_is_found_with_its_bounds(void **state)
{
    void *libc = dlopen("libc.so.6", RTLD_NOW | RTLD_NOLOAD);

    (void)state;
    assert_same(dlsym(libc, "qsort_r"));
    assert_same((const char *)dlsym(libc, "printf") + 1);
    dlclose(libc);
}

static void the_program_is_found_under_its_own_path(void **state)
{
    (void)state;
    assert_same(&the_program_is_found_under_its_own_path);
}

static void an_address_in_no_image_is_in_none(void **state)
{
    struct nxm_image image = { .base = 77 };
    void *heap = malloc(16);

    (void)state;
    assert_false(older_image_at((uintptr_t)heap, &image));
    assert_false(older_image_at(0, &image));
    assert_int_equal(image.base, 77);
    free(heap);
}

static void symbols_are_the_same(void **state)
{
    void *libc = dlopen("libc.so.6", RTLD_NOW | RTLD_NOLOAD);
    uint64_t start = (uintptr_t)dlsym(libc, "qsort_r"), value;
    struct nxm_image image;
    const char *name;

    (void)state;
    assert_true(older_image_at(start, &image));
    assert_true(older_image_symbol(&image, start + 1, &name, &value));
    assert_string_equal(name, "qsort_r");
    assert_int_equal(value, start);
    dlclose(libc);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_library_is_found_with_its_bounds),
        cmocka_unit_test(the_program_is_found_under_its_own_path),
        cmocka_unit_test(an_address_in_no_image_is_in_none),
        cmocka_unit_test(symbols_are_the_same),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
