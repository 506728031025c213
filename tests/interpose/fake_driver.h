/* A driver under the test's hand: nxm_real is filled with these. Events pass when the test says so. Not thread-safe beyond
 * what the tests need: one thread at a time.
 */
#ifndef FAKE_DRIVER_H
#define FAKE_DRIVER_H

#include <stdbool.h>

#include "interpose/real.h"

struct fake_driver {
    CUcontext current;
    bool passed;              /* what every recorded event answers */
    CUevent only_passed;      /* and this one, whatever `passed` says */
    CUevent first_recorded, last_recorded; /* on streams */
    CUresult record_result;   /* of cuEventRecord and cuCtxRecordEvent */
    CUresult alloc_result;    /* of cuMemAlloc */
    bool capturing;           /* what cuStreamIsCapturing answers */
    CUevent dead_up_to;       /* events that went with their context: no record on them */
    bool context_busy;        /* what the latest record on a context answers, whatever `passed` says */
    bool no_context_record;   /* an older driver: cuCtxRecordEvent is not there */
    unsigned events_made, events_destroyed, records, context_records, queries, waits, context_waits;
    unsigned allocs, frees;
    void (*while_recording)(void); /* called once, from inside the next record on a context */
};

extern struct fake_driver fake;

#define FAKE_CONTEXT ((CUcontext)(uintptr_t)0x1000)
#define OTHER_CONTEXT ((CUcontext)(uintptr_t)0x2000)
#define FAKE_STREAM ((CUstream)(uintptr_t)0x77770)

void fake_driver_reset(void); /* counters to 0, events pass, FAKE_CONTEXT current; fills nxm_real */

#endif
