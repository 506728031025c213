/* core/log and core/output: standard error is a pipe that the test reads. */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "core/log.h"
#include "core/output.h"
#include "core/result.h"

struct capture {
    int saved, reader;
};

static void capture_begin(struct capture *capture)
{
    int ends[2];

    assert_int_equal(pipe(ends), 0);
    capture->saved = dup(STDERR_FILENO);
    capture->reader = ends[0];
    assert_int_equal(dup2(ends[1], STDERR_FILENO), STDERR_FILENO);
    close(ends[1]);
    assert_int_equal(fcntl(capture->reader, F_SETFL, O_NONBLOCK), 0);
}

static void capture_end(struct capture *capture, char *ret_text, size_t capacity)
{
    size_t length = 0;
    ssize_t got;

    dup2(capture->saved, STDERR_FILENO);
    close(capture->saved);
    while (length < capacity - 1 && (got = read(capture->reader, ret_text + length, capacity - 1 - length)) > 0)
        length += (size_t)got;
    ret_text[length] = '\0';
    close(capture->reader);
}

static void wait_for(pid_t child)
{
    int status;

    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
}

/* Has to be the first test: nothing has been logged in this process yet. */
static void a_child_forked_before_the_first_word_speaks_for_itself(void **state)
{
    struct capture capture;
    char text[256];
    pid_t child;

    (void)state;
    capture_begin(&capture);
    child = fork();
    if (child == 0) {
        nxm_log(NXM_LOG_WARNING, "own life");
        _exit(0);
    }
    wait_for(child);
    capture_end(&capture, text, sizeof text);
    assert_string_equal(text, "nxmem: own life\n");
}

static void a_child_forked_after_it_is_silent_and_the_parent_is_not(void **state)
{
    struct capture capture;
    char text[256];
    pid_t child;

    (void)state;
    capture_begin(&capture);
    nxm_log(NXM_LOG_WARNING, "one");
    child = fork();
    if (child == 0) {
        nxm_log(NXM_LOG_WARNING, "child");
        _exit(0);
    }
    wait_for(child);
    nxm_log(NXM_LOG_WARNING, "two");
    capture_end(&capture, text, sizeof text);
    assert_string_equal(text, "nxmem: one\nnxmem: two\n");
}

static void levels_above_the_verbosity_are_not_shown(void **state)
{
    struct capture capture;
    char text[256];

    (void)state;
    capture_begin(&capture);
    for (int level = NXM_LOG_WARNING; level <= NXM_LOG_DEBUG; level++) {
        nxm_log_set_level((enum nxm_log_level)level);
        nxm_log(NXM_LOG_WARNING, "w%d", level);
        nxm_log(NXM_LOG_INFO, "i%d", level);
        nxm_log(NXM_LOG_DEBUG, "d%d", level);
    }
    nxm_log_set_level(NXM_LOG_WARNING);
    capture_end(&capture, text, sizeof text);
    assert_string_equal(text, "nxmem: w0\nnxmem: w1\nnxmem: i1\nnxmem: w2\nnxmem: i2\nnxmem: d2\n");
}

static void with_nothing_to_show_warnings_are_kept_back_and_a_first_time_is_not_used_up(void **state)
{
    static int flag;
    struct capture capture;
    char text[256];

    (void)state;
    capture_begin(&capture);
    nxm_log_set_level(NXM_LOG_NOTHING);
    nxm_log(NXM_LOG_WARNING, "one");
    nxm_log_once(&flag, "two");
    nxm_log_set_level(NXM_LOG_WARNING);
    nxm_log_once(&flag, "three");
    capture_end(&capture, text, sizeof text);
    assert_string_equal(text, "nxmem: three\n");
}

static void a_message_with_newlines_is_still_one_line(void **state)
{
    struct capture capture;
    char text[256];

    (void)state;
    capture_begin(&capture);
    nxm_log(NXM_LOG_WARNING, "%s", "a\nb\r\x1b[31mred\x7f");
    capture_end(&capture, text, sizeof text);
    assert_string_equal(text, "nxmem: a b  [31mred \n");
}

static void a_long_message_is_cut_and_keeps_its_newline(void **state)
{
    struct capture capture;
    char text[4096], *message = malloc(3000);

    (void)state;
    assert_non_null(message);
    memset(message, 'x', 2999);
    message[2999] = '\0';
    capture_begin(&capture);
    nxm_log(NXM_LOG_WARNING, "%s", message);
    capture_end(&capture, text, sizeof text);
    free(message);
    assert_true(strlen(text) > 512);
    assert_ptr_equal(strchr(text, '\n'), text + strlen(text) - 1);
}

static int flag;

static void *warn_once(void *unused)
{
    for (int i = 0; i < 100; i++)
        nxm_log_once(&flag, "only %s", "once");
    return unused;
}

static void once_is_once_from_many_threads(void **state)
{
    struct capture capture;
    char text[256];
    pthread_t threads[4];

    (void)state;
    capture_begin(&capture);
    for (int i = 0; i < 4; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, warn_once, NULL), 0);
    for (int i = 0; i < 4; i++)
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    capture_end(&capture, text, sizeof text);
    assert_string_equal(text, "nxmem: only once\n");
}

static void errno_is_as_it_was_even_when_the_write_fails(void **state)
{
    int saved = dup(STDERR_FILENO);

    (void)state;
    close(STDERR_FILENO);
    errno = EXDEV;
    nxm_log(NXM_LOG_WARNING, "nobody hears this");
    assert_int_equal(errno, EXDEV);
    dup2(saved, STDERR_FILENO);
    close(saved);
}

static void a_closed_pipe_is_an_error_and_no_signal(void **state)
{
    int ends[2];
    sigset_t mask;

    (void)state;
    assert_int_equal(pipe(ends), 0);
    close(ends[0]);
    errno = EXDEV;
    assert_int_equal(nxm_output_write(ends[1], "x", 1), NXM_EINVAL);
    assert_int_equal(errno, EXDEV);
    sigpending(&mask);
    assert_int_equal(sigismember(&mask, SIGPIPE), 0);
    pthread_sigmask(SIG_SETMASK, NULL, &mask);
    assert_int_equal(sigismember(&mask, SIGPIPE), 0);
    close(ends[1]);
}

static void a_file_at_its_size_limit_is_an_error_and_no_signal(void **state)
{
    char name[] = "/tmp/nxm-test-log-XXXXXX";
    int fd = mkstemp(name);
    struct rlimit before, none;
    sigset_t mask;

    (void)state;
    assert_true(fd >= 0);
    unlink(name);
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
    none = before;
    none.rlim_cur = 0;
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &none), 0);
    assert_int_equal(nxm_output_write(fd, "x", 1), NXM_EINVAL);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
    sigpending(&mask);
    assert_int_equal(sigismember(&mask, SIGXFSZ), 0);
    pthread_sigmask(SIG_SETMASK, NULL, &mask);
    assert_int_equal(sigismember(&mask, SIGXFSZ), 0);
    close(fd);
}

/* What lies behind a gap would be taken for the whole. */
static void behind_a_piece_that_failed_nothing_is_written(void **state)
{
    char name[] = "/tmp/nxm-test-log-XXXXXX";
    int fd = mkstemp(name);
    struct rlimit before, four;
    struct nxm_output output;
    sigset_t mask;

    (void)state;
    assert_true(fd >= 0);
    unlink(name);
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
    four = before;
    four.rlim_cur = 4;
    nxm_output_init(&output, fd);
    nxm_output_put(&output, "ab", 2);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &four), 0);
    nxm_output_put(&output, "cdef", 4);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
    nxm_output_put(&output, "gh", 2);
    assert_int_equal(nxm_output_clear(&output), NXM_EINVAL);
    assert_int_equal(lseek(fd, 0, SEEK_END), 4);
    sigpending(&mask);
    assert_int_equal(sigismember(&mask, SIGXFSZ), 0);
    close(fd);
}

static void a_signal_that_was_pending_before_stays_the_programs(void **state)
{
    int ends[2];
    sigset_t mask, before, pending;
    const struct timespec now = { 0, 0 };

    (void)state;
    assert_int_equal(pipe(ends), 0);
    close(ends[0]);
    sigemptyset(&mask);
    sigaddset(&mask, SIGPIPE);
    pthread_sigmask(SIG_BLOCK, &mask, &before);
    pthread_kill(pthread_self(), SIGPIPE);
    assert_int_equal(nxm_output_write(ends[1], "x", 1), NXM_EINVAL);
    sigpending(&pending);
    assert_int_equal(sigismember(&pending, SIGPIPE), 1);
    assert_int_equal(sigtimedwait(&mask, NULL, &now), SIGPIPE);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    close(ends[1]);
}

#define LARGE (1u << 20)

static void *drain_slowly(void *argument)
{
    int reader = *(int *)argument;
    static char piece[4096];
    size_t total = 0;
    ssize_t got;

    while ((got = read(reader, piece, sizeof piece)) > 0)
        total += (size_t)got;
    return (void *)total;
}

static void short_writes_and_a_full_nonblocking_pipe_lose_nothing(void **state)
{
    int ends[2];
    char *bytes = calloc(1, LARGE);
    void *total;
    pthread_t reader;

    (void)state;
    assert_non_null(bytes);
    assert_int_equal(pipe(ends), 0);
    assert_int_equal(fcntl(ends[1], F_SETFL, O_NONBLOCK), 0);
    assert_int_equal(pthread_create(&reader, NULL, drain_slowly, &ends[0]), 0);
    assert_int_equal(nxm_output_write(ends[1], bytes, LARGE), NXM_OK);
    close(ends[1]);
    assert_int_equal(pthread_join(reader, &total), 0);
    assert_int_equal((uintptr_t)total, LARGE);
    close(ends[0]);
    free(bytes);
}

/* Nobody reads: the wait for room ends, and what could not be written is an error. */
static void a_full_pipe_that_nobody_reads_is_given_up(void **state)
{
    int ends[2];
    char *bytes = calloc(1, LARGE);

    (void)state;
    assert_non_null(bytes);
    assert_int_equal(pipe(ends), 0);
    assert_int_equal(fcntl(ends[1], F_SETFL, O_NONBLOCK), 0);
    assert_int_equal(nxm_output_write(ends[1], bytes, LARGE), NXM_EINVAL);
    close(ends[0]);
    close(ends[1]);
    free(bytes);
}

static void nothing_is_written_at_once(void **state)
{
    (void)state;
    assert_int_equal(nxm_output_write(-1, "", 0), NXM_OK);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_child_forked_before_the_first_word_speaks_for_itself),
        cmocka_unit_test(a_child_forked_after_it_is_silent_and_the_parent_is_not),
        cmocka_unit_test(levels_above_the_verbosity_are_not_shown),
        cmocka_unit_test(with_nothing_to_show_warnings_are_kept_back_and_a_first_time_is_not_used_up),
        cmocka_unit_test(a_message_with_newlines_is_still_one_line),
        cmocka_unit_test(a_long_message_is_cut_and_keeps_its_newline),
        cmocka_unit_test(once_is_once_from_many_threads),
        cmocka_unit_test(errno_is_as_it_was_even_when_the_write_fails),
        cmocka_unit_test(a_closed_pipe_is_an_error_and_no_signal),
        cmocka_unit_test(a_file_at_its_size_limit_is_an_error_and_no_signal),
        cmocka_unit_test(behind_a_piece_that_failed_nothing_is_written),
        cmocka_unit_test(a_signal_that_was_pending_before_stays_the_programs),
        cmocka_unit_test(short_writes_and_a_full_nonblocking_pipe_lose_nothing),
        cmocka_unit_test(a_full_pipe_that_nobody_reads_is_given_up),
        cmocka_unit_test(nothing_is_written_at_once),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
