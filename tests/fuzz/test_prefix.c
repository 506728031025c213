/* core/prefix.c: what is read of a published struct of any size that lies any way. The source ends where its declared
 * size says; a second one goes on with poison, which must make no difference. */
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "core/prefix.h"
#include "support.h"

enum kind { ALLOCATOR, UNVALIDATED, BACKING, SHARED, FACTORY, COMMON, KINDS };

#define LARGEST sizeof(NxmemAllocatorVtable)

struct reading {
    _Alignas(8) uint8_t copy[LARGEST];
    uint32_t code;
};

struct request {
    enum kind kind;
    uint32_t ceiling, floor;
    uint64_t mechanism_id;
};

static size_t size_of(enum kind kind)
{
    static const size_t sizes[KINDS] = {
        [ALLOCATOR] = sizeof(NxmemAllocatorVtable),     [UNVALIDATED] = sizeof(NxmemAllocatorVtable),
        [BACKING] = sizeof(NxmemVirtualBackingVtable),  [SHARED] = sizeof(NxmemSharedMappingVtable),
        [FACTORY] = sizeof(NxmemAllocatorFactoryVtable), [COMMON] = sizeof(NxmemReleaseCompletion) / 4,
    };

    return sizes[kind];
}

static NxmemStatus read_kind(const struct request *request, const void *source, void *ret_copy)
{
    switch (request->kind) {
    case ALLOCATOR:
        return nxm_prefix_read_allocator(source, request->ceiling, ret_copy);
    case UNVALIDATED:
        return nxm_prefix_read_allocator_unvalidated(source, request->ceiling, ret_copy);
    case BACKING:
        return nxm_prefix_read_virtual_backing(source, request->ceiling, request->mechanism_id, ret_copy);
    case SHARED:
        return nxm_prefix_read_shared_mapping(source, request->ceiling, request->mechanism_id, ret_copy);
    case FACTORY:
        return nxm_prefix_read_factory(source, request->ceiling, ret_copy);
    case COMMON:
    default:
        return nxm_prefix_copy(source, request->floor, ret_copy, (uint32_t)size_of(COMMON));
    }
}

static struct reading read_source(const struct request *request, const void *source)
{
    struct reading reading;

    memset(reading.copy, 0xAA, sizeof reading.copy);
    reading.code = read_kind(request, source, reading.copy).code;
    return reading;
}

static uint64_t word(const uint8_t *bytes, size_t offset)
{
    uint64_t value;

    memcpy(&value, bytes + offset, sizeof value);
    return value;
}

/* Section 6, written down a second time. `seen` is what may be read, zeros behind it. */
static uint32_t expected_code(const struct request *request, uint32_t declared, const uint8_t *seen)
{
    uint32_t claimed = (uint32_t)(word(seen, 0) >> 32);

    switch (request->kind) {
    case ALLOCATOR:
    case UNVALIDATED:
        if (declared < 48 || declared < (claimed == 0 ? 120u : 128u))
            return NXMEM_STATUS_SHORT_STRUCT;
        if (request->kind == UNVALIDATED)
            return NXMEM_STATUS_OK;
        for (size_t slot = 48; slot <= 72; slot += 8) {
            if (word(seen, slot) == 0)
                return NXMEM_STATUS_SHORT_STRUCT;
        }
        return word(seen, 8) == 0 ? NXMEM_STATUS_INVALID_ARGUMENT : NXMEM_STATUS_OK;
    case BACKING:
    case SHARED:
        if (declared < size_of(request->kind))
            return NXMEM_STATUS_SHORT_STRUCT;
        return word(seen, 8) == request->mechanism_id ? NXMEM_STATUS_OK : NXMEM_STATUS_WRONG_MECHANISM;
    case FACTORY:
        if (declared < size_of(FACTORY) || word(seen, 40) == 0 || word(seen, 48) == 0)
            return NXMEM_STATUS_SHORT_STRUCT;
        return NXMEM_STATUS_OK;
    case COMMON:
    default:
        return declared < request->floor ? NXMEM_STATUS_SHORT_STRUCT : NXMEM_STATUS_OK;
    }
}

/* What the copy must be when the source is accepted. */
static void expect_copy(const struct request *request, uint8_t *seen)
{
    uint32_t claimed = (uint32_t)(word(seen, 0) >> 32);
    uint32_t minor = claimed < request->ceiling ? claimed : request->ceiling;

    if (request->kind == COMMON)
        return;
    memcpy(seen + 4, &minor, sizeof minor);
    if (minor == 0 && (request->kind == ALLOCATOR || request->kind == UNVALIDATED))
        memset(seen + 120, 0, 8);
}

static void check_prefix(const struct request *request, const uint8_t *bytes, uint32_t declared)
{
    size_t size = size_of(request->kind), read = declared < size ? declared : size, room = LARGEST + 64;
    uint8_t seen[LARGEST] = { 0 }, poisoned[LARGEST + 64];
    size_t there = read < sizeof declared ? sizeof declared : read;
    struct reading exact, roomy;
    uint32_t expected;
    void *source;

    memcpy(seen, bytes, read);
    memset(poisoned, 0xEE, sizeof poisoned);
    memcpy(poisoned, bytes, there);
    source = fuzz_exact(bytes, there);
    exact = read_source(request, source);
    FUZZ_CHECK(memcmp(source, bytes, there) == 0);
    free(source);
    source = fuzz_exact(poisoned, room);
    roomy = read_source(request, source);
    free(source);
    FUZZ_CHECK(exact.code == roomy.code);
    FUZZ_CHECK(memcmp(exact.copy, roomy.copy, sizeof exact.copy) == 0);
    expected = expected_code(request, declared, seen);
    FUZZ_CHECK(exact.code == expected);
    for (size_t i = size; i < LARGEST; i++)
        FUZZ_CHECK(exact.copy[i] == 0xAA);
    if (expected != NXMEM_STATUS_OK)
        return;
    expect_copy(request, seen);
    FUZZ_CHECK(memcmp(exact.copy, seen, size) == 0);
}

/* Nothing is mapped there: reading would be the end. */
static void check_misaligned(const struct request *request, uint8_t where)
{
    _Alignas(8) uint8_t copy[LARGEST];
    const void *source = (const void *)(uintptr_t)(where % 8 == 0 ? 0 : where);

    FUZZ_CHECK(read_kind(request, source, copy).code == NXMEM_STATUS_INVALID_ARGUMENT);
}

/* An out-struct in a buffer of ours: what is not claimed reads as zero, the rest is untouched. */
static void check_trim(uint8_t *bytes, uint32_t declared)
{
    uint32_t size = (uint32_t)sizeof(NxmemUnloadReport), claimed;
    uint8_t *written;

    memcpy(bytes, &declared, sizeof declared);
    written = fuzz_exact(bytes, size);
    claimed = nxm_prefix_trim(written, size);

    FUZZ_CHECK(claimed == (declared == 0 || declared > size ? size : declared));
    FUZZ_CHECK(memcmp(written, bytes, claimed) == 0);
    for (uint32_t i = claimed; i < size; i++)
        FUZZ_CHECK(written[i] == 0);
    free(written);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t length)
{
    struct fuzz_input input = { data, length };
    struct request request = { .kind = fuzz_u8(&input) % KINDS };
    uint8_t bytes[LARGEST], where;
    uint32_t declared, minor;

    request.ceiling = (uint32_t)fuzz_number(&input, 1);
    request.floor = fuzz_u8(&input);
    request.mechanism_id = fuzz_u8(&input);
    where = fuzz_u8(&input);
    declared = (uint32_t)fuzz_number(&input, size_of(request.kind));
    minor = (uint32_t)fuzz_number(&input, 1);
    fuzz_fill(&input, bytes, sizeof bytes);
    memcpy(bytes, &declared, sizeof declared);
    memcpy(bytes + 4, &minor, sizeof minor);
    check_prefix(&request, bytes, declared);
    check_misaligned(&request, where);
    check_trim(bytes, declared);
    check_trim(bytes, where % 56);
    return 0;
}
