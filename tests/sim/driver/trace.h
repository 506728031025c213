/* Who did something, and when: a call, a thread and the logical clock. */
#ifndef SIM_TRACE_H
#define SIM_TRACE_H

#include "api.h"

struct sim_trace {
    enum sim_fn fn;   /* SIM_FN_COUNT: nobody */
    unsigned thread;
    uint64_t clock;
};

#endif
