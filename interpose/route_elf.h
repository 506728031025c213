/* Reading the dynamic section of a loaded object: who defines a name, whom it needs. Owns nothing; every
 * pointer is borrowed from the object and lives as long as it stays mapped; any thread; no locks.
 *
 * Runs before a sanitizer's own start and inside dlsym: no libc call, no TLS, no allocation.
 */
#ifndef NXM_ROUTE_ELF_H
#define NXM_ROUTE_ELF_H

#include <link.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct nxm_elf {
    uintptr_t base;
    const ElfW(Dyn) *dynamic;
    const ElfW(Sym) *symbols;
    const char *strings;
    const uint32_t *gnu_hash;      /* NULL: none */
    const ElfW(Word) *sysv_hash;   /* NULL: none */
    const ElfW(Half) *versions;    /* NULL: none */
    const ElfW(Verneed) *needs;    /* version requirements; NULL: none */
    const char *soname;            /* NULL: none */
};

/* false when the object has no symbol table that could be read. */
bool nxm_elf_open(uintptr_t base, const ElfW(Dyn) *dynamic, struct nxm_elf *ret_elf);

/* Address of the default definition of `name`, as dlsym on that one object would answer; NULL: none here.
 * (The address of an indirect function is that of its resolver: good for "is it defined", not for calling.) */
void *nxm_elf_define(const struct nxm_elf *elf, const char *name);

/* The exported symbol that starts exactly at `address`; NULL: none. */
const char *nxm_elf_name_at(const struct nxm_elf *elf, const void *address);

/* Walks the names that the object leaves to others to define: the one after *cursor (start with 0); NULL at the end. */
const char *nxm_elf_next_reference(const struct nxm_elf *elf, size_t *cursor);

/* The library whose version the object asks for in its reference to `name` (libcudart.so.13); NULL: no
 * reference, or an unversioned one. */
const char *nxm_elf_wanted_library(const struct nxm_elf *elf, const char *name);

/* Walks DT_NEEDED: the entry after *cursor (start with 0); NULL at the end. */
const char *nxm_elf_next_needed(const struct nxm_elf *elf, size_t *cursor);

/* String helpers for the places where libc may not be called. */
size_t nxm_route_length(const char *text);
bool nxm_route_equal(const char *a, const char *b);
bool nxm_route_starts(const char *text, const char *prefix);
const char *nxm_route_basename(const char *path); /* after the last '/' */

#endif
