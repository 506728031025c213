/* The entry points that exist and are not simulated: each is a function of its own, counted, and answers
 * CUDA_ERROR_NOT_SUPPORTED. cuda.h stays out: here every one takes whatever it was given. A row that is simulated
 * after all, or a simulated row without a function, fails at link time. */
enum sim_fn {
#define SIM(symbol, base, version, form) SIM_FN_##symbol,
#define STUB(symbol, base, version, form) SIM_FN_##symbol,
#include "sim_api.def"
    SIM_FN_COUNT
};

enum { NOT_SUPPORTED = 801 };

int sim_enter(enum sim_fn fn);

#define SIM(symbol, base, version, form)
#define STUB(symbol, base, version, form)                              \
    __attribute__((visibility("default"))) int symbol(void);           \
    int symbol(void)                                                   \
    {                                                                  \
        int refused = sim_enter(SIM_FN_##symbol);                      \
        return refused ? refused : NOT_SUPPORTED;                      \
    }
#include "sim_api.def"
