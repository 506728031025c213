/* core/unwind: the same frames as glibc's backtrace finds, through code of all kinds (walked/frames.c). Frames of this program count
 * as our own: they are left out above the first other one. Runs under the emulator of another machine too (tests/arm). */
#include <dlfcn.h>
#include <errno.h>
#include <execinfo.h>
#include <link.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <ucontext.h>
#include <unistd.h>

#include <cmocka.h>

/* Valgrind wants to be told of stacks that it did not see made. */
#if __has_include(<valgrind/valgrind.h>)
#include <valgrind/valgrind.h>
#else
#define VALGRIND_STACK_REGISTER(start, end) (0u)
#define VALGRIND_STACK_DEREGISTER(id) (void)(id)
#define VALGRIND_DISABLE_ERROR_REPORTING (void)0
#define VALGRIND_ENABLE_ERROR_REPORTING (void)0
#endif

#include "core/images.h"
#include "core/rule_cache.h"
#include "core/unwind.h"
#include "core/unwind_rule.h"
#include "walked/frames.h"

#define STACK_BYTES (256u << 10)
#define WALL_BYTES (512u << 10)

/* --- both walks, from one place ------------------------------------------------------------------------------- */

static struct nxm_trace ours;
static void *theirs[512];
static int their_count;
static bool whole;

static __attribute__((noinline)) void take_both(void)
{
    struct nxm_registers here;

    errno = 4711;
    NXM_REGISTERS_HERE(here);
    whole = nxm_unwind(&here, NXM_TRACE_MAX, false, &ours);
    assert_int_equal(errno, 4711);
    their_count = backtrace(theirs, (int)(sizeof theirs / sizeof *theirs));
}

static bool is_in_program(const void *address)
{
    struct nxm_image image, program;

    assert_true(nxm_image_at((uintptr_t)&is_in_program, &program));
    return nxm_image_at((uintptr_t)address, &image) && image.start == program.start;
}

/* A frame says where the call is, glibc where it returns to; of a frame that was interrupted both say where. */
static unsigned assert_same_frame(uint64_t frame, const void *their)
{
    uint64_t address = nxm_frame_address(frame);

    assert_true(address + 1 == (uintptr_t)their || address == (uintptr_t)their);
    return address == (uintptr_t)their;
}

/* From the first frame that is not this program's on, to the end of the stack or of the room. */
static void assert_same(unsigned interrupted)
{
    int first = 0;
    unsigned exact = 0;

    assert_true(ours.count > 1);
    while (first < their_count && nxm_frame_address(ours.frames[0]) + 1 != (uintptr_t)theirs[first])
        first++;
    assert_true(first > 0 && first < their_count);
    assert_true(is_in_program(theirs[first - 1]));
    assert_false(is_in_program(theirs[first]));
    assert_int_equal(ours.count, their_count - first < NXM_TRACE_MAX ? their_count - first : NXM_TRACE_MAX);
    for (uint32_t i = 0; i < ours.count; i++)
        exact += assert_same_frame(ours.frames[i], theirs[first + (int)i]);
    assert_int_equal(exact, interrupted);
    assert_true(whole);
}

/* --- the libraries -------------------------------------------------------------------------------------------- */

static void *open_walked(const char *name)
{
    char path[512];
    void *library;

    snprintf(path, sizeof path, "%s/walked/%s.so", UNIT_DIR, name);
    library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (library == NULL)
        print_error("%s\n", dlerror());
    assert_non_null(library);
    return library;
}

static const char *const variants[] = {
    "O0", "O2", "Os", "fp",
#if defined __aarch64__
    "signed",
#endif
};
#define VARIANTS (sizeof variants / sizeof *variants)

#define FRAMES(library, name) ((__typeof__(&frames_##name))dlsym((library), "frames_" #name))

static void ordinary_code_is_walked_however_it_was_compiled(void **state)
{
    (void)state;
    for (size_t i = 0; i < VARIANTS; i++) {
        void *library = open_walked(variants[i]);

        FRAMES(library, call)(take_both);
        assert_same(0);
        FRAMES(library, call)(take_both); /* by now known */
        assert_same(0);
        dlclose(library);
    }
}

static void frames_of_any_length_and_alignment_are_walked(void **state)
{
    static const size_t lengths[] = { 1, 33, 5000, 200000 };

    (void)state;
    for (size_t i = 0; i < VARIANTS; i++) {
        void *library = open_walked(variants[i]);

        for (size_t j = 0; j < sizeof lengths / sizeof *lengths; j++) {
            FRAMES(library, alloca)(take_both, lengths[j]);
            assert_same(0);
            FRAMES(library, aligned)(take_both, lengths[j]);
            assert_same(0);
        }
        dlclose(library);
    }
}

static void callbacks_through_libc_are_walked(void **state)
{
    (void)state;
    for (size_t i = 0; i < VARIANTS; i++) {
        void *library = open_walked(variants[i]);

        FRAMES(library, sort)(take_both);
        assert_same(0);
        dlclose(library);
    }
}

static void a_deep_recursion_is_cut_at_the_depth(void **state)
{
    void *library = open_walked("O2");

    (void)state;
    FRAMES(library, deep)(take_both, 10000);
    assert_int_equal(ours.count, NXM_TRACE_MAX);
    assert_same(0);
    dlclose(library);
}

#ifdef WALKED_CXX
static void take_and_compare(void)
{
    take_both();
    assert_same(0);
}

static void an_exception_is_no_obstacle(void **state)
{
    void *library = open_walked("thrown");
    void (*call)(frames_callback *callback);

    (void)state;
    *(void **)&call = dlsym(library, "thrown_call");
    call(take_and_compare); /* in the destructor, then in the handler */
    dlclose(library);
}
#endif

static void *in_thread(void *library)
{
    FRAMES(library, call)(take_both);
    assert_same(0);
    FRAMES(library, sort)(take_both);
    assert_same(0);
    return NULL;
}

static void threads_are_walked_to_their_start(void **state)
{
    void *library = open_walked("O2");
    pthread_t thread;

    (void)state;
    for (int i = 0; i < 3; i++) {
        assert_int_equal(pthread_create(&thread, NULL, in_thread, library), 0);
        assert_int_equal(pthread_join(thread, NULL), 0);
    }
    dlclose(library);
}

/* --- signals and other stacks ------------------------------------------------------------------------------------ */

static void *current;
static sigjmp_buf out;

static void on_signal(int signal)
{
    FRAMES(current, call)(take_both);
    if (signal == SIGILL)
        siglongjmp(out, 1);
}

static void handle(int signal, int flags)
{
    struct sigaction action = { .sa_handler = on_signal, .sa_flags = flags };

    sigemptyset(&action.sa_mask);
    assert_int_equal(sigaction(signal, &action, NULL), 0);
}

static void raise_and_trap(void)
{
    FRAMES(current, raise)(SIGUSR1);
    assert_same(1);
    if (sigsetjmp(out, 1) == 0)
        FRAMES(current, trap)();
    assert_same(1);
}

static void a_signal_s_frame_leads_to_the_exact_place(void **state)
{
    (void)state;
    current = open_walked("O2");
    handle(SIGUSR1, 0);
    handle(SIGILL, SA_NODEFER);
    raise_and_trap();
    raise_and_trap();
}

static void a_signal_s_own_stack_leads_back_to_the_thread_s(void **state)
{
    void *stack = mmap(NULL, STACK_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    stack_t alternative = { .ss_sp = stack, .ss_size = STACK_BYTES }, none = { .ss_flags = SS_DISABLE };

    (void)state;
    assert_ptr_not_equal(stack, MAP_FAILED);
    current = open_walked("O2");
    assert_int_equal(sigaltstack(&alternative, NULL), 0);
    handle(SIGUSR1, SA_ONSTACK);
    handle(SIGILL, SA_ONSTACK | SA_NODEFER);
    raise_and_trap();
    raise_and_trap();
    assert_int_equal(sigaltstack(&none, NULL), 0);
    munmap(stack, STACK_BYTES);
}

/* A stack with nothing above it and nothing below: reading one word too many is a crash. */
static char *stack_between_walls(void)
{
    char *memory = mmap(NULL, WALL_BYTES + STACK_BYTES + WALL_BYTES, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    assert_ptr_not_equal(memory, MAP_FAILED);
    assert_int_equal(mprotect(memory + WALL_BYTES, STACK_BYTES, PROT_READ | PROT_WRITE), 0);
    return memory + WALL_BYTES;
}

static void give_back(char *stack)
{
    assert_int_equal(munmap(stack - WALL_BYTES, WALL_BYTES + STACK_BYTES + WALL_BYTES), 0);
}

static ucontext_t back, coroutine;

/* Calls with the stack known to valgrind. */
static void on_stack(char *stack, void (*function)(void *argument), void *argument)
{
    unsigned id = VALGRIND_STACK_REGISTER(stack, stack + STACK_BYTES);

    function(argument);
    VALGRIND_STACK_DEREGISTER(id);
    (void)id;
}

static void in_coroutine(void)
{
    FRAMES(current, call)(take_both);
}

static void enter_coroutine(void *unused)
{
    (void)unused;
    assert_int_equal(swapcontext(&back, &coroutine), 0);
}

static void walk_in_coroutine(char *stack, void (*function)(void))
{
    assert_int_equal(getcontext(&coroutine), 0);
    coroutine.uc_stack.ss_sp = stack;
    coroutine.uc_stack.ss_size = STACK_BYTES;
    coroutine.uc_link = &back;
    makecontext(&coroutine, function, 0);
    on_stack(stack, enter_coroutine, NULL);
}

static void a_coroutine_is_walked_to_its_start(void **state)
{
    char *walled = stack_between_walls(), *heap = malloc(STACK_BYTES);

    (void)state;
    current = open_walked("O2");
    for (int i = 0; i < 3; i++) {
        walk_in_coroutine(walled, in_coroutine);
        assert_same(0);
        walk_in_coroutine(heap, in_coroutine);
        assert_same(0);
        FRAMES(current, call)(take_both);
        assert_same(0);
    }
    free(heap);
    give_back(walled);
}

static void on_the_other_stack(void)
{
    FRAMES(current, call)(take_both);
}

static void move_and_walk(void *stack_top)
{
    FRAMES(current, move)(stack_top, on_the_other_stack);
    assert_same(0);
}

static void a_function_that_moved_to_another_stack_is_walked_through(void **state)
{
    (void)state;
    current = open_walked("O2");
    for (size_t i = 0; i < 4; i++) {
        char *stack = stack_between_walls();

        on_stack(stack, move_and_walk, stack + STACK_BYTES - i % 2 * 4096);
        give_back(stack);
    }
}

/* --- code without tables ----------------------------------------------------------------------------------------- */

static void jit_code_ends_the_walk_and_is_told(void **state)
{
#if defined __x86_64__
    static const unsigned char code[] = { 0x48, 0x83, 0xEC, 0x08, 0xFF, 0xD7, 0x48, 0x83, 0xC4, 0x08, 0xC3 };
#else
    static const uint32_t code[] = { 0xA9BF7BFD, 0xD63F0000, 0xA8C17BFD, 0xD65F03C0 };
#endif
    char *page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    frames_through_callback *through;

    (void)state;
    current = open_walked("O2");
    memcpy(page, code, sizeof code);
    assert_int_equal(mprotect(page, 4096, PROT_READ | PROT_EXEC), 0);
    __builtin___clear_cache(page, page + 4096);
    *(void **)&through = page;
    FRAMES(current, through)(through, on_the_other_stack);
    assert_same(0);
    assert_int_equal(nxm_frame_image(ours.frames[ours.count - 1]), 0);
    assert_int_equal(nxm_frame_address(ours.frames[ours.count - 1]) & ~(uint64_t)4095, (uintptr_t)page);
    munmap(page, 4096);
}

static void a_library_without_tables_ends_the_walk(void **state)
{
    static const char *const names[] = { "bare", "headless" };

    (void)state;
    for (size_t i = 0; i < 2; i++) {
        void *library = open_walked(names[i]);

        FRAMES(library, call)(take_both);
        assert_true(whole);
        assert_int_equal(ours.count, 1);
        assert_int_not_equal(nxm_frame_image(ours.frames[0]), 0);
        dlclose(library);
    }
}

static void what_cannot_be_followed_is_said(void **state)
{
    (void)state;
    current = open_walked("O2");
    FRAMES(current, strange)(take_both);
    assert_false(whole);
}

/* --- libraries that come and go ---------------------------------------------------------------------------------- */

#ifndef EMULATED /* an emulator maps nothing at one place twice */

static uint64_t load_address(void *library)
{
    struct link_map *map = NULL;

    assert_int_equal(dlinfo(library, RTLD_DI_LINKMAP, &map), 0);
    return map->l_addr;
}

/* Walks through the library's one function, and closes it; where it lay, and the call. */
static uint64_t walk_through_place(void *library, uint64_t *ret_call)
{
    void (*call)(frames_callback *callback);
    uint64_t base = load_address(library);

    *(void **)&call = dlsym(library, "place_call");
    call(take_both);
    assert_same(0);
    *ret_call = ours.frames[0];
    assert_int_equal(dlclose(library), 0);
    return base;
}

static void rules_of_a_closed_library_are_not_another_s(void **state)
{
    uint64_t first, second, first_call, second_call;

    (void)state;
    first = walk_through_place(open_walked("place_a"), &first_call);
    second = walk_through_place(open_walked("place_b"), &second_call);
    assert_int_equal(first, second); /* else nothing is proved here */
    assert_int_equal(nxm_frame_address(first_call), nxm_frame_address(second_call));
    assert_int_not_equal(nxm_frame_image(first_call), nxm_frame_image(second_call));
    assert_int_equal(walk_through_place(open_walked("place_a"), &second_call), first);
    assert_int_equal(first_call, second_call);
}

static void *open_as(const char *name, char *ret_path, size_t capacity)
{
    char source[512], bytes[4096];
    size_t got;
    FILE *from, *to;
    void *library;

    snprintf(source, sizeof source, "%s/walked/%s.so", UNIT_DIR, name);
    snprintf(ret_path, capacity, "/tmp/nxm-unwind-%d.so", (int)getpid());
    from = fopen(source, "r");
    to = fopen(ret_path, "w");
    assert_true(from != NULL && to != NULL);
    while ((got = fread(bytes, 1, sizeof bytes, from)) > 0)
        assert_int_equal(fwrite(bytes, 1, got, to), got);
    fclose(from);
    assert_int_equal(fclose(to), 0);
    library = dlopen(ret_path, RTLD_NOW | RTLD_LOCAL);
    assert_non_null(library);
    return library;
}

static void a_library_built_anew_under_its_old_name_is_another(void **state)
{
    uint64_t first, second, first_call, second_call;
    char path[128];

    (void)state;
    first = walk_through_place(open_as("place_a", path, sizeof path), &first_call);
    unlink(path);
    second = walk_through_place(open_as("place_b", path, sizeof path), &second_call);
    unlink(path);
    assert_int_equal(first, second);
    assert_int_equal(nxm_frame_address(first_call), nxm_frame_address(second_call));
    assert_int_not_equal(nxm_frame_image(first_call), nxm_frame_image(second_call));
}

#endif

/* --- rules that are wrong ---------------------------------------------------------------------------------------- */

static uint64_t planted_rule, planted_at;
static uint32_t planted_frames;

static void walk_with_rule(void)
{
    struct nxm_registers here;

    NXM_REGISTERS_HERE(here);
    nxm_rule_keep(planted_at, planted_rule);
    VALGRIND_DISABLE_ERROR_REPORTING; /* nobody says that what is read was ever written */
    nxm_unwind(&here, NXM_TRACE_MAX, false, &ours);
    VALGRIND_ENABLE_ERROR_REPORTING;
    planted_frames = ours.count;
}

static void call_with_rule(void)
{
    FRAMES(current, call)(walk_with_rule);
}

/* Damaged tables might say anything. Nothing beyond the stack is read: it ends at walls. What leads nowhere, or back, ends the walk. */
static void no_rule_leads_off_the_stack(void **state)
{
    static const struct {
        struct nxm_rule rule;
        bool ends;
    } wrong[] = {
        { { .cfa_from = NXM_FROM_SP, .cfa = STACK_BYTES, .ra = -8, .fp_from = NXM_FROM_KEPT }, true },
        { { .cfa_from = NXM_FROM_SP, .cfa = STACK_BYTES - 8, .ra = -8, .fp = -16 }, true },
        { { .cfa_from = NXM_FROM_SP, .cfa = STACK_BYTES + WALL_BYTES / 2, .ra = -8, .fp = -16 }, true },
        { { .cfa_from = NXM_FROM_SP, .cfa = 1 << 23, .ra = -8, .fp_from = NXM_FROM_KEPT }, true },
        { { .cfa_from = NXM_FROM_SP, .cfa = STACK_BYTES, .ra = -8, .signed_ra = true, .fp_from = NXM_FROM_KEPT }, true },
        { { .cfa_from = NXM_FROM_SP, .cfa = 64, .ra = 65528, .fp_from = NXM_FROM_KEPT }, false },
        { { .cfa_from = NXM_FROM_SP, .cfa = 64, .ra = -65536, .fp_from = NXM_FROM_KEPT }, true },
        { { .cfa_from = NXM_FROM_SP, .cfa = 64, .ra = -8, .fp = -65536 }, true },
        { { .cfa_from = NXM_FROM_SP, .cfa = -(300 << 10), .cfa_loaded = true, .ra = -8, .fp = -16 }, true },
        { { .cfa_from = NXM_FROM_SP, .cfa = 300 << 10, .cfa_loaded = true, .ra = -8, .fp = -16 }, true },
        { { .cfa_from = NXM_FROM_SP, .cfa = 64, .ra = -8, .fp_from = NXM_FROM_SP, .fp = 65528 }, false },
        { { .cfa_from = NXM_FROM_SP, .cfa = -64, .ra = -8, .fp_from = NXM_FROM_KEPT }, true },
        { { .cfa_from = NXM_FROM_SP, .cfa = 0, .ra = 8, .fp_from = NXM_FROM_KEPT }, true },
        { { .cfa_from = NXM_FROM_SP, .cfa = 0, .ra_from = NXM_FROM_SP, .ra = 8, .fp_from = NXM_FROM_KEPT }, true },
        { { .cfa_from = NXM_FROM_FP, .cfa = 16, .ra = -8, .fp = -16 }, false },
        { { .cfa_from = NXM_FROM_FP, .cfa = 1 << 23, .ra = -8, .fp = -16 }, true },
        { { .cfa_from = NXM_FROM_FP, .cfa = STACK_BYTES + WALL_BYTES / 2, .ra = -8, .fp_from = NXM_FROM_KEPT }, true },
        { { .cfa_from = NXM_FROM_FP, .cfa = 16, .cfa_loaded = true, .ra = -8, .fp = -16 }, false },
        { { .cfa_from = NXM_FROM_SP, .cfa = 16, .cfa_loaded = true, .ra = -8, .fp = -16 }, false },
        { { .cfa_from = NXM_FROM_SP, .cfa = 16, .signal = true, .ra = 8, .ra_from = NXM_FROM_SP, .fp = -16 }, false },
        { { .cfa_from = NXM_FROM_SP, .cfa = 16, .ra_from = NXM_FROM_KEPT, .fp_from = NXM_FROM_KEPT }, true },
    };
    char *stack = stack_between_walls();

    (void)state;
    current = open_walked("O2");
    for (unsigned frame = 0; frame < 4; frame++) {
        for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
            walk_in_coroutine(stack, in_coroutine);
            assert_same(0);
            planted_at = ours.frames[frame];
            planted_rule = nxm_rule_pack(&wrong[i].rule);
            assert_false(planted_rule & NXM_RULE_UNKNOWN);
            walk_in_coroutine(stack, call_with_rule);
            assert_true(planted_frames > frame);
            if (wrong[i].ends)
                assert_int_equal(planted_frames, frame + 1);
            nxm_rule_keep(planted_at, 0);
        }
    }
    give_back(stack);
}

static volatile uint64_t planted_fp;

/* The frame pointer is whatever the code on the stack left in its register: nobody promises that it points to a stack. */
static void walk_from_any_frame_pointer(void)
{
    struct nxm_registers here;

    NXM_REGISTERS_HERE(here);
    here.fp = planted_fp;
    VALGRIND_DISABLE_ERROR_REPORTING;
    nxm_unwind(&here, NXM_TRACE_MAX, false, &ours);
    VALGRIND_ENABLE_ERROR_REPORTING;
}

static void in_coroutine_with_any_frame_pointer(void)
{
    FRAMES(current, call)(walk_from_any_frame_pointer);
}

static void a_frame_pointer_that_points_nowhere_is_not_followed(void **state)
{
    char *stack = stack_between_walls();
    const uint64_t nowhere[] = { 0, 1, 4096, (uintptr_t)stack - 64, (uintptr_t)stack - 8, (uintptr_t)stack + STACK_BYTES - 8,
                                 (uintptr_t)stack + STACK_BYTES, (uintptr_t)stack + STACK_BYTES + 4096, UINT64_C(1) << 63, UINT64_MAX - 15,
                                 UINT64_MAX };

    (void)state;
    current = open_walked("fp");
    for (int round = 0; round < 2; round++) { /* unknown, then known */
        for (size_t i = 0; i < sizeof nowhere / sizeof *nowhere; i++) {
            planted_fp = nowhere[i];
            walk_in_coroutine(stack, in_coroutine_with_any_frame_pointer);
#if defined __x86_64__ /* elsewhere frames start from the stack pointer even so */
            assert_true(ours.count <= 1);
#endif
        }
    }
    give_back(stack);
}

/* --- by frame pointers ------------------------------------------------------------------------------------------- */

static void take_chain(void)
{
    struct nxm_registers here;

    NXM_REGISTERS_HERE(here);
    nxm_unwind_frame_pointers(&here, NXM_TRACE_MAX, false, &ours);
    their_count = backtrace(theirs, (int)(sizeof theirs / sizeof *theirs));
}

static void frame_pointers_lead_through_code_that_has_them(void **state)
{
    void *library = open_walked("fp");

    (void)state;
    FRAMES(library, deep)(take_chain, 100);
    whole = true;
    assert_same(0);
    dlclose(library);
}

/* In code that is not ours, which is followed by its chain alone. */
static void a_chain_that_is_none_ends(void **state)
{
    static const uint64_t nowhere[2] = { 0 };
    void *library = open_walked("O2"), *function = dlsym(library, "frames_deep");
    struct nxm_registers here;

    (void)state;
    assert_non_null(function);
    NXM_REGISTERS_HERE(here);
    here.pc = (uint64_t)(uintptr_t)function + 1;
    for (int i = 0; i < 5; i++) {
        const uint64_t wrong[] = { 0, 1, 4096, (uintptr_t)nowhere, UINT64_MAX - 8 };

        here.fp = wrong[i];
        nxm_unwind_frame_pointers(&here, NXM_TRACE_MAX, false, &ours);
        assert_int_equal(ours.count, 1);
    }
    dlclose(library);
}

static void without_a_stack_code_or_depth_nothing_is_told(void **state)
{
    struct nxm_registers here;

    (void)state;
    NXM_REGISTERS_HERE(here);
    here.pc = (uintptr_t)dlsym(RTLD_DEFAULT, "backtrace") + 1; /* a frame that is told */
    nxm_unwind_frame_pointers(&here, 1, false, &ours);
    assert_int_equal(ours.count, 1);
    nxm_unwind(&here, 0, false, &ours);
    assert_int_equal(ours.count, 0);
    for (int i = 0; i < 2; i++) {
        struct nxm_registers wrong = here;

        *(i == 0 ? &wrong.sp : &wrong.pc) = 0;
        nxm_unwind(&wrong, NXM_TRACE_MAX, false, &ours);
        assert_int_equal(ours.count, 0);
        nxm_unwind_frame_pointers(&wrong, NXM_TRACE_MAX, false, &ours);
        assert_int_equal(ours.count, 0);
    }
}

/* --- which frames are told --------------------------------------------------------------------------------------- */

static void take_without_own(void)
{
    struct nxm_registers here;

    NXM_REGISTERS_HERE(here);
    whole = nxm_unwind(&here, 5, true, &ours);
}

static void our_own_frames_are_left_out_wherever_they_stand(void **state)
{
    void *library = open_walked("O2");

    (void)state;
    FRAMES(library, deep)(take_without_own, 3);
    assert_true(ours.count >= 5); /* four of the library, then libc's around main */
    for (uint32_t i = 0; i < ours.count; i++)
        assert_false(nxm_images_numbered(nxm_frame_image(ours.frames[i]))->own);
    dlclose(library);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ordinary_code_is_walked_however_it_was_compiled),
        cmocka_unit_test(frames_of_any_length_and_alignment_are_walked),
        cmocka_unit_test(callbacks_through_libc_are_walked),
        cmocka_unit_test(a_deep_recursion_is_cut_at_the_depth),
#ifdef WALKED_CXX
        cmocka_unit_test(an_exception_is_no_obstacle),
#endif
        cmocka_unit_test(threads_are_walked_to_their_start),
        cmocka_unit_test(a_signal_s_frame_leads_to_the_exact_place),
        cmocka_unit_test(a_signal_s_own_stack_leads_back_to_the_thread_s),
        cmocka_unit_test(a_coroutine_is_walked_to_its_start),
        cmocka_unit_test(a_function_that_moved_to_another_stack_is_walked_through),
        cmocka_unit_test(jit_code_ends_the_walk_and_is_told),
        cmocka_unit_test(a_library_without_tables_ends_the_walk),
        cmocka_unit_test(what_cannot_be_followed_is_said),
#ifndef EMULATED
        cmocka_unit_test(rules_of_a_closed_library_are_not_another_s),
        cmocka_unit_test(a_library_built_anew_under_its_old_name_is_another),
#endif
        cmocka_unit_test(no_rule_leads_off_the_stack),
        cmocka_unit_test(a_frame_pointer_that_points_nowhere_is_not_followed),
        cmocka_unit_test(frame_pointers_lead_through_code_that_has_them),
        cmocka_unit_test(a_chain_that_is_none_ends),
        cmocka_unit_test(without_a_stack_code_or_depth_nothing_is_told),
        cmocka_unit_test(our_own_frames_are_left_out_wherever_they_stand),
    };

    nxm_images_prepare();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
