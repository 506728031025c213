#include "supply.h"

#include "mem.h"

/* A page that is touched for the first time is some microseconds, a call for more of them too; pieces below 2 MiB are never made
 * one huge page, which takes a hundred. */
#define FIRST_PIECE ((size_t)64 << 10)
#define PIECE ((size_t)512 << 10)
#define PAGE 4096u
#define AHEAD (8 * PAGE) /* what stands ready */

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

static bool stock_new(struct nxm_supply *supply, struct nxm_stock *stock, size_t size)
{
    struct nxm_piece *piece = piece_new(supply, size);

    if (piece == NULL)
        return false;
    stock->at = stock->touched = (char *)(piece + 1);
    stock->end = (char *)piece + size;
    return true;
}

static size_t left_in(const struct nxm_stock *stock)
{
    return (size_t)(stock->end - stock->at);
}

static void *cut(struct nxm_supply *supply, size_t bytes)
{
    size_t size = supply->pieces == NULL ? FIRST_PIECE : PIECE;
    char *at;

    if (left_in(&supply->now) < bytes) {
        if (bytes > size / 4) { /* what is left of the latest piece stays for smaller ones */
            struct nxm_piece *piece = piece_new(supply, sizeof *piece + bytes);
            return piece == NULL ? NULL : piece + 1;
        }
        if (supply->next.at == NULL && !stock_new(supply, &supply->next, size))
            return NULL;
        supply->now = supply->next;
        supply->next = (struct nxm_stock){ 0 };
    }
    at = supply->now.at;
    supply->now.at += bytes;
    return at;
}

/* The page that comes after what has been touched and what has been cut: nobody has any of it that is written to. False: there is none. */
static bool touch(struct nxm_stock *stock)
{
    if (stock->touched < stock->at)
        stock->touched = stock->at;
    if (stock->touched == stock->end)
        return false;
    *(volatile char *)stock->touched = 0;
    stock->touched += PAGE - (uintptr_t)stock->touched % PAGE;
    return true;
}

static size_t ahead_in(const struct nxm_stock *stock)
{
    return stock->touched > stock->at ? (size_t)(stock->touched - stock->at) : 0;
}

static bool wants_more(const struct nxm_supply *supply)
{
    bool is_large = supply->pieces != NULL && supply->pieces->next != NULL;

    return is_large && ahead_in(&supply->now) + ahead_in(&supply->next) < AHEAD;
}

void nxm_supply_touch_ahead(struct nxm_supply *supply)
{
    nxm_spin_acquire(&supply->lock, NXM_RANK_SUPPLY);
    if (wants_more(supply) && !touch(&supply->now)) {
        if (supply->next.at != NULL)
            touch(&supply->next);
        else
            stock_new(supply, &supply->next, PIECE); /* or not: who needs it tries again */
    }
    nxm_spin_release(&supply->lock);
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
