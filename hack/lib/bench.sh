# A member of our own to put load on, and what a report says about the machine it was made on.
# shellcheck shell=bash

BENCH_TOOLS="
fc-list      fontconfig        your distribution
redis-server redis-server      https://redis.io/docs/latest/operate/oss_and_stack/install/
"
BENCH_PORT=17400
BENCH_MEMBER=

readstates_program() { echo "$CARGO_TARGET_DIR/release/readstates"; }

compile_benchmarks() {
    claim_target_folder
    cd "$ROOT" || return
    cargo build --release --locked --package readstates
    cargo bench --locked --package readstates-bench --no-run
}

# bench_target NAME FLAG…
bench_target() {
    local name=$1
    shift
    (cd "$ROOT" && cargo bench --quiet --locked --package readstates-bench --bench "$name" -- "$@")
}

# start_member LOG FLAG…: a member on a port of its own, until stop_member.
start_member() {
    local log=$1
    shift
    "$(readstates_program)" serve --listen "127.0.0.1:$BENCH_PORT" --admin-listen "127.0.0.1:$((BENCH_PORT + 1))" "$@" >"$log" 2>&1 &
    BENCH_MEMBER=$!
    until_ready "$BENCH_MEMBER" "$BENCH_PORT" "$log" && return
    stop_member
    return 1
}

# until_ready PID PORT LOG
until_ready() {
    local try
    for try in $(seq 300); do
        if curl --silent --fail --output /dev/null "http://127.0.0.1:$2/readyz"; then return 0; fi
        kill -0 "$1" 2>/dev/null || break
        sleep 0.2
    done
    tail -n 20 "$3"
    echo "the member is not ready (looked $try times)"
    return 1
}

stop_member() {
    [ -n "$BENCH_MEMBER" ] || return 0
    kill "$BENCH_MEMBER" 2>/dev/null || true
    # What it could not write in time is of no use to anybody.
    wait "$BENCH_MEMBER" || true
    BENCH_MEMBER=
}

# Members of one ring in a folder, by name; the number at its end is that of the port.
declare -A RING_MEMBERS=()

ring_port() { echo $((BENCH_PORT + 10 + 2 * ${1##*-})); }

# start_ring_member NAME FOLDER: with a store of its own in memory, and room for everything.
start_ring_member() {
    local name=$1 folder=$2 port
    port=$(ring_port "$name")
    "$(readstates_program)" serve --listen "127.0.0.1:$port" --admin-listen "127.0.0.1:$((port + 1))" \
        --ring "file:$folder/ring" --member "$name" --store memory --capacity-states 20000000 >"$folder/$name.log" 2>&1 &
    RING_MEMBERS[$name]=$!
    until_ready "${RING_MEMBERS[$name]}" "$port" "$folder/$name.log"
}

# All at once: nobody is given what nobody needs.
stop_ring_members() {
    local name
    for name in "${!RING_MEMBERS[@]}"; do
        kill -KILL "${RING_MEMBERS[$name]}" 2>/dev/null || true
        wait "${RING_MEMBERS[$name]}" 2>/dev/null || true
    done
    RING_MEMBERS=()
}

rebalance() { "$(readstates_program)" rebalance --ring "file:$1/ring"; }

# urls NAME…: of ring members, with commas between.
urls() {
    local name all=()
    for name in "$@"; do all+=("http://127.0.0.1:$(ring_port "$name")"); done
    (IFS=, && echo "${all[*]}")
}

# bench FLAG…: our generator against that member.
bench() { "$(readstates_program)" bench --url "http://127.0.0.1:$BENCH_PORT" "$@"; }

describe_machine() {
    local model
    model=$(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -n 1)
    echo "# $1"
    echo
    echo "- $(date --utc '+%Y-%m-%d %H:%M UTC'), commit $(git -C "$ROOT" rev-parse --short=12 HEAD)"
    echo "- ${model:-processor unknown}, $(nproc) processors, $(awk '/^MemTotal/ {printf "%.0f", $2 / 1048576}' /proc/meminfo) GiB, Linux $(uname -r)"
    echo "- $(rustc --version); $(redis-server --version 2>/dev/null | cut -d' ' -f1-3)"
    echo "- load average before: $(cut -d' ' -f1-3 /proc/loadavg). What other programs did meanwhile is in the figures:"
    echo "  compare within this page, as ratios. Generator and service share the processors."
}
