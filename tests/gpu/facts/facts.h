/* What the questions share. Each question runs in a process of its own, with a primary context current; what it
 * answers is printed as "name: value". */
#ifndef FACTS_H
#define FACTS_H

#include <cuda.h>
#include <stdatomic.h>
#include <stdbool.h>

/* Ends the question without an answer. */
_Noreturn void unknown(const char *why, int code);
/* The call is none of the question's business: it must work. */
#define MUST(call)                                    \
    do {                                              \
        CUresult code_ = (call);                      \
        if (code_ != CUDA_SUCCESS) unknown(#call, (int)code_); \
    } while (0)

CUstream new_stream(void);

/* A host function waits in the stream until the gate opens: the device "has not got there yet". */
struct gate {
    atomic_int open;
};
void close_stream(CUstream, struct gate *);
/* Calls in another thread, in the same context; opens the gate once it returned, or did not in a second. Did it wait? */
bool waits(struct gate *, CUresult (*call)(void *arg), void *arg);
/* Calls in another thread and in the same context; its code. */
CUresult elsewhere(CUresult (*call)(void *arg), void *arg);

/* The questions, by subject. An answer is a small number. */
struct question {
    const char *name;
    int (*ask)(void);
};
extern const struct question memory_questions[], order_questions[], capture_questions[];
/* Prints one line for each call, mode and thread: "capture.CALL.MODE.THREAD: CODE intact|broken". */
void capture_matrix(void);
/* Whether the runtime's exit leaves its primary context behind is seen after main. */
void ask_runtime(void);

#endif
