/* The loaded image (program or library) that an address belongs to, and its exported symbols. Owns nothing.
 *
 * Any thread; no lock, neither ours nor the loader's (glibc 2.35 and later): a thread that sits in dlopen
 * and waits for us is not waited for. The answer is good while the image is loaded, which a caller on whose
 * stack it is takes for granted.
 */
#ifndef NXM_IMAGE_H
#define NXM_IMAGE_H

#include <stdbool.h>
#include <stdint.h>

struct link_map;

struct nxm_image {
    const struct link_map *map;
    const char *path; /* as the loader knows it; the program's own is /proc/self/exe's target */
    uint64_t base;    /* load address: what offsets in the file are relative to */
    uint64_t start, end;
};

bool nxm_image_at(uint64_t address, struct nxm_image *ret_image);

/* The exported function that `address` lies in. The name is the image's own memory. */
bool nxm_image_symbol(const struct nxm_image *image, uint64_t address, const char **ret_name, uint64_t *ret_value);

#endif
