#include "visible.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void sim_device_uuid(int physical, CUuuid *ret_uuid)
{
    memcpy(ret_uuid->bytes, "simulated-gpu-00", sizeof ret_uuid->bytes);
    ret_uuid->bytes[14] = (char)('0' + physical / 10);
    ret_uuid->bytes[15] = (char)('0' + physical % 10);
    /* what differs comes first, so that a short beginning tells devices apart */
    ret_uuid->bytes[0] = (char)(0xa0 + physical);
}

void sim_device_uuid_text(int physical, char *ret_text)
{
    CUuuid uuid;
    sim_device_uuid(physical, &uuid);
    char *at = ret_text + sprintf(ret_text, "GPU-");
    for (int i = 0; i < 16; i++)
        at += sprintf(at, "%s%02x", i == 4 || i == 6 || i == 8 || i == 10 ? "-" : "", (unsigned char)uuid.bytes[i]);
}

/* The one device whose UUID begins like this, or -1. */
static int by_uuid(const char *text, size_t length, int count)
{
    int found = -1;
    char uuid[48];
    for (int i = 0; i < count; i++) {
        sim_device_uuid_text(i, uuid);
        if (strncmp(uuid, text, length) != 0) continue;
        if (found >= 0) return -1;
        found = i;
    }
    return found;
}

static int parse(const char *entry, size_t length, int count)
{
    char *end;
    if (length > 4 && strncmp(entry, "GPU-", 4) == 0) return by_uuid(entry, length, count);
    long n = strtol(entry, &end, 10);
    return end == entry + length && length && n >= 0 && n < count ? (int)n : -1;
}

int sim_visible_devices(int count, int *ret_physical)
{
    const char *list = getenv("CUDA_VISIBLE_DEVICES");
    int visible = 0;
    unsigned seen = 0;
    if (!list) {
        for (int i = 0; i < count; i++) ret_physical[i] = i;
        return count;
    }
    for (const char *at = list;; at++) {
        at += strspn(at, " ");
        size_t length = strcspn(at, ", ");
        int n = parse(at, length, count);
        if (n < 0 || seen >> n & 1) return visible;
        seen |= 1u << n;
        ret_physical[visible++] = n;
        at += length;
        at += strspn(at, " ");
        if (*at != ',') return visible;
    }
}
