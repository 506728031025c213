/* A libcuda.so.1 that does nothing but write down what it is asked for. */
#ifndef SIM_RECORDER_H
#define SIM_RECORDER_H

enum recorder_door { DOOR_SYMBOL, DOOR_RESOLVER }; /* the exported function; the one that it hands out for itself */

struct recorder_question {
    char name[64];
    int version;
    unsigned long long flags;
    enum recorder_door door;
};

/* Borrowed, in the order asked. Not for use while another thread asks. */
const struct recorder_question *recorder_questions(int *ret_count);

#endif
