/* The oldest form of life: a created context counts who attached to it. */
#include "context.h"
#include "state.h"

CUresult cuCtxAttach(CUcontext *pctx, unsigned int flags)
{
    SIM_ENTER(cuCtxAttach);
    struct sim_context *c;
    if (!pctx || flags) return CUDA_ERROR_INVALID_VALUE;
    sim_lock();
    CUresult result = sim_context_current(&c);
    if (result == CUDA_SUCCESS) {
        c->attached++;
        *pctx = (CUcontext)c;
    }
    sim_unlock();
    return result;
}

/* The context must be current; whoever detaches last destroys it. */
CUresult cuCtxDetach(CUcontext ctx)
{
    SIM_ENTER(cuCtxDetach);
    struct sim_context *c;
    sim_lock();
    CUresult result = sim_context_current(&c);
    if (result == CUDA_SUCCESS && (CUcontext)c != ctx) result = CUDA_ERROR_INVALID_CONTEXT;
    if (result == CUDA_SUCCESS && c->attached) c->attached--;
    else if (result == CUDA_SUCCESS) result = sim_context_destroy(ctx, SIM_FN_cuCtxDetach);
    sim_unlock();
    return result;
}
