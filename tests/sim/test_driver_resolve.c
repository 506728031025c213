/* How names become entry points: cuGetProcAddress, dlsym, versions, forms. */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define __CUDA_API_VERSION_INTERNAL 1
#include "driver_fixture.h"

#define LOOKUP(base, version, flags, symbol) { #base, version, flags, #symbol },
static const struct lookup { const char *base; int version; unsigned flags; const char *symbol; } lookups[] = {
#include "runtime/lookups.def"
};

enum { LOOKUPS = sizeof lookups / sizeof *lookups };

static void *resolve(const char *name, int version, cuuint64_t flags)
{
    void *p = NULL;
    CUdriverProcAddressQueryResult status = CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
    assert_ok(cuGetProcAddress_v2(name, &p, version, flags, &status));
    assert_int_equal(p != NULL, status == CU_GET_PROC_ADDRESS_SUCCESS);
    return p;
}

static void *exported(const char *symbol)
{
    return dlsym(RTLD_DEFAULT, symbol);
}

static void every_name_the_runtime_asks_is_the_exported_symbol(void **state)
{
    (void)state;
    assert_true(LOOKUPS > 400);
    for (int i = 0; i < LOOKUPS; i++) {
        void *p = resolve(lookups[i].base, lookups[i].version, lookups[i].flags);
        if (!p || p != exported(lookups[i].symbol))
            fail_msg("%s %d %u is not %s", lookups[i].base, lookups[i].version, lookups[i].flags, lookups[i].symbol);
    }
}

static int same_address(const void *a, const void *b)
{
    const char *x = *(char *const *)a, *y = *(char *const *)b;
    return x < y ? -1 : x > y;
}

static void every_entry_point_has_an_address_of_its_own(void **state)
{
    (void)state;
    static void *seen[1024];
    size_t n = 0;
    for (const char *s; (s = sim_symbol(n, NULL)); n++) {
        assert_true(n < 1024);
        assert_non_null(seen[n] = exported(s));
    }
    qsort(seen, n, sizeof *seen, same_address);
    for (size_t i = 1; i < n; i++) assert_ptr_not_equal(seen[i - 1], seen[i]);
}

static void the_resolver_answers_for_itself_with_the_arity_of_the_version(void **state)
{
    (void)state;
    assert_ptr_equal(resolve("cuGetProcAddress", 11030, 0), (void *)cuGetProcAddress);
    assert_ptr_equal(resolve("cuGetProcAddress", 11080, 0), (void *)cuGetProcAddress);
    assert_ptr_equal(resolve("cuGetProcAddress", 12000, 0), (void *)cuGetProcAddress_v2);
}

static void a_version_selects_the_newest_form_not_above_it(void **state)
{
    (void)state;
    assert_ptr_equal(resolve("cuMemAlloc", 2000, 0), (void *)exported("cuMemAlloc"));
    assert_ptr_equal(resolve("cuMemAlloc", 3020, 0), (void *)cuMemAlloc_v2);
    assert_ptr_equal(resolve("cuMemAlloc", 13000, 0), (void *)cuMemAlloc_v2);
    assert_ptr_equal(resolve("cuCtxSynchronize", 12080, 0), (void *)cuCtxSynchronize);
    assert_ptr_equal(resolve("cuCtxSynchronize", 13000, 0), (void *)cuCtxSynchronize_v2);
}

static void flags_select_the_per_thread_form_where_there_is_one(void **state)
{
    (void)state;
    assert_ptr_equal(resolve("cuMemAllocAsync", 13000, 1), (void *)cuMemAllocAsync);
    assert_ptr_equal(resolve("cuMemAllocAsync", 13000, 2), (void *)cuMemAllocAsync_ptsz);
    assert_ptr_equal(resolve("cuMemcpyHtoD", 13000, 2), (void *)cuMemcpyHtoD_v2_ptds);
    assert_ptr_equal(resolve("cuMemAlloc", 13000, 2), (void *)cuMemAlloc_v2);
}

static void an_unknown_name_is_told_from_a_name_that_is_too_new(void **state)
{
    (void)state;
    void *p = &p;
    CUdriverProcAddressQueryResult status;
    assert_ok(cuGetProcAddress_v2("", &p, 0, 0, &status));
    assert_null(p);
    assert_int_equal(status, CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND);
    assert_ok(cuGetProcAddress_v2("cuMemAllocAsync", &p, 11010, 0, &status));
    assert_null(p);
    assert_int_equal(status, CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT);
    assert_cu(CUDA_ERROR_NOT_FOUND, cuGetProcAddress_v2("cuNoSuchName", &p, 13000, 0, NULL));
    assert_cu(CUDA_ERROR_NOT_FOUND, cuGetProcAddress("cuNoSuchName", &p, 13000, 0));
    assert_cu(CUDA_ERROR_INVALID_VALUE, cuGetProcAddress_v2("cuInit", &p, 13000, 8, NULL));
    assert_cu(CUDA_ERROR_INVALID_VALUE, cuGetProcAddress_v2("cuInit", NULL, 13000, 0, NULL));
}

static void what_is_not_simulated_says_so_and_is_counted(void **state)
{
    (void)state;
    int simulated = 1;
    assert_ok(cuInit(0));
    for (size_t i = 0; sim_symbol(i, &simulated) && simulated; i++) ;
    assert_false(simulated);
    CUmemGenericAllocationHandle handle;
    uint64_t before = sim_calls("cuMulticastCreate");
    assert_cu(CUDA_ERROR_NOT_SUPPORTED, cuMulticastCreate(&handle, NULL));
    assert_int_equal(sim_calls("cuMulticastCreate"), before + 1);
}

/* --- other drivers, beside this one in folders of their own ----------------------------------------------------- */

static void *open_driver(const char *version)
{
    Dl_info self;
    char path[4096];
    assert_int_not_equal(dladdr((void *)cuInit, &self), 0);
    const char *slash = strrchr(self.dli_fname, '/');
    snprintf(path, sizeof path, "%.*s/%s/libcuda.so.1", (int)(slash - self.dli_fname), self.dli_fname, version);
    void *handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!handle) fail_msg("%s", dlerror());
    return handle;
}

typedef CUresult version_fn(int *);
typedef CUresult get4_fn(const char *, void **, int, cuuint64_t);
typedef CUresult get5_fn(const char *, void **, int, cuuint64_t, CUdriverProcAddressQueryResult *);

static int driver_version(void *handle)
{
    int version = 0;
    assert_ok(((version_fn *)dlsym(handle, "cuDriverGetVersion"))(&version));
    return version;
}

static void a_driver_of_11_4_has_only_the_resolver_with_four_arguments(void **state)
{
    (void)state;
    void *old = open_driver("11.4"), *p = NULL;
    assert_int_equal(driver_version(old), 11040);
    assert_null(dlsym(old, "cuGetProcAddress_v2"));
    assert_null(dlsym(old, "cuLibraryLoadData"));
    get4_fn *get = (get4_fn *)dlsym(old, "cuGetProcAddress");
    assert_ok(get("cuGetProcAddress", &p, 12000, 0));
    assert_ptr_equal(p, (void *)get);
    assert_cu(CUDA_ERROR_NOT_FOUND, get("cuStreamGetId", &p, 13000, 0));
}

static void a_driver_of_12_4_cannot_record_a_context(void **state)
{
    (void)state;
    void *old = open_driver("12.4"), *p = NULL;
    CUdriverProcAddressQueryResult status;
    assert_int_equal(driver_version(old), 12040);
    assert_null(dlsym(old, "cuCtxRecordEvent"));
    get5_fn *get = (get5_fn *)dlsym(old, "cuGetProcAddress_v2");
    assert_ok(get("cuCtxRecordEvent", &p, 13000, 0, &status));
    assert_null(p);
    assert_int_equal(status, CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND);
}

static void a_future_driver_answers_names_that_nobody_knows(void **state)
{
    (void)state;
    void *future = open_driver("99.0"), *p = NULL;
    CUdriverProcAddressQueryResult status;
    assert_int_equal(driver_version(future), 99000);
    get5_fn *get = (get5_fn *)dlsym(future, "cuGetProcAddress_v2");
    assert_ok(get("cuFutureMemAlloc", &p, 99000, 0, &status));
    assert_non_null(p);
    assert_ok(get("cuMemAlloc", &p, 13000, 0, &status)); /* asked as today, it answers as today */
    assert_ptr_equal(p, dlsym(future, "cuMemAlloc_v2"));
}

static void a_future_driver_has_newer_forms_of_known_names(void **state)
{
    (void)state;
    typedef CUresult alloc_fn(CUdeviceptr *, size_t, unsigned long long);
    typedef CUresult free_fn(CUdeviceptr, unsigned long long);
    void *future = open_driver("99.0"), *alloc = NULL, *release = NULL;
    CUdriverProcAddressQueryResult status;
    CUdeviceptr p = 0;
    get5_fn *get = (get5_fn *)dlsym(future, "cuGetProcAddress_v2");
    assert_ok(get("cuMemAlloc", &alloc, 99000, 0, &status));
    assert_ok(get("cuMemFree", &release, 99000, 0, &status));
    assert_ptr_not_equal(alloc, dlsym(future, "cuMemAlloc_v2"));
    assert_cu(CUDA_ERROR_NOT_INITIALIZED, ((alloc_fn *)alloc)(&p, 64, 0));
    assert_cu(CUDA_ERROR_INVALID_VALUE, ((free_fn *)release)(p, 1));
}

static void a_future_driver_takes_flags_that_nobody_knows(void **state)
{
    (void)state;
    void *future = open_driver("99.0"), *p = NULL;
    CUdriverProcAddressQueryResult status;
    get5_fn *get = (get5_fn *)dlsym(future, "cuGetProcAddress_v2");
    assert_ok(get("cuMemAlloc", &p, 13000, 1 << 20, &status));
    assert_ptr_equal(p, dlsym(future, "cuMemAlloc_v2"));
    assert_cu(CUDA_ERROR_INVALID_VALUE, cuGetProcAddress_v2("cuMemAlloc", &p, 13000, 1 << 20, &status));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_name_the_runtime_asks_is_the_exported_symbol),
        cmocka_unit_test(every_entry_point_has_an_address_of_its_own),
        cmocka_unit_test(the_resolver_answers_for_itself_with_the_arity_of_the_version),
        cmocka_unit_test(a_version_selects_the_newest_form_not_above_it),
        cmocka_unit_test(flags_select_the_per_thread_form_where_there_is_one),
        cmocka_unit_test(an_unknown_name_is_told_from_a_name_that_is_too_new),
        cmocka_unit_test(what_is_not_simulated_says_so_and_is_counted),
        cmocka_unit_test(a_driver_of_11_4_has_only_the_resolver_with_four_arguments),
        cmocka_unit_test(a_driver_of_12_4_cannot_record_a_context),
        cmocka_unit_test(a_future_driver_answers_names_that_nobody_knows),
        cmocka_unit_test(a_future_driver_has_newer_forms_of_known_names),
        cmocka_unit_test(a_future_driver_takes_flags_that_nobody_knows),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
