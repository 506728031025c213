#include "facts.h"

#include "setting.h"

#include <stdatomic.h>
#include <string.h>

static const struct { const char *name; int since, before, from; } rows[SIM_FACT_COUNT] = {
#define FACT(name, since, before, from) { #name, since, before, from },
#include "facts.def"
};

static atomic_int values[SIM_FACT_COUNT];

void sim_facts_read(int version)
{
    for (int i = 0; i < SIM_FACT_COUNT; i++) {
        int by_version = version < rows[i].since ? rows[i].before : rows[i].from;
        sim_fact_put((enum sim_fact)i, sim_setting_fact(rows[i].name, by_version));
    }
}

int sim_fact(enum sim_fact fact)
{
    return atomic_load_explicit(&values[fact], memory_order_relaxed);
}

void sim_fact_put(enum sim_fact fact, int value)
{
    atomic_store_explicit(&values[fact], value, memory_order_relaxed);
}

enum sim_fact sim_fact_find(const char *name)
{
    int i = 0;
    while (i < SIM_FACT_COUNT && strcmp(rows[i].name, name) != 0) i++;
    return (enum sim_fact)i;
}

const char *sim_fact_name_at(size_t index)
{
    return index < SIM_FACT_COUNT ? rows[index].name : NULL;
}
