# The disk machine: what it is made of is in the cache, what we put into it is built each time.
# shellcheck shell=bash

DISK_MACHINE_TOOLS="
qemu-system-x86_64 qemu-system-x86 your distribution
dpkg-deb           dpkg            a Debian or Ubuntu: kernels and programs of the guest are their packages
apt-get            apt             a Debian or Ubuntu: kernels and programs of the guest are their packages
setpriv            util-linux      your distribution
xz                 xz-utils        your distribution
zstd               zstd            your distribution
"
# A test that was told to end has ended by then, and nextest with it.
DISK_GRACE=20

disk_machine_dir() {
    # shellcheck disable=SC2153 # common.sh sets it
    echo "$CACHE/disk-machine/$(content_hash "$ROOT"/hack/lib/disk-{packages,flavours}.sh "$ROOT/hack/disk-guest")"
}

# What does not change with our code: downloaded and packed once.
build_disk_machine() {
    fresh_dir "$(disk_machine_dir)" fill_disk_machine
    ensure_disk_mdadm
}

disk_target() { echo "$CARGO_TARGET_DIR/disk-machine"; }

# What changes with our code: the super-disk's program and the guest's agent. Statically linked, for the
# guest's C library is not ours; --target, so that this is not asked of build scripts and macros.
build_guest_programs() {
    local tree target=x86_64-unknown-linux-gnu
    CARGO_TARGET_X86_64_UNKNOWN_LINUX_GNU_RUSTFLAGS="-C target-feature=+crt-static" \
        cargo build --locked --profile "$CHECKED_PROFILE" --target "$target" --package superdisk --package e2e-disk --bin superdisk --bin guest
    tree=$(disk_target)/tree
    rm -rf "$tree"
    install -D --strip --target-directory "$tree/usr/sbin" "$CARGO_TARGET_DIR/$target/$CHECKED_PROFILE/"{superdisk,guest}
    archive "$(disk_machine_dir)/busybox" "$tree" "$(disk_target)/programs.cpio"
}

# For the harness: where things are.
export_disk_machine() {
    READSTATES_DISK_MACHINE=$(disk_machine_dir)
    READSTATES_DISK_PROGRAMS=$(disk_target)/programs.cpio
    READSTATES_DISK_LOGS=$LOGS/disk-machine
    export READSTATES_DISK_MACHINE READSTATES_DISK_PROGRAMS READSTATES_DISK_LOGS
}

# record_disk_tests [--fast | --sample N] [WORD…]: counts what ended, passed or failed, in the table of situations, and writes
# the book's page of it.
record_disk_tests() {
    local junit=$ROOT/target/nextest/disk/junit.xml status=0
    rm -f "$junit"
    # Scenarios that fail are counted, too.
    run_disk_tests "$@" || status=$?
    [ -s "$junit" ] || die "no scenario has ended"
    count_situations record "$junit"
    return "$status"
}

# record_walks [--seeds N] [--from S] [--steps N] [--at-once N]: the same with random walks.
record_walks() {
    local total=$READSTATES_DISK_LOGS/walks.json status=0
    rm -f "$total"
    cargo run --locked --package e2e-disk --bin disk-walk -- --total "$total" "$@" || status=$?
    [ -s "$total" ] || die "no walk has ended"
    count_situations record-walks "$total"
    return "$status"
}

# count_situations COMMAND FILE
count_situations() {
    local kernel=${READSTATES_DISK_KERNEL:-$(oldest_disk_kernel)}
    export PYTHONDONTWRITEBYTECODE=1
    python3 "$ROOT/hack/lib/disk_situations.py" "$1" "$2" "$kernel" "${READSTATES_DISK_MDADM:-12}" \
        "$(content_hash "$ROOT/operator/superdisk/src")" "$(date -u +%Y-%m-%d)"
    python3 "$ROOT/hack/lib/disk_situations.py" page >"$ROOT/readstates/book/src/explanation/disk-situations.md"
}

# The one that guests have unless they are asked for another.
oldest_disk_kernel() { find "$(disk_machine_dir)" -mindepth 1 -maxdepth 1 -name '[0-9]*.[0-9]*' -printf '%f\n' | sort -V | head -n 1; }

# in_group COMMAND…: in a process group of its own, so that what ends this script ends everything that COMMAND started. The
# guests end with the process that started them.
in_group() {
    local status=0 group
    set -m
    ("$@") </dev/null &
    set +m
    group=$!
    # shellcheck disable=SC2064 # the number is known now
    trap "end_group $group; exit 143" INT TERM HUP
    wait "$group" || status=$?
    trap - INT TERM HUP
    return "$status"
}

# end_group NUMBER: tells it to end, and waits for that.
end_group() {
    local patience=$((DISK_GRACE * 5))
    kill -TERM -- "-$1" 2>/dev/null || return 0
    while [ $patience -gt 0 ] && kill -0 -- "-$1" 2>/dev/null; do
        sleep 0.2
        patience=$((patience - 1))
    done
    kill -KILL -- "-$1" 2>/dev/null || true
}

# run_disk_tests [--fast | --sample N] [WORD…]
run_disk_tests() {
    local filter='all()'
    case ${1:-} in
    --fast) filter=$DISK_CORE && shift ;;
    --sample) filter="$DISK_CORE | ($(disk_sample "${2:?--sample needs a number}"))" && shift 2 ;;
    esac
    ensure_rust_tool cargo-nextest "$NEXTEST_VERSION"
    PATH=$(rust_tool_dir cargo-nextest "$NEXTEST_VERSION")/bin:$PATH tests_of disk e2e-disk "$filter" "$@"
}
