/* Events that two processes know: a page of their own says how often they were recorded and which record happened.
 * State lock held, except where it says otherwise. */
#ifndef SIM_EVENT_SHARE_H
#define SIM_EVENT_SHARE_H

#include "event.h"

struct sim_event_page;

/* From the event's making on: what was recorded before it was exported counts too. NULL when out of memory. */
struct sim_event_page *sim_event_page_new(void);

/* The number of a record that begins now. */
uint64_t sim_event_page_record(struct sim_event_page *);
/* That record has happened. */
void sim_event_page_done(struct sim_event_page *, uint64_t record);
/* What it is behind: from now on the other processes may answer it, with an event or by telling the program. */
void sim_event_page_give(struct sim_event_page *, uint64_t record, const struct sim_points *known);
/* What all such records were behind; so may be whatever another process recorded. */
const struct sim_points *sim_event_given(void);
/* The program knows by now what the other processes have seen. */
void sim_event_pages_look(void);
/* The latest record of any process, and whether another's has happened, which it is told then. No lock needed. */
uint64_t sim_event_page_latest(const struct sim_event_page *);
bool sim_event_page_passed(struct sim_event_page *, uint64_t record);
/* Waits for it, by looking again and again. No lock may be held. */
void sim_event_page_wait(struct sim_event_page *, uint64_t record);
void sim_event_page_close(struct sim_event_page *);

/* Is the event's latest record another process's, so that only its page knows? */
bool sim_event_is_remote(const struct sim_event *);

#endif
