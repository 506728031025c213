/* The fixture of driver_fixture.h on the misbehaving plugin, and its counters. */
#ifndef TESTS_PLUGINS_FAULTY_FIXTURE_H
#define TESTS_PLUGINS_FAULTY_FIXTURE_H

#include <stdbool.h>

#include "tests/plugins/driver_fixture.h"

#define FAULTY "tests/plugins/faulty.so"

/* One of NxmemFaulty...; asserts that it is exported. */
uint64_t faulty_counter(const struct fixture *f, const char *name);

void faulty_open(struct fixture *f, const char *mechanism, bool companion);
/* Asserts that nothing was called through a vtable that had to be refused. */
void faulty_close(struct fixture *f);

#endif
