#include "prefix.h"

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

#include "status.h"
#include "text.h"

/* Enough of an allocator vtable to reach `allocate`; below it not even the claimed minor is read (6.13). */
#define ALLOCATOR_FLOOR ((uint32_t)offsetof(NxmemAllocatorVtable, allocate))
#define ALLOCATOR_SIZE_MINOR_0 ((uint32_t)offsetof(NxmemAllocatorVtable, release_allocation))
#define ALLOCATOR_SIZE_MINOR_1 ((uint32_t)sizeof(NxmemAllocatorVtable))

static NxmemStatus refuse(uint32_t code, const char *format, ...) __attribute__((format(printf, 2, 3)));

static NxmemStatus refuse(uint32_t code, const char *format, ...)
{
    char message[NXMEM_STATUS_MESSAGE_CAPACITY];
    struct nxm_text text;
    va_list arguments;

    nxm_text_init(&text, message, sizeof message);
    va_start(arguments, format);
    nxm_text_vprintf(&text, format, arguments);
    va_end(arguments);
    return nxm_status_make(code, message);
}

/* Both fields may be read from a struct that is not aligned for us and ends right behind them. */
static uint32_t load_u32(const void *source, size_t offset)
{
    uint32_t value;

    memcpy(&value, (const char *)source + offset, sizeof value);
    return value;
}

/* --- the common part -------------------------------------------------------------------------------- */

static NxmemStatus check_pointer(const void *source)
{
    if (source == NULL)
        return refuse(NXMEM_STATUS_INVALID_ARGUMENT, "null pointer");
    if ((uintptr_t)source % _Alignof(uint64_t) != 0)
        return refuse(NXMEM_STATUS_INVALID_ARGUMENT, "pointer %p is not aligned to 8", source);
    return nxm_status_ok();
}

static void copy_declared(const void *source, void *ret_copy, uint32_t copy_size)
{
    uint32_t declared = load_u32(source, 0);

    memset(ret_copy, 0, copy_size);
    memcpy(ret_copy, source, declared < copy_size ? declared : copy_size);
}

NxmemStatus nxm_prefix_copy(const void *source, uint32_t floor, void *ret_copy, uint32_t copy_size)
{
    NxmemStatus status = check_pointer(source);

    if (status.code != NXMEM_STATUS_OK)
        return status;
    if (load_u32(source, 0) < floor)
        return refuse(NXMEM_STATUS_SHORT_STRUCT, "struct_size %u where %u is the least", load_u32(source, 0), floor);
    copy_declared(source, ret_copy, copy_size);
    return nxm_status_ok();
}

void nxm_prefix_clear_behind(void *written, uint32_t claimed, uint32_t size)
{
    memset((char *)written + claimed, 0, size - claimed);
}

static uint32_t effective_minor(uint32_t claimed, uint32_t ceiling)
{
    return claimed < ceiling ? claimed : ceiling; /* above the ceiling is clamped, never refused */
}

/* --- the allocator ---------------------------------------------------------------------------------- */

static NxmemStatus check_allocator_size(const NxmemAllocatorVtable *source)
{
    uint32_t size = load_u32(source, 0), minor, needed;

    if (size < ALLOCATOR_FLOOR)
        return refuse(NXMEM_STATUS_SHORT_STRUCT, "struct_size %u where minor 0 has %u", size, ALLOCATOR_SIZE_MINOR_0);
    minor = load_u32(source, offsetof(NxmemAllocatorVtable, abi_minor));
    needed = minor == 0 ? ALLOCATOR_SIZE_MINOR_0 : ALLOCATOR_SIZE_MINOR_1;
    if (size < needed)
        return refuse(NXMEM_STATUS_SHORT_STRUCT, "struct_size %u where the claimed minor %u has %u", size, minor,
                      needed);
    return nxm_status_ok();
}

static NxmemStatus check_allocator_slots(const NxmemAllocatorVtable *copy)
{
    const struct {
        const char *name;
        bool present;
    } required[] = {
        { "allocate", copy->allocate != NULL },
        { "deallocate", copy->deallocate != NULL },
        { "retain", copy->retain != NULL },
        { "release", copy->release != NULL },
    };

    for (size_t i = 0; i < sizeof required / sizeof required[0]; i++) {
        if (!required[i].present)
            return refuse(NXMEM_STATUS_SHORT_STRUCT, "required slot `%s` is null", required[i].name);
    }
    return nxm_status_ok();
}

/* Everything but the validation: a vtable refused by that must still be readable here, or the state behind
 * it could never be released (6.12). */
NxmemStatus nxm_prefix_read_allocator_unvalidated(const NxmemAllocatorVtable *source, uint32_t ceiling,
                                                  NxmemAllocatorVtable *ret_copy)
{
    NxmemStatus status = check_pointer(source);

    if (status.code == NXMEM_STATUS_OK)
        status = check_allocator_size(source);
    if (status.code != NXMEM_STATUS_OK)
        return status;
    copy_declared(source, ret_copy, sizeof *ret_copy);
    ret_copy->abi_minor = effective_minor(ret_copy->abi_minor, ceiling);
    if (ret_copy->abi_minor < 1)
        ret_copy->release_allocation = NULL;
    return status;
}

NxmemStatus nxm_prefix_read_allocator(const NxmemAllocatorVtable *source, uint32_t ceiling,
                                      NxmemAllocatorVtable *ret_copy)
{
    NxmemStatus status = nxm_prefix_read_allocator_unvalidated(source, ceiling, ret_copy);

    if (status.code == NXMEM_STATUS_OK)
        status = check_allocator_slots(ret_copy);
    if (status.code == NXMEM_STATUS_OK && ret_copy->mechanism_id == 0)
        status = refuse(NXMEM_STATUS_INVALID_ARGUMENT, "mechanism_id is zero");
    return status;
}

/* --- the others ------------------------------------------------------------------------------------- */

static NxmemStatus check_mechanism(uint64_t found, uint64_t expected)
{
    if (found == expected)
        return nxm_status_ok();
    return refuse(NXMEM_STATUS_WRONG_MECHANISM, "mechanism_id %llu where the allocator has %llu",
                  (unsigned long long)found, (unsigned long long)expected);
}

NxmemStatus nxm_prefix_read_virtual_backing(const NxmemVirtualBackingVtable *source, uint32_t ceiling,
                                            uint64_t mechanism_id, NxmemVirtualBackingVtable *ret_copy)
{
    NxmemStatus status = nxm_prefix_copy(source, sizeof *ret_copy, ret_copy, sizeof *ret_copy);

    if (status.code != NXMEM_STATUS_OK)
        return status;
    ret_copy->abi_minor = effective_minor(ret_copy->abi_minor, ceiling);
    return check_mechanism(ret_copy->mechanism_id, mechanism_id);
}

NxmemStatus nxm_prefix_read_shared_mapping(const NxmemSharedMappingVtable *source, uint32_t ceiling,
                                           uint64_t mechanism_id, NxmemSharedMappingVtable *ret_copy)
{
    NxmemStatus status = nxm_prefix_copy(source, sizeof *ret_copy, ret_copy, sizeof *ret_copy);

    if (status.code != NXMEM_STATUS_OK)
        return status;
    ret_copy->abi_minor = effective_minor(ret_copy->abi_minor, ceiling);
    return check_mechanism(ret_copy->mechanism_id, mechanism_id);
}

NxmemStatus nxm_prefix_read_factory(const NxmemAllocatorFactoryVtable *source, uint32_t ceiling,
                                    NxmemAllocatorFactoryVtable *ret_copy)
{
    NxmemStatus status = nxm_prefix_copy(source, sizeof *ret_copy, ret_copy, sizeof *ret_copy);

    if (status.code != NXMEM_STATUS_OK)
        return status;
    ret_copy->abi_minor = effective_minor(ret_copy->abi_minor, ceiling);
    if (ret_copy->open_allocator == NULL)
        return refuse(NXMEM_STATUS_SHORT_STRUCT, "required slot `open_allocator` is null");
    if (ret_copy->release == NULL)
        return refuse(NXMEM_STATUS_SHORT_STRUCT, "required slot `release` is null");
    return status;
}
