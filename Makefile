# nxmem-preload. `make help` lists the targets. Everything is built under build/ (BUILD=…); SAN=asan or
# SAN=tsan builds the same tree with that sanitizer under build/asan or build/tsan.
.DEFAULT_GOAL := all
VERSION := $(shell cat VERSION)
comma := ,
SAN ?=
BUILD ?= build$(if $(SAN),/$(SAN))

PREFIX ?= /usr/local
CC ?= gcc
CFLAGS ?= -O2 -g
WARN := -Wall -Wextra -Wshadow -Wmissing-prototypes -Wconversion $(if $(CI),-Werror)
SANFLAGS := $(if $(filter asan,$(SAN)),-fsanitize=address$(comma)undefined -fno-sanitize-recover=undefined) \
            $(if $(filter tsan,$(SAN)),-fsanitize=thread)

CUDA_HOME ?= $(firstword $(wildcard /usr/local/cuda /opt/cuda /usr/lib/cuda /usr/local/cuda-*))
CUDA_INCLUDE ?= $(CUDA_HOME)/include

CPPFLAGS_ALL := -D_GNU_SOURCE -DNXM_VERSION='"$(VERSION)"' -I. -Iinclude $(CPPFLAGS)
CFLAGS_ALL := -std=gnu11 -fPIC -fvisibility=hidden -fno-common $(WARN) $(CFLAGS) $(SANFLAGS)
COMPILE = @mkdir -p $(@D) && $(CC) $(CPPFLAGS_ALL) $(CFLAGS_ALL) -MMD -MP $(EXTRA) -c $< -o $@

# --- the shim: core and interpose --------------------------------------------------------------------
CORE_O := $(patsubst %.c,$(BUILD)/%.o,$(wildcard core/*.c))
INTERPOSE_O := $(patsubst %.c,$(BUILD)/%.o,$(wildcard interpose/*.c)) $(patsubst %.S,$(BUILD)/%.o,$(wildcard interpose/*.S))
SHIM := $(BUILD)/lib/libnxmem_preload.so

$(BUILD)/core/%.o: core/%.c
	$(COMPILE)
$(BUILD)/interpose/%.o: EXTRA = -isystem $(CUDA_INCLUDE)
$(BUILD)/interpose/%.o: interpose/%.c
	$(COMPILE)
$(BUILD)/interpose/%.o: interpose/%.S
	$(COMPILE)
# Routing runs before a sanitizer's own initialisation: plain code, no libc by builtin.
$(BUILD)/interpose/route%.o: SANFLAGS :=
$(BUILD)/interpose/route%.o: EXTRA = -isystem $(CUDA_INCLUDE) -fno-builtin -fno-stack-protector

$(SHIM): $(CORE_O) $(INTERPOSE_O) interpose/exports.map
	@mkdir -p $(@D)
	$(CC) -shared $(SANFLAGS) $(LDFLAGS) -Wl,-soname,libnxmem_preload.so -Wl,--version-script=interpose/exports.map \
	  -Wl,-Bsymbolic-functions -Wl,-z,nodelete -Wl,-z,relro -Wl,--as-needed -o $@ $(CORE_O) $(INTERPOSE_O)

# --- plugins -------------------------------------------------------------------------------------------
PLUGINS := $(patsubst plugins/%.c,$(BUILD)/lib/nxmem/%.so,$(wildcard plugins/*.c))
$(BUILD)/lib/nxmem/%.so: plugins/%.c
	@mkdir -p $(@D) $(BUILD)/plugins
	$(CC) $(CPPFLAGS_ALL) $(CFLAGS_ALL) -isystem $(CUDA_INCLUDE) -MMD -MP -MF $(BUILD)/plugins/$*.d -shared $(LDFLAGS) -Wl,--as-needed -o $@ $<

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
$(BUILD)/llama/make-gguf: tests/llama/make-gguf.c
	@mkdir -p $(@D)
	$(CC) -std=gnu11 $(WARN) $(CFLAGS) $(SANFLAGS) -o $@ $<
$(BUILD)/llama/tiny.gguf: $(BUILD)/llama/make-gguf
	$< $@
$(BUILD)/npm/.fetched: scripts/fetch-llama
	scripts/fetch-llama $(@D) && touch $@

NODE ?= node
LLAMA := $(BUILD)/npm/.fetched $(BUILD)/llama/tiny.gguf
sim: $(SIM_DRIVERS) $(SIM_CU_TESTS) $(SIM_RT) $(SIM_MATH) $(APPS) $(SIM_RT_TESTS) ## build the simulated CUDA and the programs for it
sim-coverage: ## list which CUDA driver functions are simulated
	@awk -F'[(,]' '/^SIM\(/ { n++; print "simulated     " $$2 } /^STUB\(/ { m++; print "not supported " $$2 } END { print n " simulated, " m " not supported" }' tests/sim/driver/sim_api.def
tests/apps/test_apps.sh: $(SIM_DRIVER) $(SIM_RT) $(APPS)
tests/llama/test_llama.sh: $(SIM_DRIVER) $(SIM_RT) $(SIM_MATH) $(LLAMA)

# --- unit tests: one cmocka program per tests/unit/test_*.c, linked with core ---------------------------
UNIT := $(patsubst %.c,$(BUILD)/%,$(wildcard tests/unit/test_*.c))
$(BUILD)/tests/unit/%: tests/unit/%.c $(CORE_O)
	@mkdir -p $(@D)
	$(CC) $(CPPFLAGS_ALL) $(CFLAGS_ALL) -MMD -MP -o $@ $< $(CORE_O) -lcmocka -ldl -lpthread

# --- integration tests ---------------------------------------------------------------------------------

# --- targets -------------------------------------------------------------------------------------------
.PHONY: all clean demo demo-llama help sim sim-coverage unit
all: $(SHIM) $(PLUGINS) ## build the shim and its plugins
unit: $(UNIT) ## run the unit tests
	@set -e; for t in $(UNIT); do $$t; done
demo: $(BUILD)/apps/demo $(SIM_DRIVER) $(SIM_RT) ## run a small CUDA program that leaks under the shim
	@scripts/demo $(BUILD) $(BUILD)/apps/demo
demo-llama: $(LLAMA) $(SIM_DRIVER) $(SIM_RT) $(SIM_MATH) ## run llama.cpp's prebuilt CUDA builds under the shim
	@scripts/demo $(BUILD) $(NODE) tests/llama/run-llama.mjs $(BUILD)/npm $(BUILD)/llama/tiny.gguf
	@scripts/demo $(BUILD) $(NODE) tests/llama/run-llama-12.cjs $(BUILD)/npm $(BUILD)/llama/tiny.gguf
clean: ## remove what was built
	rm -rf build
help: ## list the targets
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*##/\t/' | expand -t 18

-include $(shell find $(BUILD) -name '*.d' 2>/dev/null)
