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
/* The latest record of any process, and whether one has happened. No lock needed. */
uint64_t sim_event_page_latest(const struct sim_event_page *);
bool sim_event_page_passed(const struct sim_event_page *, uint64_t record);
/* Waits for it, by looking again and again. No lock may be held. */
void sim_event_page_wait(const struct sim_event_page *, uint64_t record);
void sim_event_page_close(struct sim_event_page *);

/* Is the event's latest record another process's, so that only its page knows? */
bool sim_event_is_remote(const struct sim_event *);

#endif
