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

# --- unit tests: one cmocka program per tests/unit/test_*.c, linked with core ---------------------------
UNIT := $(patsubst %.c,$(BUILD)/%,$(wildcard tests/unit/test_*.c))
$(BUILD)/tests/unit/%: tests/unit/%.c $(CORE_O)
	@mkdir -p $(@D)
	$(CC) $(CPPFLAGS_ALL) $(CFLAGS_ALL) -MMD -MP -o $@ $< $(CORE_O) -lcmocka -ldl -lpthread

# --- integration tests ---------------------------------------------------------------------------------

# --- targets -------------------------------------------------------------------------------------------
.PHONY: all clean help unit
all: $(SHIM) $(PLUGINS) ## build the shim and its plugins
unit: $(UNIT) ## run the unit tests
	@set -e; for t in $(UNIT); do $$t; done
clean: ## remove what was built
	rm -rf build
help: ## list the targets
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*##/\t/' | expand -t 18

-include $(shell find $(BUILD) -name '*.d' 2>/dev/null)
