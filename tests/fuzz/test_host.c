/* The host as a whole: the input is a sequence of calls and of the plugin's answers, held against the model of
 * tests/unit/stateful/. What this finds can be kept as bytes here; the same machine runs by seed in the unit tests. */
#include "support.h"
#include "tests/unit/stateful/machine.h"

#define STEPS 120

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t length)
{
    struct choices choices;
    const char *fault;

    choices_of_bytes(&choices, data, length);
    fault = machine_run(&choices, STEPS);
    if (fault != NULL)
        fuzz_fail(__FILE__, __LINE__, fault);
    return 0;
}
