#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <cmocka.h>

#include "fake_driver.h"
#include "interpose/lifecycle.h"
#include "interpose/process.h"
#include "interpose/vmm.h"

static struct nxm_class_totals totals(enum nxm_table table, enum nxm_class class_)
{
    struct nxm_class_totals t;

    nxm_blocks_totals(nxm_table(table), class_, &t);
    return t;
}

static uint64_t created(void)
{
    return totals(NXM_TABLE_CREATED, NXM_CLASS_VMM_CREATED).live_bytes;
}

static uint64_t mapped(void)
{
    return totals(NXM_TABLE_MAPPED, NXM_CLASS_VMM_MAPPED).live_bytes;
}

static void release(CUmemGenericAllocationHandle handle)
{
    nxm_vmm_release_end(handle, nxm_vmm_release_begin(handle), 1);
}

static void memory_lives_until_its_handle_and_its_last_map_are_gone(void **state)
{
    (void)state;
    nxm_vmm_created(7, 4096, 0, NXM_API_cuMemCreate);
    nxm_vmm_mapped(0x100000, 4096, 7, NXM_API_cuMemMap);
    nxm_vmm_mapped(0x200000, 4096, 7, NXM_API_cuMemMap);
    release(7);
    assert_int_equal(created(), 4096);
    nxm_vmm_unmapped(0x100000, 4096);
    assert_int_equal(created(), 4096);
    nxm_vmm_unmapped(0x200000, 4096);
    assert_int_equal(created(), 0);
    assert_int_equal(mapped(), 0);
}

static void memory_never_mapped_goes_with_its_handle(void **state)
{
    (void)state;
    nxm_vmm_created(8, 8192, 0, NXM_API_cuMemCreate);
    assert_int_equal(created(), 8192);
    release(8);
    assert_int_equal(created(), 0);
}

static void one_unmap_may_span_several_maps(void **state)
{
    (void)state;
    for (uint64_t i = 0; i < 4; i++) {
        nxm_vmm_created(20 + i, 4096, 0, NXM_API_cuMemCreate);
        nxm_vmm_mapped(0x300000 + i * 4096, 4096, 20 + i, NXM_API_cuMemMap);
        release(20 + i);
    }
    assert_int_equal(mapped(), 4 * 4096);
    nxm_vmm_unmapped(0x300000, 4 * 4096);
    assert_int_equal(mapped(), 0);
    assert_int_equal(created(), 0);
}

static void a_refused_release_leaves_the_handle_as_it_was(void **state)
{
    (void)state;
    nxm_vmm_created(9, 4096, 0, NXM_API_cuMemCreate);
    nxm_vmm_release_end(9, nxm_vmm_release_begin(9), 0);
    assert_int_equal(created(), 4096);
    release(9);
    assert_int_equal(created(), 0);
}

static void a_handles_value_may_come_back_while_the_old_memory_is_still_mapped(void **state)
{
    (void)state;
    nxm_vmm_created(5, 4096, 0, NXM_API_cuMemCreate);
    nxm_vmm_mapped(0x400000, 4096, 5, NXM_API_cuMemMap);
    release(5);
    nxm_vmm_created(5, 65536, 0, NXM_API_cuMemCreate);
    assert_int_equal(created(), 4096 + 65536);
    release(5);
    assert_int_equal(created(), 4096);
    assert_int_equal(nxm_vmm_release_begin(5), 0); /* no use of it is left to release */
    nxm_vmm_unmapped(0x400000, 4096);
    assert_int_equal(created(), 0);
}

static void a_retained_handle_is_a_use_of_its_own(void **state)
{
    (void)state;
    nxm_vmm_created(6, 4096, 0, NXM_API_cuMemCreate);
    nxm_vmm_mapped(0x500000, 4096, 6, NXM_API_cuMemMap);
    nxm_vmm_retained(6, 0x500800);
    release(6);
    nxm_vmm_unmapped(0x500000, 4096);
    assert_int_equal(created(), 4096);
    release(6);
    assert_int_equal(created(), 0);
}

static void a_release_nobody_created_counts_nothing(void **state)
{
    (void)state;
    assert_int_equal(nxm_vmm_release_begin(12345), 0);
    release(12345);
    nxm_vmm_unmapped(0x900000, 4096);
    assert_int_equal(created(), 0);
    assert_int_equal(mapped(), 0);
}

static int begin(void **state)
{
    (void)state;
    setenv("NXMEM_PLUGIN", NXM_TEST_PLUGIN, 1);
    fake_driver_reset();
    enum nxm_mode mode = nxm_enter(NULL, true);
    nxm_leave(mode);
    return mode == NXM_MODE_SERVE ? 0 : -1;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(memory_lives_until_its_handle_and_its_last_map_are_gone),
        cmocka_unit_test(memory_never_mapped_goes_with_its_handle),
        cmocka_unit_test(one_unmap_may_span_several_maps),
        cmocka_unit_test(a_refused_release_leaves_the_handle_as_it_was),
        cmocka_unit_test(a_handles_value_may_come_back_while_the_old_memory_is_still_mapped),
        cmocka_unit_test(a_retained_handle_is_a_use_of_its_own),
        cmocka_unit_test(a_release_nobody_created_counts_nothing),
    };
    return cmocka_run_group_tests(tests, begin, NULL);
}
