/* What fuzz targets share: taking values from an input, exact blocks, and a check that ends the process, which is
 * how a fuzzer is told. A target is one function, LLVMFuzzerTestOneInput, so libFuzzer and AFL++ drive it as it is;
 * replay.c drives it over its committed corpus. Not for threads.
 */
#ifndef FUZZ_SUPPORT_H
#define FUZZ_SUPPORT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

/* Says where on the standard error the process was started with, then aborts. */
#define FUZZ_CHECK(condition) ((condition) ? (void)0 : fuzz_fail(__FILE__, __LINE__, #condition))
_Noreturn void fuzz_fail(const char *file, int line, const char *condition);

/* An input that has run out goes on as zeros. */
struct fuzz_input {
    const uint8_t *bytes;
    size_t left;
};

uint8_t fuzz_u8(struct fuzz_input *input);
uint32_t fuzz_u32(struct fuzz_input *input);
uint64_t fuzz_u64(struct fuzz_input *input);
bool fuzz_one_in(struct fuzz_input *input, uint8_t n); /* false once the input has run out */
void fuzz_fill(struct fuzz_input *input, void *ret_bytes, size_t count);

/* A number that is small, near `near`, a power of two or anything: where bounds are. */
uint64_t fuzz_number(struct fuzz_input *input, uint64_t near);

/* The first `bytes` of *source in a heap block of exactly that size, so that a sanitizer sees one byte too many. Owned by
 * the caller (free). At least one byte. */
void *fuzz_exact(const void *source, size_t bytes);

/* The input's rest as a string, cut at its first NUL, in an exact block. Owned by the caller. */
char *fuzz_string(struct fuzz_input *input, size_t most);

#endif
