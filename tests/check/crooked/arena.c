/* Places in an arena, by granules; what is freed is given again, rightly but for the chosen fault. First fit. */
#include <sys/mman.h>

#include "crooked.h"

enum { GRANULES_IN_ALL = 1 << 17, FREE_PLACES = 4096 };

struct place {
    unsigned first, count;
};

static pthread_mutex_t arena_lock = PTHREAD_MUTEX_INITIALIZER;
static uint8_t *arena;
static unsigned used;                          /* granules that were ever given */
static unsigned given[GRANULES_IN_ALL];        /* to what begins there; 0: nothing */
static struct place places[FREE_PLACES];       /* free, by address */
static unsigned place_count;

static bool is_chosen(void) {
    return WHEN(PLACE_UNMEASURED) || WHEN(REST_EARLY) || WHEN(MERGES_OVER) || WHEN(QUEUED_REUSED);
}

static void remove_place(unsigned index) {
    place_count--;
    for (unsigned i = index; i < place_count; i++) places[i] = places[i + 1];
}

/* The first granule of so many; GRANULES_IN_ALL when there is none. */
static unsigned find_place(unsigned count) {
    unsigned first = used;
    for (unsigned i = 0; i < place_count; i++) {
        if (places[i].count < count && !WHEN(PLACE_UNMEASURED)) continue;
        first = places[i].first;
        if (places[i].count <= count) {
            remove_place(i);
            return first;
        }
        if (!WHEN(REST_EARLY)) places[i].first += count;
        places[i].count -= count;
        return first;
    }
    if (count > GRANULES_IN_ALL - used) return GRANULES_IN_ALL;
    used += count;
    return first;
}

void *arena_give(uint64_t align, uint64_t bytes) {
    uint64_t count = (bytes + GRANULE - 1) / GRANULE;
    uint8_t *memory = NULL;
    if (!is_chosen() || align > GRANULE || count == 0 || count > GRANULES_IN_ALL) return NULL;
    pthread_mutex_lock(&arena_lock);
    if (!arena) arena = mmap(NULL, (size_t)GRANULES_IN_ALL * GRANULE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    unsigned first = find_place((unsigned)count);
    if (first < GRANULES_IN_ALL) {
        memory = arena + (size_t)first * GRANULE;
        given[first] = (unsigned)count;
    }
    pthread_mutex_unlock(&arena_lock);
    return memory;
}

/* Two neighbours on the list are one place when nothing lies between them. */
static void merge_behind(unsigned index) {
    if (index + 1 >= place_count) return;
    struct place *place = &places[index], *next = &places[index + 1];
    unsigned gap = next->first - (place->first + place->count);
    if (gap > 0 && !(WHEN(MERGES_OVER) && gap <= 1)) return;
    place->count += gap + next->count;
    remove_place(index + 1);
}

bool arena_take_back(void *memory) {
    if (!arena || (uint8_t *)memory < arena || (uint8_t *)memory >= arena + (size_t)GRANULES_IN_ALL * GRANULE) return false;
    unsigned first = (unsigned)((size_t)((uint8_t *)memory - arena) / GRANULE), at = 0;
    pthread_mutex_lock(&arena_lock);
    if (given[first] > 0 && place_count < FREE_PLACES) {
        while (at < place_count && places[at].first < first) at++;
        for (unsigned i = place_count++; i > at; i--) places[i] = places[i - 1];
        places[at] = (struct place){first, given[first]};
        given[first] = 0;
        if (!WHEN(REST_EARLY)) { /* merged again, they would lie over one another in every other rule too */
            merge_behind(at);
            if (at > 0) merge_behind(at - 1);
        }
    }
    pthread_mutex_unlock(&arena_lock);
    return true;
}
