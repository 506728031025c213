/* The images (program, libraries) that code on a stack was met in, numbered: the same number means the same image, also when
 * another one was mapped at its place in between. Owns their records, for the life of the process; bounded. Any thread; no lock
 * of ours, no malloc; the loader's lock is only taken in nxm_images_prepare and where glibc is older than 2.35.
 */
#ifndef NXM_IMAGES_H
#define NXM_IMAGES_H

#include <stdbool.h>
#include <stdint.h>

#include "eh_frame.h"
#include "image.h"

#define NXM_IMAGES_MAX 2048

struct nxm_known_image {
    struct nxm_image image;     /* its path is ours, its map is not kept: the next time it is loaded it is another */
    uint64_t mark;              /* bytes of its first page that differ from build to build, */
    const uint8_t *mark_at;     /* which lie here */
    struct nxm_eh_frame tables; /* its unwind tables */
    bool tables_strange;        /* it has some that we cannot find */
    bool own;                   /* the code that you are reading is in it */
    bool permanent;             /* it will not be closed: loaded when the program started */
    uint32_t number;            /* from 1 */
    uint32_t next;              /* in its bucket */
};

/* Images looked at during one capture, which cannot be closed while it lasts. Zero at first. */
struct nxm_images_seen {
    const struct nxm_known_image *seen[8];
    unsigned count;
};

/* Finds out which images are there to stay. At first use, outside any lock. */
void nxm_images_prepare(void);

/* The image that the address is in. NULL: none, or no more can be kept. */
const struct nxm_known_image *nxm_images_at(uint64_t address, struct nxm_images_seen *seen);

const struct nxm_known_image *nxm_images_numbered(uint64_t number); /* NULL: never given out */

#endif
