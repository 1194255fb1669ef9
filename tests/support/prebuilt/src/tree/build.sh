#!/bin/bash
# Builds the lab's operating system as a directory tree in ostree's layout.
#
# usage: build.sh OUT FILES POLICY SUITE ARCHIVE [KEYRING], where OUT is an empty directory, FILES a directory laid over the tree, POLICY a
# directory with sources of policy modules (lab.te, slipway.te, slipway.fc) or empty for a tree without SELinux, and the rest says where
# Debian's packages come from.
#
# Each step prints one line, so that a reader of the first build sees that it goes on.
set -euo pipefail
umask 022

out=$1
files=$2
policy=$3
suite=$4
archive=$5
keyring=${6:-}

say() { printf 'tree: %s\n' "$*"; }

# A command inside the tree. dracut and depmod need /proc and /dev; the mount namespace takes the
# mounts away again, however this script ends.
inside() {
    unshare --mount --propagation private bash -euc '
        root=$1; shift
        mount -t proc proc "$root/proc"
        mount --rbind /dev "$root/dev"
        exec env -i PATH=/usr/sbin:/usr/bin LC_ALL=C.UTF-8 DEBIAN_FRONTEND=noninteractive \
            ${http_proxy:+http_proxy="$http_proxy"} chroot "$root" "$@"
    ' inside "$out" "$@"
}

say "debootstrap $suite"
debootstrap --variant=minbase ${keyring:+--keyring="$keyring"} "$suite" "$out" "$archive"

say "packages"
# No package may start a service here, and nothing needs to reach the disk before the commit does.
printf '#!/bin/sh\nexit 101\n' >"$out/usr/sbin/policy-rc.d"
chmod 0755 "$out/usr/sbin/policy-rc.d"
echo force-unsafe-io >"$out/etc/dpkg/dpkg.cfg.d/lab"
# The initramfs is made once, when all are installed: the packages of kernel and dracut would each.
mkdir -p "$out/etc/dracut.conf.d"
cat >"$out/etc/dracut.conf.d/lab.conf" <<'CONF'
hostonly=no
early_microcode=no
omit_dracutmodules+=" crypt dm kernel-modules kernel-modules-extra lunmask resume overlay-root "
omit_dracutmodules+=" virtiofs terminfo nvdimm qemu lvm mdraid usrmount "
add_drivers+=" virtio_pci virtio_blk ext4 "
CONF
inside env INITRD=No apt-get install --quiet=2 --yes --no-install-recommends \
    systemd systemd-sysv libpam-systemd dbus udev ostree skopeo strace iproute2 procps kmod \
    ca-certificates crun qemu-guest-agent dracut ostree-boot linux-image-cloud-amd64 \
    ${policy:+selinux-policy-default policycoreutils selinux-utils bubblewrap}

if [ -n "$policy" ]; then
    say "SELinux: the policy's modules"
    # An ostree system has the policy's store in /etc; libostree refreshes it in each new deployment, by bwrap.
    mv "$out"/var/lib/selinux/default/* "$out/etc/selinux/default/"
    echo store-root=/etc/selinux >>"$out/etc/selinux/semanage.conf"
    for module in lab slipway; do
        checkmodule -M -m -o "$policy/$module.mod" "$policy/$module.te" >/dev/null
    done
    semodule_package -o "$out/tmp/lab.pp" -m "$policy/lab.mod"
    semodule_package -o "$out/tmp/slipway.pp" -m "$policy/slipway.mod" -f "$policy/slipway.fc"
    inside semodule --noreload --install /tmp/lab.pp
    # A host that lacks Slipway's module is shown with this policy.
    mkdir "$out/usr/share/lab"
    cp "$out"/etc/selinux/default/policy/policy.* "$out/usr/share/lab/policy-without-module"
    inside semodule --noreload --install /tmp/slipway.pp
    rm "$out"/tmp/{lab,slipway}.pp
    # Directories that an ostree system has below /var are labelled as where its links to them are.
    for name in home opt srv mnt; do echo "/var/$name /$name"; done \
        >>"$out/etc/selinux/default/contexts/files/file_contexts.subs_dist"
    printf '%s\n' '/var/roothome /root' '/var/usrlocal /usr/local' \
        >>"$out/etc/selinux/default/contexts/files/file_contexts.subs_dist"
    sed -i 's/^SELINUX=.*/SELINUX=enforcing/' "$out/etc/selinux/config"
fi

mkdir -p "$out/usr/share/lab"
inside dpkg-query --show --showformat='${Package} ${Version}\n' >"$out/usr/share/lab/packages"

kernel=$(basename "$out"/usr/lib/modules/*)
modules=$out/usr/lib/modules/$kernel
inside dracut --quiet --force "/boot/initrd.img-$kernel" "$kernel"

say "modules of $kernel: only what a machine under qemu needs"
inside modprobe --set-version "$kernel" --all --show-depends \
    virtio_pci virtio_blk virtio_net virtio_console virtio_rng \
    ext4 overlay fuse loop veth bridge tun \
    | sed -n 's/^insmod \([^ ]*\).*/\1/p' | sed 's,^/lib/,/usr/lib/,' | sort -u >"$out/keep"
find "$modules/kernel" -name '*.ko' | sed "s,^$out,," | grep -vxFf "$out/keep" \
    | sed "s,^,$out," | xargs rm --
find "$modules" -type d -empty -delete
rm "$out/keep"
inside depmod "$kernel"

mv "$out/boot/vmlinuz-$kernel" "$modules/vmlinuz"
mv "$out/boot/initrd.img-$kernel" "$modules/initramfs.img"

say "accounts"
inside useradd --uid 1000 --user-group --no-create-home --home-dir /var/home/core \
    --shell /bin/bash core
# No password, in the word of RHCOS; Debian's is `!`.
inside usermod --password '*' core
# Owners of configured files: one account as packages make them, one only in the static database
# that an ostree system may ship beside it.
inside useradd --system --uid 970 --user-group --no-create-home --home-dir / \
    --shell /usr/sbin/nologin chrony
echo 'ostreesvc:x:971:971:static account:/:/usr/sbin/nologin' >"$out/usr/lib/passwd"
echo 'ostreesvc:x:971:' >"$out/usr/lib/group"

say "what a node does not use"
rm -r "$out"/usr/share/{doc,man,info,lintian,bug,locale} "$out"/usr/lib/udev/hwdb.* \
    "$out/usr/lib/cni" "$out/usr/sbin/policy-rc.d" "$out/etc/dpkg/dpkg.cfg.d/lab"
rm -f "$out"/etc/{passwd,group,shadow,gshadow,subuid,subgid}- "$out"/etc/.pwd.lock \
    "$out"/etc/{hostname,resolv.conf,fstab,apt/sources.list} "$out"/{vmlinuz,initrd.img}{,.old}
rm -r "$out"/etc/systemd/system/{timers.target.wants,getty.target.wants,sysinit.target.wants} \
    "$out"/etc/systemd/system/multi-user.target.wants/e2scrub_reap.service
# systemd ignores an empty file; the installer of a host writes the real one.
: >"$out/etc/machine-id"

say "database of packages: below /usr, as ostree systems have it"
mkdir "$out/usr/lib/sysimage"
mv "$out/var/lib/dpkg" "$out/usr/lib/sysimage/dpkg"
rm -f "$out"/usr/lib/sysimage/dpkg/{*-old,lock,lock-frontend,triggers/Lock}

say "ostree layout"
mv "$out/etc" "$out/usr/etc"
rm -r "$out"/{boot,home,root,opt,srv,mnt,media,dev,proc,sys,run,tmp,var} "$out/usr/local"
mkdir "$out"/{boot,dev,proc,sys,run,var,sysroot}
mkdir -m 1777 "$out/tmp"
for name in home opt srv mnt; do ln -s "var/$name" "$out/$name"; done
ln -s var/roothome "$out/root"
ln -s run/media "$out/media"
ln -s sysroot/ostree "$out/ostree"
ln -s ../var/usrlocal "$out/usr/local"
cp "$out/usr/share/systemd/tmp.mount" "$out/usr/lib/systemd/system/"
cp -r --preserve=mode "$files/." "$out"
ln -s /usr/lib/systemd/system/{crio,kubelet}.service "$out/usr/etc/systemd/system/multi-user.target.wants/"
say "done: $(du -sh "$out" | cut -f1)"
