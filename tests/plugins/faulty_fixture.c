#include "tests/plugins/faulty_fixture.h"

#include <dlfcn.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

uint64_t faulty_counter(const struct fixture *f, const char *name)
{
    uint64_t (*function)(void);
    void *found = dlsym(f->plugin.library, name);

    assert_non_null(found);
    memcpy(&function, &found, sizeof function);
    return function();
}

void faulty_open(struct fixture *f, const char *mechanism, bool companion)
{
    setenv("NXMEM_FAULTY_COMPANION", companion ? "1" : "0", 1);
    fixture_open(f, FAULTY, mechanism);
    unsetenv("NXMEM_FAULTY_COMPANION");
}

void faulty_close(struct fixture *f)
{
    assert_int_equal(faulty_counter(f, "NxmemFaultyForbiddenCalls"), 0);
    fixture_close(f);
}
