/* core/images, compiled in here under other names and with a small table: which images are one, which are there to stay. Runs under the
 * emulator too (tests/arm). */
#include "core/images.h"

#define nxm_images_prepare small_images_prepare
#define nxm_images_at small_images_at
#define nxm_images_numbered small_images_numbered
#undef NXM_IMAGES_MAX
#define NXM_IMAGES_MAX 24
void small_images_prepare(void);
const struct nxm_known_image *small_images_at(uint64_t address, struct nxm_images_seen *seen);
const struct nxm_known_image *small_images_numbered(uint64_t number);
#include "core/images.c"

#include <dlfcn.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

static const struct nxm_known_image *image_at(const void *address)
{
    struct nxm_images_seen seen = { .count = 0 };

    return nxm_images_at((uintptr_t)address, &seen);
}

static void *open_walked(const char *name)
{
    char path[512];
    void *library;

    snprintf(path, sizeof path, "%s/walked/%s.so", UNIT_DIR, name);
    library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    assert_non_null(library);
    return library;
}

static void what_the_program_was_started_with_is_there_to_stay(void **state)
{
    void *library = open_walked("O2");

    (void)state;
    assert_true(image_at(&what_the_program_was_started_with_is_there_to_stay)->permanent);
    assert_true(image_at(dlsym(RTLD_DEFAULT, "qsort"))->permanent);
    assert_true(image_at(dlsym(RTLD_DEFAULT, "_dl_find_object"))->permanent); /* the loader, which only libc needs */
    assert_false(image_at(dlsym(library, "frames_call"))->permanent);
    dlclose(library);
}

static void an_image_is_told_whole(void **state)
{
    void *library = open_walked("O2");
    const struct nxm_known_image *image = image_at(dlsym(library, "frames_call")), *own = image_at(&image_at);
    struct link_map *map = NULL;
    Dl_info info;

    (void)state;
    assert_int_equal(dlinfo(library, RTLD_DI_LINKMAP, &map), 0);
    assert_true(dladdr(dlsym(library, "frames_call"), &info) != 0);
    assert_int_equal(image->image.base, map->l_addr);
    assert_int_equal(image->image.start, (uintptr_t)info.dli_fbase);
    assert_string_equal(image->image.path, map->l_name);
    assert_ptr_not_equal(image->image.path, map->l_name); /* which goes with the library */
    assert_false(image->own);
    assert_true(own->own);
    assert_false(image->tables_strange);
    assert_true(image->tables.header >= image->tables.start && image->tables.header < image->tables.end);
    assert_true((uintptr_t)image->tables.start >= image->image.start && (uintptr_t)image->tables.end <= image->image.end);
    assert_ptr_equal(nxm_images_numbered(image->number), image);
    assert_null(nxm_images_numbered(0));
    assert_null(nxm_images_numbered(NXM_IMAGES_MAX + 1));
    dlclose(library);
}

static void a_library_without_unwind_tables_has_none(void **state)
{
    void *library = open_walked("headless");

    (void)state;
    assert_null(image_at(dlsym(library, "frames_call"))->tables.header);
    assert_false(image_at(dlsym(library, "frames_call"))->tables_strange);
    dlclose(library);
}

static void no_image_is_where_no_image_is(void **state)
{
    int on_stack;

    (void)state;
    assert_null(image_at(NULL));
    assert_null(image_at(&on_stack));
    assert_null(image_at((const void *)UINTPTR_MAX));
}

#ifndef EMULATED /* an emulator maps nothing at one place twice */
static const struct nxm_known_image *open_and_close(const char *name)
{
    void *library = open_walked(name);
    const struct nxm_known_image *image = image_at(dlsym(library, "place_call"));

    assert_non_null(image);
    assert_ptr_equal(image_at(dlsym(library, "place_call")), image);
    dlclose(library);
    return image;
}

static void opened_again_it_is_the_same_and_another_at_its_place_is_not(void **state)
{
    const struct nxm_known_image *a = open_and_close("place_a"), *b = open_and_close("place_b");

    (void)state;
    assert_int_equal(a->image.start, b->image.start); /* else nothing is proved here */
    assert_ptr_not_equal(a, b);
    assert_ptr_equal(open_and_close("place_a"), a);
    assert_ptr_equal(open_and_close("place_b"), b);
    assert_null(image_at((const void *)(uintptr_t)a->image.start)); /* closed */
}
#endif

static pthread_barrier_t barrier;

static void *look(void *address)
{
    pthread_barrier_wait(&barrier);
    return (void *)(uintptr_t)image_at(address);
}

static void threads_that_meet_an_image_together_find_one(void **state)
{
    static const char *const libraries[] = { "O0", "Os", "fp", "bare" };
    pthread_t threads[4];
    void *found[4];

    (void)state;
    pthread_barrier_init(&barrier, NULL, 4);
    for (int round = 0; round < 4; round++) {
        void *library = open_walked(libraries[round]);

        for (int i = 0; i < 4; i++)
            assert_int_equal(pthread_create(&threads[i], NULL, look, dlsym(library, "frames_call")), 0);
        for (int i = 0; i < 4; i++)
            assert_int_equal(pthread_join(threads[i], &found[i]), 0);
        for (int i = 0; i < 4; i++)
            assert_ptr_equal(found[i], found[0]);
        assert_non_null(found[0]);
        dlclose(library);
    }
    pthread_barrier_destroy(&barrier);
}

/* The last test: it fills the table. */
static void a_full_table_refuses_new_images_and_finds_old_ones(void **state)
{
    struct nxm_image image;
    char paths[NXM_IMAGES_MAX][16];
    unsigned kept = 0;

    (void)state;
    assert_true(nxm_image_at((uintptr_t)&image_at, &image));
    for (unsigned i = 0; i < NXM_IMAGES_MAX; i++) {
        snprintf(paths[i], sizeof paths[i], "image %u", i);
        image.path = paths[i];
        kept += record_for(&image) != NULL;
    }
    assert_in_range(kept, 1, NXM_IMAGES_MAX - 1);
    assert_null(record_for(&image));
    image.path = paths[0];
    assert_non_null(record_for(&image));
    assert_non_null(image_at(&image_at));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_the_program_was_started_with_is_there_to_stay),
        cmocka_unit_test(an_image_is_told_whole),
        cmocka_unit_test(a_library_without_unwind_tables_has_none),
        cmocka_unit_test(no_image_is_where_no_image_is),
#ifndef EMULATED
        cmocka_unit_test(opened_again_it_is_the_same_and_another_at_its_place_is_not),
#endif
        cmocka_unit_test(threads_that_meet_an_image_together_find_one),
        cmocka_unit_test(a_full_table_refuses_new_images_and_finds_old_ones),
    };

    nxm_images_prepare();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
