/* Flags: values in memory that streams write and wait for. CUDA sees no order in them, the program does: a wait that is
 * satisfied is behind the write that it saw. Which one that is shows only when the wait runs; until then a wait stands
 * in the sets of order.h as a track of its own, and what would be an accusation is put off. Owns the record of the latest
 * writes and what is put off. State lock held. */
#ifndef SIM_FLAG_H
#define SIM_FLAG_H

#include "finding.h"
#include "order.h"

/* What a wait's track stands for. */
struct sim_flag_wait {
    bool over;                /* it has run */
    struct sim_points behind; /* then: what it turned out to be behind */
};

/* A write, or a wait, becomes the last of its stream. */
void sim_flag_queued(struct sim_stream *, struct sim_work *);
/* Is the wait's condition met, or is it futile to look? */
bool sim_flag_ready(const struct sim_work *);
/* The write happens; the wait is over. They take what sim_flag_queued gave. */
void sim_flag_write(struct sim_work *);
void sim_flag_seen(struct sim_work *);
/* Other work has run that may have written its blocks. */
void sim_flag_touched(const struct sim_work *);

/* Has any wait been queued, ever? Without one the following need not be asked. */
extern bool sim_flag_waits;
/* The place in a track that the set is behind, by itself or by its waits. */
uint64_t sim_flag_place(const struct sim_points *, const struct sim_track *);
/* Puts the places in for the waits that are over. */
void sim_flag_fold(struct sim_points *);
/* The accusation waits for those waits of `known` that have not run: one of them may turn out to be behind `other`. False
 * when there is none. */
bool sim_flag_defer(const struct sim_points *known, enum sim_finding, const struct sim_work *, struct sim_block *,
                    const struct sim_point *other);
/* The program has come to know more of a track. */
void sim_flag_observed(const struct sim_track *);
void sim_flag_wait_free(struct sim_flag_wait *);

#endif
