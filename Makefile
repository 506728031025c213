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
SANFLAGS := $(if $(filter asan,$(SAN)),-fsanitize=address$(comma)undefined -fno-sanitize-recover=undefined) \
            $(if $(filter tsan,$(SAN)),-fsanitize=thread)

# Looked for once, when a rule first needs it.
cuda_given := $(CUDA_HOME)
find_cuda = $(or $(shell CUDA_HOME='$(cuda_given)' scripts/find-cuda headers),$(error CUDA headers are needed))
CUDA_INCLUDE ?= $(eval CUDA_INCLUDE := $(find_cuda))$(CUDA_INCLUDE)
CUDA_HOME ?= $(patsubst %/include,%,$(CUDA_INCLUDE))

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
UNIT := $(patsubst %.c,$(BUILD)/%,$(wildcard tests/unit/test_*.c))
$(BUILD)/tests/unit/%: tests/unit/%.c $(CORE_O)
	@mkdir -p $(@D)
	$(CC) $(CPPFLAGS_ALL) $(CFLAGS_ALL) -MMD -MP -o $@ $< $(CORE_O) -lcmocka -ldl -lpthread

# --- integration tests ---------------------------------------------------------------------------------
# The tools, and the shim under whole programs.
$(BUILD)/tests/integration/%: tests/integration/%.c
	@mkdir -p $(@D)
	$(CC) $(CPPFLAGS_ALL) $(CFLAGS_ALL) -isystem $(CUDA_INCLUDE) -MMD -MP -o $@ $< -lcmocka -ldl -lpthread

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
INSTALL_PLUGINS := $(filter-out %/faulty.so,$(PLUGINS))
.PHONY: install uninstall
install: all ## install under PREFIX (default /usr/local), below DESTDIR
	install -d $(DEST)/bin $(DEST)/lib/nxmem $(DEST)/lib/pkgconfig $(DEST)/include $(DEST)/share/man/man1 \
	  $(DEST)/share/man/man7 $(DEST)/share/doc/nxmem-preload
	install -m 755 $(BUILD)/bin/nxrun $(DEST)/bin/
	install -m 755 $(SHIM) $(DEST)/lib/
	install -m 755 $(INSTALL_PLUGINS) $(BUILD)/bin/nxmem-probe $(DEST)/lib/nxmem/
	install -m 644 include/*.h $(DEST)/include/
	install -m 644 docs/man/nxrun.1 $(DEST)/share/man/man1/
	install -m 644 docs/man/nxmem-preload.7 $(DEST)/share/man/man7/
	install -m 644 LICENSE README.md CHANGELOG.md $(DEST)/share/doc/nxmem-preload/
	sed -e 's|@PREFIX@|$(PREFIX)|' -e 's|@VERSION@|$(VERSION)|' scripts/nxmem-preload.pc.in > $(DEST)/lib/pkgconfig/nxmem-preload.pc
	echo "installed under $(DEST)"
uninstall: ## remove what install put there
	rm -f $(DEST)/bin/nxrun $(DEST)/lib/$(notdir $(SHIM)) $(DEST)/lib/pkgconfig/nxmem-preload.pc \
	  $(addprefix $(DEST)/lib/nxmem/,$(notdir $(INSTALL_PLUGINS)) nxmem-probe) \
	  $(addprefix $(DEST)/include/,$(notdir $(wildcard include/*.h))) \
	  $(DEST)/share/man/man1/nxrun.1 $(DEST)/share/man/man7/nxmem-preload.7
	rm -rf $(DEST)/share/doc/nxmem-preload
	-rmdir $(DEST)/lib/nxmem

# --- targets -------------------------------------------------------------------------------------------
# A test is tests/AREA/test_*.c, built to $(BUILD)/tests/AREA/, or an executable tests/AREA/test_*.sh; what such a
# script needs beyond `all` its area's section states as its prerequisites.
tests_of = $(patsubst %.c,$(BUILD)/%,$(wildcard tests/$(1)/test_*.c)) $(wildcard tests/$(1)/test_*.sh)
AREAS := $(sort $(foreach t,$(wildcard tests/*/test_*.c tests/*/test_*.sh),$(word 2,$(subst /, ,$(t)))))
# Under a sanitizer the shim cannot go into plain programs: those areas are tested plain, and their own tests
# build the instrumented combinations that exist.
SAN_AREAS := $(filter unit plugins sim routing,$(AREAS))
PLAIN_ONLY = $(if $(SAN),$(filter-out $(ROUTING_TESTS),$(call tests_of,routing)))
TESTS = $(filter-out $(PLAIN_ONLY),$(foreach a,$(or $(AREA),$(if $(SAN),$(SAN_AREAS),$(AREAS))),$(call tests_of,$(a))))
RUN_TESTS = BUILD=$(BUILD) SAN=$(SAN) scripts/run-tests

# What a newcomer types first installs what is missing before anything else is looked at.
ifneq ($(filter demo demo-llama check nightly,$(MAKECMDGOALS)),)
cuda_wanted := $(if $(filter check nightly,$(MAKECMDGOALS)),libraries,headers)
ifneq ($(lastword $(shell CUDA_HOME='$(cuda_given)' scripts/setup $(cuda_wanted) >&2 && echo ready)),ready)
$(error the set-up is not complete; see above)
endif
endif

# Recipes are shown by V=1 only; what matters is what the compilers say.
ifndef V
.SILENT:
endif

.PHONY: all test-programs unit test check nightly docs setup clean help
.SECONDEXPANSION:
all: $(SHIM) $(PLUGINS) $(TOOLS) ## build the shim, its plugins and nxrun (V=1 shows the commands)
test-programs: $(TESTS)
unit: test-unit ## run the unit tests
test-%: all $$(call tests_of,$$*)
	$(RUN_TESTS) --label $* $(call tests_of,$*)
test: all test-programs ## run every test, or AREA=… SAN=… (AREA: a folder of tests/)
	$(RUN_TESTS) --label test $(TESTS)
check: ## everything CI runs: both compilers, all tests, sanitizers, demos, valgrind, mutants
	scripts/check
nightly: ## check without its time boxes
	scripts/check --long
docs: $(BUILD)/bin/nxmem-probe ## regenerate the generated parts of README.md and docs/
	scripts/options-page $(BUILD)/bin/nxmem-probe
	scripts/coverage-page
setup: ## install what building and testing need
	scripts/setup
clean: ## remove what was built
	rm -rf build
help: ## list the targets
	grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*##/\t/' | expand -t 18

-include $(shell find $(BUILD) \( -name npm -o -name node -o -name mutants \) -prune -o -name '*.d' -print 2>/dev/null)
