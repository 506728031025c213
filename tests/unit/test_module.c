/* core/module.c, library.c: loading, naming what is wrong, finding mechanisms, unloading. The
 * process-wide counters are only compared before and after: tests that pin a module for ever are in
 * test_module_leak.c. */
#include "core/module.h"

#include <dlfcn.h>
#include <elf.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "core/mem.h"
#include "core/module_tenancy.h"
#include "tests/unit/support/fake.h"

#define PLUGIN UNIT_DIR "/plugins/fake.so"

static char directory[] = "/tmp/nxm_module_XXXXXX";

static int reset(void **state)
{
    (void)state;
    fake_reset();
    return 0;
}

static int make_directory(void **state)
{
    (void)state;
    return mkdtemp(directory) == NULL ? -1 : 0;
}

static int remove_directory(void **state)
{
    (void)state;
    return rmdir(directory);
}

static struct nxm_module *load(void)
{
    struct nxm_module *module = NULL;
    struct nxm_error error = { .text = "" };

    if (nxm_module_load(PLUGIN, NULL, &module, &error) != NXM_OK)
        fail_msg("%s", error.text);
    return module;
}

static bool mapped(void)
{
    void *handle = dlopen(PLUGIN, RTLD_LAZY | RTLD_NOLOAD);

    if (handle != NULL)
        dlclose(handle);
    return handle != NULL;
}

static uint64_t unmapped_count(void)
{
    struct nxm_module_counters counters;

    nxm_module_counters(&counters);
    return counters.modules_unmapped;
}

/* --- what cannot be loaded ----------------------------------------------------------------------- */

static void refused(const char *path, int code, const char *word)
{
    struct nxm_module *module = (void *)0x1;
    struct nxm_error error = { .text = "" };

    assert_int_equal(nxm_module_load(path, NULL, &module, &error), code);
    assert_int_equal(error.code, code);
    assert_ptr_equal(module, (void *)0x1);
    assert_null(strchr(error.text, '\n'));
    if (strstr(error.text, word) == NULL)
        fail_msg("'%s' does not say '%s'", error.text, word);
}

/* A file of `bytes` bytes that begins with `content`; the path is valid until the next call. */
static const char *file_of(const void *content, size_t content_bytes, off_t bytes)
{
    static char path[128];
    int fd;

    snprintf(path, sizeof path, "%s/file.so", directory);
    fd = open(path, O_CREAT | O_TRUNC | O_WRONLY, 0700);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, content, content_bytes), (ssize_t)content_bytes);
    assert_int_equal(ftruncate(fd, bytes), 0);
    close(fd);
    return path;
}

static void remove_file(void)
{
    char path[128];

    snprintf(path, sizeof path, "%s/file.so", directory);
    unlink(path);
}

/* The fake plugin's own bytes. */
static size_t read_plugin(char **ret_bytes)
{
    int fd = open(PLUGIN, O_RDONLY);
    struct stat facts;

    assert_int_equal(fstat(fd, &facts), 0);
    *ret_bytes = malloc((size_t)facts.st_size);
    assert_int_equal(read(fd, *ret_bytes, (size_t)facts.st_size), facts.st_size);
    close(fd);
    return (size_t)facts.st_size;
}

static void a_missing_file_is_named_as_missing(void **state)
{
    (void)state;
    refused("/nowhere/plugin.so", NXM_EOPEN, "no such file");
}

static void a_directory_is_named_as_one(void **state)
{
    (void)state;
    refused(directory, NXM_EOPEN, "directory");
}

static void files_that_are_no_libraries_are_refused(void **state)
{
    (void)state;
    refused(file_of("", 0, 0), NXM_EOPEN, "not an ELF file");
    refused(file_of("#!/bin/sh\n", 10, 4000), NXM_EOPEN, "not an ELF file");
    refused(file_of("\177ELF", 4, 4), NXM_EOPEN, "truncated");
    remove_file();
    refused("/dev/null", NXM_EOPEN, "not a regular file");
}

static void a_library_cut_anywhere_is_refused_and_never_touched(void **state)
{
    char *bytes;
    size_t size = read_plugin(&bytes);
    Elf64_Ehdr header;

    (void)state;
    memcpy(&header, bytes, sizeof header);
    refused(file_of(bytes, 40, 40), NXM_EOPEN, "truncated");
    refused(file_of(bytes, sizeof header, sizeof header), NXM_EOPEN, "truncated");
    refused(file_of(bytes, header.e_phoff + 60, (off_t)header.e_phoff + 60), NXM_EOPEN, "truncated");
    refused(file_of(bytes, 4096, 4096), NXM_EOPEN, "truncated"); /* a mapped page behind the end is a SIGBUS */
    assert_true(size > 4096);
    for (size_t i = 0; i < header.e_phnum; i++) {
        Elf64_Phdr segment;

        memcpy(&segment, bytes + header.e_phoff + i * sizeof segment, sizeof segment);
        if (segment.p_type == PT_LOAD) /* all but its last byte */
            refused(file_of(bytes, segment.p_offset + segment.p_filesz - 1,
                            (off_t)(segment.p_offset + segment.p_filesz - 1)),
                    NXM_EOPEN, "truncated");
    }
    remove_file();
    free(bytes);
}

static void another_class_machine_or_type_is_named(void **state)
{
    char *bytes;
    size_t size = read_plugin(&bytes);
    Elf64_Ehdr *header = (Elf64_Ehdr *)(void *)bytes;

    (void)state;
    header->e_ident[EI_CLASS] = ELFCLASS32;
    refused(file_of(bytes, size, (off_t)size), NXM_EOPEN, "word size");
    header->e_ident[EI_CLASS] = ELFCLASS64;
    header->e_machine = EM_RISCV;
    refused(file_of(bytes, size, (off_t)size), NXM_EOPEN, "another machine");
    free(bytes);
    size = read_plugin(&bytes);
    ((Elf64_Ehdr *)(void *)bytes)->e_type = ET_REL;
    refused(file_of(bytes, size, (off_t)size), NXM_EOPEN, "not a shared library");
    remove_file();
    free(bytes);
}

static void the_first_missing_export_is_named(void **state)
{
    (void)state;
    refused(UNIT_DIR "/plugins/without_negotiate.so", NXM_ESYMBOL, "NxmemNegotiate");
    refused(UNIT_DIR "/plugins/without_factories.so", NXM_ESYMBOL, "NxmemCreateAllocatorFactories");
    refused(UNIT_DIR "/plugins/without_readiness.so", NXM_ESYMBOL, "NxmemQueryUnloadReadiness");
    assert_int_equal(fake.unmapped, 3);
}

static void a_refused_negotiation_closes_the_library(void **state)
{
    NxmemVersionRange from_the_future = { 99, 99, 0, 1 };
    struct nxm_module *module;
    uint64_t before = unmapped_count();

    (void)state;
    assert_int_equal(nxm_module_load(PLUGIN, &from_the_future, &module, NULL), NXM_ENEGOTIATE);
    fake.negotiate_status = NXMEM_STATUS_VERSION_MISMATCH;
    refused(PLUGIN, NXM_ENEGOTIATE, "VERSION_MISMATCH");
    assert_int_equal(fake.unmapped, 2);
    assert_int_equal(fake.queries, 0);          /* no common version, so no question */
    assert_int_equal(unmapped_count(), before); /* no module object existed */
}

static void refused_factories_are_released_and_the_plugin_asked_before_its_code_goes(void **state)
{
    uint64_t before = unmapped_count();

    (void)state;
    fake.factories = 3;
    fake.break_second_factory = true;
    refused(PLUGIN, NXM_ECALL, "factory vtable");
    assert_int_equal(fake.factory_releases, 3);
    assert_int_equal(fake.queries, 1);
    assert_int_equal(fake.unmapped, 1);
    assert_int_equal(unmapped_count(), before + 1);
}

static void a_failing_enumeration_is_refused(void **state)
{
    (void)state;
    fake.create_status = NXMEM_STATUS_DEVICE_ERROR;
    refused(PLUGIN, NXM_ECALL, "DEVICE_ERROR");
    assert_int_equal(fake.factory_releases, 0);
    assert_int_equal(fake.unmapped, 1);
}

static void without_memory_for_its_records_the_library_is_closed(void **state)
{
    (void)state;
    for (unsigned long n = 1; n <= 2; n++) {
        nxm_mem_fail_at(n);
        refused(PLUGIN, NXM_ENOMEM, "no memory");
        nxm_mem_fail_at(0);
        assert_int_equal(fake.unmapped, n);
        assert_false(mapped());
    }
}

/* --- what is loaded ------------------------------------------------------------------------------ */

static void a_module_says_what_it_is(void **state)
{
    struct nxm_module *module = load();
    struct nxm_mechanism mechanism;

    (void)state;
    assert_string_equal(nxm_module_path(module), PLUGIN);
    assert_int_equal(nxm_module_minor(module), 1);
    assert_int_equal(nxm_module_mechanism_count(module), 1);
    nxm_module_mechanism(module, 0, &mechanism);
    assert_string_equal(mechanism.name, "plain");
    assert_int_equal(mechanism.device.tier, NXMEM_TIER_DEVICE);
    assert_true((mechanism.capabilities & NXMEM_CAPABILITY_ALLOCATOR) != 0);
    nxm_module_drop(module);
}

static void an_older_range_is_negotiated_down(void **state)
{
    NxmemVersionRange older = { 1, 1, 0, 0 };
    struct nxm_module *module;

    (void)state;
    assert_int_equal(nxm_module_load(PLUGIN, &older, &module, NULL), NXM_OK);
    assert_int_equal(nxm_module_minor(module), 0);
    nxm_module_drop(module);
}

static void mechanisms_are_found_by_name_and_device(void **state)
{
    struct nxm_module *module;
    size_t index = 99;

    (void)state;
    fake.factories = 4;
    fake.factory_names[0] = "host";
    fake.factory_devices[0] = (NxmemDeviceId){ NXMEM_TIER_HOST, 0 };
    fake.factory_names[1] = "direct";
    fake.factory_names[2] = "pool";
    fake.factory_names[3] = "direct";
    fake.factory_devices[3] = (NxmemDeviceId){ NXMEM_TIER_DEVICE, 1 };
    module = load();
    assert_int_equal(nxm_module_find_mechanism(module, "direct", (NxmemDeviceId){ 0, 0 }, &index, NULL), NXM_OK);
    assert_int_equal(index, 1);
    assert_int_equal(nxm_module_find_mechanism(module, "direct", (NxmemDeviceId){ 0, 1 }, &index, NULL), NXM_OK);
    assert_int_equal(index, 3);
    assert_int_equal(nxm_module_find_mechanism(module, "pool", (NxmemDeviceId){ 0, 0 }, &index, NULL), NXM_OK);
    assert_int_equal(index, 2);
    assert_int_equal(nxm_module_find_mechanism(module, NULL, (NxmemDeviceId){ 0, 0 }, &index, NULL), NXM_OK);
    assert_int_equal(index, 1);
    assert_int_equal(nxm_module_find_mechanism(module, "", (NxmemDeviceId){ 1, 0 }, &index, NULL), NXM_OK);
    assert_int_equal(index, 0);
    assert_int_equal(nxm_module_find_named(module, "direct", &index, NULL), NXM_OK);
    assert_int_equal(index, 1);
    assert_int_equal(nxm_module_find_named(module, NULL, &index, NULL), NXM_OK);
    assert_int_equal(index, 0);
    nxm_module_drop(module);
}

static void an_unknown_mechanism_is_answered_with_what_there_is(void **state)
{
    struct nxm_module *module;
    struct nxm_error error;
    size_t index = 99;

    (void)state;
    fake.factories = 2;
    fake.factory_names[1] = "pool";
    module = load();
    assert_int_equal(nxm_module_find_mechanism(module, "lazy", (NxmemDeviceId){ 0, 0 }, &index, &error),
                     NXM_ENOMECHANISM);
    assert_non_null(strstr(error.text, "lazy"));
    assert_non_null(strstr(error.text, "plain"));
    assert_non_null(strstr(error.text, "pool"));
    assert_int_equal(nxm_module_find_mechanism(module, NULL, (NxmemDeviceId){ 0, 7 }, &index, &error),
                     NXM_ENOMECHANISM);
    assert_int_equal(nxm_module_find_mechanism(module, "", (NxmemDeviceId){ 0, 7 }, &index, &error), NXM_ENOMECHANISM);
    assert_non_null(strstr(error.text, "no mechanism on device:7"));
    assert_int_equal(nxm_module_find_named(module, "lazy", &index, &error), NXM_ENOMECHANISM);
    assert_non_null(strstr(error.text, "pool"));
    assert_int_equal(index, 99);
    nxm_module_drop(module);
}

static void assert_listed(NxmemDeviceId last, const char *list)
{
    struct nxm_module *module;
    struct nxm_error error;
    size_t index;

    fake.factory_devices[3] = last;
    module = load();
    assert_int_equal(nxm_module_find_named(module, "lazy", &index, &error), NXM_ENOMECHANISM);
    assert_string_equal(strstr(error.text, "it has: "), list);
    nxm_module_drop(module);
}

static void a_mechanism_of_several_devices_is_named_once(void **state)
{
    (void)state;
    fake.factories = 4;
    for (unsigned i = 0; i < 4; i++)
        fake.factory_names[i] = i == 1 ? "pool" : "direct";
    fake.factory_devices[2] = (NxmemDeviceId){ NXMEM_TIER_DEVICE, 1 };
    assert_listed((NxmemDeviceId){ NXMEM_TIER_DEVICE, 2 }, "it has: direct (device 0 to 2), pool (device 0)");
    assert_listed((NxmemDeviceId){ NXMEM_TIER_DEVICE, 3 }, "it has: direct (device 0 to 1, device 3), pool (device 0)");
    assert_listed((NxmemDeviceId){ NXMEM_TIER_HOST, 2 }, "it has: direct (device 0 to 1, host 2), pool (device 0)");
}

static void it_contains_its_own_code_and_nobody_elses(void **state)
{
    struct nxm_module *module = load();
    char *own = nxm_module_symbol(module, "NxmemNegotiate");
    int local;

    (void)state;
    assert_non_null(own);
    assert_true(nxm_code_contains(nxm_module_code(module), own));
    assert_true(nxm_code_contains(nxm_module_code(module), own + 1));
    assert_false(nxm_code_contains(nxm_module_code(module), (void *)(uintptr_t)&nxm_module_load));
    assert_false(nxm_code_contains(nxm_module_code(module), &local));
    assert_false(nxm_code_contains(nxm_module_code(module), NULL));
    assert_null(nxm_module_symbol(module, "NoSuchExport"));
    nxm_module_drop(module);
}

static void two_loads_are_two_modules(void **state)
{
    struct nxm_module *first = load(), *second = load();

    (void)state;
    assert_ptr_not_equal(first, second);
    nxm_module_drop(first);
    assert_true(mapped());
    assert_int_equal(fake.unmapped, 0);
    nxm_module_drop(second);
    assert_int_equal(fake.unmapped, 1);
    assert_int_equal(fake.factory_releases, 2);
}

/* --- unloading ----------------------------------------------------------------------------------- */

static void an_idle_module_unloads_and_its_factories_are_released_once(void **state)
{
    struct nxm_module *module;
    struct nxm_gate gate;
    uint64_t before = unmapped_count();

    (void)state;
    fake.factories = 3;
    module = load();
    assert_int_equal(nxm_module_unload(module, &gate), NXM_OK);
    assert_int_equal(gate.reason, NXM_GATE_OPEN);
    assert_false(gate.handle_kept);
    assert_int_equal(fake.factory_releases, 3);
    assert_int_equal(fake.unmapped, 1);
    assert_false(mapped());
    assert_int_equal(unmapped_count(), before + 1);
}

static void dropping_an_idle_module_unmaps_it(void **state)
{
    uint64_t before = unmapped_count();

    (void)state;
    nxm_module_drop(load());
    assert_int_equal(fake.unmapped, 1);
    assert_int_equal(fake.queries, 1);
    assert_int_equal(unmapped_count(), before + 1);
    nxm_module_drop(NULL);
}

static void a_refusal_keeps_the_handle_and_a_later_try_succeeds(void **state)
{
    struct nxm_module *module = load();
    struct nxm_gate gate;

    (void)state;
    fake.report.live_capabilities = 2;
    assert_int_equal(nxm_module_unload(module, &gate), NXM_EBUSY);
    assert_int_equal(gate.reason, NXM_GATE_PLUGIN);
    assert_true(gate.handle_kept);
    assert_int_equal(gate.plugin.live_capabilities, 2);
    assert_int_equal(fake.factory_releases, 0);
    fake.report.live_capabilities = 0;
    fake.query_status = NXMEM_STATUS_INTERNAL_ERROR;
    assert_int_equal(nxm_module_unload(module, &gate), NXM_EBUSY);
    assert_int_equal(gate.reason, NXM_GATE_QUERY_FAILED);
    fake.query_status = 0;
    assert_int_equal(nxm_module_unload(module, &gate), NXM_OK);
    assert_int_equal(fake.unmapped, 1);
}

static void a_thread_inside_a_callback_shuts_the_gate(void **state)
{
    struct nxm_module *module = load();
    struct nxm_gate gate;

    (void)state;
    nxm_spread_raise(nxm_module_tallies(module), NXM_TALLY_INSIDE, 1);
    assert_int_equal(nxm_module_unload(module, &gate), NXM_EBUSY);
    assert_int_equal(gate.reason, NXM_GATE_HOST);
    assert_true(gate.handle_kept);
    assert_int_equal(gate.host.inside, 1);
    nxm_spread_lower(nxm_module_tallies(module), NXM_TALLY_INSIDE, 1);
    assert_int_equal(nxm_module_unload(module, &gate), NXM_OK);
}

static void a_reference_refuses_for_good_and_unmaps_when_it_goes(void **state)
{
    struct nxm_module *module = load();
    uint64_t before = unmapped_count();
    struct nxm_gate gate;

    (void)state;
    nxm_module_ref(module);
    assert_int_equal(nxm_module_unload(module, &gate), NXM_EBUSY);
    assert_int_equal(gate.reason, NXM_GATE_REFERENCED);
    assert_false(gate.handle_kept);
    assert_int_equal(fake.factory_releases, 1);
    assert_int_equal(unmapped_count(), before);
    assert_true(mapped());
    nxm_module_unref(module);
    assert_int_equal(unmapped_count(), before + 1);
    assert_int_equal(fake.unmapped, 1);
}

static void asking_the_gate_has_no_consequences(void **state)
{
    struct nxm_module *module = load();
    struct nxm_gate gate;

    (void)state;
    nxm_module_query_gate(module, &gate);
    assert_int_equal(gate.reason, NXM_GATE_OPEN);
    assert_true(gate.handle_kept);
    assert_int_equal(fake.factory_releases, 0);
    assert_true(mapped());
    nxm_module_drop(module);
}

#define TEST(name) cmocka_unit_test_setup(name, reset)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_missing_file_is_named_as_missing),
        TEST(a_directory_is_named_as_one),
        TEST(files_that_are_no_libraries_are_refused),
        TEST(a_library_cut_anywhere_is_refused_and_never_touched),
        TEST(another_class_machine_or_type_is_named),
        TEST(the_first_missing_export_is_named),
        TEST(a_refused_negotiation_closes_the_library),
        TEST(refused_factories_are_released_and_the_plugin_asked_before_its_code_goes),
        TEST(a_failing_enumeration_is_refused),
        TEST(without_memory_for_its_records_the_library_is_closed),
        TEST(a_module_says_what_it_is),
        TEST(an_older_range_is_negotiated_down),
        TEST(mechanisms_are_found_by_name_and_device),
        TEST(an_unknown_mechanism_is_answered_with_what_there_is),
        TEST(a_mechanism_of_several_devices_is_named_once),
        TEST(it_contains_its_own_code_and_nobody_elses),
        TEST(two_loads_are_two_modules),
        TEST(an_idle_module_unloads_and_its_factories_are_released_once),
        TEST(dropping_an_idle_module_unmaps_it),
        TEST(a_refusal_keeps_the_handle_and_a_later_try_succeeds),
        TEST(a_thread_inside_a_callback_shuts_the_gate),
        TEST(a_reference_refuses_for_good_and_unmaps_when_it_goes),
        TEST(asking_the_gate_has_no_consequences),
    };

    return cmocka_run_group_tests(tests, make_directory, remove_directory);
}
