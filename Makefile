# The two commands are `make demo` and `make test`; everything they need, they set up, and say so first.

SHELL := /bin/bash
SLIPWAY_CACHE ?= /var/cache/slipway
export SLIPWAY_CACHE

OUT := target/slipway
PROFILE ?= release
# More options of the benchmark, such as `--only mcd_fetch_ratio`.
BENCH ?=
DENY := $(SLIPWAY_CACHE)/tools/bin/cargo-deny
DENY_VERSION := 0.20.2

# The newest version of glibc's symbols that the helper may need: the host's is what it is.
HOST_GLIBC := GLIBC_2.34

# What the build and the lab take from Debian: libostree and its tool, the hosts (debootstrap, systemd-nspawn), the registry and skopeo,
# qemu and GRUB for the machine, XFS for the crash tests, checkmodule and semodule_package for selinux/.
PACKAGES := pkg-config libostree-dev libssl-dev libzstd-dev ostree debootstrap systemd-container skopeo docker-registry \
	qemu-system-x86 qemu-utils grub-pc-bin xfsprogs checkpolicy semodule-utils iproute2 e2fsprogs

.PHONY: help setup tools lint unit binaries test proof demo bench

help:
	@echo "make demo   three hosts roll to a new OS and configuration; target/demo/timeline.svg"
	@echo "make test   everything that CI runs    make proof  what takes longer than CI may"
	@echo "make bench  the figures; target/bench/figures.json"
	@echo "make lint   format, clippy, dependencies    make unit   what needs no lab"

setup:
	@missing=(); for package in $(PACKAGES); do \
		dpkg-query --show --showformat='$${Status}' $$package 2>/dev/null | grep -q 'ok installed' || missing+=($$package); \
	done; \
	if [ $${#missing[@]} -gt 0 ]; then \
		echo "installing Debian packages: $${missing[*]}"; \
		apt-get update --quiet=2 && DEBIAN_FRONTEND=noninteractive apt-get install --quiet=2 --yes --no-install-recommends $${missing[@]}; \
	fi

tools: $(DENY)

$(DENY):
	@echo "building cargo-deny $(DENY_VERSION) into $(SLIPWAY_CACHE)/tools"
	cargo install cargo-deny --version $(DENY_VERSION) --locked --root $(SLIPWAY_CACHE)/tools

lint: setup tools
	cargo fmt --all --check
	cargo clippy --workspace --all-targets --features api/crdgen --locked -- -D warnings
	$(DENY) --locked check --hide-inclusion-graph bans licenses sources

unit: setup
	cargo test --workspace --locked

# Each binary is built with its own features only, so that the daemon links no libostree and the helper no Kubernetes client.
binaries: setup
	cargo build --profile $(PROFILE) --locked -p mcd -p controller --no-default-features --features mcd/node-daemon --bin mcd --bin mcc
	cargo build --profile $(PROFILE) --locked -p mcd --no-default-features --features host-helper --bin mcd-os
	@mkdir -p $(OUT)
	@set -e; built=$${CARGO_TARGET_DIR:-target}/$(subst dev,debug,$(PROFILE)); \
	for binary in mcd mcd-os mcc; do strip --strip-all -o $(OUT)/$$binary $$built/$$binary; done
	@needed=$$(readelf --wide --version-info $(OUT)/mcd-os | grep -o 'GLIBC_[0-9.]*' | sort --version-sort | tail -1); \
	if [ "$$(printf '%s\n' $$needed $(HOST_GLIBC) | sort --version-sort | tail -1)" != $(HOST_GLIBC) ]; then \
		echo "mcd-os needs $$needed, and hosts may have $(HOST_GLIBC)"; exit 1; \
	fi

# One suite at a time: hosts, bridges and namespaces are the machine's.
test: lint unit
	$(MAKE) binaries PROFILE=dev
	cargo test --locked -p lab --test control_plane --test host --test image --test node --test pod -- --ignored --test-threads=1
	cargo test --locked -p tests --test two-controllers --test cordon --test certificates --test traffic --test mcd-os -- --ignored --test-threads=1
	cargo test --locked -p tests --test bad-input --test interrupted -- --ignored --test-threads=1
	cargo test --locked -p tests --test mutants -- --ignored --test-threads=1
	cargo test --locked -p tests --test crash -- --ignored --test-threads=1 --nocapture \
		a_killed_daemon_goes_on_where_it_was some_killed_programs_leave_their_host_whole

# What takes longer than CI may. Each says how many points it tried.
proof: setup
	$(MAKE) binaries PROFILE=dev
	cargo test --locked -p tests --test crash -- --ignored --test-threads=1 --nocapture \
		a_killed_program_leaves a_killed_host_boots a_daemon_whose_host_is_killed
	cargo test --locked -p lab --test vm -- --ignored --test-threads=1
	cargo test --locked -p tests --test vm -- --ignored --test-threads=1 --nocapture

demo: binaries
	cargo run --locked -p tests --bin demo -- --mcd $(OUT)/mcd --mcd-os $(OUT)/mcd-os --mcc $(OUT)/mcc --out target/demo

bench: binaries
	cargo run --locked -p tests --bin bench -- --mcd $(OUT)/mcd --mcd-os $(OUT)/mcd-os --mcc $(OUT)/mcc --out target/bench $(BENCH)
