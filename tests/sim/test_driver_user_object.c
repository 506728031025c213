/* User objects: who holds them, and that the destructor runs when nobody does any more. */
#include "driver_fixture.h"

#include <stdatomic.h>
#include <unistd.h>

static atomic_int destroyed;
static atomic_int code_in_destructor;

static void destroy(void *arg)
{
    size_t free_bytes, total;
    atomic_store(&code_in_destructor, (int)cuMemGetInfo(&free_bytes, &total));
    atomic_fetch_add(&destroyed, *(int *)arg);
}

static int one = 1;

static CUuserObject new_object(unsigned count)
{
    CUuserObject o;
    atomic_store(&destroyed, 0);
    assert_ok(cuUserObjectCreate(&o, &one, destroy, count, CU_USER_OBJECT_NO_DESTRUCTOR_SYNC));
    return o;
}

static void wait_for_destructor(void)
{
    while (!atomic_load(&destroyed)) usleep(100);
    assert_int_equal(sim_live_objects("user"), 0);
}

static void an_object_goes_with_its_last_reference(void **state)
{
    (void)state;
    CUuserObject o = new_object(2);
    assert_ok(cuUserObjectRetain(o, 3));
    assert_ok(cuUserObjectRelease(o, 4));
    assert_int_equal(sim_leaks(), 1);
    assert_int_equal(sim_live_objects("user"), 1);
    assert_cu(CUDA_ERROR_INVALID_VALUE, cuUserObjectRelease(o, 2));
    assert_ok(cuUserObjectRelease(o, 1));
    wait_for_destructor();
    assert_cu(CUDA_ERROR_INVALID_VALUE, cuUserObjectRetain(o, 1));
    assert_int_equal(atomic_load(&code_in_destructor), CUDA_ERROR_NOT_PERMITTED);
    assert_int_equal(sim_misuses(), 1);
}

static void graphs_hold_references(void **state)
{
    (void)state;
    CUgraph g, clone;
    CUgraphExec exec;
    CUuserObject o = new_object(1);
    assert_ok(cuGraphCreate(&g, 0));
    assert_cu(CUDA_ERROR_INVALID_VALUE, cuGraphRetainUserObject(g, o, 2, CU_GRAPH_USER_OBJECT_MOVE));
    assert_ok(cuGraphRetainUserObject(g, o, 1, CU_GRAPH_USER_OBJECT_MOVE));
    assert_cu(CUDA_ERROR_INVALID_VALUE, cuUserObjectRelease(o, 1)); /* it is the graph's now */
    assert_int_equal(sim_leaks(), 1);                                /* the graph, not the object */
    assert_ok(cuGraphClone(&clone, g));
    assert_ok(cuGraphInstantiate(&exec, g, 0));
    assert_ok(cuGraphDestroy(g));
    assert_ok(cuGraphDestroy(clone));
    assert_int_equal(sim_live_objects("user"), 1);
    assert_ok(cuGraphExecDestroy(exec));
    wait_for_destructor();
}

static void a_graph_gives_back_what_it_is_told(void **state)
{
    (void)state;
    CUgraph g;
    CUuserObject o = new_object(1);
    assert_ok(cuGraphCreate(&g, 0));
    assert_ok(cuGraphRetainUserObject(g, o, 3, 0));
    assert_ok(cuUserObjectRelease(o, 1));
    assert_cu(CUDA_ERROR_INVALID_VALUE, cuGraphReleaseUserObject(g, o, 4));
    assert_ok(cuGraphReleaseUserObject(g, o, 2));
    assert_int_equal(sim_live_objects("user"), 1);
    assert_ok(cuGraphReleaseUserObject(g, o, 1));
    wait_for_destructor();
    assert_ok(cuGraphDestroy(g));
}

static void a_launch_that_runs_keeps_what_its_graph_held(void **state)
{
    (void)state;
    CUgraph g;
    CUgraphExec exec;
    CUstream s = new_stream();
    CUuserObject o = new_object(1);
    assert_ok(cuGraphCreate(&g, 0));
    assert_ok(cuGraphRetainUserObject(g, o, 1, CU_GRAPH_USER_OBJECT_MOVE));
    assert_ok(cuGraphInstantiate(&exec, g, 0));
    assert_ok(cuGraphDestroy(g));
    assert_ok(sim_hold(s));
    assert_ok(cuGraphLaunch(exec, s));
    assert_ok(cuGraphExecDestroy(exec));
    usleep(5000);
    assert_int_equal(sim_live_objects("user"), 1);
    assert_int_equal(atomic_load(&destroyed), 0);
    assert_ok(sim_release(s));
    assert_ok(cuStreamSynchronize(s));
    wait_for_destructor();
    assert_ok(cuStreamDestroy(s));
}

static void arguments_are_checked(void **state)
{
    (void)state;
    CUuserObject o;
    assert_cu(CUDA_ERROR_INVALID_VALUE, cuUserObjectCreate(&o, NULL, destroy, 0, CU_USER_OBJECT_NO_DESTRUCTOR_SYNC));
    assert_cu(CUDA_ERROR_INVALID_VALUE, cuUserObjectCreate(&o, NULL, destroy, 1, 0));
    assert_cu(CUDA_ERROR_INVALID_VALUE, cuUserObjectCreate(&o, NULL, NULL, 1, CU_USER_OBJECT_NO_DESTRUCTOR_SYNC));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        on_device(an_object_goes_with_its_last_reference),
        on_device(graphs_hold_references),
        on_device(a_graph_gives_back_what_it_is_told),
        on_device(a_launch_that_runs_keeps_what_its_graph_held),
        on_device(arguments_are_checked),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
