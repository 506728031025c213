/* Runs one target over files: those named, or, for a program test_NAME, the committed corpus/NAME. Each file is a test; a
 * check that fails aborts, and the file at which it did is named. Run from the top of the tree. */
#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "support.h"

#define INPUT_MAX (1u << 20)

static char current[1024];

static void name_it(int signal_number)
{
    static const char words[] = "not ok - ";

    if (write(STDOUT_FILENO, words, sizeof words - 1) > 0 && write(STDOUT_FILENO, current, strlen(current)) > 0 &&
        write(STDOUT_FILENO, "\n", 1) > 0)
        signal(signal_number, SIG_DFL);
    raise(signal_number);
}

/* In an exact block: the target may not look behind its input either. */
static void replay(const char *path)
{
    static uint8_t whole[INPUT_MAX];
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t length = fd < 0 ? -1 : read(fd, whole, sizeof whole);
    uint8_t *input;

    if (length < 0) {
        perror(path);
        exit(1);
    }
    close(fd);
    input = fuzz_exact(whole, (size_t)length);
    LLVMFuzzerTestOneInput(input, (size_t)length);
    free(input);
    printf("ok - %s\n", current);
    fflush(stdout);
}

static int visible(const struct dirent *entry)
{
    return entry->d_name[0] != '.';
}

static int replay_folder(const char *folder)
{
    struct dirent **entries;
    int count = scandir(folder, &entries, visible, alphasort);
    char path[2048];

    if (count <= 0) {
        fprintf(stderr, "%s: no corpus there\n", folder);
        return 1;
    }
    for (int i = 0; i < count; i++) {
        snprintf(current, sizeof current, "%s", entries[i]->d_name);
        snprintf(path, sizeof path, "%s/%s", folder, entries[i]->d_name);
        replay(path);
        free(entries[i]);
    }
    free(entries);
    return 0;
}

int main(int argc, char **argv)
{
    const char *name = strstr(argv[0], "/test_");
    char folder[256];

    signal(SIGABRT, name_it);
    snprintf(folder, sizeof folder, FUZZ_CORPUS "/%s", name == NULL ? "" : name + 6);
    if (argc < 2)
        return replay_folder(folder);
    for (int i = 1; i < argc; i++) {
        snprintf(current, sizeof current, "%s", argv[i]);
        replay(argv[i]);
    }
    return 0;
}
