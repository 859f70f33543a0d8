# What hack/test runs of that of which there is more than it has time for: a core, always, and a sample that a number
# chooses. The number follows from the commit, so that every commit looks at something else, and the same commit always
# at the same.
# shellcheck shell=bash

# How many samples there are of the super-disk's scenarios, and of the end-to-end tests of E2E_IN_TURN.
DISK_SAMPLES=8
E2E_SAMPLES=3

# sample_number [COMMIT]: below ten million, so that seeds made of it stay readable.
sample_number() {
    local commit=${1:-$(git -C "$ROOT" rev-parse HEAD 2>/dev/null || echo 0)}
    echo $((16#$(cut -c1-12 <<<"$commit") % 10000000))
}

# Scenarios that a change to the super-disk breaks first.
DISK_CORE='kind(lib) | kind(bin) | test(both_legs_assembled_after_a_power_cut) | test(a_first_boot_ends_mounted)
    | test(a_power_cut_while_writing) | test(a_host_with_blank_local_disks) | test(lost_sectors_are_healed)
    | test(a_fast_leg_that_knows_more_is_not_overwritten)'

# disk_sample NUMBER: one of the parts that the others are divided into, as a filter; what is new falls into one by itself.
disk_sample() {
    local part=$(($1 % DISK_SAMPLES)) name place=0 filter='none()'
    while read -r name; do
        if [ $((place % DISK_SAMPLES)) = "$part" ]; then filter+=" | test(=$name)"; fi
        place=$((place + 1))
    done < <(disk_scenarios)
    echo "$filter"
}

# Every scenario by name, in the order of their files.
disk_scenarios() { awk '/^#\[test\]/ {next_is_one = 1} /^fn / && next_is_one {sub(/^fn /, ""); sub(/\(.*/, ""); print; next_is_one = 0}' "$ROOT"/e2e/disk/tests/*.rs; }

# End-to-end tests of minutes each: a third of these files is left out each time, the rest of the tests always runs.
E2E_IN_TURN=("removal" "zones" "resilience")

# e2e_sample NUMBER: as a filter.
e2e_sample() { echo "not binary(${E2E_IN_TURN[$(($1 % E2E_SAMPLES))]})"; }
