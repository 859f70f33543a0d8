# What hack/test runs of that of which there is more than it has time for: a core, always, and a sample that a number
# chooses. The number follows from the commit, so that every commit looks at something else, and the same commit always
# at the same.
# shellcheck shell=bash

# How many samples there are of the super-disk's scenarios, of the operator under faults, of the operator's other tests
# on an API server.
DISK_SAMPLES=27
FAULT_SAMPLES=12
API_SAMPLES=12

# sample_number [COMMIT]: below ten million, so that seeds made of it stay readable.
sample_number() {
    local commit=${1:-$(git -C "$ROOT" rev-parse HEAD 2>/dev/null || echo 0)}
    echo $((16#$(cut -c1-12 <<<"$commit") % 10000000))
}

# Scenarios that a change to the super-disk breaks first.
DISK_CORE='kind(lib) | kind(bin) | test(both_legs_assembled_after_a_power_cut) | test(a_power_cut_while_writing)
    | test(lost_sectors_are_healed)'

# disk_sample NUMBER: one of the parts that the others are divided into, as a filter; what is new falls into one by itself.
disk_sample() { tests_in_turn "$1" "$DISK_SAMPLES" < <(disk_scenarios); }

# Every scenario by name, in the order of their files.
disk_scenarios() { tests_named_in "$ROOT"/e2e/disk/tests/*.rs; }

# fault_sample NUMBER: a part of the operator's histories under faults, each of which is a minute or four, as a filter.
fault_sample() {
    local module
    for module in faulty killed database_killed restore/killed migrations/adversary; do
        tests_named_in "$ROOT/operator/tests/apiserver/$module.rs" | sed "s/^/${module/\//::}::/"
    done | tests_in_turn "$1" "$FAULT_SAMPLES"
}

# The part that fault_sample divides.
FAULT_TESTS='binary(apiserver) & test(/^(faulty|killed|database_killed|restore::killed|migrations::adversary)::/)'

# Tests of the operator on an API server take seconds to a minute each: these run always, and of the others a part.
API_CORE='(test(/^(consent|deletion)::/) | test(=policy::the_operator_needs_no_more_rights_than_the_chart_gives_it))'

# api_left_out NUMBER: those of the others that do not run, as a filter; a test of no file of these runs.
api_left_out() {
    local all in_turn
    all=$(api_tests | tests_in_turn 0 1)
    in_turn=$(api_tests | tests_in_turn "$1" "$API_SAMPLES")
    echo "binary(apiserver) & ($all) & not ($in_turn) & not $API_CORE & not ($FAULT_TESTS)"
}

api_tests() {
    local file module
    for file in "$ROOT"/operator/tests/apiserver/{,*/}*.rs; do
        module=${file#"$ROOT"/operator/tests/apiserver/}
        module=${module%.rs}
        tests_named_in "$file" | sed "s/^/${module/\//::}::/"
    done
}

tests_named_in() { awk '/^#\[test\]/ {next_is_one = 1} /^fn / && next_is_one {sub(/^fn /, ""); sub(/\(.*/, ""); print; next_is_one = 0}' "$@"; }

# tests_in_turn NUMBER PARTS: of the names that it reads, every PARTS-th, as a filter.
tests_in_turn() {
    local part=$(($1 % $2)) name place=0 filter='none()'
    while read -r name; do
        if [ $((place % $2)) = "$part" ]; then filter+=" | test(=$name)"; fi
        place=$((place + 1))
    done
    echo "$filter"
}

# End-to-end tests of minutes each: those of one row run each time, and all the others always.
E2E_IN_TURN=("binary(cluster) & test(/^(backups|uninstall)::/)" "binary(cluster) & test(/^(removal|resilience)::/)"
    "binary(cluster) & test(/^((autoscaling|zones)::|installation::helm_test_)/)"
    "binary(cluster) & test(/^(day_two::|security::a_forged_)/)" "binary(cluster) & test(/^chaos::/)")

# e2e_sample NUMBER: as a filter.
e2e_sample() {
    local row filter='all()'
    for row in "${!E2E_IN_TURN[@]}"; do
        [ "$row" = $(($1 % ${#E2E_IN_TURN[@]})) ] || filter+=" & not (${E2E_IN_TURN[row]})"
    done
    echo "$filter"
}
