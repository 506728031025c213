/* How a rule ends, in the child process that tries it. The first verdict is final and ends the process, from whatever
 * thread or callback: nothing is cleaned up, for what a broken plugin left cannot be. The page is shared with
 * the parent, and outlives a crash. */
#ifndef NXMEM_CHECK_VERDICT_H
#define NXMEM_CHECK_VERDICT_H

enum verdict { UNFINISHED, PASSED, FAILED, NOT_APPLICABLE };

struct verdict_page {
    enum verdict verdict;
    char why[512];
    char doing[128]; /* what was called last, for the line about a crash */
};

void verdict_attach(struct verdict_page *page); /* borrowed for the life of the process */
_Noreturn void passes(void);
_Noreturn void fails(const char *format, ...) __attribute__((format(printf, 1, 2)));
_Noreturn void skips(const char *format, ...) __attribute__((format(printf, 1, 2)));
void doing(const char *what); /* a slot is about to be called; nothing on other threads than the first */

/* The condition is a duty of the plugin. */
#define EXPECT(condition, ...)                \
    do {                                      \
        if (!(condition)) fails(__VA_ARGS__); \
    } while (0)

/* The condition is what the rule needs in order to be tried. */
#define NEED(condition, ...)                  \
    do {                                      \
        if (!(condition)) skips(__VA_ARGS__); \
    } while (0)

#endif
