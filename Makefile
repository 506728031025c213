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
