/* Forks and what must not be cut in two by one: while a plugin is loaded and functions are registered for exit, locks of libc's own are
 * taken, which a child would find taken for ever (its exit hangs). Owns a count and a flag; any thread.
 *
 * Whoever forks counts itself first and looks at the flag second; whoever begins raises the flag first and looks at the count second:
 * one of the two always sees the other. Both waits are bounded: what a plugin waits for while it is loaded may be a fork. Neither is
 * a cancellation point: fork is none. Another library's handler of a fork may be the first to allocate: its thread does not wait for
 * that fork.
 */
#ifndef NXM_FORKS_H
#define NXM_FORKS_H

/* Around what no fork of another thread may cut in two. One thread, once; its own forks are not held up. */
void nxm_forks_hold(void);
void nxm_forks_let(void);

/* The handlers of a fork. */
void nxm_forks_before(void);
void nxm_forks_in_parent(void);
void nxm_forks_in_child(void);

#endif
