/* Threads that all touch the routes first, at the same moment. A binary of its own: the first use comes once. */
#include "inside.h"

#include <pthread.h>

enum { THREADS = 8 };

static pthread_barrier_t start;
static void *driver, *runtime12, *runtime13;
static int wrong;

static void *first_use(void *argument)
{
    unsigned number = (unsigned)(uintptr_t)argument;
    unsigned long long address = 0;
    void *pointer = NULL;
    void *runtime = number & 2 ? runtime13 : runtime12;
    pthread_barrier_wait(&start);
    if (number % 2) {
        int (*alloc)(unsigned long long *, size_t) =
            (int (*)(unsigned long long *, size_t))dlsym(driver, "cuMemAlloc_v2");
        if (!alloc || alloc(&address, 64) || !address) __atomic_fetch_add(&wrong, 1, __ATOMIC_RELAXED);
    }
    int (*alloc)(void **, size_t) = (int (*)(void **, size_t))dlsym(runtime, "cudaMalloc");
    if (!alloc || alloc(&pointer, 64) || !pointer) __atomic_fetch_add(&wrong, 1, __ATOMIC_RELAXED);
    return (void *)alloc;
}

static void threads_racing_to_the_first_use_all_find_whole_tables(void **state)
{
    (void)state;
    pthread_t threads[THREADS];
    void *found[THREADS];
    driver = open_beside("cuda/libcuda.so.1", RTLD_NOW);
    runtime12 = open_beside("libcudart.so.12", RTLD_NOW);
    runtime13 = open_beside("libcudart.so.13", RTLD_NOW);
    unsigned before = hooked("cuMemAlloc_v2");
    assert_int_equal(pthread_barrier_init(&start, NULL, THREADS), 0);
    for (uintptr_t i = 0; i < THREADS; ++i)
        assert_int_equal(pthread_create(&threads[i], NULL, first_use, (void *)i), 0);
    for (size_t i = 0; i < THREADS; ++i) pthread_join(threads[i], &found[i]);
    assert_int_equal(wrong, 0);
    for (size_t i = 4; i < THREADS; ++i) assert_ptr_equal(found[i], found[i - 4]); /* one slot a runtime */
    assert_ptr_not_equal(found[0], found[2]);
    assert_int_equal(hooked("cuMemAlloc_v2") - before, THREADS + THREADS / 2);
    assert_int_equal(labelled("cudaMalloc"), THREADS);
}

int main(int argc, char **argv)
{
    static const char *const again[] = {"1", "2", "3", "4"};
    (void)argc;
    if (!getenv("NXM_TEST_CASE")) return run_each(argv, again, 4);
    const struct CMUnitTest tests[] = {cmocka_unit_test(threads_racing_to_the_first_use_all_find_whole_tables)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
