/* An NCCL that moves nothing: what a one-process program calls to find that it has communicators. */
#include <stddef.h>
#include <stdlib.h>

enum result { RESULT_SUCCESS = 0, RESULT_SYSTEM_ERROR = 2, RESULT_INVALID_ARGUMENT = 4 };

struct ncclComm {
    int device;
};

#pragma GCC visibility push(default)

enum result ncclCommInitAll(struct ncclComm **ret_comms, int devices, const int *device_list);
enum result ncclCommDestroy(struct ncclComm *comm);
enum result ncclGroupStart(void);
enum result ncclGroupEnd(void);
enum result ncclAllReduce(const void *send, void *receive, size_t count, int type, int op, struct ncclComm *comm,
                          void *stream);
const char *ncclGetErrorString(enum result result);

enum result ncclCommInitAll(struct ncclComm **ret_comms, int devices, const int *device_list)
{
    if (!ret_comms || devices < 1)
        return RESULT_INVALID_ARGUMENT;
    for (int i = 0; i < devices; i++) {
        ret_comms[i] = malloc(sizeof *ret_comms[i]);
        if (!ret_comms[i]) {
            while (i--)
                free(ret_comms[i]);
            return RESULT_SYSTEM_ERROR;
        }
        ret_comms[i]->device = device_list ? device_list[i] : i;
    }
    return RESULT_SUCCESS;
}

enum result ncclCommDestroy(struct ncclComm *comm)
{
    free(comm);
    return RESULT_SUCCESS;
}

enum result ncclGroupStart(void)
{
    return RESULT_SUCCESS;
}

enum result ncclGroupEnd(void)
{
    return RESULT_SUCCESS;
}

enum result ncclAllReduce(const void *send, void *receive, size_t count, int type, int op, struct ncclComm *comm,
                          void *stream)
{
    (void)send, (void)receive, (void)count, (void)type, (void)op, (void)stream;
    return comm ? RESULT_SUCCESS : RESULT_INVALID_ARGUMENT;
}

const char *ncclGetErrorString(enum result result)
{
    return result == RESULT_SUCCESS ? "no error" : "NCCL error";
}

#pragma GCC visibility pop
