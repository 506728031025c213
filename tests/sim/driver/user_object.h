/* User objects: what a program wants to outlive the graphs that use it. Graphs and executable graphs hold references; the
 * destructor runs on a thread of the driver's own when the last reference is gone and the launches that it was for are
 * over. State lock held. */
#ifndef SIM_USER_OBJECT_H
#define SIM_USER_OBJECT_H

#include "object.h"
#include "work.h"

/* A graph, or what is made of one, with this id ends: its references are given back once `after` is passed (NULL: now). */
void sim_user_objects_drop(uint64_t holder, const struct sim_deps *after);
/* What is made of it holds as many. */
void sim_user_objects_copy(uint64_t from, uint64_t to);
/* Has the program references of its own to it? */
bool sim_user_object_is_programs(const struct sim_object *);

#endif
