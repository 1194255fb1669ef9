# Each target installs what it needs, and says so first. `make help` names them.

SHELL := /bin/bash
SLIPWAY_CACHE ?= /var/cache/slipway
export SLIPWAY_CACHE

# Runs a command with the compiled dependencies that all checkouts share.
RUNNER := tests/support/suites
WITH := $(RUNNER)/with-target.sh
SUITES := $(WITH) $(RUNNER)/suites.sh
PROFILE ?= release
# Suites by name; all by default. `make list` names them.
SUITE ?=
# More options of the benchmark, such as `--only mcd_fetch_ratio`.
BENCH ?=
# Where images are pushed to, such as registry.example/slipway; nowhere by default.
PUSH ?=
# Version of a release, as Cargo.toml names it, and where its images are published.
VERSION ?=
REGISTRY ?= localhost:5000/slipway
# More options of the release builder, such as `--os registry.example/os@sha256:… --key key.asc --push`.
RELEASE ?=
# More options of the image builder, such as `--insecure`.
IMAGES ?=
# What images are built for: linux/amd64 or linux/arm64.
PLATFORM ?= linux/amd64

# What the build and the lab take from Debian: libostree and its tool, the hosts (debootstrap, systemd-nspawn), what their pods need (CNI
# plugins, an image with busybox), the registry and skopeo, Prometheus and Alertmanager for managed upgrades,
# qemu and GRUB for the machine, XFS for the crash tests, Ignition for new machines,
# checkmodule and semodule_package for selinux/.
PACKAGES := pkg-config libostree-dev libssl-dev libzstd-dev ostree debootstrap systemd-container skopeo docker-registry \
	prometheus prometheus-alertmanager qemu-system-x86 qemu-utils grub-pc-bin xfsprogs ignition curl checkpolicy semodule-utils policycoreutils iproute2 e2fsprogs \
	containernetworking-plugins busybox-static

# What links programs for another processor, and runs each once.
ifeq ($(PLATFORM),linux/arm64)
PACKAGES += gcc-aarch64-linux-gnu libc6-dev-arm64-cross qemu-user-static
endif

.PHONY: help machine compilers setup lint unit binaries docs test list proof proof-programs proof-hosts proof-machine proof-images images release demo playground bench upstream-data

help:
	@echo "make demo    three workers roll, then a release goes through the cluster; target/demo/timeline.svg"
	@echo "make demo MANAGED=1   a managed upgrade carries the cluster to another release"
	@echo "make playground   a cluster of all parts and a shell with things to try"
	@echo "make playground HOLD=1   the same without a shell: target/playground/cluster.env; END=1 ends it"
	@echo "make test    everything that CI runs; make test SUITE=mcd-os: one suite, or several; make list: their names"
	@echo "make proof   what takes longer than CI may; its parts: proof-programs, proof-hosts, proof-machine,"
	@echo "             proof-images"
	@echo "make bench   the figures; target/bench/figures.json"
	@echo "make lint    format, clippy, dependencies    make unit   what needs no lab"
	@echo "make binaries [PROFILE=dev]   the programs, into target/slipway"
	@echo "make docs    the book, of docs/; target/book/index.html"
	@echo "make upstream-data   what tests read of OpenShift's repositories, into SLIPWAY_DATA (../shared/data)"
	@echo "make release VERSION=0.2.0 [REGISTRY=registry/prefix] [RELEASE=\"--os IMAGE --key FILE --push\"]"
	@echo "             images, release image, manifests, chart, command line and checksums, into target/release-files"
	@echo "make images [PLATFORM=linux/arm64] [PUSH=registry/prefix]   an OCI image of each component, into target/images"
	@echo "             or target/images-arm64; pushes them"

# What the lab needs of this machine, and what a build does.
machine:
	@$(RUNNER)/machine.sh lab

compilers:
	@$(RUNNER)/machine.sh build

setup:
	@missing=(); for package in $(PACKAGES); do \
		dpkg-query --show --showformat='$${Status}' $$package 2>/dev/null | grep -q 'ok installed' || missing+=($$package); \
	done; \
	if [ $${#missing[@]} -gt 0 ]; then \
		echo "installing Debian packages: $${missing[*]}"; \
		apt-get update --quiet=2 && DEBIAN_FRONTEND=noninteractive apt-get install --quiet=1 --yes --no-install-recommends $${missing[@]}; \
	fi

docs: compilers
	@$(RUNNER)/book.sh

upstream-data:
	@tests/support/upstream-data/get.sh

lint unit list: compilers setup
	@$(SUITES) $@

binaries: compilers setup
	@$(SUITES) programs $(PROFILE)

test: machine setup
	@$(SUITES) test $(SUITE)

proof: machine setup
	@$(SUITES) proof

proof-programs proof-hosts proof-machine proof-images: machine setup
	@$(SUITES) proof $(@:proof-%=%)

images: compilers setup
	@$(SUITES) images $(PLATFORM)
	@$(WITH) sh -c 'exec "$$CARGO_TARGET_DIR"/debug/image-builder "$$@"' sh --platform $(PLATFORM) $(if $(PUSH),--push $(PUSH)) $(IMAGES)

# What is asked for and cannot be built is refused.
release: compilers setup
	@[ "$(PLATFORM)" = linux/amd64 ] || { echo "PLATFORM=$(PLATFORM): a release is of linux/amd64 only" >&2; exit 2; }
	@[ -n "$(VERSION)" ] || { echo "make release VERSION=<version of Cargo.toml>: VERSION is missing" >&2; exit 2; }
	@$(SUITES) images
	@$(WITH) sh -c 'exec "$$CARGO_TARGET_DIR"/debug/release-builder "$$@"' sh --version $(VERSION) --registry $(REGISTRY) $(RELEASE)

demo: machine setup
	@$(WITH) $(RUNNER)/demo.sh --out target/demo $(if $(MANAGED),--managed)

# END=1 builds nothing: it may be needed while another checkout builds.
playground: $(if $(END),,machine setup)
ifdef END
	@tests/tools/demo/end-playground.sh target/playground
else
	@$(SUITES) playground
	@$(WITH) sh -c 'exec "$$CARGO_TARGET_DIR"/debug/demo --out target/playground --playground $(if $(HOLD),--hold)'
endif

bench: machine setup
	@$(SUITES) bench
	@$(WITH) sh -c 'exec "$$CARGO_TARGET_DIR"/debug/bench --out target/bench $(BENCH)'
