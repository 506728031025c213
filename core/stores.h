/* Whether what a thread stores is seen in its order by itself. Owns nothing. */
#ifndef NXM_STORES_H
#define NXM_STORES_H

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

#endif
