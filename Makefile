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
$(R)/test_conformance: $(SIM_DRIVER) $(R)/librecorder.so $(patsubst %,$(R)/conformance_%,shared static cublas)
$(R)/test_conformance: CPPFLAGS_ALL += -DDRIVER_FOLDER='"$(abspath $(dir $(SIM_DRIVER)))"' \
  -DLOOKUPS='"$(abspath tests/routing/lookups.txt)"' -DCUBLAS='"$(CUDA_LIB)/libcublas.so"'
.PHONY: routing-tests check-exports
routing-tests: $(ROUTING_TESTS) ## run the tests of the routes
	@set -e; for t in $(ROUTING_TESTS); do $$t; done
	BUILD=$(BUILD) SAN=$(SAN) tests/routing/test_exports.sh
check-exports: $(SHIM) ## see that the shim exports what it should and needs libc only
	scripts/check-exports $(SHIM)

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
