#include "support.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* A fuzzer closes standard error against the target's own chatter; what a check says must still be seen. */
static int loud = STDERR_FILENO;

__attribute__((constructor)) static void keep_standard_error(void)
{
    int copy = dup(STDERR_FILENO);

    loud = copy < 0 ? STDERR_FILENO : copy;
}

_Noreturn void fuzz_fail(const char *file, int line, const char *condition)
{
    dprintf(loud, "%s:%d: not so: %s\n", file, line, condition);
    abort();
}

uint8_t fuzz_u8(struct fuzz_input *input)
{
    if (input->left == 0)
        return 0;
    input->left--;
    return *input->bytes++;
}

uint32_t fuzz_u32(struct fuzz_input *input)
{
    uint32_t value = 0;

    fuzz_fill(input, &value, sizeof value);
    return value;
}

uint64_t fuzz_u64(struct fuzz_input *input)
{
    uint64_t value = 0;

    fuzz_fill(input, &value, sizeof value);
    return value;
}

bool fuzz_one_in(struct fuzz_input *input, uint8_t n)
{
    return input->left != 0 && fuzz_u8(input) % n == n - 1;
}

void fuzz_fill(struct fuzz_input *input, void *ret_bytes, size_t count)
{
    size_t there = count < input->left ? count : input->left;

    memset(ret_bytes, 0, count);
    if (there == 0)
        return;
    memcpy(ret_bytes, input->bytes, there);
    input->bytes += there;
    input->left -= there;
}

uint64_t fuzz_number(struct fuzz_input *input, uint64_t near)
{
    uint8_t how = fuzz_u8(input);

    switch (how % 5) {
    case 0:
        return near;
    case 1:
        return fuzz_u8(input);
    case 2:
        return near + fuzz_u8(input) % 16 - 8;
    case 3:
        return (UINT64_C(1) << fuzz_u8(input) % 64) - how / 128;
    default:
        return fuzz_u64(input);
    }
}

void *fuzz_exact(const void *source, size_t bytes)
{
    void *block = malloc(bytes == 0 ? 1 : bytes);

    if (block == NULL)
        abort();
    memcpy(block, source, bytes);
    return block;
}

char *fuzz_string(struct fuzz_input *input, size_t most)
{
    size_t length = input->left < most ? input->left : most;
    const uint8_t *nul = length == 0 ? NULL : memchr(input->bytes, '\0', length);
    char *string;

    if (nul != NULL)
        length = (size_t)(nul - input->bytes);
    string = malloc(length + 1);
    if (string == NULL)
        abort();
    fuzz_fill(input, string, length);
    string[length] = '\0';
    fuzz_u8(input); /* the NUL */
    return string;
}
