/* Where a random sequence takes its choices from: a seed (SplitMix64), or bytes that a fuzzer made. Caller's storage; one
 * thread at a time.
 */
#ifndef CHOICES_H
#define CHOICES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct choices {
    uint64_t state;       /* of the generator */
    const uint8_t *bytes; /* borrowed; NULL: from the generator */
    size_t left;
};

void choices_of_seed(struct choices *choices, uint64_t seed);
void choices_of_bytes(struct choices *choices, const uint8_t *bytes, size_t count); /* zeros when they run out */

bool choices_over(const struct choices *choices); /* never for a seed */
uint64_t choose(struct choices *choices, uint64_t below); /* 0 … below - 1, at most 2^16 for bytes */
bool one_in(struct choices *choices, uint64_t n);

#endif
