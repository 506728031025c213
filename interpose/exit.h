/* The two moments of exit (docs/architecture.md, "Exit"). Owns the record of what the gate decided. The shim makes no
 * CUDA call in either; after X1 no plugin slot is entered.
 */
#ifndef NXM_EXIT_H
#define NXM_EXIT_H

/* Registers X1, right after the plugin was loaded, and remembers whose process this is. X2 is registered by the
 * library's constructor, so that it runs after every destructor. */
void nxm_exit_register(void);

#endif
