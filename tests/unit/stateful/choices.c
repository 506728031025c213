#include "choices.h"

void choices_of_seed(struct choices *choices, uint64_t seed)
{
    *choices = (struct choices){ .state = seed };
}

void choices_of_bytes(struct choices *choices, const uint8_t *bytes, size_t count)
{
    *choices = (struct choices){ .bytes = bytes, .left = count };
}

bool choices_over(const struct choices *choices)
{
    return choices->bytes != NULL && choices->left == 0;
}

static uint64_t next_of_seed(struct choices *choices)
{
    uint64_t z = choices->state += UINT64_C(0x9E3779B97F4A7C15);

    z = (z ^ (z >> 30)) * UINT64_C(0xBF58476D1CE4E5B9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94D049BB133111EB);
    return z ^ (z >> 31);
}

static uint64_t next_byte(struct choices *choices)
{
    if (choices->left == 0)
        return 0;
    choices->left--;
    return *choices->bytes++;
}

uint64_t choose(struct choices *choices, uint64_t below)
{
    uint64_t value;

    if (choices->bytes == NULL)
        return next_of_seed(choices) % below;
    value = next_byte(choices);
    if (below > 256)
        value |= next_byte(choices) << 8;
    return value % below;
}

bool one_in(struct choices *choices, uint64_t n)
{
    return choose(choices, n) == n - 1;
}
