# nxmem-preload. `make help` lists the targets. Everything is built under build/ (BUILD=…); SAN=asan or
# SAN=tsan builds the same tree with that sanitizer under build/asan or build/tsan.
.DEFAULT_GOAL := all
MAKEFLAGS += --no-builtin-rules
VERSION := $(shell cat VERSION)
comma := ,
SAN ?=
BUILD ?= build$(if $(SAN),/$(SAN))

PREFIX ?= /usr/local
ifeq ($(origin CC),default)
CC := gcc
endif
CFLAGS ?= -O2 -g
WARN := -Wall -Wextra -Wshadow -Wmissing-prototypes -Wconversion $(if $(CI),-Werror)
SANFLAGS := $(if $(filter asan,$(SAN)),-DNXM_LOCK_CHECKS -fsanitize=address$(comma)undefined -fno-sanitize-recover=undefined) \
            $(if $(filter tsan,$(SAN)),-fsanitize=thread)

# Looked for once, when a rule first needs it.
cuda_given := $(CUDA_HOME)
find_cuda = $(or $(shell CUDA_HOME='$(cuda_given)' scripts/find-cuda headers),$(error CUDA headers are needed))
CUDA_INCLUDE ?= $(eval CUDA_INCLUDE := $(find_cuda))$(CUDA_INCLUDE)
CUDA_HOME ?= $(patsubst %/include,%,$(CUDA_INCLUDE))

CPPFLAGS_ALL := -D_GNU_SOURCE -DNXM_VERSION='"$(VERSION)"' -I. -Iinclude $(CPPFLAGS)
CFLAGS_ALL := -std=gnu11 -fPIC -fvisibility=hidden -fno-common $(WARN) $(CFLAGS) $(SANFLAGS)
SAY = $(if $(V),:,echo "  $(1) $@")
COMPILE = @mkdir -p $(@D) && $(call SAY,CC  ) && $(CC) $(CPPFLAGS_ALL) $(CFLAGS_ALL) -MMD -MP $(EXTRA) -c $< -o $@

# Another compiler or other flags than last time: what they built is not this build's.
built_with := $(strip $(CC) $(CFLAGS) $(CPPFLAGS) $(LDFLAGS) $(SANFLAGS))
ifneq ($(filter-out clean help uninstall setup,$(or $(MAKECMDGOALS),all)),)
ifneq ($(strip $(file < $(BUILD)/.built-with)),$(built_with))
$(shell mkdir -p $(BUILD) && cd $(BUILD) && rm -rf core interpose plugins scripts lib bin apps tests sim)
$(file > $(BUILD)/.built-with,$(built_with))
endif
endif

# --- the shim: core and interpose --------------------------------------------------------------------
CORE_O := $(patsubst %.c,$(BUILD)/%.o,$(wildcard core/*.c))
INTERPOSE_O := $(patsubst %.c,$(BUILD)/%.o,$(wildcard interpose/*.c)) $(patsubst %.S,$(BUILD)/%.o,$(wildcard interpose/*.S))
SHIM := $(BUILD)/lib/libnxmem_preload.so

# Static TLS: __tls_get_addr may allocate inside a hook and makes the loader a needed library. check-exports keeps it small.
$(BUILD)/core/%.o $(BUILD)/interpose/%.o: CFLAGS_ALL += -ftls-model=initial-exec
$(BUILD)/core/%.o: core/%.c
	$(COMPILE)
$(BUILD)/interpose/%.o: EXTRA = -isystem $(CUDA_INCLUDE)
$(BUILD)/interpose/%.o: interpose/%.c
	$(COMPILE)
$(BUILD)/interpose/%.o: interpose/%.S
	$(COMPILE)
# Routing runs before a sanitizer's own initialisation: plain code, no libc by builtin.
$(BUILD)/interpose/route.o $(BUILD)/interpose/route_%.o: EXTRA = -isystem $(CUDA_INCLUDE) -fno-builtin -fno-stack-protector -fno-sanitize=all

$(SHIM): $(CORE_O) $(INTERPOSE_O) interpose/exports.map
	@mkdir -p $(@D) && $(call SAY,LINK)
	$(CC) -shared $(SANFLAGS) $(LDFLAGS) -Wl,-soname,libnxmem_preload.so -Wl,--version-script=interpose/exports.map \
	  -Wl,-Bsymbolic-functions -Wl,-z,nodelete -Wl,-z,relro -Wl,--as-needed -o $@ $(CORE_O) $(INTERPOSE_O)

# --- plugins -------------------------------------------------------------------------------------------
# plugins/<name>.c with what it takes of plugins/common, linked in. PLUGINS is what is installed; the
# misbehaving plugin and the fixtures are for the tests only.
PLUGINS := $(patsubst %,$(BUILD)/lib/nxmem/%.so,direct host)
PLUGIN_KIT := $(BUILD)/plugins/libkit.a
LINK_PLUGIN = @mkdir -p $(@D) && $(CC) -shared $(SANFLAGS) $(LDFLAGS) -Wl,--version-script=plugins/exports.map \
  -Wl,-z,relro -Wl,-z,now -Wl,--as-needed -o $@ $(filter %.o %.a,$^) -ldl -lpthread

$(BUILD)/plugins/%.o: EXTRA = -isystem $(CUDA_INCLUDE)
$(BUILD)/plugins/%.o: plugins/%.c
	$(COMPILE)
$(PLUGIN_KIT): $(patsubst %.c,$(BUILD)/%.o,$(wildcard plugins/common/*.c))
	rm -f $@ && $(AR) rcs $@ $^
$(PLUGINS): $(BUILD)/lib/nxmem/%.so: $(BUILD)/plugins/%.o $(PLUGIN_KIT) plugins/exports.map
	$(LINK_PLUGIN)

FAULTY := $(BUILD)/tests/plugins/faulty.so
$(FAULTY): $(patsubst %.c,$(BUILD)/%.o,$(wildcard plugins/faulty/*.c)) $(PLUGIN_KIT) plugins/exports.map
	$(LINK_PLUGIN)

# The fake drivers keep their names, in folders of their own: the loader knows a driver by its name.
FAKE_CUDA := $(BUILD)/tests/plugins/fixtures/cuda/libcuda.so.1 $(BUILD)/tests/plugins/fixtures/hollow/libcuda.so.1
$(BUILD)/tests/plugins/fixtures/cuda/libcuda.so.1: tests/plugins/fixtures/fake_cuda.c tests/plugins/fixtures/fake_cuda.h
$(BUILD)/tests/plugins/fixtures/hollow/libcuda.so.1: tests/plugins/fixtures/hollow_cuda.c
$(FAKE_CUDA):
	@mkdir -p $(@D)
	@$(CC) $(CPPFLAGS_ALL) -isystem $(CUDA_INCLUDE) $(CFLAGS_ALL) -shared -Wl,-soname,libcuda.so.1 -o $@ $<

# One source, one module for each fault that a loader must survive.
LOAD_FAULTS := $(shell grep -o '^LOAD_FAULT.[a-z0-9_]*' tests/plugins/fixtures/load_faults.def | cut -c12-)
LOAD_FAULT_SO := $(LOAD_FAULTS:%=$(BUILD)/tests/plugins/fixtures/load/%.so)
$(LOAD_FAULT_SO): $(BUILD)/tests/plugins/fixtures/load/%.so: tests/plugins/fixtures/load_fault.c tests/plugins/fixtures/load_faults.def $(PLUGIN_KIT)
	@mkdir -p $(@D)
	@$(CC) $(CPPFLAGS_ALL) $(CFLAGS_ALL) -DFAULT=FAULT_$* -DFAULT_IS_$* -shared -Wl,--version-script=plugins/exports.map -o $@ $< $(PLUGIN_KIT)

PLUGIN_TESTS := $(patsubst %.c,$(BUILD)/%,$(wildcard tests/plugins/test_*.c))
$(BUILD)/tests/plugins/%.o: EXTRA = -isystem $(CUDA_INCLUDE)
$(BUILD)/tests/plugins/%.o: tests/plugins/%.c
	$(COMPILE)
PLUGIN_SUPPORT_O := $(patsubst %,$(BUILD)/tests/plugins/%.o,support driver_fixture faulty_fixture)
$(PLUGIN_TESTS): %: %.o $(PLUGIN_SUPPORT_O) $(PLUGIN_KIT) | $(PLUGINS) $(FAULTY) $(FAKE_CUDA) $(LOAD_FAULT_SO)
	$(CC) $(SANFLAGS) $(LDFLAGS) -o $@ $^ -lcmocka -ldl -lpthread

.PHONY: plugins test-plugins
plugins: $(PLUGINS) ## build the plugins
test-plugins: $(PLUGIN_TESTS) ## run the plugins' own tests
	@set -e; for t in $(PLUGIN_TESTS); do timeout 120 $$t; done

# --- the simulated CUDA --------------------------------------------------------------------------------

# The driver: every cu* name is a row of sim_api.def; nothing of CUDA is linked. The drivers of sim/11.4, sim/12.4 and
# sim/99.0 are the same objects with another version; an older one lacks the exports that are newer than it.
SIM_CU_O := $(patsubst tests/sim/driver/%.c,$(BUILD)/sim/obj/driver/%.o,$(wildcard tests/sim/driver/*.c))
SIM_DRIVER := $(BUILD)/sim/libcuda.so.1
SIM_DRIVERS := $(SIM_DRIVER) $(foreach v,11.4 12.4 99.0,$(BUILD)/sim/$(v)/libcuda.so.1)
sim_cu_link = $(CC) -shared $(SANFLAGS) $(LDFLAGS) -Wl,-soname,libcuda.so.1 -Wl,-Bsymbolic -Wl,-z,defs -Wl,-z,nodelete -o $@ $(filter %.o,$^) -lpthread
sim_cu_number = $(subst .,0,$(1))0

$(BUILD)/sim/obj/driver/%.o: EXTRA = -isystem $(CUDA_INCLUDE)
$(BUILD)/sim/obj/driver/%.o: tests/sim/driver/%.c
	$(COMPILE)
$(SIM_DRIVER): $(SIM_CU_O)
	$(sim_cu_link)
$(BUILD)/sim/obj/driver-%/state.o: EXTRA = -isystem $(CUDA_INCLUDE) -DSIM_PROFILE_VERSION=$(call sim_cu_number,$*)
$(BUILD)/sim/obj/driver-%/state.o: tests/sim/driver/state.c
	$(COMPILE)
$(BUILD)/sim/%/libcuda.so.1: $(BUILD)/sim/obj/driver-%/state.o $(filter-out %/state.o,$(SIM_CU_O)) tests/sim/driver/sim_api.def
	@mkdir -p $(@D)
	awk -F'[(),]' '/^(SIM|STUB)/ && $$4 + 0 <= $(call sim_cu_number,$*) { print $$2 ";" }' tests/sim/driver/sim_api.def > $(@D)/exports
	(echo '{ global: sim_*;'; cat $(@D)/exports; echo 'local: *; };') > $(@D)/libcuda.map
	$(sim_cu_link) -Wl,--version-script=$(@D)/libcuda.map

SIM_CU_TESTS := $(patsubst %.c,$(BUILD)/%,$(wildcard tests/sim/test_driver_*.c))
$(SIM_CU_TESTS): $(BUILD)/tests/sim/%: tests/sim/%.c $(SIM_DRIVER) | $(SIM_DRIVERS)
	@mkdir -p $(@D)
	$(CC) $(CPPFLAGS_ALL) $(CFLAGS_ALL) -isystem $(CUDA_INCLUDE) -MMD -MP -o $@ $< $(SIM_DRIVER) \
	  '-Wl,-rpath,$$ORIGIN/../../sim' -lcmocka -ldl -lpthread

# What asks a real device; here it asks the simulated one. Linked by name only: the driver is the machine's.
FACTS := $(BUILD)/tests/gpu/facts/facts
$(FACTS): $(wildcard tests/gpu/facts/*.c) tests/gpu/facts/facts.h $(SIM_DRIVER)
	@mkdir -p $(@D)
	$(CC) $(CPPFLAGS_ALL) $(CFLAGS_ALL) -isystem $(CUDA_INCLUDE) -Wl,-z,lazy -o $@ $(filter %.c,$^) $(SIM_DRIVER) -ldl -lpthread
tests/sim/test_facts.sh tests/gpu/test_facts.sh: $(FACTS)

# Programs with planted faults, and their correct twins, over many seeds.
SIM_PLANTED := $(BUILD)/tests/sim/test_planted
$(BUILD)/tests/sim/planted/%.o: EXTRA = -isystem $(CUDA_INCLUDE)
$(BUILD)/tests/sim/planted/%.o: tests/sim/planted/%.c
	$(COMPILE)
$(SIM_PLANTED): tests/sim/test_planted.c $(patsubst %.c,$(BUILD)/%.o,$(wildcard tests/sim/planted/*.c)) $(SIM_DRIVER)
	$(CC) $(CPPFLAGS_ALL) $(CFLAGS_ALL) -isystem $(CUDA_INCLUDE) -MMD -MP -o $@ $(filter %.c %.o,$^) $(SIM_DRIVER) \
	  '-Wl,-rpath,$$ORIGIN/../../sim' -lpthread

# How fast it is: figures for people, instructions for the test.
SIM_BENCH := $(BUILD)/tests/sim/bench
$(SIM_BENCH): tests/sim/bench.c $(SIM_DRIVER)
	@mkdir -p $(@D)
	$(CC) $(CPPFLAGS_ALL) $(CFLAGS_ALL) -isystem $(CUDA_INCLUDE) -MMD -MP -o $@ $< $(SIM_DRIVER) '-Wl,-rpath,$$ORIGIN/../../sim'
tests/sim/test_speed.sh: $(SIM_BENCH)
.PHONY: bench-sim
bench-sim: $(SIM_BENCH) ## print how fast the simulated driver allocates
	$(SIM_BENCH)

# The runtime is compiled three times: as CUDA 13's and 12's shared library, and hidden for the static one. What takes a
# stream (per_stream/) is in each of them twice: plain, and with the per-thread default stream.
SIM_RT_C := $(wildcard tests/sim/runtime/*.c tests/sim/runtime/per_stream/*.c)
SIM_RT_TWICE_C := $(wildcard tests/sim/runtime/per_stream/*.c)
sim_rt_objects = $(patsubst tests/sim/%.c,$(BUILD)/sim/obj/$(1)/%.o,$(SIM_RT_C)) \
                 $(patsubst tests/sim/%.c,$(BUILD)/sim/obj/$(1)/%_ptsz.o,$(SIM_RT_TWICE_C))
SIM_RT := $(BUILD)/sim/libcudart.so.13 $(BUILD)/sim/libcudart.so.12 $(BUILD)/sim/libcudart_static.a
SIM_MATH := $(BUILD)/sim/libcublas.so.13 $(BUILD)/sim/libcublas.so.12 $(BUILD)/sim/libnccl.so.2
sim_rt_flags_13 := -fvisibility=default
sim_rt_flags_12 := -fvisibility=default -DSIM_CUDART_VERSION=12080
sim_rt_flags_static := -fvisibility=hidden

define SIM_RT_RULES
$(BUILD)/sim/obj/$(1)/%.o: EXTRA = -isystem $(CUDA_INCLUDE) $(sim_rt_flags_$(1))
$(BUILD)/sim/obj/$(1)/%.o: tests/sim/%.c
	$$(COMPILE)
$(BUILD)/sim/obj/$(1)/%_ptsz.o: EXTRA = -isystem $(CUDA_INCLUDE) $(sim_rt_flags_$(1)) -DCUDA_API_PER_THREAD_DEFAULT_STREAM
$(BUILD)/sim/obj/$(1)/%_ptsz.o: tests/sim/%.c
	$$(COMPILE)
endef
$(foreach v,13 12 static,$(eval $(call SIM_RT_RULES,$(v))))

$(BUILD)/sim/libcudart.so.13: $(call sim_rt_objects,13)
$(BUILD)/sim/libcudart.so.12: $(call sim_rt_objects,12)
$(BUILD)/sim/libcudart.so.%: tests/sim/runtime/cudart%.map
	$(CC) -shared $(SANFLAGS) $(LDFLAGS) -Wl,-soname,$(@F) -Wl,--version-script=$< -Wl,-Bsymbolic-functions -o $@ $(filter %.o,$^)
$(BUILD)/sim/libcudart_static.a: $(call sim_rt_objects,static)
	rm -f $@ && $(AR) rcs $@ $^
# As the real one, cuBLAS carries a hidden runtime of its own.
$(BUILD)/sim/libcublas.so.%: tests/sim/cublas/cublas.c tests/sim/cublas/cublas%.map $(BUILD)/sim/libcudart_static.a
	$(CC) $(CPPFLAGS_ALL) $(CFLAGS_ALL) -fvisibility=default -isystem $(CUDA_INCLUDE) -shared $(LDFLAGS) -Wl,-soname,$(@F) \
	  -Wl,--version-script=$(word 2,$^) -Wl,-Bsymbolic-functions -o $@ $< $(word 3,$^)
$(BUILD)/sim/libnccl.so.2: tests/sim/cublas/nccl.c
	@mkdir -p $(@D)
	$(CC) $(CPPFLAGS_ALL) $(CFLAGS_ALL) -shared $(LDFLAGS) -Wl,-soname,$(@F) -o $@ $<

# The runtime's tests. DT_RPATH and not RUNPATH, so that the runtime's dlopen of the driver looks there as well; a test
# that wants another driver than sim/libcuda.so.1 names its folder first.
SIM_RT_TESTS := $(patsubst %.c,$(BUILD)/%,$(wildcard tests/sim/test_runtime_*.c))
$(BUILD)/tests/sim/test_runtime_lookups: SIM_DRIVER_DIR := $$ORIGIN/recorder:
$(BUILD)/tests/sim/test_runtime_lookups: $(BUILD)/tests/sim/recorder/libcuda.so.1
$(BUILD)/tests/sim/test_runtime_old_driver: SIM_DRIVER_DIR := $$ORIGIN/../../sim/11.4:
$(SIM_RT_TESTS): $(BUILD)/tests/sim/%: tests/sim/%.c $(BUILD)/sim/libcudart.so.13 | $(SIM_DRIVERS) $(BUILD)/sim/libcudart.so.12
	@mkdir -p $(@D)
	$(CC) $(CPPFLAGS_ALL) $(CFLAGS_ALL) -isystem $(CUDA_INCLUDE) -MMD -MP -o $@ $< $(BUILD)/sim/libcudart.so.13 \
	  -Wl,--disable-new-dtags '-Wl,-rpath,$(SIM_DRIVER_DIR)$$ORIGIN/../../sim' -lcmocka -ldl -lpthread
$(BUILD)/tests/sim/recorder/libcuda.so.1: tests/sim/recorder/recorder.c tests/sim/recorder/recorder.h
	@mkdir -p $(@D)
	$(CC) $(CPPFLAGS_ALL) $(CFLAGS_ALL) -isystem $(CUDA_INCLUDE) -shared -Wl,-soname,libcuda.so.1 -Wl,-Bsymbolic -o $@ $<

# Programs that know nothing of the shim, each reaching the driver another way.
APPS := $(addprefix $(BUILD)/apps/,demo demo-static driver-direct two-runtimes)
app_link = @mkdir -p $(@D) && $(CC) -std=gnu11 $(WARN) $(CFLAGS) $(SANFLAGS) -isystem $(CUDA_INCLUDE) -rdynamic -o $@ $(filter %.c %.so %.so.13 %.so.12 %.a,$^)
$(BUILD)/apps/demo: tests/apps/demo.c $(BUILD)/sim/libcudart.so.13
	$(app_link)
$(BUILD)/apps/demo-static: tests/apps/demo.c $(BUILD)/sim/libcudart_static.a
	$(app_link) -ldl -lpthread
$(BUILD)/apps/driver-direct: tests/apps/driver-direct.c
	$(app_link) -ldl
$(BUILD)/apps/libtwelve.so: tests/apps/twelve.c $(BUILD)/sim/libcudart.so.12
	$(app_link) -shared -fPIC
$(BUILD)/apps/two-runtimes: tests/apps/two-runtimes.c $(BUILD)/apps/libtwelve.so $(BUILD)/sim/libcudart.so.13
	$(app_link) '-Wl,-rpath,$$ORIGIN' -Wl,-rpath-link,$(BUILD)/sim -Wl,--no-warnings # two runtimes: the point of it
# Samples: ordinary programs that check their own results.
SAMPLES := $(patsubst tests/apps/samples/%.c,$(BUILD)/apps/samples/%,$(filter-out %/exchange.c,$(wildcard tests/apps/samples/*.c)))
# The same as nvcc links by default, with a runtime that nobody sees.
SAMPLES += $(patsubst tests/apps/samples/%.c,$(BUILD)/apps/samples/static/%,$(filter-out %/exchange.c %/double-runtime.c,$(wildcard tests/apps/samples/*.c)))
sample_link = @mkdir -p $(@D) && $(CC) -std=gnu11 $(WARN) $(CFLAGS) $(SANFLAGS) -isystem $(CUDA_INCLUDE) -Wl,--as-needed -o $@ $< $(filter-out %.c %.h,$^)
$(BUILD)/apps/samples/%: tests/apps/samples/%.c tests/apps/samples/check.h $(BUILD)/sim/libcudart.so.13 $(SIM_DRIVER)
	$(sample_link) -lpthread
$(BUILD)/apps/samples/static/%: tests/apps/samples/%.c tests/apps/samples/check.h $(BUILD)/sim/libcudart_static.a $(SIM_DRIVER)
	$(sample_link) -ldl -lpthread
$(BUILD)/apps/samples/double-runtime: tests/apps/samples/double-runtime.c $(BUILD)/apps/samples/libexchange.so $(BUILD)/sim/libcudart_static.a
	$(sample_link) '-Wl,-rpath,$$ORIGIN' -Wl,-rpath-link,$(BUILD)/sim -ldl -lpthread
$(BUILD)/apps/samples/libexchange.so: tests/apps/samples/exchange.c $(BUILD)/sim/libcudart.so.12
	$(sample_link) -shared -fPIC -Wl,-soname,$(@F)
$(BUILD)/llama/make-gguf: tests/llama/make-gguf.c
	@mkdir -p $(@D)
	$(CC) -std=gnu11 $(WARN) $(CFLAGS) $(SANFLAGS) -o $@ $<
$(BUILD)/llama/tiny.gguf: $(BUILD)/llama/make-gguf
	$< $@
$(BUILD)/npm/.fetched: scripts/fetch-llama
	scripts/fetch-llama $(@D) && touch $@

NODE ?= $(shell scripts/find-node)
LLAMA := $(BUILD)/npm/.fetched $(BUILD)/llama/tiny.gguf
sim: $(SIM_DRIVERS) $(SIM_CU_TESTS) $(SIM_PLANTED) $(FACTS) $(SIM_RT) $(SIM_MATH) $(APPS) $(SAMPLES) $(SIM_RT_TESTS) ## build the simulated CUDA and the programs for it
sim-coverage: ## list which CUDA driver functions are simulated
	@awk -F'[(,]' '/^SIM\(/ { n++; print "simulated     " $$2 } /^STUB\(/ { m++; print "not supported " $$2 } END { print n " simulated, " m " not supported" }' tests/sim/driver/sim_api.def
tests/apps/test_apps.sh: $(SIM_DRIVER) $(SIM_RT) $(APPS)
tests/apps/test_samples.sh: $(SIM_DRIVER) $(SIM_RT) $(SAMPLES)
tests/llama/test_llama.sh tests/llama/test_report.sh: $(SIM_DRIVER) $(SIM_RT) $(SIM_MATH) $(LLAMA)

# --- unit tests: one cmocka program per tests/unit/test_*.c, linked with core ---------------------------
# plugins/fake.c becomes several plugins; what they do lives in support/fake.c, which every test carries.
UNIT := $(patsubst %.c,$(BUILD)/%,$(wildcard tests/unit/test_*.c))
UNIT_SUPPORT_O := $(patsubst %.c,$(BUILD)/%.o,$(wildcard tests/unit/support/*.c))
UNIT_PLUGINS := $(patsubst %,$(BUILD)/tests/unit/plugins/%.so,fake without_negotiate without_factories without_readiness)

$(BUILD)/tests/unit/%: private EXTRA = -DUNIT_DIR='"$(abspath $(BUILD)/tests/unit)"'
$(UNIT_SUPPORT_O): $(BUILD)/%.o: %.c
	$(COMPILE)
$(UNIT_PLUGINS): $(BUILD)/tests/unit/plugins/%.so: tests/unit/plugins/fake.c
	@mkdir -p $(@D)
	$(CC) $(CPPFLAGS_ALL) $(CFLAGS_ALL) -DFAKE_$* -MMD -MP -shared -o $@ $<
$(BUILD)/tests/unit/%: tests/unit/%.c $(CORE_O) $(UNIT_SUPPORT_O) $(UNIT_PLUGINS)
	@mkdir -p $(@D)
	$(CC) $(CPPFLAGS_ALL) $(CFLAGS_ALL) $(EXTRA) -MMD -MP -rdynamic -o $@ $< $(UNIT_SUPPORT_O) $(CORE_O) -lcmocka -ldl -lpthread

# --- interpose tests: its parts against a driver under the test's hand; the routes and the exit stay out -----------
PARTS := capture companion context cuda_status deferral door event giveback hook_context hook_stream label lane lifecycle observe order owned pool process scope serve tally thread turn vmm waiting
PARTS_O := $(PARTS:%=$(BUILD)/interpose/%.o) $(BUILD)/tests/interpose/fake_driver.o $(BUILD)/tests/interpose/fake_exit.o
$(BUILD)/tests/interpose/%.o: EXTRA = -isystem $(CUDA_INCLUDE)
$(BUILD)/tests/interpose/%.o: tests/interpose/%.c
	$(COMPILE)
$(BUILD)/tests/interpose/test_%: tests/interpose/test_%.c $(PARTS_O) $(CORE_O) $(BUILD)/lib/nxmem/host.so
	$(CC) $(CPPFLAGS_ALL) $(CFLAGS_ALL) -isystem $(CUDA_INCLUDE) -DNXM_TEST_PLUGIN='"$(abspath $(BUILD))/lib/nxmem/host.so"' \
	  -MMD -MP -o $@ $< $(PARTS_O) $(CORE_O) -lcmocka -ldl -lpthread

# --- routing tests: the routes alone, over tiny drivers and runtimes; hooks_fake.c stands for the others --
R := $(BUILD)/tests/routing
ROUTES := $(patsubst %,$(BUILD)/interpose/%.o,real label objects runtime route route_elf route_libc route_stub_x86_64 \
            hook_routing hook_runtime)
ROUTING_SHIM := $(R)/libroutes.so
ROUTING_FAKES := $(R)/cuda/libcuda.so.1 $(R)/cuda114/libcuda.so.1 $(R)/cuda450/libcuda.so.1 $(R)/other/libdriver.so \
  $(R)/libcudart.so.12 $(R)/libcudart.so.13 $(R)/libuser.so $(R)/libuser_a.so $(R)/libuser12.so $(R)/libuser13.so \
  $(R)/libuser_cuda.so $(R)/libuser_deep.so $(R)/libuser_sysv.so $(R)/libuser_front.so \
  $(R)/libplace12.so $(R)/libplace13.so $(R)/private/libprivate.so $(R)/libuser_runpath.so
ROUTING_TESTS := $(patsubst %.c,$(BUILD)/%,$(wildcard tests/routing/test_*.c))
ifneq ($(SAN),) # foreign programs get the plain shim, which is what users run; a sanitised one goes behind its runtime
ROUTING_TESTS := $(filter-out $(R)/test_process $(R)/test_conformance,$(ROUTING_TESTS))
RUNTIME_IN_FRONT := -DNXM_SANITIZER_RUNTIME='"$(realpath $(shell $(CC) -print-file-name=lib$(SAN).so))"'
endif
ROUTING_PROGRAMS := $(R)/program $(R)/program_asan $(R)/program_asan_clang $(R)/program_musl $(R)/program_linked $(R)/program_wraps
FAKE = @mkdir -p $(@D) && $(CC) -std=gnu11 -D_GNU_SOURCE $(WARN) -Wno-missing-prototypes -O1 -g -fPIC -shared -fvisibility=hidden \
  -o $@ $< -Wl,-z,now

$(BUILD)/tests/routing/%.o: EXTRA = -isystem $(CUDA_INCLUDE)
$(BUILD)/tests/routing/%.o: tests/routing/%.c
	$(COMPILE)
$(ROUTING_SHIM): $(ROUTES) $(R)/hooks_fake.o interpose/exports.map
	$(CC) -shared $(SANFLAGS) $(LDFLAGS) -Wl,-soname,libroutes.so -Wl,--version-script=interpose/exports.map \
	  -Wl,-Bsymbolic-functions -Wl,-z,nodelete -Wl,-z,relro -Wl,--as-needed -o $@ $(ROUTES) $(R)/hooks_fake.o
$(R)/cuda/libcuda.so.1: tests/routing/fake_cuda.c
	$(FAKE) -DPROFILE=13000 -Wl,-Bsymbolic -Wl,-soname,libcuda.so.1
$(R)/cuda114/libcuda.so.1: tests/routing/fake_cuda.c
	$(FAKE) -DPROFILE=11040 -Wl,-Bsymbolic -Wl,-soname,libcuda.so.1
$(R)/cuda450/libcuda.so.1: tests/routing/fake_cuda.c
	$(FAKE) -DPROFILE=11000 -Wl,-Bsymbolic -Wl,-soname,libcuda.so.1
$(R)/other/libdriver.so: tests/routing/fake_cuda.c # a driver under another name, with the old hash section
	$(FAKE) -DPROFILE=13000 -Wl,-Bsymbolic -Wl,-soname,libdriver.so -Wl,--hash-style=sysv
$(R)/libcudart.so.%: tests/routing/fake_cudart.c
	@mkdir -p $(@D) && printf 'libcudart.so.$* { global: cuda*; fake_*; local: *; };\n' >$@.map
	$(FAKE) -DVERSION=$* -Wl,-Bsymbolic -Wl,-soname,libcudart.so.$* -Wl,--version-script=$@.map
$(R)/libuser.so $(R)/libuser_a.so: tests/routing/fake_user.c
	$(FAKE) -DMARK=1 -Wl,-soname,$(@F)
$(R)/libuser12.so $(R)/libplace12.so: tests/routing/fake_user.c $(R)/libcudart.so.12
	$(FAKE) -DMARK=12 -DUSES_CUDART $(R)/libcudart.so.12 -Wl,-rpath,'$$ORIGIN'
$(R)/libuser13.so $(R)/libplace13.so: tests/routing/fake_user.c $(R)/libcudart.so.13
	$(FAKE) -DMARK=13 -DUSES_CUDART $(R)/libcudart.so.13 -Wl,-rpath,'$$ORIGIN'
$(R)/libuser_front.so: tests/routing/fake_user.c $(R)/libuser_a.so
	$(FAKE) -DMARK=7 -Wl,--no-as-needed $(R)/libuser_a.so -Wl,-rpath,'$$ORIGIN'
$(R)/libuser_sysv.so: tests/routing/fake_user.c # no version, no need: whoever is there
	$(FAKE) -DMARK=3 -DUSES_CUDART -Wl,--hash-style=sysv -Wl,-z,lazy
$(R)/libuser_cuda.so $(R)/libuser_deep.so: tests/routing/fake_user.c $(R)/cuda/libcuda.so.1
	$(FAKE) -DMARK=4 -DUSES_CUDA $(R)/cuda/libcuda.so.1 -Wl,-rpath,'$$ORIGIN/cuda'
$(R)/private/libprivate.so: tests/routing/fake_user.c
	$(FAKE) -DMARK=5 -Wl,-soname,libprivate.so
$(R)/libuser_runpath.so: tests/routing/fake_user.c
	$(FAKE) -DMARK=6 -Wl,--enable-new-dtags,-rpath,'$$ORIGIN/private'

# Programs that know nothing of cmocka: preloaded by the tests in several ways.
PROGRAM = @mkdir -p $(@D) && $(1) -std=gnu11 -D_GNU_SOURCE $(WARN) -O1 -g -o $@ $< $(2)
$(R)/program: tests/routing/program.c
	$(call PROGRAM,$(CC),-ldl)
$(R)/program_asan: tests/routing/program.c
	$(call PROGRAM,gcc,-fsanitize=address -ldl)
$(R)/program_asan_clang: tests/routing/program.c
	$(call PROGRAM,clang,-fsanitize=address -ldl)
$(R)/program_musl: tests/routing/program.c
	$(call PROGRAM,musl-gcc,)
$(R)/program_wraps: tests/routing/program.c $(R)/libcudart.so.13
	$(call PROGRAM,$(CC),-DWRAPS -rdynamic $(R)/libcudart.so.13 -Wl$(comma)-rpath$(comma)'$$ORIGIN' -ldl)
$(R)/program_linked: tests/routing/program.c $(R)/cuda/libcuda.so.1
	$(call PROGRAM,$(CC),-DLINKED $(R)/cuda/libcuda.so.1 -Wl$(comma)-rpath$(comma)'$$ORIGIN/cuda' -ldl)

$(ROUTING_TESTS): $(BUILD)/%: %.c tests/routing/inside.h $(ROUTING_SHIM) $(ROUTING_FAKES) $(ROUTING_PROGRAMS)
	@mkdir -p $(@D)
	$(CC) $(CPPFLAGS_ALL) $(CFLAGS_ALL) -Wno-missing-prototypes $(RUNTIME_IN_FRONT) -isystem $(CUDA_INCLUDE) -MMD -MP -o $@ $(filter %.c %.o,$^) -lcmocka -ldl -lpthread
$(R)/test_label: $(BUILD)/interpose/label.o

# NVIDIA's own runtimes over the simulated driver, with a recorder between them and the shim.
CUDA_LIB ?= $(firstword $(wildcard $(CUDA_HOME)/lib64 $(CUDA_HOME)/targets/x86_64-linux/lib $(CUDA_HOME)/lib))
$(R)/librecorder.so: tests/routing/recorder.c
	$(FAKE)
$(R)/conformance_shared: tests/routing/conformance.c
	$(call PROGRAM,$(CC),-isystem $(CUDA_INCLUDE) -L$(CUDA_LIB) -Wl$(comma)-rpath$(comma)$(CUDA_LIB) -lcudart)
$(R)/conformance_static: tests/routing/conformance.c
	$(call PROGRAM,$(CC),-isystem $(CUDA_INCLUDE) -L$(CUDA_LIB) -lcudart_static -ldl -lrt -lpthread)
$(R)/conformance_cublas: tests/routing/conformance.c
	$(call PROGRAM,$(CC),-DCUBLAS -ldl)
$(R)/test_conformance: $(SHIM) $(SIM_DRIVER) $(R)/librecorder.so $(patsubst %,$(R)/conformance_%,shared static cublas)
$(R)/test_conformance: CPPFLAGS_ALL += -DSHIM='"$(abspath $(SHIM))"' -DDRIVER_FOLDER='"$(abspath $(dir $(SIM_DRIVER)))"' \
  -DLOOKUPS='"$(abspath tests/routing/lookups.txt)"' -DCUBLAS='"$(CUDA_LIB)/libcublas.so"'
.PHONY: routing-tests check-exports
routing-tests: $(ROUTING_TESTS) ## run the tests of the routes
	@set -e; for t in $(ROUTING_TESTS); do $$t; done
	BUILD=$(BUILD) SAN=$(SAN) tests/routing/test_exports.sh
check-exports: $(SHIM) ## see that the shim exports what it should and needs libc only
	scripts/check-exports $(SHIM)

# --- integration tests ---------------------------------------------------------------------------------
# The tools, and the shim under whole programs.
$(BUILD)/tests/integration/%: tests/integration/%.c
	@mkdir -p $(@D)
	$(CC) $(CPPFLAGS_ALL) $(CFLAGS_ALL) -isystem $(CUDA_INCLUDE) -MMD -MP -o $@ $< -lcmocka -ldl -lpthread

# Programs that know nothing of us, on the simulated CUDA: they link the driver, as libggml-cuda does.
PROGRAMS := $(patsubst %.c,$(BUILD)/%,$(wildcard tests/integration/programs/*.c))
$(BUILD)/tests/integration/programs/%: tests/integration/programs/%.c $(wildcard tests/integration/programs/*.h) $(SIM_DRIVER)
	@mkdir -p $(@D)
	$(CC) $(CFLAGS_ALL) -I. -isystem $(CUDA_INCLUDE) -o $@ $< $(SIM_DRIVER) -lpthread
$(wildcard tests/integration/test_*.sh): $(PROGRAMS) $(APPS) $(SIM_RT) $(FAULTY) $(LOAD_FAULT_SO)
tests/gpu/test_device.sh: $(PROGRAMS)
tests/integration/test_process.sh: $(if $(SAN),,$(BUILD)/tests/routing/program_musl)

# --- cases from the field: programs with transcripts -----------------------------------------------------
K := $(BUILD)/tests/cases/programs
CASES := $(patsubst %.c,$(BUILD)/%,$(filter-out %/leaky.c,$(wildcard tests/cases/programs/*.c))) $(K)/three-and-two-static $(K)/libleaky.so
case_link = @mkdir -p $(@D) && $(CC) $(CFLAGS_ALL) -I. -isystem $(CUDA_INCLUDE) -rdynamic -o $@ $(filter %.c %.so.1 %.so.13 %.a,$^) -ldl -lpthread
$(CASES): tests/cases/programs/case.h tests/integration/programs/transcript.h
$(K)/%-static: tests/cases/programs/%.c $(SIM_DRIVER) $(BUILD)/sim/libcudart_static.a
	$(case_link)
$(K)/by-name-and-version: tests/cases/programs/by-name-and-version.c
	$(case_link)
$(K)/lib%.so: tests/cases/programs/%.c $(SIM_DRIVER)
	$(case_link) -shared -fPIC -fvisibility=default
$(K)/%: tests/cases/programs/%.c $(SIM_DRIVER) $(BUILD)/sim/libcudart.so.13
	$(case_link)
$(wildcard tests/cases/test_*.sh): $(CASES) $(SIM_DRIVERS)

# --- header contract -----------------------------------------------------------------------------------
$(BUILD)/tests/headers/%: tests/headers/%.c
	@mkdir -p $(@D)
	$(CC) $(CPPFLAGS_ALL) $(CFLAGS_ALL) -MMD -MP -o $@ $< -lcmocka

# --- tools: nxrun and the probe it asks -----------------------------------------------------------------
TOOLS := $(BUILD)/bin/nxrun $(BUILD)/bin/nxmem-probe
PROBE_O := $(patsubst %.c,$(BUILD)/%.o,$(wildcard scripts/probe/*.c))
$(BUILD)/scripts/%.o: scripts/%.c
	$(COMPILE)
$(BUILD)/bin/nxmem-probe: $(PROBE_O) $(CORE_O)
	@mkdir -p $(@D)
	$(CC) $(SANFLAGS) $(LDFLAGS) -o $@ $(PROBE_O) $(CORE_O) -ldl -lpthread
$(BUILD)/bin/nxrun: scripts/nxrun
	@mkdir -p $(@D)
	install -m 755 $< $@

# --- install --------------------------------------------------------------------------------------------
DEST = $(DESTDIR)$(PREFIX)
INSTALL_PLUGINS := $(PLUGINS)
.PHONY: install uninstall
install uninstall: $(if $(filter-out 0 1,$(words $(DESTDIR)) $(words $(PREFIX))),$(error PREFIX and DESTDIR must not hold spaces))
install: all ## install under PREFIX (default /usr/local), below DESTDIR
	install -d $(DEST)/bin $(DEST)/lib/nxmem $(DEST)/lib/pkgconfig $(DEST)/include $(DEST)/share/man/man1 \
	  $(DEST)/share/man/man7 $(DEST)/share/doc/nxmem-preload/docs
	install -m 755 $(BUILD)/bin/nxrun $(DEST)/bin/
	install -m 755 $(SHIM) $(DEST)/lib/
	install -m 755 $(INSTALL_PLUGINS) $(BUILD)/bin/nxmem-probe $(DEST)/lib/nxmem/
	install -m 644 include/*.h $(DEST)/include/
	install -m 644 docs/man/nxrun.1 $(DEST)/share/man/man1/
	install -m 644 docs/man/nxmem-preload.7 $(DEST)/share/man/man7/
	install -m 644 LICENSE README.md CHANGELOG.md $(DEST)/share/doc/nxmem-preload/
	install -m 644 docs/*.md docs/example-plugin.c $(DEST)/share/doc/nxmem-preload/docs/
	sed -e 's|@PREFIX@|$(PREFIX)|' -e 's|@VERSION@|$(VERSION)|' scripts/nxmem-preload.pc.in > $(DEST)/lib/pkgconfig/nxmem-preload.pc
	echo "installed under $(DEST)"
uninstall: ## remove what install put there
	rm -f $(DEST)/bin/nxrun $(DEST)/lib/$(notdir $(SHIM)) $(DEST)/lib/pkgconfig/nxmem-preload.pc \
	  $(addprefix $(DEST)/lib/nxmem/,$(notdir $(INSTALL_PLUGINS)) nxmem-probe) \
	  $(addprefix $(DEST)/include/,$(notdir $(wildcard include/*.h))) \
	  $(DEST)/share/man/man1/nxrun.1 $(DEST)/share/man/man7/nxmem-preload.7
	rm -rf $(DEST)/share/doc/nxmem-preload
	rmdir $(DEST)/lib/nxmem 2>/dev/null || :

# --- targets -------------------------------------------------------------------------------------------
# A test is tests/AREA/test_*.c, built to $(BUILD)/tests/AREA/, or an executable tests/AREA/test_*.sh; what such a
# script needs beyond `all` its area's section states as its prerequisites.
tests_of = $(patsubst %.c,$(BUILD)/%,$(wildcard tests/$(1)/test_*.c)) $(wildcard tests/$(1)/test_*.sh)
# llama's tests fetch a package: they have a target of their own.
AREAS := $(filter-out llama,$(sort $(foreach t,$(wildcard tests/*/test_*.c tests/*/test_*.sh),$(word 2,$(subst /, ,$(t))))))
# Under a sanitizer the shim cannot go into plain programs: those areas are tested plain, and their own tests
# build the instrumented combinations that exist.
SAN_AREAS := $(filter unit plugins sim interpose routing integration,$(AREAS))
PLAIN_ONLY = $(if $(SAN),$(filter-out $(ROUTING_TESTS),$(call tests_of,routing)))
TESTS = $(filter-out $(PLAIN_ONLY),$(foreach a,$(or $(AREA),$(if $(SAN),$(SAN_AREAS),$(AREAS))),$(call tests_of,$(a))))
RUN_TESTS = BUILD=$(BUILD) SAN=$(SAN) scripts/run-tests --timeout $(if $(SAN),300,120)

# What a newcomer types first installs what is missing before anything else is looked at.
ifneq ($(filter demo demo-llama check nightly,$(MAKECMDGOALS)),)
wanted_for := $(if $(filter check nightly,$(MAKECMDGOALS)),check,$(if $(filter demo-llama,$(MAKECMDGOALS)),llama,demo))
ifneq ($(lastword $(shell CUDA_HOME='$(cuda_given)' scripts/setup $(wanted_for) >&2 && echo ready)),ready)
$(error the set-up is not complete; see above)
endif
endif

# Recipes are shown by V=1 only; what matters is what the compilers say.
ifndef V
.SILENT:
endif

.PHONY: all test-programs unit test check nightly demo demo-llama docs setup clean help sim sim-coverage
.SECONDEXPANSION:
all: $(SHIM) $(PLUGINS) $(TOOLS) ## build the shim, its plugins and nxrun (V=1 shows the commands)
test-programs: $(TESTS)
unit: test-unit ## run the unit tests
test-%: all $$(call tests_of,$$*)
	$(RUN_TESTS) --label $* $(call tests_of,$*)
test: all test-programs ## run every test, or AREA=… SAN=… (AREA: a folder of tests/)
	$(RUN_TESTS) --label test $(TESTS)
demo: all $(BUILD)/apps/demo $(SIM_DRIVER) $(SIM_RT) ## run a small CUDA program that leaks under the shim
	scripts/demo $(BUILD) $(BUILD)/apps/demo
demo-llama: all $(LLAMA) $(SIM_DRIVER) $(SIM_RT) $(SIM_MATH) ## run llama.cpp's prebuilt CUDA builds under the shim
	NODE=$(NODE) scripts/demo-llama $(BUILD)
check: ## everything CI runs: both compilers, all tests, sanitizers, demos, valgrind, mutants
	scripts/check
nightly: ## check without its time boxes
	scripts/check --long
docs: $(BUILD)/bin/nxmem-probe ## regenerate the generated parts of README.md and docs/
	scripts/options-page $(BUILD)/bin/nxmem-probe
	scripts/coverage-page
	scripts/sim-coverage-page
setup: ## install what building and testing need
	scripts/setup
clean: ## remove what was built
	rm -rf build
help: ## list the targets
	{ sed -n '/^# --- targets/,$$p' $(firstword $(MAKEFILE_LIST)); sed '/^# --- targets/,$$d' $(firstword $(MAKEFILE_LIST)); } | \
	  grep -E '^[a-z-]+:.*##' | sed 's/:.*##/\t/' | expand -t 18

-include $(shell find $(BUILD) \( -name npm -o -name node -o -name mutants \) -prune -o -name '*.d' -print 2>/dev/null)
