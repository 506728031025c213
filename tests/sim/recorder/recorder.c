#include "recorder.h"

#include <cuda.h>
#include <string.h>

enum { CAPACITY = 1024 };
static struct recorder_question questions[CAPACITY];
static int count;

#pragma GCC visibility push(default)

const struct recorder_question *recorder_questions(int *ret_count)
{
    *ret_count = count;
    return questions;
}

static CUresult succeed(void)
{
    return CUDA_SUCCESS;
}

static CUresult answer(const char *name, void **ret_function, int version, cuuint64_t flags,
                       CUdriverProcAddressQueryResult *ret_status, enum recorder_door door);

static CUresult resolver(const char *name, void **ret_function, int version, cuuint64_t flags,
                         CUdriverProcAddressQueryResult *ret_status)
{
    return answer(name, ret_function, version, flags, ret_status, DOOR_RESOLVER);
}

static CUresult answer(const char *name, void **ret_function, int version, cuuint64_t flags,
                       CUdriverProcAddressQueryResult *ret_status, enum recorder_door door)
{
    if (count < CAPACITY) {
        struct recorder_question *q = &questions[count++];

        strncpy(q->name, name, sizeof q->name - 1);
        q->version = version;
        q->flags = flags;
        q->door = door;
    }
    *ret_function = strcmp(name, "cuGetProcAddress") == 0 && version >= 12000 ? (void *)resolver : (void *)succeed;
    *ret_status = CU_GET_PROC_ADDRESS_SUCCESS;
    return CUDA_SUCCESS;
}

#undef cuGetProcAddress
CUresult cuGetProcAddress_v2(const char *name, void **ret_function, int version, cuuint64_t flags,
                             CUdriverProcAddressQueryResult *ret_status)
{
    return answer(name, ret_function, version, flags, ret_status, DOOR_SYMBOL);
}

#pragma GCC visibility pop
