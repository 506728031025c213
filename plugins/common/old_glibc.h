/* Included before every source of the plugins: the names that glibc 2.34 took over from libdl and libpthread, as they were before,
 * so that a plugin built on today's machine loads on those with glibc 2.17. The process has both libraries there: its driver
 * needs them. */
#if defined(__linux__) && (defined(__x86_64__) || defined(__aarch64__))
#include <features.h>
#ifdef __GLIBC__
#ifdef __x86_64__
#define NXP_OLD(name) __asm__(".symver " #name ", " #name "@GLIBC_2.2.5")
#else
#define NXP_OLD(name) __asm__(".symver " #name ", " #name "@GLIBC_2.17")
#endif
NXP_OLD(dlopen);
NXP_OLD(dlsym);
NXP_OLD(dlclose);
NXP_OLD(pthread_once);
NXP_OLD(pthread_rwlock_init);
NXP_OLD(pthread_rwlock_destroy);
NXP_OLD(pthread_rwlock_rdlock);
NXP_OLD(pthread_rwlock_wrlock);
NXP_OLD(pthread_rwlock_unlock);
#endif
#endif
