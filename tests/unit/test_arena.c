/* core/arena.c on kernels of two ages: the newer takes a page's room on the disk by the mapping, the older by the descriptor, which
 * the program may have closed and got again for a file of its own. */
#include "core/arena.h"

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cmocka.h>

enum { CAPACITY = 4 << 20, PAGES = 16 * 4096, POPULATE_WRITE = 23 };

static int populating; /* what that advice comes to: 0, or the error */
static char path[] = "/tmp/nxmem-test-arena-XXXXXX";
static struct nxm_arena *arena;
static int fd;

/* In place of libc's. */
int madvise(void *at, size_t bytes, int advice)
{
    if (advice != POPULATE_WRITE)
        return (int)syscall(SYS_madvise, at, bytes, advice);
    errno = populating;
    return populating == 0 ? 0 : -1;
}

static int setup(void **state)
{
    (void)state;
    populating = EINVAL; /* as before Linux 5.14 */
    snprintf(path, sizeof path, "/tmp/nxmem-test-arena-XXXXXX");
    fd = mkstemp(path);
    if (fd < 0)
        return 1;
    unlink(path);
    arena = nxm_arena_new(fd, CAPACITY);
    return arena == NULL;
}

static int teardown(void **state)
{
    (void)state;
    munmap(arena, CAPACITY);
    close(fd);
    return 0;
}

static blkcnt_t blocks_of(int file)
{
    struct stat st;

    assert_int_equal(fstat(file, &st), 0);
    return st.st_blocks;
}

static void nothing_is_taken(void)
{
    uint64_t missed = atomic_load(&arena->missed);

    assert_null(nxm_arena_take(arena, fd, PAGES));
    assert_int_equal(atomic_load(&arena->missed), missed + PAGES);
}

static void an_older_kernel_takes_the_room_by_the_descriptor(void **state)
{
    blkcnt_t before = blocks_of(fd);

    (void)state;
    errno = ENOTTY;
    assert_non_null(nxm_arena_take(arena, fd, PAGES));
    assert_int_equal(errno, ENOTTY);
    assert_true(blocks_of(fd) >= before + PAGES / 512);
    assert_int_equal(atomic_load(&arena->missed), 0);
}

/* Filters of system calls answer what they like. */
static void where_the_kernel_may_not_the_room_is_taken_by_the_descriptor(void **state)
{
    const int answers[] = { EPERM, ENOSYS, EACCES };

    (void)state;
    for (size_t i = 0; i < sizeof answers / sizeof *answers; i++) {
        blkcnt_t before = blocks_of(fd);

        populating = answers[i];
        assert_non_null(nxm_arena_take(arena, fd, PAGES));
        assert_true(blocks_of(fd) >= before + PAGES / 512);
    }
}

static void a_newer_kernel_needs_no_descriptor(void **state)
{
    (void)state;
    populating = 0;
    assert_non_null(nxm_arena_take(arena, -1, PAGES));
    assert_int_equal(atomic_load(&arena->missed), 0);
}

static void a_disk_without_room_is_not_asked_again(void **state)
{
    blkcnt_t before = blocks_of(fd);

    (void)state;
    populating = EFAULT;
    nothing_is_taken();
    populating = ENOMEM;
    nothing_is_taken();
    assert_int_equal(blocks_of(fd), before);
}

static void a_descriptor_that_the_program_closed_gives_nothing(void **state)
{
    int kept = dup(fd);

    (void)state;
    close(fd);
    nothing_is_taken();
    assert_int_equal(dup2(kept, fd), fd);
    close(kept);
    assert_non_null(nxm_arena_take(arena, fd, PAGES)); /* the very file, under whatever number */
}

static void another_file_under_that_number_is_left_alone(void **state)
{
    char other[] = "/tmp/nxmem-test-other-XXXXXX";
    int theirs = mkstemp(other);
    struct stat st;

    (void)state;
    assert_true(theirs >= 0);
    unlink(other);
    assert_int_equal(dup2(theirs, fd), fd);
    nothing_is_taken();
    assert_int_equal(fstat(theirs, &st), 0);
    assert_int_equal(st.st_size, 0);
    close(theirs);
}

/* Numbers of files are given by each disk for itself. */
static void a_file_of_another_disk_is_another_file(void **state)
{
    int theirs = memfd_create("theirs", MFD_CLOEXEC);
    struct stat st;

    (void)state;
    assert_int_equal(fstat(theirs, &st), 0);
    assert_int_not_equal(st.st_dev, arena->device);
    arena->inode = st.st_ino;
    assert_int_equal(dup2(theirs, fd), fd);
    nothing_is_taken();
    assert_int_equal(fstat(theirs, &st), 0);
    assert_int_equal(st.st_size, 0);
    close(theirs);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(an_older_kernel_takes_the_room_by_the_descriptor),
        TEST(where_the_kernel_may_not_the_room_is_taken_by_the_descriptor),
        TEST(a_newer_kernel_needs_no_descriptor),
        TEST(a_disk_without_room_is_not_asked_again),
        TEST(a_descriptor_that_the_program_closed_gives_nothing),
        TEST(another_file_under_that_number_is_left_alone),
        TEST(a_file_of_another_disk_is_another_file),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
