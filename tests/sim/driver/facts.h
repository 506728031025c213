/* The switches of facts.def. Read and set from any thread, without a lock. */
#ifndef SIM_FACTS_H
#define SIM_FACTS_H

#include <stddef.h>

enum sim_fact {
#define FACT(name, since, before, from) SIM_FACT_##name,
#include "facts.def"
    SIM_FACT_COUNT
};

/* Defaults of a driver version, then what the environment says. */
void sim_facts_read(int version);
int sim_fact(enum sim_fact);
/* By name: SIM_FACT_COUNT when there is none. */
enum sim_fact sim_fact_find(const char *name);
void sim_fact_put(enum sim_fact, int value);
/* NULL past the end. */
const char *sim_fact_name_at(size_t index);

#endif
