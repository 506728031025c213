# nxmem-preload. `make help` lists the targets. Everything is built under build/ (BUILD=…); SAN=asan or
# SAN=tsan builds the same tree with that sanitizer under build/asan or build/tsan.
.DEFAULT_GOAL := all
MAKEFLAGS += --no-builtin-rules
VERSION := $(shell cat VERSION)
comma := ,
SAN ?=
JOBS ?= $(shell nproc)
BUILD ?= build$(if $(SAN),/$(SAN))

PREFIX ?= /usr/local
ifeq ($(origin CC),default)
CC := gcc
endif
MACHINE := $(firstword $(subst -, ,$(shell $(CC) -dumpmachine)))
# Valgrind 3.19 cannot read what clang calls -g.
CFLAGS ?= -O2 $(if $(findstring clang,$(CC)),-gdwarf-4,-g)
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
ifneq ($(filter-out clean coverage evidence help mutants uninstall setup,$(or $(MAKECMDGOALS),all)),)
ifneq ($(if $(findstring n,$(firstword -$(MAKEFLAGS))),$(built_with),$(strip $(file < $(BUILD)/.built-with))),$(built_with))
$(shell mkdir -p $(BUILD) && cd $(BUILD) && rm -rf core interpose plugins scripts lib bin apps tests sim)
$(file > $(BUILD)/.built-with,$(built_with))
endif
endif

# A test is tests/AREA/test_*.c, built to $(BUILD)/tests/AREA/, or an executable tests/AREA/test_*.sh; what such a
# script needs beyond `all` its area's section states as its prerequisites.
tests_of = $(patsubst %.c,$(BUILD)/%,$(wildcard tests/$(1)/test_*.c)) $(wildcard tests/$(1)/test_*.sh)

# --- the shim: core and interpose --------------------------------------------------------------------
CORE_O := $(patsubst %.c,$(BUILD)/%.o,$(filter-out core/host.c core/host_allocator.c,$(wildcard core/*.c)))
INTERPOSE_O := $(patsubst %.c,$(BUILD)/%.o,$(wildcard interpose/*.c)) $(BUILD)/interpose/route_stub_$(MACHINE).o
SHIM := $(BUILD)/lib/libnxmem_preload.so

# Static TLS: __tls_get_addr may allocate inside a hook and makes the loader a needed library. check-exports keeps it small.
$(BUILD)/core/%.o $(BUILD)/interpose/%.o: CFLAGS_ALL += -ftls-model=initial-exec
# What the quiet way (interpose/quiet.h) records lies in registers, a word each; what only its cold paths need is not kept for them.
$(BUILD)/interpose/hook_device.o: CFLAGS_ALL += -fno-tree-slp-vectorize $(if $(findstring clang,$(CC)),,-fno-gcse -fno-cse-follow-jumps -freorder-blocks-algorithm=simple)
# A journal is read by the build that wrote it: what lies in one is what these files say.
$(BUILD)/core/journal_file.o $(BUILD)/fuzz/core/journal_file.o: EXTRA = -DNXM_LAYOUT='"$(shell cat core/arena.h core/blocks.[ch] core/blocks_quiet.h core/spread.h core/shard.[ch] core/spin.h core/starts.h core/supply.[ch] core/peak.h core/class.def core/journal.h core/misuse.h core/noted.h core/stack.[ch] VERSION | cksum)"'
$(BUILD)/core/journal_file.o: core/blocks.c core/shard.c core/supply.c core/stack.c VERSION core/shard.h core/spin.h core/starts.h core/supply.h core/peak.h
$(BUILD)/core/%.o: core/%.c
	$(COMPILE)
$(BUILD)/interpose/%.o: EXTRA = -isystem $(CUDA_INCLUDE)
$(BUILD)/interpose/%.o: interpose/%.c
	$(COMPILE)
$(BUILD)/interpose/%.o: interpose/%.S
	$(COMPILE)
# Routing runs before a sanitizer's own initialisation: plain code, no libc by builtin.
$(BUILD)/interpose/route.o $(BUILD)/interpose/route_%.o: EXTRA = -isystem $(CUDA_INCLUDE) -fno-builtin -fno-stack-protector -fno-sanitize=all

# What new names of glibc would bind the shim to machines as new as this one (interpose/libdl.c). A sanitizer has its own.
OLD_GLIBC := $(if $(SAN),,$(patsubst %,-Wl$(comma)--wrap=%,dladdr dladdr1 dlinfo dlclose dlerror fstat lstat pthread_sigmask))
$(SHIM): $(CORE_O) $(INTERPOSE_O) interpose/exports.map
	@mkdir -p $(@D) && $(call SAY,LINK)
	$(CC) -shared $(SANFLAGS) $(LDFLAGS) -Wl,-soname,libnxmem_preload.so -Wl,--version-script=interpose/exports.map \
	  -Wl,-Bsymbolic-functions -Wl,-z,nodelete -Wl,-z,relro -Wl,--as-needed $(OLD_GLIBC) -o $@ $(CORE_O) $(INTERPOSE_O)

# --- the host library: what of core knows nothing of reports, and its public face ---------------------------
HOST_O := $(patsubst %,$(BUILD)/core/%.o,accounts allocator arena backing blocks deferred error factories gate host host_allocator ids \
            journal library lock log mem mechanism_list module nap negotiate opening output peak prefix provider quarantine queued shard shared spin \
            spread starts status supply terminal text views)
HOST_SONAME := libnxmem_host.so.$(firstword $(subst ., ,$(VERSION)))
HOST_SO := $(BUILD)/lib/libnxmem_host.so.$(VERSION)
HOST_LIBS := $(HOST_SO) $(BUILD)/lib/$(HOST_SONAME) $(BUILD)/lib/libnxmem_host.so $(BUILD)/lib/libnxmem_host.a

$(HOST_SO): $(HOST_O) core/host.map
	@mkdir -p $(@D) && $(call SAY,LINK)
	$(CC) -shared $(SANFLAGS) $(LDFLAGS) -Wl,-soname,$(HOST_SONAME) -Wl,--version-script=core/host.map -Wl,-Bsymbolic-functions \
	  -Wl,-z,nodelete -Wl,-z,relro -Wl,-z,now $(if $(SAN),,-Wl$(comma)-z$(comma)defs) -Wl,--as-needed -o $@ $(HOST_O) -ldl -lpthread
$(BUILD)/lib/$(HOST_SONAME) $(BUILD)/lib/libnxmem_host.so: $(HOST_SO)
	ln -sf $(<F) $@
# One object of all, so that what is hidden in the shared library is out of sight here too.
$(BUILD)/lib/libnxmem_host.a: $(HOST_O)
	@mkdir -p $(@D) && $(call SAY,AR)
	rm -f $@ && $(CC) -r -nostdlib -o $(BUILD)/core/libnxmem_host.o $(HOST_O)
	objcopy --localize-hidden $(BUILD)/core/libnxmem_host.o && $(AR) rcs $@ $(BUILD)/core/libnxmem_host.o

# --- plugins -------------------------------------------------------------------------------------------
# plugins/<name>.c with what it takes of plugins/common, linked in. PLUGINS is what is installed; the
# misbehaving plugin and the fixtures are for the tests only.
PLUGINS := $(patsubst %,$(BUILD)/lib/nxmem/%.so,direct host vmm)
PLUGIN_KIT := $(BUILD)/plugins/libkit.a
LINK_PLUGIN = @mkdir -p $(@D) && $(CC) -shared $(SANFLAGS) $(LDFLAGS) -Wl,--version-script=plugins/exports.map \
  -Wl,-z,relro -Wl,-z,now -Wl,--as-needed -o $@ $(filter %.o %.a,$^) -ldl -lpthread

$(BUILD)/plugins/%.o: EXTRA = -isystem $(CUDA_INCLUDE) $(if $(SAN),,-include plugins/common/old_glibc.h)
$(BUILD)/plugins/%.o: plugins/%.c
	$(COMPILE)
$(PLUGIN_KIT): $(patsubst %.c,$(BUILD)/%.o,$(wildcard plugins/common/*.c))
	rm -f $@ && $(AR) rcs $@ $^
$(PLUGINS): $(BUILD)/lib/nxmem/%.so: $(BUILD)/plugins/%.o $(PLUGIN_KIT) plugins/exports.map
	$(LINK_PLUGIN)

FAULTY := $(BUILD)/tests/plugins/faulty.so
$(FAULTY): $(patsubst %.c,$(BUILD)/%.o,$(wildcard plugins/faulty/*.c)) $(PLUGIN_KIT) plugins/exports.map
	$(LINK_PLUGIN)

FAULTY_HOST := $(BUILD)/tests/plugins/faulty_host.so
$(FAULTY_HOST): $(patsubst %.c,$(BUILD)/%.o,$(wildcard plugins/faulty/host/*.c)) $(PLUGIN_KIT) plugins/exports.map
	$(LINK_PLUGIN)

TESTPLUGIN := $(BUILD)/tests/plugins/testplugin.so
$(TESTPLUGIN): $(patsubst %.c,$(BUILD)/%.o,$(wildcard plugins/test/*.c)) $(PLUGIN_KIT) plugins/exports.map
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
PLUGIN_SUPPORT_O := $(patsubst %,$(BUILD)/tests/plugins/%.o,support driver_fixture faulty_fixture mechanism_fixture)
$(PLUGIN_TESTS): %: %.o $(PLUGIN_SUPPORT_O) $(PLUGIN_KIT) | $(PLUGINS) $(FAULTY) $(FAULTY_HOST) $(TESTPLUGIN) $(FAKE_CUDA) $(LOAD_FAULT_SO)
	$(CC) $(SANFLAGS) $(LDFLAGS) -o $@ $^ -lcmocka -ldl -lpthread
$(BUILD)/tests/plugins/test_testplugin: | $(SHIM) # looks into it

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
APPS := $(addprefix $(BUILD)/apps/,demo demo-static driver-direct driver-direct-framed two-runtimes)
app_link = @mkdir -p $(@D) && $(CC) -std=gnu11 $(WARN) $(CFLAGS) $(SANFLAGS) -isystem $(CUDA_INCLUDE) -rdynamic -o $@ $(filter %.c %.so %.so.13 %.so.12 %.a,$^)
$(BUILD)/apps/demo: tests/apps/demo.c $(BUILD)/sim/libcudart.so.13
	$(app_link)
$(BUILD)/apps/demo-static: tests/apps/demo.c $(BUILD)/sim/libcudart_static.a
	$(app_link) -ldl -lpthread
$(BUILD)/apps/driver-direct: tests/apps/driver-direct.c
	$(app_link) -ldl
$(BUILD)/apps/driver-direct-framed: tests/apps/driver-direct.c
	$(app_link) -O2 -fno-omit-frame-pointer -fno-optimize-sibling-calls -ldl
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
$(BUILD)/llama/make-whisper: tests/llama/make-whisper.c
	@mkdir -p $(@D)
	$(CC) -std=gnu11 $(WARN) $(CFLAGS) $(SANFLAGS) -o $@ $<
$(BUILD)/llama/tiny.whisper: $(BUILD)/llama/make-whisper
	$< $@
$(BUILD)/npm/.fetched: scripts/fetch-llama
	scripts/fetch-llama $(@D) && touch $@

NODE ?= $(shell scripts/find-node)
LLAMA := $(BUILD)/npm/.fetched $(BUILD)/llama/tiny.gguf $(BUILD)/llama/tiny.whisper
sim: $(SIM_DRIVERS) $(SIM_CU_TESTS) $(SIM_PLANTED) $(FACTS) $(SIM_RT) $(SIM_MATH) $(APPS) $(SAMPLES) $(SIM_RT_TESTS) ## build the simulated CUDA and the programs for it
sim-coverage: ## list which CUDA driver functions are simulated
	@awk -F'[(,]' '/^SIM\(/ { n++; print "simulated     " $$2 } /^STUB\(/ { m++; print "not supported " $$2 } END { print n " simulated, " m " not supported" }' tests/sim/driver/sim_api.def
tests/apps/test_apps.sh: $(SIM_DRIVER) $(SIM_RT) $(APPS)
tests/apps/test_samples.sh: $(SIM_DRIVER) $(SIM_RT) $(SAMPLES)
$(wildcard tests/llama/test_*.sh): $(SIM_DRIVER) $(SIM_RT) $(SIM_MATH) $(LLAMA)

# --- unit tests: one cmocka program per tests/unit/test_*.c, linked with core ---------------------------
# plugins/fake.c becomes several plugins; what they do lives in support/fake.c, which every test carries.
UNIT := $(patsubst %.c,$(BUILD)/%,$(wildcard tests/unit/test_*.c))
UNIT_SUPPORT_O := $(patsubst %.c,$(BUILD)/%.o,$(wildcard tests/unit/support/*.c))
STATEFUL_O := $(patsubst %.c,$(BUILD)/%.o,$(wildcard tests/unit/stateful/*.c))
UNIT_PLUGINS := $(patsubst %,$(BUILD)/tests/unit/plugins/%.so,fake without_negotiate without_factories without_readiness)

$(BUILD)/tests/unit/%: private EXTRA = -DUNIT_DIR='"$(abspath $(BUILD)/tests/unit)"'
$(UNIT_SUPPORT_O) $(STATEFUL_O): $(BUILD)/%.o: %.c
	$(COMPILE)
$(UNIT_PLUGINS): $(BUILD)/tests/unit/plugins/%.so: tests/unit/plugins/fake.c
	@mkdir -p $(@D)
	$(CC) $(CPPFLAGS_ALL) $(CFLAGS_ALL) -DFAKE_$* -MMD -MP -shared -o $@ $<
$(BUILD)/tests/unit/test_stateful: $(STATEFUL_O)
WALKED_CXX := $(if $(filter $(MACHINE),$(shell uname -m)),thrown) # cross compilers come without C++
# Code that test_unwind walks through, compiled in several ways; two libraries that differ in the size of a frame only.
WALKED := $(patsubst %,$(BUILD)/tests/unit/walked/%.so,O0 O2 Os fp chainless bare headless place_a place_b $(WALKED_CXX) $(if $(filter aarch64,$(MACHINE)),signed))
walked_O0 := -O0
walked_O2 := -O2
walked_chainless := -O2 -fomit-frame-pointer
walked_Os := -Os
walked_fp := -O2 -fno-omit-frame-pointer
walked_bare := -O2 -fno-asynchronous-unwind-tables -fno-unwind-tables -DNO_TABLES
walked_signed := -O2 -mbranch-protection=pac-ret+leaf
walked_headless := -O2 -Wl,--no-eh-frame-hdr
walked_place_a := -O1 -DPLACE_LOCALS=40
walked_place_b := -O1 -DPLACE_LOCALS=100
walked_build = @mkdir -p $(@D) && $(1) $(CPPFLAGS_ALL) -Itests/unit -fPIC $(WARN) -Wno-missing-prototypes -g $(walked_$*) \
  -fno-optimize-sibling-calls -Wl,--build-id -shared -o $@ $<
$(BUILD)/tests/unit/walked/place_%.so: tests/unit/walked/place.c
	@mkdir -p $(@D)
	$(CC) -fPIC $(WARN) -Wno-missing-prototypes $(walked_place_$*) -Wl,--build-id -shared -o $@ $<
$(BUILD)/tests/unit/walked/thrown.so: tests/unit/walked/thrown.cc
	@mkdir -p $(@D)
	$(HOST_CXX) -fPIC $(WARN:-Wmissing-prototypes=) -O2 -shared -o $@ $<
$(BUILD)/tests/unit/walked/%.so: tests/unit/walked/frames.c tests/unit/walked/frames.h
	$(call walked_build,$(CC))
$(patsubst %,$(BUILD)/tests/unit/test_%,unwind images trace): $(WALKED)
$(BUILD)/tests/unit/test_unwind $(BUILD)/tests/unit/test_trace: private EXTRA += -Itests/unit -fno-omit-frame-pointer $(WALKED_CXX:%=-DWALKED_CXX)
$(BUILD)/tests/unit/%: tests/unit/%.c $(CORE_O) $(UNIT_SUPPORT_O) $(UNIT_PLUGINS) | $(TESTPLUGIN) $(FAULTY_HOST) $(LOAD_FAULT_SO)
	@mkdir -p $(@D)
	$(CC) $(CPPFLAGS_ALL) $(CFLAGS_ALL) $(EXTRA) -MMD -MP -rdynamic -o $@ $< $(filter %.o,$^) -lcmocka -ldl -lpthread
$(BUILD)/tests/unit/test_queued: private EXTRA += -Wl,--wrap=nxm_mem_new
$(BUILD)/tests/unit/test_gate_order: private EXTRA += -Wl,--wrap=nxm_spread_sum,--wrap=nxm_queued_settle
tests/unit/test_exit.sh: $(BUILD)/tests/unit/test_exit

# --- benchmarks of one part ------------------------------------------------------------------------------
# The library is core as it is in the shim, in an image of its own.
BENCH_STACK := $(BUILD)/tests/bench/bench_stack
BENCH_REPORT := $(BUILD)/tests/bench/bench_report
$(BUILD)/tests/bench/%_library.o: tests/bench/%_library.c
	$(COMPILE)
$(BUILD)/tests/bench/libbench_stack.so: $(BUILD)/tests/bench/stack_library.o $(BUILD)/tests/bench/report_library.o $(filter-out %/stack.o,$(CORE_O))
	$(CC) -shared $(SANFLAGS) $(LDFLAGS) -Wl,-Bsymbolic-functions -Wl,-z,nodelete -o $@ $^
$(BENCH_STACK) $(BENCH_REPORT): $(BUILD)/tests/bench/%: tests/bench/%.c $(BUILD)/tests/bench/libbench_stack.so
	$(CC) $(CPPFLAGS_ALL) $(CFLAGS_ALL) -MMD -MP -o $@ $< $(BUILD)/tests/bench/libbench_stack.so '-Wl,-rpath,$$ORIGIN'
tests/bench/test_stack.sh: $(BENCH_STACK)

# --- fuzz targets: one source, two programs -------------------------------------------------------------
# As every test it replays its committed corpus; by `make fuzz` it is driven by clang's libFuzzer, with core instrumented.
FUZZ_TARGETS := $(patsubst tests/fuzz/test_%.c,%,$(wildcard tests/fuzz/test_*.c))
FUZZ_TESTS := $(FUZZ_TARGETS:%=$(BUILD)/tests/fuzz/test_%)
FUZZ_PROGRAMS := $(FUZZ_TARGETS:%=$(BUILD)/fuzz/%)
FUZZ_WITH_FAKE := completions host # these take the fake plugin along, and the model of tests/unit/stateful/
FAKE_O := $(patsubst %,$(BUILD)/tests/unit/support/%.o,fake fake_map)
FUZZ_SUPPORT := support replay
FUZZ_SECONDS ?= 5

$(BUILD)/tests/fuzz/%.o $(BUILD)/fuzz/tests/%.o: EXTRA = -DFUZZ_CORPUS='"tests/fuzz/corpus"' -DUNIT_DIR='"$(abspath $(BUILD)/tests/unit)"'
$(BUILD)/tests/fuzz/%.o: tests/fuzz/%.c
	$(COMPILE)
$(FUZZ_WITH_FAKE:%=$(BUILD)/tests/fuzz/test_%): $(FAKE_O) $(STATEFUL_O)
$(FUZZ_TESTS): $(BUILD)/tests/fuzz/test_%: $(BUILD)/tests/fuzz/test_%.o $(FUZZ_SUPPORT:%=$(BUILD)/tests/fuzz/%.o) $(CORE_O) | $(UNIT_PLUGINS)
	$(CC) $(SANFLAGS) $(LDFLAGS) -rdynamic $(if $(filter library,$*),-Wl$(comma)--wrap=dlopen) -o $@ $^ -ldl -lpthread

FUZZ_CC ?= clang
FUZZ_SANITIZERS := address,undefined -fno-sanitize-recover=undefined
$(BUILD)/fuzz/%.o: %.c
	@mkdir -p $(@D)
	$(FUZZ_CC) $(CPPFLAGS_ALL) -std=gnu11 -fno-common $(WARN) -O1 -g -DNXM_LOCK_CHECKS -fsanitize=fuzzer-no-link,$(FUZZ_SANITIZERS) \
	  -MMD -MP $(EXTRA) -c $< -o $@
$(FUZZ_WITH_FAKE:%=$(BUILD)/fuzz/%): $(patsubst $(BUILD)/%,$(BUILD)/fuzz/%,$(FAKE_O) $(STATEFUL_O))
$(FUZZ_PROGRAMS): $(BUILD)/fuzz/%: $(BUILD)/fuzz/tests/fuzz/test_%.o $(BUILD)/fuzz/tests/fuzz/support.o \
                  $(CORE_O:$(BUILD)/%=$(BUILD)/fuzz/%) | $(UNIT_PLUGINS)
	$(FUZZ_CC) -fsanitize=fuzzer,$(FUZZ_SANITIZERS) -rdynamic $(if $(filter library,$*),-Wl$(comma)--wrap=dlopen) -o $@ $^ -ldl -lpthread

# --- interpose tests: its parts against a driver under the test's hand; the routes and the exit stay out -----------
PARTS := calm capture companion context cuda_status deferral door event forks giveback hook_context hook_device hook_peer hook_pointer hook_pool hook_stream hook_vmm label lane lifecycle mark memops observe order owned peers pool process quiet scope serve stale summary tally thread turn usage vmm waiting
PARTS_O := $(PARTS:%=$(BUILD)/interpose/%.o) $(BUILD)/tests/interpose/fake_driver.o $(BUILD)/tests/interpose/fake_exit.o
$(BUILD)/tests/interpose/%.o: EXTRA = -isystem $(CUDA_INCLUDE)
$(BUILD)/tests/interpose/%.o: tests/interpose/%.c
	$(COMPILE)
$(BUILD)/tests/interpose/test_%: tests/interpose/test_%.c $(PARTS_O) $(CORE_O) $(BUILD)/lib/nxmem/host.so
	$(CC) $(CPPFLAGS_ALL) $(CFLAGS_ALL) -isystem $(CUDA_INCLUDE) -DNXM_TEST_PLUGIN='"$(abspath $(BUILD))/lib/nxmem/host.so"' \
	  -MMD -MP -o $@ $< $(PARTS_O) $(CORE_O) -lcmocka -ldl -lpthread

# --- routing tests: the routes alone, over tiny drivers and runtimes; hooks_fake.c stands for the others --
R := $(BUILD)/tests/routing
ROUTES := $(patsubst %,$(BUILD)/interpose/%.o,real thread label objects runtime route route_elf route_libc route_names route_stub_$(MACHINE) \
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
$(R)/test_label: $(BUILD)/interpose/label.o $(BUILD)/interpose/thread.o

# NVIDIA's own runtimes over the simulated driver, with a recorder between them and the shim.
CUDA_LIB ?= $(firstword $(wildcard $(CUDA_HOME)/lib64 $(CUDA_HOME)/targets/x86_64-linux/lib $(CUDA_HOME)/lib))
$(R)/librecorder.so: tests/routing/recorder.c
	$(FAKE)
$(R)/conformance_shared: tests/routing/conformance.c
	$(call PROGRAM,$(CC),-isystem $(CUDA_INCLUDE) -L$(CUDA_LIB) -Wl$(comma)-rpath$(comma)$(CUDA_LIB) -lcudart)
$(R)/conformance_static: tests/routing/conformance.c
	$(call PROGRAM,$(CC),-isystem $(CUDA_INCLUDE) -L$(CUDA_LIB) -lcudart_static -ldl -lrt -lpthread)
$(R)/conformance_library: tests/routing/conformance.c
	$(call PROGRAM,$(CC),-DLIBRARY -ldl)
$(R)/test_conformance: $(SHIM) $(SIM_DRIVER) $(R)/librecorder.so $(patsubst %,$(R)/conformance_%,shared static library)
$(R)/test_conformance: CPPFLAGS_ALL += -DSHIM='"$(abspath $(SHIM))"' -DDRIVER_FOLDER='"$(abspath $(dir $(SIM_DRIVER)))"' \
  -DLOOKUPS='"$(abspath tests/routing/lookups.txt)"' -DCUDA_LIB='"$(CUDA_LIB)"' -DOLDER_CUDA='"$(abspath build/older-cuda)"'
$(R)/every-name: tests/routing/every-name.c
	$(call PROGRAM,$(CC),-ldl)
tests/routing/test_every_name.sh: $(R)/every-name $(SIM_DRIVERS) $(SIM_RT)
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
# Libraries of the tests, preloaded behind the shim.
IN_PRELOAD := $(patsubst %.c,$(BUILD)/%.so,$(wildcard tests/integration/preload/*.c))
$(IN_PRELOAD): $(BUILD)/tests/integration/preload/%.so: tests/integration/preload/%.c tests/integration/preload/inside_shim.h
	@mkdir -p $(@D)
	$(CC) -std=gnu11 $(WARN) -Wno-missing-prototypes -O1 -g -fPIC -shared -fvisibility=hidden -o $@ $< -ldl
tests/integration/test_torture.sh tests/integration/test_forks.sh: $(IN_PRELOAD)
$(wildcard tests/integration/test_*.sh): $(PROGRAMS) $(APPS) $(SIM_RT) $(FAULTY) $(LOAD_FAULT_SO)
tests/gpu/test_device.sh: $(PROGRAMS)
tests/integration/test_process.sh: $(if $(SAN),,$(BUILD)/tests/routing/program_musl)
$(BUILD)/tests/integration/programs/killed: private CFLAGS_ALL += -rdynamic # its madvise is everybody's

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
tests/integration/test_journal.sh: $(K)/by-name-and-version $(K)/memory-beside $(SIM_DRIVERS)
tests/integration/test_coverage.sh: $(R)/every-name $(R)/cuda/libcuda.so.1 $(K)/three-and-two $(K)/by-name-and-version $(SIM_DRIVERS)

# --- 64-bit ARM: the same tree by a cross compiler, its programs under an emulator -------------------------
ARM_PROGRAMS = $(patsubst %,$(K)/%,three-and-two three-and-two-static by-name-and-version mixed-pairs capture-modes \
  static-objects what-a-pointer-is old-forms graph-nodes first-calls) \
  $(patsubst %,$(BUILD)/tests/integration/programs/%,async contexts order threads) \
  $(addprefix $(BUILD)/apps/,driver-direct two-runtimes) \
  $(addprefix $(R)/,libroutes.so every-name program program_linked)
ARM_TESTS := $(UNIT) $(call tests_of,interpose) $(patsubst %,$(R)/test_%,dlsym label proc race runtimes)
ARM_CMOCKA := build/aarch64-cmocka
arm_make = $(MAKE) --no-print-directory CC=aarch64-linux-gnu-gcc BUILD=$(BUILD)/aarch64 SAN= \
  CFLAGS='-O2 -g -DEMULATED -isystem $(abspath $(ARM_CMOCKA))/usr/include -L$(abspath $(ARM_CMOCKA))/usr/lib/aarch64-linux-gnu'
.PHONY: arm arm-programs arm-tests arm-test-programs
arm-programs: $(SHIM) $(PLUGINS) $(SIM_DRIVERS) $(SIM_RT) $(ARM_PROGRAMS)
arm: ## build for 64-bit ARM, below build/aarch64
	+$(arm_make) arm-programs
arm-test-programs: $(ARM_TESTS)
arm-tests: arm ## build the unit tests, the shim's and the routes' for it too (Debian's cmocka of that machine is fetched)
	scripts/fetch-arm-cmocka $(ARM_CMOCKA)
	+$(arm_make) arm-test-programs
tests/arm/test_arm.sh: arm
tests/arm/test_units.sh: arm-tests

# --- the host library's tests: programs that know its header only, as C and C++, static and shared --------------
H := $(BUILD)/tests/host
HOST_CXX := $(if $(findstring clang,$(CC)),clang++,g++)
HOST_PROGRAMS := $(foreach l,c cxx,$(foreach w,static shared,$(H)/program-$(l)-$(w)))
host_static := $(BUILD)/lib/libnxmem_host.a -ldl -lpthread
host_shared := -L$(BUILD)/lib -lnxmem_host '-Wl,-rpath,$$ORIGIN/../../lib'
HOST_STRICT := -Wall -Wextra -Wshadow -Wconversion $(if $(CI),-Werror) -pedantic $(CFLAGS) $(SANFLAGS) -Iinclude
$(H)/program-c-%: tests/host/program.c include/nxmem_host.h $(HOST_LIBS)
	@mkdir -p $(@D)
	$(CC) -std=c99 $(HOST_STRICT) -o $@ $< $(host_$*)
$(H)/program-cxx-%: tests/host/program.c include/nxmem_host.h $(HOST_LIBS)
	@mkdir -p $(@D)
	$(HOST_CXX) -std=c++11 -x c++ $(HOST_STRICT) -o $@ $< -x none $(host_$*)
$(H)/example-%: docs/example-%.c include/nxmem_host.h $(HOST_LIBS)
	@mkdir -p $(@D)
	$(CC) -std=c99 $(HOST_STRICT) -o $@ $< $(host_shared)
$(H)/test_memory: host_static = $(HOST_O) -ldl -lpthread
$(H)/api_fixture.o: EXTRA = -DUNIT_DIR='"$(abspath $(BUILD)/tests/unit)"'
$(H)/api_fixture.o: tests/host/api_fixture.c
	$(COMPILE)
$(H)/test_%: tests/host/test_%.c $(H)/api_fixture.o $(BUILD)/lib/libnxmem_host.a $(UNIT_SUPPORT_O) $(UNIT_PLUGINS) $(BUILD)/lib/nxmem/host.so
	@mkdir -p $(@D)
	$(CC) $(CPPFLAGS_ALL) $(CFLAGS_ALL) -DUNIT_DIR='"$(abspath $(BUILD)/tests/unit)"' -DHOST_PLUGIN='"$(abspath $(BUILD)/lib/nxmem/host.so)"' -MMD -MP -rdynamic -o $@ $< \
	  $(H)/api_fixture.o $(filter %/fake.o %/fake_map.o,$(UNIT_SUPPORT_O)) $(host_static) -lcmocka
$(wildcard tests/host/test_*.sh): $(HOST_PROGRAMS) $(H)/example-host $(H)/example-queue $(HOST_LIBS)

# --- header contract -----------------------------------------------------------------------------------
$(BUILD)/tests/headers/%: tests/headers/%.c
	@mkdir -p $(@D)
	$(CC) $(CPPFLAGS_ALL) $(CFLAGS_ALL) -MMD -MP -o $@ $< -lcmocka

# --- nxmem-check: a plugin with every capability, and with any fault, to judge -------------------------------
CROOKED := $(BUILD)/tests/check/crooked.so
$(BUILD)/tests/check/%.o: tests/check/%.c
	$(COMPILE)
$(CROOKED): $(patsubst %.c,$(BUILD)/%.o,$(wildcard tests/check/crooked/*.c)) plugins/exports.map
	$(LINK_PLUGIN)
$(wildcard tests/check/test_*.sh): $(CROOKED) $(BUILD)/apps/demo $(SIM_RT) $(FAULTY) $(FAULTY_HOST) $(TESTPLUGIN) $(LOAD_FAULT_SO) $(FAKE_CUDA) $(SIM_DRIVER)

# --- tools: nxrun and the probe it asks -----------------------------------------------------------------
PROGRAMS := $(addprefix $(BUILD)/bin/,nxrun nxmem-report nxmem-check)
TOOLS := $(PROGRAMS) $(BUILD)/bin/nxmem-probe
PROBE_O := $(patsubst %.c,$(BUILD)/%.o,$(wildcard scripts/probe/*.c))
$(BUILD)/scripts/%.o: scripts/%.c
	$(COMPILE)
# The tools run where the shim does (scripts/old_glibc.c). Not under a sanitizer, which has needs of its own.
OLD_TOOLS := $(if $(SAN),,$(patsubst %,-Wl$(comma)--wrap=%,__libc_start_main dladdr dladdr1 dlclose dlerror dlinfo dlopen dlsym fstat gettid \
  lstat memfd_create pthread_barrier_init pthread_barrier_wait pthread_create pthread_join pthread_sigmask stat) \
  -Wl$(comma)--push-state$(comma)--no-as-needed -l:libdl.so.2 -l:libpthread.so.0 -Wl$(comma)--pop-state)
OLD_TOOLS_O := $(if $(SAN),,$(BUILD)/scripts/old_glibc.o)
$(BUILD)/bin/nxmem-probe: $(PROBE_O) $(CORE_O) $(OLD_TOOLS_O)
	@mkdir -p $(@D)
	$(CC) $(SANFLAGS) $(LDFLAGS) -o $@ $^ $(OLD_TOOLS) -ldl -lpthread
$(BUILD)/bin/nxmem-report: $(BUILD)/scripts/nxmem-report/main.o $(CORE_O) $(OLD_TOOLS_O)
	@mkdir -p $(@D)
	$(CC) $(SANFLAGS) $(LDFLAGS) -o $@ $^ $(OLD_TOOLS) -ldl -lpthread
# A host of its own, so that it judges by itself: nothing of core is linked.
$(BUILD)/bin/nxmem-check: $(patsubst %.c,$(BUILD)/%.o,$(wildcard scripts/nxmem-check/*.c)) $(OLD_TOOLS_O)
	@mkdir -p $(@D)
	$(CC) $(SANFLAGS) $(LDFLAGS) -o $@ $^ $(OLD_TOOLS) -ldl -lpthread
$(BUILD)/bin/nxrun: scripts/nxrun
	@mkdir -p $(@D)
	install -m 755 $< $@

# --- benchmarks: a driver and a plugin that do next to nothing, and a program over them -----------------------------
BENCH := $(addprefix $(BUILD)/tests/bench/,pair bench.so)
bench_compile = @mkdir -p $(@D) && $(CC) $(CPPFLAGS_ALL) $(CFLAGS_ALL) -ftls-model=$(1) -isystem $(CUDA_INCLUDE) -MMD -MP -o $@ $<
$(BUILD)/tests/bench/libcuda.so.1: tests/bench/driver.c tests/bench/cheap.h
	$(call bench_compile,initial-exec) -shared -Wl,-soname,libcuda.so.1
$(BUILD)/tests/bench/bench.so: tests/bench/plugin.c tests/bench/cheap.h
	$(call bench_compile,initial-exec) -shared
$(BUILD)/tests/bench/pair: tests/bench/pair.c $(BUILD)/tests/bench/libcuda.so.1
	$(call bench_compile,initial-exec) $(word 2,$^) '-Wl,-rpath,$$ORIGIN' -lpthread
$(BUILD)/tests/bench/bench_table: tests/bench/bench_table.c $(CORE_O)
	@mkdir -p $(@D)
	$(CC) $(CPPFLAGS_ALL) $(CFLAGS_ALL) -MMD -MP -o $@ $< $(CORE_O) -ldl -lpthread
tests/bench/test_table.sh: $(BUILD)/tests/bench/bench_table
BENCH_PARTS := $(BENCH_STACK) $(BENCH_REPORT) $(BUILD)/tests/bench/bench_table
tests/bench/test_counts.sh: $(BENCH)
.PHONY: bench bench-peer
bench: all $(BENCH) $(BENCH_PARTS) ## print what the shim costs, against what it may (JSON=file keeps the figures)
	BUILD=$(BUILD) scripts/bench $(if $(JSON),--json $(JSON))
ifneq ($(filter bench-peer,$(MAKECMDGOALS)),)
$(if $(wildcard $(PEER)),,$(error PEER=/path/to/other.so is needed, and has to be there))
endif
bench-peer: all $(BENCH) ## the same program under another preload library: PEER=/path/to/other.so
	BUILD=$(BUILD) scripts/bench --peer $(PEER)

# --- install --------------------------------------------------------------------------------------------
DEST = $(DESTDIR)$(PREFIX)
INSTALL_PLUGINS := $(PLUGINS)
.PHONY: install uninstall
install uninstall: $(if $(filter-out 0 1,$(words $(DESTDIR)) $(words $(PREFIX))),$(error PREFIX and DESTDIR must not hold spaces))
install: all ## install under PREFIX (default /usr/local), below DESTDIR
	install -d $(DEST)/bin $(DEST)/lib/nxmem $(DEST)/lib/pkgconfig $(DEST)/include $(DEST)/share/man/man1 \
	  $(DEST)/share/man/man7 $(DEST)/share/doc/nxmem-preload/docs
	install -m 755 $(PROGRAMS) $(DEST)/bin/
	install -m 755 $(SHIM) $(DEST)/lib/
	install -m 755 $(HOST_SO) $(DEST)/lib/
	ln -sf $(notdir $(HOST_SO)) $(DEST)/lib/$(HOST_SONAME)
	ln -sf $(HOST_SONAME) $(DEST)/lib/libnxmem_host.so
	install -m 644 $(BUILD)/lib/libnxmem_host.a $(DEST)/lib/
	install -m 755 $(INSTALL_PLUGINS) $(BUILD)/bin/nxmem-probe $(DEST)/lib/nxmem/
	install -m 644 include/*.h $(DEST)/include/
	install -m 644 docs/man/*.1 $(DEST)/share/man/man1/
	install -m 644 docs/man/nxmem-preload.7 $(DEST)/share/man/man7/
	install -m 644 LICENSE $(DEST)/share/doc/nxmem-preload/
	install -m 644 docs/example-*.c docs/example-*.patch plugins/minimal.c $(DEST)/share/doc/nxmem-preload/docs/
	for page in README.md CHANGELOG.md docs/*.md; do \
	  scripts/installed-page $$(dirname $$page) <$$page >$(DEST)/share/doc/nxmem-preload/$$page && \
	  chmod 644 $(DEST)/share/doc/nxmem-preload/$$page || exit 1; done
	for pc in nxmem-preload nxmem-host; do \
	  sed -e 's|@PREFIX@|$(PREFIX)|' -e 's|@VERSION@|$(VERSION)|' scripts/$$pc.pc.in > $(DEST)/lib/pkgconfig/$$pc.pc; done
	echo "installed under $(DEST)"
uninstall: ## remove what install put there
	rm -f $(addprefix $(DEST)/bin/,$(notdir $(PROGRAMS))) $(DEST)/lib/$(notdir $(SHIM)) \
	  $(addprefix $(DEST)/lib/pkgconfig/,nxmem-preload.pc nxmem-host.pc) \
	  $(addprefix $(DEST)/lib/,$(notdir $(HOST_LIBS))) \
	  $(addprefix $(DEST)/lib/nxmem/,$(notdir $(INSTALL_PLUGINS)) nxmem-probe) \
	  $(addprefix $(DEST)/include/,$(notdir $(wildcard include/*.h))) \
	  $(addprefix $(DEST)/share/man/man1/,$(notdir $(wildcard docs/man/*.1))) $(DEST)/share/man/man7/nxmem-preload.7
	rm -rf $(DEST)/share/doc/nxmem-preload
	rmdir $(addprefix $(DEST)/,lib/nxmem lib/pkgconfig share/man/man1 share/man/man7 share/man share/doc share lib bin include) 2>/dev/null || :

# --- targets -------------------------------------------------------------------------------------------
# llama's tests fetch a package: they have a target of their own.
AREAS := $(filter-out llama,$(sort $(foreach t,$(wildcard tests/*/test_*.c tests/*/test_*.sh),$(word 2,$(subst /, ,$(t))))))
# Under a sanitizer the shim cannot go into plain programs: those areas are tested plain, and their own tests
# build the instrumented combinations that exist.
SAN_AREAS := $(filter unit fuzz host plugins sim interpose routing integration,$(AREAS))
PLAIN_ONLY = $(if $(SAN),$(filter-out $(ROUTING_TESTS),$(call tests_of,routing)) $(wildcard tests/unit/test_*.sh))
TESTS = $(filter-out $(PLAIN_ONLY),$(foreach a,$(or $(AREA),$(if $(SAN),$(SAN_AREAS),$(AREAS))),$(call tests_of,$(a))))
RUN_TESTS = BUILD=$(BUILD) SAN=$(SAN) scripts/run-tests --timeout $(if $(SAN),900,600)

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

.PHONY: all test-programs unit test check nightly coverage mutants evidence fuzz demo demo-llama docs setup clean help sim sim-coverage
.SECONDEXPANSION:
all: $(SHIM) $(HOST_LIBS) $(PLUGINS) $(TOOLS) ## build the shim, the host library, plugins and nxrun (V=1 shows the commands)
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
# In a build of its own, with the lock checks, whose rules are core's too. gcc: its gcov is the one that gcovr asks.
coverage: ## measure how much of core/ its unit tests reach
	$(MAKE) --no-print-directory CC=gcc BUILD=build/coverage SAN= CPPFLAGS=-DNXM_LOCK_CHECKS \
	  CFLAGS='-O0 -g --coverage -fprofile-update=atomic' LDFLAGS=--coverage AREA=unit test-programs
	scripts/core-coverage build/coverage build/coverage/summary
mutants: ## break the code in every way that tests/mutants/ knows; a test must notice each
	scripts/mutate --jobs $(JOBS)
evidence: coverage ## write docs/evidence.md anew, after trying the mutants of core that it does not know yet
	scripts/evidence-page
fuzz: $(FUZZ_PROGRAMS) ## fuzz each target of tests/fuzz/ for FUZZ_SECONDS (5); FUZZ=prefix for one of them, FUZZ_SEED=1 the same again
	BUILD=$(BUILD) scripts/fuzz --seconds $(FUZZ_SECONDS) $(FUZZ_SEED:%=--seed %) $(if $(FUZZ),$(FUZZ:%=$(BUILD)/fuzz/%),$(FUZZ_PROGRAMS))
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
