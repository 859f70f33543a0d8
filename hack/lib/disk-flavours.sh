# What a guest of the disk machine can have besides: Debian's udev with its rules for disks and arrays, and the mdadm of
# another release of Debian. Each is an archive of its own, which the guest's initramfs then has at its end.
# shellcheck shell=bash

UDEV_RULES="01-md-raid-creating 50-udev-default 60-block 60-persistent-storage 63-md-raid-arrays 64-md-raid-assembly
69-md-clustered-confirm-device"

# pack_udev ROOT TREE ARCHIVE: udev as a node has it, with mdadm's own rules.
pack_udev() {
    local root=$1 tree=$2 rule
    mkdir -p "$tree"/{etc/udev/rules.d,usr/lib/systemd,usr/lib/udev/rules.d}
    copy_programs "$root" "$tree" /bin/udevadm
    # By this name it is the daemon.
    ln -s ../../bin/udevadm "$tree/usr/lib/systemd/systemd-udevd"
    for rule in $UDEV_RULES; do cp "$root/lib/udev/rules.d/$rule.rules" "$tree/usr/lib/udev/rules.d/"; done
    # shellcheck disable=SC2153 # common.sh sets it
    cp "$ROOT/hack/disk-guest/59-google-names.rules" "$tree/usr/lib/udev/rules.d/"
    archive "$root/bin/busybox" "$tree" "$3"
}

# Releases of Debian by number, as READSTATES_DISK_MDADM has it; 12 is what the rest of the guest is made of.
disk_mdadm_suite() {
    case $1 in
    13) echo trixie ;;
    *) die "READSTATES_DISK_MDADM=$1 is no release of Debian that the disk machine knows" "it can be 12 (the default) or 13" ;;
    esac
}

# ensure_disk_mdadm: the archive with the mdadm that READSTATES_DISK_MDADM asks for, when it is another.
ensure_disk_mdadm() {
    local release=${READSTATES_DISK_MDADM:-12} suite
    [ "$release" != 12 ] || return 0
    suite=$(disk_mdadm_suite "$release")
    fresh_dir "$(disk_machine_dir)/mdadm-$release" pack_mdadm "$suite"
}

# pack_mdadm SUITE DIR: mdadm.cpio. Its C library comes along, in place of the guest's: newer ones run older programs.
pack_mdadm() {
    local suite=$1 dir=$2 work=$2/work
    local tree=$work/tree root=$work/root package
    mkdir -p "$work/debs" "$root/usr/lib64" "$root/usr/lib" "$tree"/{lib64,usr/sbin,usr/lib/x86_64-linux-gnu}
    download_of_suite "$suite" "$work" mdadm libc6
    for package in "$work"/debs/*.deb; do dpkg-deb -x "$package" "$root"; done
    cp "$root/usr/sbin/mdadm" "$tree/usr/sbin/"
    cp -L "$root/usr/lib/x86_64-linux-gnu/ld-linux-x86-64.so.2" "$tree/lib64/"
    find "$root/usr/lib/x86_64-linux-gnu" -maxdepth 1 -name 'lib*.so.[0-9]*' -exec cp -L -t "$tree/usr/lib/x86_64-linux-gnu" {} +
    archive "$(disk_machine_dir)/busybox" "$tree" "$dir/mdadm.cpio"
    rm -rf "$work"
}

# download_of_suite SUITE WORK PACKAGE…: into WORK/debs, from the mirror that this machine has Debian from, with lists and
# a cache of its own: nothing of this machine's apt is changed.
download_of_suite() {
    local suite=$1 work=$2 mirror options
    shift 2
    # shellcheck disable=SC2016 # apt's own words
    mirror=$(apt-get indextargets --format '$(LABEL) $(REPO_URI)' 'Created-By: Packages' | awk '$1 == "Debian" {print $2; exit}')
    [ -n "$mirror" ] || die "apt-get knows no mirror of Debian" "as root: apt-get update"
    mkdir -p "$work"/{sources,lists/partial,cache/archives/partial}
    printf 'Types: deb\nURIs: %s\nSuites: %s\nComponents: main\nSigned-By: %s\n' "$mirror" "$suite" \
        /usr/share/keyrings/debian-archive-keyring.gpg >"$work/sources/$suite.sources"
    options=(-q -o Dir::Etc::SourceList=/dev/null -o "Dir::Etc::SourceParts=$work/sources" -o "Dir::State::Lists=$work/lists"
        -o "Dir::Cache=$work/cache" -o "APT::Sandbox::User=$(id -un)" -o Debug::NoLocking=true)
    apt-get "${options[@]}" update || die "failed to get the lists of Debian $suite from $mirror"
    (cd "$work/debs" && apt-get "${options[@]}" download "$@")
}
