/* The ABI header, as this compiler lays it out, against the table of the contract's figures. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "nxmem_memory_abi.h"
#include "nxmem_cuda.h"

#define STRUCTS 23
#define FIELDS 144

struct struct_row {
    const char *name;
    size_t stated_size, stated_align, size, align;
};

struct field_row {
    const char *owner, *name;
    size_t stated_offset, stated_size, offset, size;
};

static const struct struct_row structs[] = {
#define STRUCT(name, size, align) {#name, size, align, sizeof(name), _Alignof(name)},
#include "layout_table.h"
};

static const struct field_row fields[] = {
#define FIELD(struct_, field, offset, size) \
    {#struct_, #field, offset, size, offsetof(struct_, field), sizeof(((struct_ *)0)->field)},
#include "layout_table.h"
};

static void every_struct_has_its_size_and_alignment(void **state) {
    (void)state;
    assert_int_equal(sizeof structs / sizeof *structs, STRUCTS);
    for (size_t i = 0; i < STRUCTS; i++) {
        if (structs[i].size != structs[i].stated_size || structs[i].align != structs[i].stated_align)
            print_error("%s\n", structs[i].name);
        assert_int_equal(structs[i].size, structs[i].stated_size);
        assert_int_equal(structs[i].align, structs[i].stated_align);
    }
}

static void every_field_has_its_offset_and_size(void **state) {
    (void)state;
    assert_int_equal(sizeof fields / sizeof *fields, FIELDS);
    for (size_t i = 0; i < FIELDS; i++) {
        if (fields[i].offset != fields[i].stated_offset || fields[i].size != fields[i].stated_size)
            print_error("%s.%s\n", fields[i].owner, fields[i].name);
        assert_int_equal(fields[i].offset, fields[i].stated_offset);
        assert_int_equal(fields[i].size, fields[i].stated_size);
    }
}

/* Holes would be bytes that no rule speaks of; a field missing from the table would look like one. */
static void fields_fill_their_struct_without_holes(void **state) {
    (void)state;
    size_t f = 0;
    for (size_t s = 0; s < STRUCTS; s++) {
        size_t end = 0;
        for (; f < FIELDS && strcmp(fields[f].owner, structs[s].name) == 0; f++) {
            assert_int_equal(fields[f].offset, end);
            end += fields[f].size;
        }
        assert_int_equal(end, structs[s].size);
    }
    assert_int_equal(f, FIELDS);
}

static void struct_size_is_first_and_abi_minor_second_for_ever(void **state) {
    (void)state;
    size_t sized = 0, levelled = 0;
    for (size_t i = 0; i < FIELDS; i++) {
        if (strcmp(fields[i].name, "struct_size") == 0) {
            assert_int_equal(fields[i].offset, 0);
            sized++;
        }
        if (strcmp(fields[i].name, "abi_minor") == 0) {
            assert_int_equal(fields[i].offset, 4);
            levelled++;
        }
    }
    assert_int_equal(sized, STRUCTS - 4); /* status, device id, byte range and version range never change */
    assert_int_equal(levelled, 6);        /* four vtables, the callbacks, the open request */
}

static void minor_levels_end_where_the_contract_says(void **state) {
    (void)state;
    assert_int_equal(offsetof(NxmemAllocatorVtable, allocate), 48);
    assert_int_equal(offsetof(NxmemAllocatorVtable, release_allocation), 120); /* minor 0 ends here */
    assert_int_equal(sizeof(NxmemAllocatorVtable), 128);                      /* and minor 1 here */
}

static void constants_have_the_values_of_the_contract(void **state) {
    (void)state;
    assert_int_equal(NXMEM_ABI_MAJOR, 1);
    assert_int_equal(NXMEM_ABI_MINOR, 1);
    assert_int_equal(NXMEM_ABI_OLDEST_MINOR, 0);
    assert_int_equal(NXMEM_STATUS_MESSAGE_CAPACITY, 256);
    assert_int_equal(NXMEM_CAPABILITY_ALLOCATOR, 1);
    assert_int_equal(NXMEM_CAPABILITY_VIRTUAL_BACKING, 2);
    assert_int_equal(NXMEM_CAPABILITY_SHARED_MAPPING, 4);
    assert_int_equal(NXMEM_CAPABILITY_DEFERRED_RELEASE, 8);
    assert_int_equal(NXMEM_CAPABILITY_STRUCTURED_RELEASE, 16);
    assert_int_equal(NXMEM_CAPABILITY_KNOWN_MASK, 31);
    static const unsigned tiers[] = {NXMEM_TIER_DEVICE, NXMEM_TIER_HOST, NXMEM_TIER_DISK};
    static const unsigned states[] = {NXMEM_RELEASE_COMPLETE, NXMEM_RELEASE_QUARANTINED, NXMEM_RELEASE_FAILED};
    for (unsigned i = 0; i < 3; i++) {
        assert_int_equal(tiers[i], i);
        assert_int_equal(states[i], i);
    }
    static const unsigned codes[] = {
        NXMEM_STATUS_OK,                  NXMEM_STATUS_VERSION_MISMATCH,   NXMEM_STATUS_SHORT_STRUCT,
        NXMEM_STATUS_UNSUPPORTED_CAPABILITY, NXMEM_STATUS_INVALID_ARGUMENT, NXMEM_STATUS_INTERNAL_ERROR,
        NXMEM_STATUS_NOT_IMPLEMENTED,     NXMEM_STATUS_DEVICE_ERROR,       NXMEM_STATUS_OUT_OF_MEMORY,
        NXMEM_STATUS_WRONG_DEVICE,        NXMEM_STATUS_WRONG_MECHANISM,    NXMEM_STATUS_UNKNOWN_ALLOCATION,
        NXMEM_STATUS_RELEASE_QUARANTINED, NXMEM_STATUS_CALLBACK_FAILED,    NXMEM_STATUS_BUSY};
    assert_int_equal(sizeof codes / sizeof *codes, 15);
    for (unsigned i = 0; i < 15; i++) assert_int_equal(codes[i], i);
}

static void export_names_are_the_contract_s(void **state) {
    (void)state;
    assert_string_equal(NXMEM_SYMBOL_NEGOTIATE, "NxmemNegotiate");
    assert_string_equal(NXMEM_SYMBOL_CREATE_ALLOCATOR_FACTORIES, "NxmemCreateAllocatorFactories");
    assert_string_equal(NXMEM_SYMBOL_QUERY_UNLOAD_READINESS, "NxmemQueryUnloadReadiness");
}

/* The companion grows by its tail only: what stands today keeps its place. */
static void companion_fields_keep_their_place(void **state) {
    (void)state;
    assert_int_equal(offsetof(NxmemCudaOrder, kind), 4);
    assert_int_equal(offsetof(NxmemCudaOrder, context), 8);
    assert_int_equal(offsetof(NxmemCudaOrder, stream), 16);
    assert_int_equal(offsetof(NxmemCudaOrder, pool), 24);
    assert_int_equal(offsetof(NxmemCudaOrder, stream_key), 32);
    assert_int_equal(offsetof(NxmemCudaOrder, flags), 40);
    assert_int_equal(sizeof(NxmemCudaOrder), 48);
    assert_int_equal(offsetof(NxmemCudaVtable, mechanism_id), 8);
    assert_int_equal(offsetof(NxmemCudaVtable, traits), 16);
    assert_int_equal(offsetof(NxmemCudaVtable, ctx), 24);
    assert_int_equal(offsetof(NxmemCudaVtable, allocate_on), 32);
    assert_int_equal(offsetof(NxmemCudaVtable, enqueue_release_on), 40);
    assert_int_equal(offsetof(NxmemCudaVtable, order_passed), 48);
    assert_int_equal(offsetof(NxmemCudaVtable, order_gone), 56);
    assert_int_equal(offsetof(NxmemCudaVtable, context_gone), 64);
    assert_int_equal(offsetof(NxmemCudaVtable, set_peer_access), 72);
    assert_int_equal(offsetof(NxmemCudaVtable, cached_bytes), 80);
    assert_int_equal(sizeof(NxmemCudaVtable), 88);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_struct_has_its_size_and_alignment),
        cmocka_unit_test(every_field_has_its_offset_and_size),
        cmocka_unit_test(fields_fill_their_struct_without_holes),
        cmocka_unit_test(struct_size_is_first_and_abi_minor_second_for_ever),
        cmocka_unit_test(minor_levels_end_where_the_contract_says),
        cmocka_unit_test(constants_have_the_values_of_the_contract),
        cmocka_unit_test(export_names_are_the_contract_s),
        cmocka_unit_test(companion_fields_keep_their_place),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
