# Debian's kernels and programs, packed as the pieces of an initramfs for the disk machine.
# shellcheck shell=bash

# Two kernels where the release has both. The name of the folder is the series of what the package brings.
DISK_KERNELS="linux-image-amd64 linux-image-6.12-amd64"
DISK_PACKAGES="busybox-static mdadm udev xfsprogs e2fsprogs util-linux mount dmsetup lvm2 thin-provisioning-tools bcache-tools fio"
# Nothing that we copy is linked against these: half of the download.
DISK_UNNEEDED="^(python3|libpython|perl|libperl|systemd|udev|debconf|cdebconf|init-system|sysvinit|adduser|passwd|dbus|dpkg|tar|coreutils)"
DISK_PROGRAMS="
/bin/busybox /sbin/mdadm /sbin/mkfs.xfs /usr/sbin/xfs_growfs /usr/sbin/xfs_io /sbin/xfs_repair /sbin/mke2fs /sbin/resize2fs /sbin/e2fsck
/sbin/blkid /sbin/wipefs /sbin/fsfreeze /sbin/blockdev /sbin/losetup /bin/mount /bin/umount /bin/findmnt /bin/lsblk
/sbin/dmsetup /sbin/lvm /usr/sbin/pdata_tools /usr/sbin/make-bcache
"
DISK_MODULES="
virtio_pci virtio_blk virtio_console nvme raid0 raid1 xfs ext4 crc32c_generic loop
dm_mod dm_cache dm_cache_smq bcache
"
# What a node of Kubernetes loads besides: a card, containers' files and links, and all of the packet filters.
NODE_MODULES="virtio_net overlay veth bridge br_netfilter"
NODE_MODULE_FOLDERS="kernel/net/netfilter kernel/net/ipv4/netfilter kernel/net/ipv6/netfilter"

# fill_disk_machine DIR: tools.cpio, fio.cpio, udev.cpio, busybox and, for each kernel, SERIES/vmlinux, SERIES/modules.cpio and, with
# more in it, SERIES/node-modules.cpio.
fill_disk_machine() {
    local dir=$1 work=$1/work image version series
    local root=$work/root
    mkdir -p "$work/debs" "$root"
    download_guest_packages "$work/debs"
    for image in "$work"/debs/*.deb; do dpkg-deb -x "$image" "$root"; done
    pack_tools "$root" "$work/tools" "$dir/tools.cpio"
    pack_fio "$root" "$work/fio" "$dir/fio.cpio"
    pack_udev "$root" "$work/udev" "$dir/udev.cpio"
    for image in "$root"/boot/vmlinuz-*; do
        version=${image#"$root/boot/vmlinuz-"}
        series=$(cut -d. -f1-2 <<<"$version")
        mkdir "$dir/$series"
        unpack_kernel "$image" "$dir/$series/vmlinux"
        # shellcheck disable=SC2086 # lists of words
        pack_modules "$root" "$version" "$work/$series" "$dir/$series/modules.cpio" $DISK_MODULES
        # shellcheck disable=SC2046,SC2086 # lists of words
        pack_modules "$root" "$version" "$work/$series-node" "$dir/$series/node-modules.cpio" \
            $DISK_MODULES $NODE_MODULES $(modules_below "$root/lib/modules/$version" $NODE_MODULE_FOLDERS)
    done
    # To pack our own programs, every time that they change.
    cp "$root/bin/busybox" "$dir/"
    rm -rf "$work"
}

# download_guest_packages DIR: the packages and everything that they need, without installing any of it.
download_guest_packages() {
    local name packages=()
    # A fresh container has no lists; only root may fetch them.
    apt-cache show busybox-static >/dev/null 2>&1 || ! debian_root || apt-get update -q
    # shellcheck disable=SC2086 # lists of words
    mapfile -t packages < <(apt-cache depends --recurse --no-recommends --no-suggests --no-conflicts --no-breaks \
        --no-replaces --no-enhances $DISK_PACKAGES | grep '^[a-z0-9]' | sort -u | grep -vE "$DISK_UNNEEDED")
    packages+=(udev)
    for name in $DISK_KERNELS; do
        name=$(apt-cache depends "$name" 2>/dev/null | awk '/Depends: linux-image/ {print $2; exit}')
        [ -z "$name" ] || packages+=("$name")
    done
    [[ " ${packages[*]} " == *" linux-image-"* ]] || die "apt-get knows no kernel" "as root: apt-get update"
    (cd "$1" && apt-get download -q "${packages[@]}")
}

# unpack_kernel VMLINUZ VMLINUX: an emulated processor takes six seconds to do this at each start. Where what lies in the image:
# https://docs.kernel.org/arch/x86/boot.html (setup_sects, payload_offset, payload_length).
unpack_kernel() {
    local image=$1 setup offset length
    setup=$(number_at "$image" 0x1f1 1) offset=$(number_at "$image" 0x248 4) length=$(number_at "$image" 0x24c 4)
    # Its last four bytes are the length of what was packed.
    tail -c "+$(((setup + 1) * 512 + offset + 1))" "$image" | head -c "$((length - 4))" >"$2.packed" || true
    case $(head -c 4 "$2.packed" | od -An -tx1 | tr -d ' ') in
    fd377a58) xz -dc <"$2.packed" >"$2" ;;
    28b52ffd) zstd -dcq <"$2.packed" >"$2" ;;
    *) die "$image is packed by neither xz nor zstd" ;;
    esac
    rm "$2.packed"
    [ "$(head -c 4 "$2" | tail -c 3)" = ELF ] || die "$image has no kernel that can be started as it is"
}

# number_at FILE OFFSET BYTES
number_at() { od -An "-tu$3" -j "$2" -N "$3" "$1" | tr -d ' '; }

# pack_tools ROOT TREE ARCHIVE: init, busybox with its links, and the programs with the libraries that they name.
pack_tools() {
    local root=$1 tree=$2 program
    mkdir -p "$tree"/{proc,sys,dev,run,tmp,etc,mnt,usr/bin,usr/sbin,usr/lib,lib64,var/lib/superdisk}
    # Some of Debian's packages have their files in /bin, others in /usr/bin: both are the same here.
    ln -s usr/bin usr/sbin usr/lib "$tree"
    # shellcheck disable=SC2153 # common.sh sets it
    install -m 755 "$ROOT/hack/disk-guest/init" "$tree/init"
    install -m 755 "$ROOT"/hack/disk-guest/{by-id,become-node} "$tree/usr/sbin/"
    # shellcheck disable=SC2086 # a list of words
    copy_programs "$root" "$tree" $DISK_PROGRAMS
    for program in $("$root/bin/busybox" --list); do
        [ -e "$tree/usr/bin/$program" ] || [ -e "$tree/usr/sbin/$program" ] || ln -s /bin/busybox "$tree/usr/bin/$program"
    done
    # By these paths other programs start them.
    ln -s /bin/busybox "$tree/usr/sbin/modprobe"
    ln -s mke2fs "$tree/usr/sbin/mkfs.ext4"
    cp "$root/etc/mke2fs.conf" "$tree/etc/"
    for program in lvs vgs pvs lvcreate lvconvert lvchange vgcreate pvcreate vgchange; do ln -s lvm "$tree/usr/sbin/$program"; done
    for program in cache_check cache_dump cache_repair; do ln -s pdata_tools "$tree/usr/sbin/$program"; done
    archive "$root/bin/busybox" "$tree" "$3"
}

# fio drags the clients of three storage systems along: an archive of its own, for machines that measure.
pack_fio() {
    mkdir -p "$2"/usr/bin "$2"/usr/lib
    copy_programs "$1" "$2" /usr/bin/fio
    archive "$1/bin/busybox" "$2" "$3"
}

# copy_programs ROOT TREE PROGRAM…
copy_programs() {
    local root=$1 tree=$2 program library libraries
    local lib=$root/lib/x86_64-linux-gnu:$root/usr/lib/x86_64-linux-gnu:$root/usr/lib/x86_64-linux-gnu/ceph
    shift 2
    mkdir -p "$tree/lib64" "$tree/usr/lib/x86_64-linux-gnu"
    cp -L "$root/lib64/ld-linux-x86-64.so.2" "$tree/lib64/"
    for program in "$@"; do
        # util-linux and mount are of two minds about /bin and /usr/bin, from release to release.
        [ -e "$root$program" ] || program=${program#/usr}
        [ -e "$root$program" ] || program=/usr$program
        install -D -m 755 "$root$program" "$tree/usr/${program#/usr}"
        # Statically linked ones have none to list.
        libraries=$("$root/lib64/ld-linux-x86-64.so.2" --library-path "$lib" --list "$root$program" | awk '$3 ~ "^/" {print $3}') || continue
        for library in $libraries; do
            [ -e "$tree/usr/lib/x86_64-linux-gnu/${library##*/}" ] || cp -L "$library" "$tree/usr/lib/x86_64-linux-gnu/"
        done
    done
}

# modules_below DIR FOLDER…: names of all modules in these folders.
modules_below() {
    local dir=$1 folder
    shift
    for folder in "$@"; do find "$dir/$folder" -name '*.ko*'; done | sed 's/.*\///; s/[.]ko.*//; s/-/_/g'
}

# pack_modules ROOT VERSION TREE ARCHIVE MODULE…: these, those that they need, and the index.
pack_modules() {
    local root=$1 version=$2 tree=$3 archive=$4 path
    shift 4
    mkdir -p "$tree"
    "$root/bin/busybox" depmod -b "$root" "$version" 2>/dev/null || true
    (
        cd "$root/lib/modules/$version" || exit
        awk -v names="$*" '
            BEGIN { split(names, list, " "); for (i in list) wanted[list[i]] = 1 }
            { file = $1; sub(":$", "", file); base = file; sub(".*/", "", base); sub("[.]ko.*", "", base); gsub("-", "_", base)
              if (base in wanted) { print file; for (i = 2; i <= NF; i++) print $i } }' modules.dep | sort -u
    ) | while read -r path; do
        install -D -m 644 "$root/lib/modules/$version/$path" "$tree/usr/lib/modules/$version/$path"
    done
    find "$tree" -name '*.ko.xz' -exec "$root/bin/busybox" unxz {} +
    cp "$root/lib/modules/$version"/modules.builtin* "$root/lib/modules/$version"/modules.order "$tree/usr/lib/modules/$version/"
    (cd "$tree" && ln -s usr/lib lib)
    "$root/bin/busybox" depmod -b "$tree" "$version"
    rm "$tree/lib"
    archive "$root/bin/busybox" "$tree" "$archive"
}

# archive BUSYBOX TREE FILE: not compressed; an emulated processor would take longer over it than the copy does.
archive() { (cd "$2" && find . | LC_ALL=C sort | "$1" cpio -o -H newc) >"$3"; }
