#include "label.h"

const char *const nxm_api_names[NXM_API_COUNT] = {
    [NXM_API_UNKNOWN] = "unknown",
#define DRIVER(symbol, like, class_) [NXM_API_##symbol] = #symbol,
#define RUNTIME(symbol, like, class_) [NXM_API_##symbol] = #symbol,
#include "cuda_api.def"
};

struct nxm_label nxm_label_push(enum nxm_api api, uint64_t bytes)
{
    struct nxm_label saved = nxm_thread.label;
    nxm_thread.label = (struct nxm_label){ .api = saved.api ? saved.api : (uint16_t)api, .bytes = saved.api ? saved.bytes : bytes };
    return saved;
}

bool nxm_label_pop(struct nxm_label saved)
{
    bool fired = nxm_thread.label.fired;
    nxm_thread.label.api = saved.api;
    nxm_thread.label.bytes = saved.bytes;
    nxm_thread.label.fired = saved.api && (saved.fired || fired); /* what fired inside, fired inside the outer one too */
    return fired;
}

enum nxm_api nxm_label_take_there(enum nxm_api own, uint64_t bytes)
{
    if (nxm_thread.label.bytes && bytes && nxm_thread.label.bytes != bytes) return own;
    nxm_thread.label.fired = true;
    return (enum nxm_api)nxm_thread.label.api;
}
