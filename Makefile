# The commands a user types. CMake does the building; this file only names the steps.
BUILD := build
PREFIX ?= /usr/local
DESTDIR ?=

.PHONY: all demo test test-apps interop guest guest-backports sanitize soak bench validate install deb \
        packages packages-build packages-demo packages-bench clean

# Without the tests, unless they are there: a tree whose tests are no longer built would keep old ones.
all: packages-build
	@cmake --preset release $(if $(wildcard $(BUILD)/CMakeCache.txt),,-DVERBENA_TESTS=OFF) \
	  -DCMAKE_INSTALL_PREFIX=$(PREFIX) > /dev/null
	@cmake --build $(BUILD)

packages-build:
	@scripts/install-packages build

packages-demo:
	@scripts/install-packages build test

packages:
	@scripts/install-packages build test apps

packages-bench:
	@scripts/install-packages bench

demo: packages-demo all
	@scripts/demo $(BUILD)

test: packages guest
	@cmake --preset release -DVERBENA_TESTS=ON > /dev/null
	@cmake --build $(BUILD)
	@scripts/test $(BUILD)

# The long form of the tests of whole programs (storage testers, MPI, hypervisor); the short one is
# part of `make test`.
test-apps: packages
	@cmake --preset release -DVERBENA_TESTS=ON > /dev/null
	@cmake --build $(BUILD)
	@VERBENA_APPS=long scripts/test $(BUILD) -R apps_

# The long form of the tests against Linux's Soft-RoCE, with a newer kernel too; the short one is part
# of `make test`.
interop: packages guest guest-backports
	@cmake --preset release -DVERBENA_TESTS=ON > /dev/null
	@cmake --build $(BUILD)
	@VERBENA_INTEROP=long scripts/test $(BUILD) -R interop

# Status 77: its packages cannot be had here, and the tests that need it are skipped with the reason.
guest: packages
	@scripts/guest-image $(BUILD)/guest || [ $$? -eq 77 ]

guest-backports: packages
	@scripts/guest-image $(BUILD)/guest-backports backports || [ $$? -eq 77 ]

sanitize: packages
	@scripts/sanitize asan
	@scripts/sanitize tsan

soak: packages
	@cmake --preset release -DVERBENA_TESTS=ON > /dev/null
	@cmake --build $(BUILD) --target sim_world_test
	@scripts/soak $(BUILD)

bench: packages packages-bench all
	@bench/compare $(BUILD) --chart $(BUILD)/performance.svg
	@bench/fabric $(BUILD)

# The simulated fabric beside other programs' results: docs/validation.md. Also part of `make test`.
validate: packages all
	@tests/validation/validate.py $(BUILD) --write docs/validation.md

install: all
	@DESTDIR=$(DESTDIR) cmake --install $(BUILD) --prefix $(PREFIX)

deb: all
	@cd $(BUILD) && cpack -G DEB

clean:
	rm -rf build build-debug build-asan build-tsan build-fuzz
