/* core/negotiate.c: what the host says, and which answers it refuses. */
#include "core/negotiate.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

/* The plugin of these tests answers what is here, and keeps what it was asked. */
static struct {
    uint32_t status;
    NxmemNegotiateResponse answer;
    NxmemNegotiateRequest asked;
    NxmemNegotiateResponse found; /* the response as the host prepared it */
    unsigned calls;
} plugin;

static NxmemStatus negotiate(const NxmemNegotiateRequest *request, NxmemNegotiateResponse *response)
{
    plugin.calls++;
    plugin.asked = *request;
    plugin.found = *response;
    *response = plugin.answer;
    return (NxmemStatus){ .code = plugin.status };
}

static int conforming(void **state)
{
    (void)state;
    memset(&plugin, 0, sizeof plugin);
    plugin.answer = (NxmemNegotiateResponse){
        .struct_size = sizeof plugin.answer,
        .agreed_major = 1,
        .agreed_minor = 1,
        .plugin_range = { 1, 1, 0, 1 },
        .capability_flags = NXMEM_CAPABILITY_KNOWN_MASK,
    };
    return 0;
}

static int ask(const NxmemVersionRange *range)
{
    struct nxm_agreement agreement = { .major = 77 };
    struct nxm_error error;
    int result = nxm_negotiate(negotiate, range, &agreement, &error);

    if (result != NXM_OK) {
        assert_int_equal(result, NXM_ENEGOTIATE);
        assert_int_equal(error.code, NXM_ENEGOTIATE);
        assert_true(strlen(error.text) > 0);
        assert_int_equal(agreement.major, 77); /* written on success only */
    }
    return result;
}

static void the_request_is_sized_zeroed_and_offers_everything(void **state)
{
    (void)state;
    assert_int_equal(ask(NULL), NXM_OK);
    assert_int_equal(plugin.calls, 1);
    assert_int_equal(plugin.asked.struct_size, 32);
    assert_int_equal(plugin.asked.reserved, 0);
    assert_int_equal(plugin.asked.host_range.major_min, 1);
    assert_int_equal(plugin.asked.host_range.major_max, 1);
    assert_int_equal(plugin.asked.host_range.minor_min, 0);
    assert_int_equal(plugin.asked.host_range.minor_max, 1);
    assert_int_equal(plugin.asked.host_capability_flags, 0x1F);
}

static void the_response_comes_zeroed_with_its_size(void **state)
{
    NxmemNegotiateResponse expected = { .struct_size = 40 };

    (void)state;
    assert_int_equal(ask(NULL), NXM_OK);
    assert_memory_equal(&plugin.found, &expected, sizeof expected);
}

static void an_older_ceiling_still_offers_every_bit(void **state)
{
    NxmemVersionRange older = { 1, 1, 0, 0 };

    (void)state;
    plugin.answer.agreed_minor = 0;
    plugin.answer.capability_flags = 0xF;
    assert_int_equal(ask(&older), NXM_OK);
    assert_int_equal(plugin.asked.host_range.minor_max, 0);
    assert_int_equal(plugin.asked.host_capability_flags, 0x1F);
}

static void the_agreement_is_what_was_answered(void **state)
{
    struct nxm_agreement agreement;

    (void)state;
    plugin.answer.capability_flags = NXMEM_CAPABILITY_ALLOCATOR | NXMEM_CAPABILITY_DEFERRED_RELEASE;
    assert_int_equal(nxm_negotiate(negotiate, NULL, &agreement, NULL), NXM_OK);
    assert_int_equal(agreement.major, 1);
    assert_int_equal(agreement.minor, 1);
    assert_int_equal(agreement.capabilities, 9);
}

static void an_older_plugin_is_met_at_its_minor(void **state)
{
    struct nxm_agreement agreement;

    (void)state;
    plugin.answer.plugin_range = (NxmemVersionRange){ 1, 1, 0, 0 };
    plugin.answer.agreed_minor = 0;
    plugin.answer.capability_flags = 0xF;
    assert_int_equal(nxm_negotiate(negotiate, NULL, &agreement, NULL), NXM_OK);
    assert_int_equal(plugin.asked.host_range.minor_max, 1);
    assert_int_equal(agreement.minor, 0);
    assert_int_equal(agreement.capabilities, 0xF);
}

static void a_failing_status_refuses_and_is_kept(void **state)
{
    struct nxm_agreement agreement;
    struct nxm_error error;

    (void)state;
    plugin.status = NXMEM_STATUS_VERSION_MISMATCH;
    assert_int_equal(nxm_negotiate(negotiate, NULL, &agreement, &error), NXM_ENEGOTIATE);
    assert_int_equal(error.status, NXMEM_STATUS_VERSION_MISMATCH);
    plugin.status = 4242;
    assert_int_equal(ask(NULL), NXM_ENEGOTIATE);
}

static void a_major_outside_our_range_is_refused(void **state)
{
    (void)state;
    plugin.answer.plugin_range = (NxmemVersionRange){ 0, 9, 0, 1 };
    plugin.answer.agreed_major = 2;
    assert_int_equal(ask(NULL), NXM_ENEGOTIATE);
    plugin.answer.agreed_major = 0;
    assert_int_equal(ask(NULL), NXM_ENEGOTIATE);
}

static void a_minor_above_ours_is_refused(void **state)
{
    (void)state;
    plugin.answer.plugin_range.minor_max = 2;
    plugin.answer.agreed_minor = 2;
    assert_int_equal(ask(NULL), NXM_ENEGOTIATE);
}

static void a_minor_below_ours_is_refused(void **state)
{
    NxmemVersionRange from_1 = { 1, 1, 1, 1 };

    (void)state;
    plugin.answer.agreed_minor = 0;
    plugin.answer.capability_flags = 0xF;
    assert_int_equal(ask(&from_1), NXM_ENEGOTIATE);
    assert_int_equal(ask(NULL), NXM_OK);
}

static void unknown_capability_bits_are_refused(void **state)
{
    (void)state;
    plugin.answer.capability_flags = NXMEM_CAPABILITY_KNOWN_MASK | UINT64_C(1) << 5;
    assert_int_equal(ask(NULL), NXM_ENEGOTIATE);
    plugin.answer.capability_flags = NXMEM_CAPABILITY_ALLOCATOR | UINT64_C(1) << 63;
    assert_int_equal(ask(NULL), NXM_ENEGOTIATE);
}

static void a_missing_allocator_bit_is_refused(void **state)
{
    (void)state;
    plugin.answer.capability_flags = NXMEM_CAPABILITY_KNOWN_MASK & ~NXMEM_CAPABILITY_ALLOCATOR;
    assert_int_equal(ask(NULL), NXM_ENEGOTIATE);
    plugin.answer.capability_flags = 0;
    assert_int_equal(ask(NULL), NXM_ENEGOTIATE);
}

static void structured_release_at_minor_0_is_refused(void **state)
{
    (void)state;
    plugin.answer.agreed_minor = 0;
    assert_int_equal(ask(NULL), NXM_ENEGOTIATE);
}

static void an_agreement_outside_the_plugins_own_range_is_refused(void **state)
{
    (void)state;
    plugin.answer.plugin_range = (NxmemVersionRange){ 1, 1, 0, 0 };
    assert_int_equal(ask(NULL), NXM_ENEGOTIATE);
    plugin.answer.plugin_range = (NxmemVersionRange){ 2, 3, 0, 1 };
    assert_int_equal(ask(NULL), NXM_ENEGOTIATE);
}

static void an_answer_that_was_not_written_whole_is_refused(void **state)
{
    (void)state;
    plugin.answer.struct_size = 39;
    assert_int_equal(ask(NULL), NXM_ENEGOTIATE);
    plugin.answer.struct_size = 0; /* says nothing: taken as whole */
    assert_int_equal(ask(NULL), NXM_OK);
    plugin.answer.struct_size = 400;
    assert_int_equal(ask(NULL), NXM_OK);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(the_request_is_sized_zeroed_and_offers_everything, conforming),
        cmocka_unit_test_setup(the_response_comes_zeroed_with_its_size, conforming),
        cmocka_unit_test_setup(an_older_ceiling_still_offers_every_bit, conforming),
        cmocka_unit_test_setup(the_agreement_is_what_was_answered, conforming),
        cmocka_unit_test_setup(an_older_plugin_is_met_at_its_minor, conforming),
        cmocka_unit_test_setup(a_failing_status_refuses_and_is_kept, conforming),
        cmocka_unit_test_setup(a_major_outside_our_range_is_refused, conforming),
        cmocka_unit_test_setup(a_minor_above_ours_is_refused, conforming),
        cmocka_unit_test_setup(a_minor_below_ours_is_refused, conforming),
        cmocka_unit_test_setup(unknown_capability_bits_are_refused, conforming),
        cmocka_unit_test_setup(a_missing_allocator_bit_is_refused, conforming),
        cmocka_unit_test_setup(structured_release_at_minor_0_is_refused, conforming),
        cmocka_unit_test_setup(an_agreement_outside_the_plugins_own_range_is_refused, conforming),
        cmocka_unit_test_setup(an_answer_that_was_not_written_whole_is_refused, conforming),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
