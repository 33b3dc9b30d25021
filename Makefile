# The commands a user types. CMake does the building; this file only names the steps.
BUILD := build
PREFIX ?= /usr/local
DESTDIR ?=

.PHONY: all demo test interop guest sanitize soak bench install deb packages packages-build clean

all: packages-build
	@cmake --preset release -DVERBENA_TESTS=OFF -DCMAKE_INSTALL_PREFIX=$(PREFIX) > /dev/null
	@cmake --build $(BUILD)

packages-build:
	@scripts/install-packages build

packages:
	@scripts/install-packages build test

demo: packages all
	@scripts/demo $(BUILD)

test: packages guest
	@cmake --preset release -DVERBENA_TESTS=ON > /dev/null
	@cmake --build $(BUILD)
	@scripts/test $(BUILD)

# The long form of the tests against Linux's Soft-RoCE; the short one is part of `make test`.
interop: packages guest
	@cmake --preset release -DVERBENA_TESTS=ON > /dev/null
	@cmake --build $(BUILD)
	@VERBENA_INTEROP=long scripts/test $(BUILD) -R interop

# Without an image its tests are skipped, and say so.
guest: packages
	@scripts/guest-image $(BUILD)/guest || true

sanitize: packages
	@scripts/sanitize asan
	@scripts/sanitize tsan

soak: packages
	@cmake --preset release -DVERBENA_TESTS=ON > /dev/null
	@cmake --build $(BUILD) --target sim_world_test
	@scripts/soak $(BUILD)

bench: packages all
	@bench/compare $(BUILD)

install: all
	@DESTDIR=$(DESTDIR) cmake --install $(BUILD) --prefix $(PREFIX)

deb: all
	@cd $(BUILD) && cpack -G DEB

clean:
	rm -rf build build-debug build-asan build-tsan build-fuzz
