/* Peer access: memory that stands in for cuMemAlloc's becomes reachable as cuMemAlloc's does. */
#include "hook.h"
#include "peers.h"

static CUcontext current(void)
{
    CUcontext context = NULL;

    return nxm_real.cuCtxGetCurrent && nxm_real.cuCtxGetCurrent(&context) == CUDA_SUCCESS ? context : NULL;
}

/* Wishes of before the first allocation count too, so nothing need have begun. A plugin's own are the driver's alone. */
static bool is_programs(enum nxm_mode mode)
{
    nxm_process_watch_forks();
    return mode != NXM_MODE_NESTED && !nxm_is_child();
}

/* Access to half of the memory is none: what the driver has granted is taken back. */
CUresult hook_cuCtxEnablePeerAccess(CUcontext peer, unsigned flags)
{
    NXM_NEEDS(cuCtxEnablePeerAccess);
    enum nxm_mode mode = nxm_enter(NXM_CALLER, false);
    CUresult result = nxm_real.cuCtxEnablePeerAccess(peer, flags);

    if (result == CUDA_SUCCESS && is_programs(mode) && !nxm_peers_enabled(current(), peer, mode == NXM_MODE_SERVE)) {
        if (nxm_real.cuCtxDisablePeerAccess)
            nxm_real.cuCtxDisablePeerAccess(peer);
        result = CUDA_ERROR_PEER_ACCESS_UNSUPPORTED;
    }
    nxm_leave(mode);
    return result;
}

CUresult hook_cuCtxDisablePeerAccess(CUcontext peer)
{
    NXM_NEEDS(cuCtxDisablePeerAccess);
    enum nxm_mode mode = nxm_enter(NXM_CALLER, false);
    CUresult result = nxm_real.cuCtxDisablePeerAccess(peer);

    if (result == CUDA_SUCCESS && is_programs(mode))
        nxm_peers_disabled(current(), peer, mode == NXM_MODE_SERVE);
    nxm_leave(mode);
    return result;
}
