/* For preloaded test libraries: whether a call comes from the shim. Looked up once, by a constructor. */
#ifndef INSIDE_SHIM_H
#define INSIDE_SHIM_H

#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <link.h>
#include <stdint.h>
#include <string.h>

#define SHOWN __attribute__((visibility("default")))

static uintptr_t first, end; /* the shim's code */

static int look_for_shim(struct dl_phdr_info *info, size_t size, void *unused)
{
    (void)size, (void)unused;
    if (!info->dlpi_name || !strstr(info->dlpi_name, "libnxmem_preload"))
        return 0;
    for (int i = 0; i < info->dlpi_phnum; i++) {
        if (info->dlpi_phdr[i].p_type != PT_LOAD || !(info->dlpi_phdr[i].p_flags & PF_X))
            continue;
        first = info->dlpi_addr + info->dlpi_phdr[i].p_vaddr;
        end = first + info->dlpi_phdr[i].p_memsz;
    }
    return 1;
}

static int is_inside_shim(const void *caller)
{
    return (uintptr_t)caller - first < end - first;
}

#endif
