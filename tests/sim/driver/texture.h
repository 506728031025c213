/* Texture and surface objects: handles that name an array or linear memory. Kernels compute nothing, so nothing reads through
 * them. State lock held. */
#ifndef SIM_TEXTURE_H
#define SIM_TEXTURE_H

struct sim_context;

void sim_texture_close_context(struct sim_context *);

#endif
