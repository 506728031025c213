/* Random sequences of host calls against a plugin that answers at random, checked against the model after each. For the
 * fake plugin (support/fake.h) in a process of their own: modules are pinned and counted for its life.
 */
#ifndef MACHINE_H
#define MACHINE_H

#include "choices.h"

/* Runs up to `steps` operations, then ends everything: what is queued completes, what is open closes, what is loaded is
 * unloaded. NULL, or what was not as it must be (static storage). After a fault nothing is cleaned up. */
const char *machine_run(struct choices *choices, unsigned steps);

#endif
