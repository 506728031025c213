#include "label.h"

const char *const nxm_api_names[NXM_API_COUNT] = {
    [NXM_API_UNKNOWN] = "unknown",
#define DRIVER(symbol, like, class_) [NXM_API_##symbol] = #symbol,
#define RUNTIME(symbol, like, class_) [NXM_API_##symbol] = #symbol,
#include "cuda_api.def"
};

/* Sixteen bytes of static TLS: small enough for the surplus that glibc keeps for late dlopen, and free of
 * __tls_get_addr, which allocates on a thread's first touch (an allocator below us may not bear that). */
__thread struct nxm_label nxm_label __attribute__((tls_model("initial-exec")));

struct nxm_label nxm_label_push(enum nxm_api api, uint64_t bytes)
{
    struct nxm_label saved = nxm_label;
    nxm_label = (struct nxm_label){.api = saved.api ? saved.api : (uint16_t)api,
                                 .bytes = saved.api ? saved.bytes : bytes};
    return saved;
}

bool nxm_label_pop(struct nxm_label saved)
{
    bool fired = nxm_label.fired;
    nxm_label.api = saved.api;
    nxm_label.bytes = saved.bytes;
    nxm_label.fired = saved.api && (saved.fired || fired); /* what fired inside, fired inside the outer one too */
    return fired;
}

enum nxm_api nxm_label_take_there(enum nxm_api own, uint64_t bytes)
{
    if (nxm_label.bytes && bytes && nxm_label.bytes != bytes) return own;
    nxm_label.fired = true;
    return (enum nxm_api)nxm_label.api;
}
