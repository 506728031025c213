/* Linking code: whatever is added, what comes out is an image that modules load like any other. */
#include "context.h"
#include "state.h"

#include <string.h>
#include <unistd.h>

struct link {
    struct sim_object object;
    bool complete;
    char image[64]; /* the program's until the link is destroyed */
};

static struct link *get(CUlinkState state)
{
    return sim_object_find(state, SIM_LINK);
}

static CUresult create(unsigned count, const CUjit_option *options, void **values, CUlinkState *state)
{
    struct sim_context *c;
    if (!state || (count && (!options || !values))) return CUDA_ERROR_INVALID_VALUE;
    sim_lock();
    CUresult result = sim_context_current(&c);
    struct link *l = result == CUDA_SUCCESS ? sim_object_new(SIM_LINK, sizeof *l, NULL) : NULL;
    if (result == CUDA_SUCCESS && !l) result = CUDA_ERROR_OUT_OF_MEMORY;
    if (l) *state = (CUlinkState)l;
    sim_unlock();
    return result;
}

/* Inputs are forgotten: code means nothing here. */
static CUresult add(CUlinkState state, CUjitInputType type, bool is_there)
{
    if ((unsigned)type >= CU_JIT_NUM_INPUT_TYPES || !is_there) return CUDA_ERROR_INVALID_VALUE;
    sim_lock();
    struct link *l = get(state);
    CUresult result = !l ? CUDA_ERROR_INVALID_HANDLE : l->complete ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
    sim_unlock();
    return result;
}

static CUresult add_file(CUlinkState state, CUjitInputType type, const char *path)
{
    if (!path) return CUDA_ERROR_INVALID_VALUE;
    return access(path, R_OK) == 0 ? add(state, type, true) : CUDA_ERROR_FILE_NOT_FOUND;
}

CUresult cuLinkCreate(unsigned int count, CUjit_option *options, void **values, CUlinkState *state)
{
    SIM_ENTER(cuLinkCreate);
    return create(count, options, values, state);
}

CUresult cuLinkCreate_v2(unsigned int count, CUjit_option *options, void **values, CUlinkState *state)
{
    SIM_ENTER(cuLinkCreate_v2);
    return create(count, options, values, state);
}

CUresult cuLinkAddData(CUlinkState state, CUjitInputType type, void *data, size_t size, const char *name, unsigned int count,
                       CUjit_option *options, void **values)
{
    SIM_ENTER(cuLinkAddData);
    (void)name, (void)count, (void)options, (void)values;
    return add(state, type, data && size);
}

CUresult cuLinkAddData_v2(CUlinkState state, CUjitInputType type, void *data, size_t size, const char *name, unsigned int count,
                          CUjit_option *options, void **values)
{
    SIM_ENTER(cuLinkAddData_v2);
    (void)name, (void)count, (void)options, (void)values;
    return add(state, type, data && size);
}

CUresult cuLinkAddFile(CUlinkState state, CUjitInputType type, const char *path, unsigned int count, CUjit_option *options,
                       void **values)
{
    SIM_ENTER(cuLinkAddFile);
    (void)count, (void)options, (void)values;
    return add_file(state, type, path);
}

CUresult cuLinkAddFile_v2(CUlinkState state, CUjitInputType type, const char *path, unsigned int count, CUjit_option *options,
                          void **values)
{
    SIM_ENTER(cuLinkAddFile_v2);
    (void)count, (void)options, (void)values;
    return add_file(state, type, path);
}

CUresult cuLinkComplete(CUlinkState state, void **image, size_t *size)
{
    SIM_ENTER(cuLinkComplete);
    if (!image) return CUDA_ERROR_INVALID_VALUE;
    sim_lock();
    struct link *l = get(state);
    if (l) {
        l->complete = true;
        memcpy(l->image, "linked", sizeof "linked");
        *image = l->image;
        if (size) *size = sizeof l->image;
    }
    sim_unlock();
    return l ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

CUresult cuLinkDestroy(CUlinkState state)
{
    SIM_ENTER(cuLinkDestroy);
    sim_lock();
    struct link *l = get(state);
    if (l) sim_object_close(&l->object);
    sim_unlock();
    return l ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}
