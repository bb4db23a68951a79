# SPDX-License-Identifier: GPL-2.0-only
# The entry for people; the work is done by scripts/. What kbuild reads is Kbuild.

# Each target is one script that uses all processors by itself.
.NOTPARALLEL:
.DEFAULT_GOAL := help

# kbuild and cargo are nobody's sub-make: what was given on the command line goes on by name.
SETTINGS := KDIR KERNEL_SRC LLVM RUSTC BINDGEN RUST_LIB_SRC INSTALL_MOD_PATH ACCEL
export $(SETTINGS)

.PHONY: help
help:
	@echo 'As root or with sudo, on Debian 12 or 13; each does all of its own set-up:'
	@echo '  demo             a file goes from dma-buf to dma-buf by RDMA, in a guest'
	@echo '  test             every test; the last line is "N passed, N failed"'
	@echo '  test-clients     programs of others on dma-buf MRs: rdma-core'"'"'s tests, perftest, libfabric, UCX;'
	@echo '                   LONG=1 with what takes an hour or 8 GiB'
	@echo '  test-debug       on a kernel with sanitizers: injected faults, a hostile user, kills, pressure, a DMA engine;'
	@echo '                   LONG=1 with all guest tests and programs, more rounds and more kernels;'
	@echo '                   ONLY= names steps of it'
	@echo '  kunit            the KUnit suites of the importer alone'
	@echo '  mutants          breaks the importer line by line, and names the KUnit case that notices;'
	@echo '                   ONLY= is a regular expression of names or files'
	@echo '  shell            a console in the guest with everything loaded'
	@echo '  check            formatting, lints, layers, patches, documentation'
	@echo '  doc              the documentation, in build/doc'
	@echo '  kernel           the patched kernel, in the cache; prints its folder'
	@echo '  guest            the guest root and the rxe provider, in the cache; prints them'
	@echo
	@echo 'For a kernel of your own (7.3 with patches/7.3, built with clang and Rust):'
	@echo '  all              the modules, in build/modules, and what can be preloaded, in build/lib'
	@echo '  modules_install  the same, into /lib/modules; INSTALL_MOD_PATH= is a prefix'
	@echo
	@echo '  clean            removes build/'
	@echo '  distclean        the cache as well'
	@echo
	@echo 'Settings: KDIR= a built kernel tree, KERNEL_SRC= a kernel source (tree or tarball),'
	@echo '  LLVM= RUSTC= BINDGEN= RUST_LIB_SRC= the toolchain, ACCEL=kvm|tcg for QEMU.'

.PHONY: all modules modules_install preloads
all: modules preloads
modules:
	@scripts/modules.sh build
preloads:
	@$(MAKE) --no-print-directory -C tools/preload O='$(CURDIR)/build/lib'
modules_install:
	@scripts/modules.sh install

.PHONY: demo test test-clients test-debug kunit mutants shell check doc kernel guest
demo:
	@scripts/run-demo.sh
test:
	@tests/run.sh $(if $(FAILED_STEP),--failed-step '$(FAILED_STEP)')
test-clients:
	@tests/clients.sh $(if $(LONG),--long)
test-debug:
	@tests/debug.sh $(if $(LONG),--long) $(if $(ONLY),--only '$(ONLY)')
kunit:
	@tests/kunit.sh
mutants:
	@tests/mutants.sh $(if $(ONLY),--only '$(ONLY)')
shell:
	@scripts/shell.sh
check:
	@scripts/check.sh
doc:
	@scripts/doc.sh
kernel:
	@scripts/host-packages.sh
	@scripts/kernel.sh
guest:
	@scripts/host-packages.sh
	@scripts/guest-root.sh
	@scripts/rdma-core.sh

.PHONY: clean distclean
clean:
	@rm -rf build
distclean: clean
	@scripts/distclean.sh
