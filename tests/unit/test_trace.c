/* core/trace: which unwinder is used, and what the C library's is asked for. Frames of this program count as our own. */
#include <dlfcn.h>
#include <execinfo.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "core/images.h"
#include "core/trace.h"
#include "walked/frames.h"

static struct nxm_trace trace;
static void *theirs[256];
static int their_count;
static unsigned depth;

static void take(void)
{
    struct nxm_registers here;

    NXM_REGISTERS_HERE(here);
    nxm_trace_take(&here, depth, &trace);
    their_count = backtrace(theirs, 256);
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

#define FRAMES(library, name) ((__typeof__(&frames_##name))dlsym((library), "frames_" #name))

/* How many of the trace's frames are glibc's, from its first on. */
static uint32_t same_frames(void)
{
    uint32_t same = 0;
    int first = 0;

    while (first < their_count && nxm_frame_address(trace.frames[0]) + 1 != (uintptr_t)theirs[first])
        first++;
    while (same < trace.count && first + (int)same < their_count &&
           nxm_frame_address(trace.frames[same]) + 1 == (uintptr_t)theirs[first + (int)same])
        same++;
    return same;
}

static void assert_whole(const char *name)
{
    struct nxm_images_seen seen = { .count = 0 };

    assert_true(trace.count > 3);
    assert_int_equal(same_frames(), trace.count);
    for (uint32_t i = 0; i < trace.count; i++) {
        const struct nxm_known_image *image = nxm_images_at(nxm_frame_address(trace.frames[i]), &seen);

        assert_int_equal(nxm_frame_image(trace.frames[i]), image->number);
    }
    assert_non_null(strstr(nxm_images_numbered(nxm_frame_image(trace.frames[0]))->image.path, name));
}

static void each_unwinder_finds_the_same_where_all_can(void **state)
{
    static const enum nxm_unwinder all[] = { NXM_UNWINDER_TABLES, NXM_UNWINDER_LIBC, NXM_UNWINDER_FRAME_POINTERS };
    void *library = open_walked("fp");

    (void)state;
    depth = 32;
    for (int i = 0; i < 3; i++) {
        nxm_trace_use(all[i]);
        FRAMES(library, deep)(take, 40);
        assert_int_equal(trace.count, 32);
        assert_whole("fp.so");
    }
    dlclose(library);
}

static void frame_pointers_are_believed_when_asked_for(void **state)
{
    void *library = open_walked("chainless");

    (void)state;
    depth = 32;
    nxm_trace_use(NXM_UNWINDER_FRAME_POINTERS);
    FRAMES(library, deep)(take, 40);
    assert_true(same_frames() < 32); /* there are none */
    nxm_trace_use(NXM_UNWINDER_TABLES);
    FRAMES(library, deep)(take, 40);
    assert_int_equal(same_frames(), 32);
    dlclose(library);
}

static void what_we_cannot_follow_the_c_library_does(void **state)
{
    void *library = open_walked("O2");

    (void)state;
    depth = 64;
    nxm_trace_use(NXM_UNWINDER_TABLES);
    FRAMES(library, strange)(take);
    assert_whole("O2.so");
    dlclose(library);
}

static void the_depth_is_kept_by_each(void **state)
{
    static const enum nxm_unwinder all[] = { NXM_UNWINDER_TABLES, NXM_UNWINDER_LIBC, NXM_UNWINDER_FRAME_POINTERS };
    void *library = open_walked("fp");

    (void)state;
    for (int i = 0; i < 3; i++) {
        nxm_trace_use(all[i]);
        for (depth = 1; depth < 5; depth++) {
            FRAMES(library, deep)(take, 100);
            assert_int_equal(trace.count, depth);
        }
        depth = 1000;
        FRAMES(library, deep)(take, 100);
        assert_int_equal(trace.count, NXM_TRACE_MAX);
    }
    nxm_trace_use(NXM_UNWINDER_TABLES);
    dlclose(library);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_unwinder_finds_the_same_where_all_can),
        cmocka_unit_test(frame_pointers_are_believed_when_asked_for),
        cmocka_unit_test(what_we_cannot_follow_the_c_library_does),
        cmocka_unit_test(the_depth_is_kept_by_each),
    };

    nxm_trace_prepare();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
