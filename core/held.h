/* That a thread holds no lock of ours (lock.h), where that matters: right before every foreign call. Owns nothing; any thread. */
#ifndef NXM_HELD_H
#define NXM_HELD_H

/* Traps in NXM_LOCK_CHECKS builds when one is held. */
#ifdef NXM_LOCK_CHECKS
void nxm_lock_assert_none(void);
#else
static inline void nxm_lock_assert_none(void) {}
#endif

#endif
