/* nxmem-report: makes the exit report of a process from its journal (core/journal.h), after the process ended in whatever way.
 * The tables are looked at by a child process: a damaged journal ends that, and not the message. */
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/journal.h"
#include "core/output.h"
#include "core/suppressions.h"

static const struct option options[] = {
    { "format", required_argument, NULL, 'f' },
    { "suppressions", required_argument, NULL, 's' },
    { "output", required_argument, NULL, 'o' },
    { "help", no_argument, NULL, 'h' },
    { "version", no_argument, NULL, 'V' },
    { NULL, 0, NULL, 0 },
};

static const char usage[] =
    "Usage: nxmem-report [options] JOURNAL\n"
    "Makes the report of a process that ran with NXMEM_JOURNAL=JOURNAL, also when it\n"
    "was killed.\n"
    "\n"
    "  -f, --format text|json       [text]\n"
    "  -s, --suppressions FILE      leaks to leave out (LeakSanitizer syntax)\n"
    "  -o, --output FILE            [standard output]\n"
    "      --help, --version\n"
    "\n"
    "Exit status: 0 with a report, 1 when the journal is damaged inside, 2 when it\n"
    "cannot be read or is cut short, when the report cannot be written, or an option\n"
    "will not do.\n";

/* A damaged table may go round in circles; a sound one of ten million blocks takes a few seconds. */
enum { LONGEST_SECONDS = 120 };

struct wish {
    enum nxm_report_format format;
    const char *suppressions, *output, *path;
};

/* --- arguments ------------------------------------------------------------------------------------------------- */

static int refuse(const char *what, const char *why)
{
    fprintf(stderr, "nxmem-report: %s: %s\n", what, why);
    return 2;
}

/* In our words: getopt's begin with however this was called. */
static int refuse_option(int answer, char **argv)
{
    const char *word = argv[optind - 1];
    char letter[] = { '-', (char)optopt, '\0' };

    if (answer == ':')
        return refuse(word, "this option needs a value; see nxmem-report --help");
    for (const struct option *known = options; optopt != 0 && known->name != NULL; known++)
        if (known->val == optopt && known->has_arg == no_argument)
            return refuse(word, "this option takes no value; see nxmem-report --help");
    return refuse(optopt != 0 ? letter : word, "no such option; see nxmem-report --help");
}

static int parse(int argc, char **argv, struct wish *ret_wish)
{
    int option;

    while ((option = getopt_long(argc, argv, ":f:s:o:hV", options, NULL)) != -1) {
        switch (option) {
        case 'f':
            if (strcmp(optarg, "text") != 0 && strcmp(optarg, "json") != 0)
                return refuse(optarg, "no format: text or json");
            ret_wish->format = strcmp(optarg, "json") == 0 ? NXM_REPORT_JSON : NXM_REPORT_TEXT;
            break;
        case 's':
            ret_wish->suppressions = optarg;
            break;
        case 'o':
            ret_wish->output = optarg;
            break;
        case 'h':
            fputs(usage, stdout);
            exit(0);
        case 'V':
            puts("nxmem-report " NXM_VERSION);
            exit(0);
        default:
            return refuse_option(option, argv);
        }
    }
    if (optind + 1 != argc)
        return refuse(optind == argc ? "no journal is named" : argv[optind + 1],
                      optind == argc ? "try nxmem-report --help" : "one journal at a time");
    ret_wish->path = argv[optind];
    return 0;
}

/* --- the report ---------------------------------------------------------------------------------------------------- */

static bool is_running(const struct nxm_journal *journal)
{
    return kill(journal->pid, 0) == 0 || errno == EPERM;
}

static const char *note_of(struct nxm_journal *journal)
{
    if (atomic_load(&journal->arena.missed) != 0)
        return "the journal was full: what came after is not in it, and the sums are too small (NXMEM_JOURNAL_SIZE)";
    if (atomic_load(&journal->ended))
        return NULL; /* it wrote the very same */
    if (is_running(journal))
        return "from a journal: a process of this number is running, this is how it stands";
    return "from a journal: the process ended without a report";
}

/* In the child. */
static int write_report(int journal_fd, int fd, const struct wish *wish)
{
    struct nxm_suppressions *suppressions = NULL;
    struct nxm_journal *journal;
    struct nxm_report report;
    struct nxm_error error = { 0 };

    if (wish->suppressions != NULL && nxm_suppressions_load(wish->suppressions, &suppressions) != NXM_OK)
        return 2;
    if (nxm_journal_open(journal_fd, &journal, &error) != NXM_OK)
        return refuse(wish->path, error.text);
    nxm_journal_report(journal, suppressions, &report);
    report.note = note_of(journal);
    return nxm_report_write(fd, &report, wish->format) == NXM_EINVAL ? 2 : 0;
}

static bool is_the_journal(int journal, const char *path)
{
    struct stat a, b;

    return path != NULL && stat(path, &a) == 0 && fstat(journal, &b) == 0 && a.st_dev == b.st_dev && a.st_ino == b.st_ino;
}

static int show(int from, const char *path)
{
    char bytes[1 << 16];
    ssize_t count;
    int to = path == NULL ? STDOUT_FILENO : open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);

    if (to < 0)
        return refuse(path, strerror(errno));
    lseek(from, 0, SEEK_SET);
    while ((count = read(from, bytes, sizeof bytes)) > 0) {
        if (nxm_output_write(to, bytes, (size_t)count) != NXM_OK)
            return refuse(path == NULL ? "standard output" : path, "the report is incomplete: it could not be written");
    }
    return 0;
}

int main(int argc, char **argv)
{
    struct wish wish = { NXM_REPORT_TEXT, NULL, NULL, NULL };
    int status = parse(argc, argv, &wish);

    if (status != 0)
        return status;
    if (wish.suppressions != NULL && access(wish.suppressions, R_OK) != 0)
        return refuse(wish.suppressions, strerror(errno));
    int journal = open(wish.path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
    int page = memfd_create("nxmem-report", MFD_CLOEXEC);
    if (journal < 0 || page < 0)
        return refuse(wish.path, strerror(errno));
    if (is_the_journal(journal, wish.output))
        return refuse(wish.output, "that is the journal itself, which a process may be writing");
    if (wish.output != NULL && nxm_journal_is_at(wish.output))
        return refuse(wish.output, "that is another journal, which a process may be writing");
    pid_t child = fork();
    if (child == 0) {
        signal(SIGALRM, SIG_DFL);
        alarm(LONGEST_SECONDS);
        _exit(write_report(journal, page, &wish));
    }
    if (child < 0 || waitpid(child, &status, 0) != child)
        return refuse(wish.path, strerror(errno));
    /* A sanitizer turns the signal into a status of its own. */
    if (WIFSIGNALED(status) || (WEXITSTATUS(status) != 0 && WEXITSTATUS(status) != 2)) {
        fprintf(stderr, "nxmem-report: %s: the journal is damaged\n", wish.path);
        return 1;
    }
    return WEXITSTATUS(status) != 0 ? WEXITSTATUS(status) : show(page, wish.output);
}
