#include "supply.h"

#include "mem.h"

/* A page that is touched for the first time is some microseconds, a call for more of them too; pieces below 2 MiB are never made
 * one huge page, which takes a hundred. */
#define FIRST_PIECE ((size_t)64 << 10)
#define PIECE ((size_t)512 << 10)

struct nxm_piece {
    struct nxm_piece *next;
    size_t bytes;
    char rest[16];
};

static size_t rounded(size_t bytes)
{
    return (bytes + 31) & ~(size_t)31;
}

static struct nxm_piece *piece_new(struct nxm_supply *supply, size_t bytes)
{
    struct nxm_piece *piece = nxm_mem_map_kept(bytes);

    if (piece == NULL)
        return NULL;
    piece->bytes = bytes;
    piece->next = supply->pieces;
    supply->pieces = piece;
    return piece;
}

static void *cut(struct nxm_supply *supply, size_t bytes)
{
    size_t size = supply->pieces == NULL ? FIRST_PIECE : PIECE;
    struct nxm_piece *piece;
    char *at = supply->at;

    if ((size_t)(supply->end - at) >= bytes) {
        supply->at += bytes;
        return at;
    }
    if (bytes > size / 4) { /* what is left of the latest piece stays for smaller ones */
        piece = piece_new(supply, sizeof *piece + bytes);
        return piece == NULL ? NULL : piece + 1;
    }
    piece = piece_new(supply, size);
    if (piece == NULL)
        return NULL;
    at = (char *)(piece + 1);
    supply->at = at + bytes;
    supply->end = (char *)piece + size;
    return at;
}

void *nxm_supply_take(struct nxm_supply *supply, size_t bytes)
{
    void *memory;

    nxm_spin_acquire(&supply->lock, NXM_RANK_SUPPLY);
    memory = cut(supply, rounded(bytes));
    nxm_spin_release(&supply->lock);
    return memory;
}

static unsigned kind_of(uint64_t length)
{
    return (unsigned)__builtin_ctzll(length);
}

struct nxm_chains *nxm_supply_chains(struct nxm_supply *supply, uint64_t length)
{
    struct nxm_chains **spare = &supply->spare[kind_of(length)], *chains;

    nxm_spin_acquire(&supply->lock, NXM_RANK_SUPPLY);
    chains = *spare;
    if (chains != NULL)
        *spare = chains->next;
    else if ((chains = cut(supply, rounded(sizeof *chains + length * sizeof *chains->heads))) != NULL)
        chains->length = length;
    nxm_spin_release(&supply->lock);
    return chains;
}

void nxm_supply_give(struct nxm_supply *supply, struct nxm_chains *chains)
{
    struct nxm_chains **spare = &supply->spare[kind_of(chains->length)];

    nxm_spin_acquire(&supply->lock, NXM_RANK_SUPPLY);
    chains->next = *spare;
    *spare = chains;
    nxm_spin_release(&supply->lock);
}

void nxm_supply_clear(struct nxm_supply *supply)
{
    while (supply->pieces != NULL) {
        struct nxm_piece *piece = supply->pieces;

        supply->pieces = piece->next;
        nxm_mem_unmap(piece, piece->bytes);
    }
    *supply = (struct nxm_supply){ 0 };
}
