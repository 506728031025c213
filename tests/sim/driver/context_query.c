/* What contexts answer about themselves, and access between them. */
#include "context.h"
#include "device.h"
#include "state.h"

enum property { DEVICE, FLAGS, ID, VERSION, CACHE };

static CUresult get(CUcontext handle, enum property property, void *ret)
{
    struct sim_context *c;
    if (!ret) return CUDA_ERROR_INVALID_VALUE;
    sim_lock();
    CUresult result = sim_context_get(handle, &c);
    if (result == CUDA_SUCCESS) {
        switch (property) {
        case DEVICE: *(CUdevice *)ret = c->device->ordinal; break;
        case FLAGS: *(unsigned *)ret = c->flags; break;
        case ID: *(unsigned long long *)ret = c->object.id; break;
        case VERSION: *(unsigned *)ret = 3020; break;
        case CACHE: *(CUfunc_cache *)ret = c->cache; break;
        }
    }
    sim_unlock();
    return result;
}

CUresult cuCtxGetDevice(CUdevice *device)
{
    SIM_ENTER(cuCtxGetDevice);
    return get(NULL, DEVICE, device);
}

CUresult cuCtxGetDevice_v2(CUdevice *device, CUcontext ctx)
{
    SIM_ENTER(cuCtxGetDevice_v2);
    return get(ctx, DEVICE, device);
}

CUresult cuCtxGetFlags(unsigned int *flags)
{
    SIM_ENTER(cuCtxGetFlags);
    return get(NULL, FLAGS, flags);
}

CUresult cuCtxGetId(CUcontext ctx, unsigned long long *id)
{
    SIM_ENTER(cuCtxGetId);
    return get(ctx, ID, id);
}

CUresult cuCtxGetApiVersion(CUcontext ctx, unsigned int *version)
{
    SIM_ENTER(cuCtxGetApiVersion);
    return get(ctx, VERSION, version);
}

CUresult cuCtxGetCacheConfig(CUfunc_cache *config)
{
    SIM_ENTER(cuCtxGetCacheConfig);
    return get(NULL, CACHE, config);
}

enum setting { SET_FLAGS, SET_CACHE, SET_NOTHING };

static CUresult set(enum setting setting, unsigned value)
{
    struct sim_context *c;
    sim_lock();
    CUresult result = sim_context_current(&c);
    if (result == CUDA_SUCCESS && setting == SET_FLAGS) c->flags = value;
    if (result == CUDA_SUCCESS && setting == SET_CACHE) c->cache = (CUfunc_cache)value;
    sim_unlock();
    return result;
}

CUresult cuCtxSetFlags(unsigned int flags)
{
    SIM_ENTER(cuCtxSetFlags);
    return flags & ~(unsigned)CU_CTX_FLAGS_MASK ? CUDA_ERROR_INVALID_VALUE : set(SET_FLAGS, flags);
}

CUresult cuCtxSetCacheConfig(CUfunc_cache config)
{
    SIM_ENTER(cuCtxSetCacheConfig);
    return set(SET_CACHE, (unsigned)config);
}

CUresult cuCtxSetSharedMemConfig(CUsharedconfig config)
{
    SIM_ENTER(cuCtxSetSharedMemConfig);
    (void)config;
    return set(SET_NOTHING, 0);
}

CUresult cuCtxGetSharedMemConfig(CUsharedconfig *config)
{
    SIM_ENTER(cuCtxGetSharedMemConfig);
    if (!config) return CUDA_ERROR_INVALID_VALUE;
    *config = CU_SHARED_MEM_CONFIG_FOUR_BYTE_BANK_SIZE;
    return set(SET_NOTHING, 0);
}

CUresult cuCtxResetPersistingL2Cache(void)
{
    SIM_ENTER(cuCtxResetPersistingL2Cache);
    return set(SET_NOTHING, 0);
}

static CUresult limit(CUlimit which, size_t *get_to, const size_t *set_from)
{
    struct sim_context *c;
    if ((int)which < 0 || which >= CU_LIMIT_MAX) return CUDA_ERROR_INVALID_VALUE;
    sim_lock();
    CUresult result = sim_context_current(&c);
    if (result == CUDA_SUCCESS && get_to) *get_to = c->limits[which];
    if (result == CUDA_SUCCESS && set_from) c->limits[which] = *set_from;
    sim_unlock();
    return result;
}

CUresult cuCtxGetLimit(size_t *value, CUlimit which)
{
    SIM_ENTER(cuCtxGetLimit);
    return value ? limit(which, value, NULL) : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuCtxSetLimit(CUlimit which, size_t value)
{
    SIM_ENTER(cuCtxSetLimit);
    return limit(which, NULL, &value);
}

/* --- peers: every device reaches every other ----------------------------------------------------------------- */

CUresult cuDeviceCanAccessPeer(int *can, CUdevice dev, CUdevice peer)
{
    SIM_ENTER(cuDeviceCanAccessPeer);
    if (!can) return CUDA_ERROR_INVALID_VALUE;
    if (!sim_device_get(dev) || !sim_device_get(peer)) return CUDA_ERROR_INVALID_DEVICE;
    *can = dev != peer;
    return CUDA_SUCCESS;
}

CUresult cuDeviceGetP2PAttribute(int *value, CUdevice_P2PAttribute attribute, CUdevice src, CUdevice dst)
{
    SIM_ENTER(cuDeviceGetP2PAttribute);
    if (!value) return CUDA_ERROR_INVALID_VALUE;
    if (!sim_device_get(src) || !sim_device_get(dst) || src == dst) return CUDA_ERROR_INVALID_DEVICE;
    *value = attribute == CU_DEVICE_P2P_ATTRIBUTE_ACCESS_SUPPORTED;
    return CUDA_SUCCESS;
}

static CUresult change_peer(CUcontext handle, bool enable)
{
    struct sim_context *mine, *peer;
    sim_lock();
    CUresult result = sim_context_current(&mine);
    if (result == CUDA_SUCCESS) result = handle ? sim_context_get(handle, &peer) : CUDA_ERROR_INVALID_CONTEXT;
    if (result == CUDA_SUCCESS && peer->device == mine->device)
        result = enable ? CUDA_ERROR_INVALID_DEVICE : CUDA_ERROR_PEER_ACCESS_NOT_ENABLED;
    if (result == CUDA_SUCCESS) {
        unsigned bit = 1u << peer->device->ordinal;
        bool enabled = (mine->peers & bit) != 0;
        if (enabled == enable)
            result = enable ? CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED : CUDA_ERROR_PEER_ACCESS_NOT_ENABLED;
        else mine->peers ^= bit;
    }
    sim_unlock();
    return result;
}

CUresult cuCtxEnablePeerAccess(CUcontext peer, unsigned int flags)
{
    SIM_ENTER(cuCtxEnablePeerAccess);
    return flags ? CUDA_ERROR_INVALID_VALUE : change_peer(peer, true);
}

CUresult cuCtxDisablePeerAccess(CUcontext peer)
{
    SIM_ENTER(cuCtxDisablePeerAccess);
    return change_peer(peer, false);
}
