/* The schedule: who runs the work of streams, and when. Without a seed every stream has a worker thread. With one
 * there are none: ready pieces of work run inside the program's own calls, a random number of them on the way in and
 * as many as it takes in a call that waits, in an order that only the seed decides. The same single-threaded program
 * and the same seed give the same order. Host functions still run on a thread that is not the program's. */
#ifndef SIM_SCHEDULE_H
#define SIM_SCHEDULE_H

#include <stdbool.h>
#include <stdint.h>

struct sim_stream;

/* A seed other than 0 starts its schedule from the beginning; 0 gives streams their threads back. State lock held. */
void sim_schedule_seed(uint64_t seed);
bool sim_schedule_seeded(void); /* no lock needed */
/* The stream has work: from now on its pieces are among those to choose from. State lock held. */
void sim_schedule_enter(struct sim_stream *);
/* Runs one ready piece, if there is one and the schedule is seeded. State lock held; it is away meanwhile. */
bool sim_schedule_step(void);
/* Does the schedule wait for a value in memory, whose change nobody announces? State lock held. */
bool sim_schedule_looks(void);
/* What a held stream may do for its steps, as far as it can now. State lock held; it is away meanwhile. */
void sim_schedule_run_steps(struct sim_stream *);
/* A call of the program begins: the device gets on with its work. Takes the state lock. */
void sim_schedule_breathe(void);

/* Pieces of work done since the driver was loaded. State lock held, except by the first. */
uint64_t sim_schedule_clock(void);
void sim_schedule_tick(void);

#endif
