/* The primary contexts that two device ordinals mean. Takes no lock; any thread. */
#ifndef SIM_RUNTIME_PEER_H
#define SIM_RUNTIME_PEER_H

#include "state.h"

/* Naming a context needs a reference, which is given back after the call. */
cudaError_t rt_peers_retain(int a, int b, CUcontext *ret_a, CUcontext *ret_b);
void rt_peers_release(int a, int b);

#endif
