#!/bin/sh
# What the initramfs leaves behind before systemd starts on an ostree host: the marks of
# ostree-prepare-root, and the boot's own command line and id. The arguments are the kernel's, which
# systemd in a container takes from its own command line.
set -e
: >/run/ostree-booted
: >/run/ostree-sysroot-ro.stamp
mount --bind /run/lab/cmdline /proc/cmdline
# systemd-nspawn's own is a file already deleted, on which nothing can be mounted.
umount /proc/sys/kernel/random/boot_id
mount --bind /run/lab/boot_id /proc/sys/kernel/random/boot_id
exec /usr/lib/systemd/systemd systemd.mask=console-getty.service "$@"
