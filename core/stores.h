/* Whether what a thread stores is seen in its order by itself, and reads of single words that compilers make two instructions of where
 * one is enough. Owns nothing. */
#ifndef NXM_STORES_H
#define NXM_STORES_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/* On x86 it is, plain stores too; but a sanitizer of threads wants to be told: gcc says by a macro that there is one, clang by a
 * feature. */
#if !defined(__x86_64__) || defined(__SANITIZE_THREAD__)
#define NXM_STORES_IN_ORDER 0
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define NXM_STORES_IN_ORDER 0
#else
#define NXM_STORES_IN_ORDER 1
#endif
#else
#define NXM_STORES_IN_ORDER 1
#endif

/* Read with acquire. */
static inline bool nxm_load_is_set(const atomic_bool *flag)
{
#if NXM_STORES_IN_ORDER
    bool set;

    __asm__ volatile("cmpb $0, %1" : "=@ccne"(set) : "m"(*flag) : "memory");
    return set;
#else
    return atomic_load_explicit(flag, memory_order_acquire);
#endif
}

static inline bool nxm_load_is(const _Atomic uint64_t *word, uint64_t value)
{
#if NXM_STORES_IN_ORDER
    bool is;

    __asm__ volatile("cmpq %2, %1" : "=@cce"(is) : "m"(*word), "er"(value) : "memory");
    return is;
#else
    return atomic_load_explicit(word, memory_order_acquire) == value;
#endif
}

static inline bool nxm_load_is_32(const _Atomic uint32_t *word, uint32_t value)
{
#if NXM_STORES_IN_ORDER
    bool is;

    __asm__ volatile("cmpl %2, %1" : "=@cce"(is) : "m"(*word), "ir"(value) : "memory");
    return is;
#else
    return atomic_load_explicit(word, memory_order_acquire) == value;
#endif
}

static inline bool nxm_load_exceeds(const _Atomic uint64_t *word, uint32_t most)
{
#if NXM_STORES_IN_ORDER
    bool exceeds;

    __asm__ volatile("cmpq %2, %1" : "=@cca"(exceeds) : "m"(*word), "er"((uint64_t)most) : "memory");
    return exceeds;
#else
    return atomic_load_explicit(word, memory_order_acquire) > most;
#endif
}

#endif
