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
	@rm -f $@ && $(AR) rcs $@ $^
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
