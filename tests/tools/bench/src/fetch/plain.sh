# Fetches an image and makes its deployment with skopeo and ostree, in a mount namespace of its own.
#
# usage: plain.sh IMAGE LAYER…; a layer is its digest in hexadecimal, the lowest first
image=$1
shift
mount -o remount,rw /sysroot
fetched=$(mktemp --directory --tmpdir=/var/tmp)
skopeo copy --quiet --src-tls-verify=false "docker://$image" "dir:$fetched"
trees=()
for layer; do trees+=("--tree=tar=$fetched/$layer"); done
# An image has /etc where a commit has /usr/etc.
ostree commit --repo=/ostree/repo --branch=plain --bootable --tar-autocreate-parents \
    --tar-pathname-filter='^etc(/|$),usr/etc/' "${trees[@]}"
ostree admin deploy plain
