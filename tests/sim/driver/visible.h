/* Which of the machine's devices a process sees, and in which order: CUDA_VISIBLE_DEVICES, read when the driver
 * starts. */
#ifndef SIM_VISIBLE_H
#define SIM_VISIBLE_H

#include "api.h"

/* The physical numbers of the visible devices, among `count` of them; returns how many. As documented, the list ends at the
 * first entry that names no device; an entry is a number or the beginning of a UUID ("GPU-73696d75") that fits one
 * device only. A device that is named twice ends the list as well. */
int sim_visible_devices(int count, int *ret_physical);

/* The identity of a physical device. */
void sim_device_uuid(int physical, CUuuid *ret_uuid);
/* "GPU-" and the UUID in its usual form; 41 bytes with the end. */
void sim_device_uuid_text(int physical, char *ret_text);

#endif
