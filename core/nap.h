/* Sleeping a little inside the program's own calls. Owns nothing; any thread; no locks. errno is preserved, and it is no
 * cancellation point: CUDA's calls are none, and a thread that ended here would leave what it holds. */
#ifndef NXM_NAP_H
#define NXM_NAP_H

void nxm_nap(long nanoseconds); /* below a second; a signal cuts it short */

#endif
