# Steps that count, in lanes side by side, and what the whole came to: for hack/test.
# shellcheck shell=bash

KEEP_GOING=yes
# Lanes would write over each other's counters.
QUIET_PROGRESS=yes
STEP_TIMES=$LOGS/times
COUNTS=$LOGS/counts
LANES=()

# check TITLE COMMAND…: a step that counts: as the tests that its log reports, or as one.
check() {
    local counts
    step "$@"
    counts=$(count_tests "$(step_log "$1")")
    if [ -z "$counts" ]; then
        if [ "$STEP_STATUS" = 0 ]; then counts="1 0"; else counts="0 1"; fi
    else
        note "$1: ${counts% *} passed, ${counts#* } failed"
        # Failed without a failed test: it did not get that far.
        if [ "$STEP_STATUS" -ne 0 ] && [ "${counts#* }" = 0 ]; then counts="${counts% *} 1"; fi
    fi
    echo "$counts" >>"$COUNTS"
}

# "PASSED FAILED" from the summaries of nextest and plain "N passed, N failed" lines; nothing where there is none.
count_tests() {
    sed 's/\x1b\[[0-9;]*m//g' "$1" | awk '
        /^ *Summary \[|^[0-9]+ passed, [0-9]+ failed/ {
            for (i = 2; i <= NF; i++) {
                if ($i ~ /^passed/) passed += $(i - 1)
                if ($i ~ /^failed/ || $i ~ /^timed/ || $i ~ /^exec/) failed += $(i - 1)
            }
            found = 1
        }
        END {if (found) print passed + 0, failed + 0}'
}

# lane COMMAND…: runs steps beside those of the others. One that ends early counts as a failure.
lane() {
    local status=$LOGS/lane-${#LANES[@]}.status
    (
        # The starting shell removes what is left. Its wait cannot tell how a lane ended that ended long ago: bash
        # forgets such children, so each leaves its status in a file.
        # shellcheck disable=SC2064 # the file is known now
        trap "echo \$? >'$status'" EXIT
        "$@"
    ) &
    LANES+=($!)
}

# Until every lane has ended.
join_lanes() {
    local lane
    for lane in "${!LANES[@]}"; do
        wait "${LANES[lane]}" 2>/dev/null || true
        [ "$(cat "$LOGS/lane-$lane.status" 2>/dev/null)" = 0 ] || echo "0 1" >>"$COUNTS"
    done
    LANES=()
}

stop_lanes() {
    local pid
    for pid in "${LANES[@]}"; do kill "$pid" 2>/dev/null || true; done
    for pid in "${LANES[@]}"; do wait "$pid" 2>/dev/null || true; done
    LANES=()
}

# What lanes wait for in others: reach says that it is there; await fails when it never will be, for its lane, if one is
# named, has ended.
reach() { : >"$LOGS/$1.reached"; }
await() {
    while [ ! -e "$LOGS/$1.reached" ]; do
        if [ -n "${2:-}" ] && ! kill -0 "$2" 2>/dev/null && [ ! -e "$LOGS/$1.reached" ]; then
            note "there is no $1 to go on with"
            return 1
        fi
        sleep 0.3
    done
}

# The ten longest steps, and the last line. Fails when anything failed.
sum_up() {
    local passed failed
    read -r passed failed < <(awk '{passed += $1; failed += $2} END {print passed + 0, failed + 0}' "$COUNTS")
    printf '\n'
    say "the longest steps of $SECONDS s"
    sort -rn "$STEP_TIMES" | awk -F '\t' 'NR <= 10 {printf "    %5d s  %s\n", $1, $2}'
    printf '\n%d passed, %d failed\n' "$passed" "$failed"
    [ "$failed" = 0 ]
}
