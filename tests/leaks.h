/* What a test leaves behind on purpose, told to LeakSanitizer where there is one: allocations between these two are no
 * leaks. Per thread. */
#ifndef TESTS_LEAKS_H
#define TESTS_LEAKS_H

extern void __lsan_disable(void) __attribute__((weak));
extern void __lsan_enable(void) __attribute__((weak));

static inline void leaks_begin(void)
{
    if (__lsan_disable != 0)
        __lsan_disable();
}

static inline void leaks_end(void)
{
    if (__lsan_enable != 0)
        __lsan_enable();
}

#endif
