/* Events of another process: what they order, and what it tells the program. */
#include "other_process.h"

/* --- the other process ------------------------------------------------------------------------------------------ */

static int waits_for_an_event(void)
{
    struct message m = receive(PIPE);
    CUevent e, mine;
    CUstream s;
    CHECK(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING) == CUDA_SUCCESS);
    CHECK(cuIpcOpenEventHandle(&e, m.event) == CUDA_SUCCESS);
    CHECK(cuEventCreate(&mine, CU_EVENT_DISABLE_TIMING) == CUDA_SUCCESS);
    CHECK(cuEventQuery(e) == CUDA_ERROR_NOT_READY);
    CHECK(cuStreamWaitEvent(s, e, 0) == CUDA_SUCCESS);
    CHECK(cuEventRecord(mine, s) == CUDA_SUCCESS);
    CHECK(cuEventQuery(mine) == CUDA_ERROR_NOT_READY);
    tell(PIPE, &m); /* the owner lets its stream go on */
    CHECK(cuEventSynchronize(e) == CUDA_SUCCESS);
    CHECK(cuEventSynchronize(mine) == CUDA_SUCCESS);
    CHECK(cuEventQuery(e) == CUDA_SUCCESS);
    CHECK(cuEventRecord(e, s) == CUDA_SUCCESS); /* either side may record */
    CHECK(cuEventSynchronize(e) == CUDA_SUCCESS);
    CHECK(cuIpcGetEventHandle(&m.event, e) == CUDA_ERROR_INVALID_HANDLE);
    CHECK(cuEventDestroy(e) == CUDA_SUCCESS);
    tell(PIPE, &m);
    return 0;
}

/* Puts something behind the owner's record and says so with a record of its own. */
static int answers_an_event(void)
{
    struct message m = receive(PIPE);
    CUevent e;
    CUstream s;
    CHECK(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING) == CUDA_SUCCESS);
    CHECK(cuIpcOpenEventHandle(&e, m.event) == CUDA_SUCCESS);
    CHECK(cuStreamWaitEvent(s, e, 0) == CUDA_SUCCESS);
    CHECK(cuEventRecord(e, s) == CUDA_SUCCESS);
    tell(PIPE, &m);
    receive(PIPE);
    CHECK(cuStreamSynchronize(s) == CUDA_SUCCESS);
    return 0;
}

static int waits_and_tells(void)
{
    struct message m = receive(PIPE);
    CUevent e;
    CHECK(cuIpcOpenEventHandle(&e, m.event) == CUDA_SUCCESS);
    CHECK(cuEventSynchronize(e) == CUDA_SUCCESS);
    tell(PIPE, &m);
    return 0;
}

static int tells_without_waiting(void)
{
    struct message m = receive(PIPE);
    CUevent e;
    CHECK(cuIpcOpenEventHandle(&e, m.event) == CUDA_SUCCESS);
    tell(PIPE, &m);
    return 0;
}

static const struct role roles[] = {
    ROLE(waits_for_an_event),
    ROLE(answers_an_event),
    ROLE(waits_and_tells),
    ROLE(tells_without_waiting),
};

/* --- this one ------------------------------------------------------------------------------------------------------ */

static void share_an_event(bool recorded_first)
{
    struct message m = { .pid = getpid() };
    CUstream s = new_stream();
    CUevent e;
    assert_ok(cuEventCreate(&e, CU_EVENT_DISABLE_TIMING | CU_EVENT_INTERPROCESS));
    sim_hold(s);
    if (recorded_first) assert_ok(cuEventRecord(e, s));
    assert_ok(cuIpcGetEventHandle(&m.event, e));
    if (!recorded_first) assert_ok(cuEventRecord(e, s));
    struct other o = start("waits_for_an_event");
    tell(o.fd, &m);
    receive(o.fd);
    sim_release(s);
    receive(o.fd);
    assert_ends_well(o);
    assert_ok(cuEventSynchronize(e)); /* the other's record, this time */
    assert_ok(cuEventDestroy(e));
}

static void an_event_of_one_process_orders_the_stream_of_another(void **state)
{
    (void)state;
    share_an_event(false);
}

static void what_was_recorded_before_the_event_was_exported_counts(void **state)
{
    (void)state;
    share_an_event(true);
}

/* Memory used in one stream, freed in another; what is between the two is the other process's business. */
struct shared_use {
    struct message m;
    CUstream a, b;
    CUevent e;
    CUdeviceptr p;
    struct other o;
};

static struct shared_use use_and_tell(const char *role, bool recorded_too_early, bool held)
{
    struct shared_use x = { .m.pid = getpid(), .a = new_stream(), .b = new_stream() };
    assert_ok(cuEventCreate(&x.e, CU_EVENT_DISABLE_TIMING | CU_EVENT_INTERPROCESS));
    assert_ok(cuMemAllocAsync(&x.p, BYTES, x.a));
    if (held) sim_hold(x.a);
    if (recorded_too_early) assert_ok(cuEventRecord(x.e, x.a));
    assert_ok(cuMemsetD8Async(x.p, 7, BYTES, x.a));
    if (!recorded_too_early) assert_ok(cuEventRecord(x.e, x.a));
    assert_ok(cuIpcGetEventHandle(&x.m.event, x.e));
    x.o = start(role);
    tell(x.o.fd, &x.m);
    receive(x.o.fd);
    return x;
}

static void free_elsewhere(struct shared_use x, uint64_t findings)
{
    assert_ok(cuMemFreeAsync(x.p, x.b));
    assert_int_equal(sim_findings("unordered-free"), findings);
    sim_release(x.a);
    assert_ok(cuStreamSynchronize(x.a));
    assert_ok(cuStreamSynchronize(x.b));
    assert_ok(cuEventDestroy(x.e));
}

static void order_through_another_process(bool recorded_too_early)
{
    struct shared_use x = use_and_tell("answers_an_event", recorded_too_early, true);
    assert_ok(cuStreamWaitEvent(x.b, x.e, 0)); /* the other's record, which has not come: an answer that is there already tells more */
    free_elsewhere(x, recorded_too_early);
    tell(x.o.fd, &x.m);
    assert_ends_well(x.o);
}

static void an_answer_of_another_process_orders_what_was_before_the_question(void **state)
{
    (void)state;
    order_through_another_process(false);
}

static void an_answer_does_not_order_what_came_after_the_question(void **state)
{
    (void)state;
    order_through_another_process(true);
}

static void another_process_may_have_waited_and_told_the_program(void **state)
{
    (void)state;
    struct shared_use x = use_and_tell("waits_and_tells", false, false);
    assert_ends_well(x.o);
    free_elsewhere(x, 0);
}

static void another_process_that_did_not_wait_tells_nothing(void **state)
{
    (void)state;
    struct shared_use x = use_and_tell("tells_without_waiting", false, false);
    assert_ends_well(x.o);
    free_elsewhere(x, 1);
}

static void another_process_that_waited_for_less_tells_less(void **state)
{
    (void)state;
    struct shared_use x = use_and_tell("waits_and_tells", true, false);
    assert_ends_well(x.o);
    free_elsewhere(x, 1);
}

static void only_an_event_made_for_it_is_exported(void **state)
{
    (void)state;
    CUipcEventHandle handle;
    CUevent private;
    assert_ok(cuEventCreate(&private, CU_EVENT_DISABLE_TIMING));
    assert_cu(CUDA_ERROR_INVALID_HANDLE, cuIpcGetEventHandle(&handle, private));
    assert_ok(cuEventDestroy(private));
}

int main(int argc, char **argv)
{
    if (argc == 2) return play(roles, sizeof roles / sizeof *roles, argv[1]);
    const struct CMUnitTest tests[] = {
        on_device(an_event_of_one_process_orders_the_stream_of_another),
        on_device(what_was_recorded_before_the_event_was_exported_counts),
        on_device(an_answer_of_another_process_orders_what_was_before_the_question),
        on_device(an_answer_does_not_order_what_came_after_the_question),
        on_device(another_process_may_have_waited_and_told_the_program),
        on_device(another_process_that_did_not_wait_tells_nothing),
        on_device(another_process_that_waited_for_less_tells_less),
        on_device(only_an_event_made_for_it_is_exported),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
