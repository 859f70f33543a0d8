# The parts of hack/bench. Each writes what it measured into the folder $to, for the report: runs of the generator as
# PART-NUMBER-NAME.json, tables as Markdown.
# shellcheck shell=bash
# shellcheck disable=SC2153,SC2154 # hack/bench sets $to, and lib/bench.sh $SERVER

# choose_sizes QUICK: how much of what.
choose_sizes() {
    case $1 in
    no)
        users=500000 seconds=20 flat_seconds=600 scaling_seconds=30 quick_flag=()
        weights="1000000 10000000 20000000" growth="1000000 2000000 5000000 10000000 20000000 40000000"
        connections="10 30 100 300 1000"
        clusters=1,50,500
        ;;
    yes)
        users=25000 seconds=4 flat_seconds=20 scaling_seconds=12 quick_flag=(--quick)
        weights=1000000 growth="100000 1000000" connections="10 100 1000"
        clusters=1,10
        ;;
    esac
    channels=20
    states=$((users * channels))
}

# Every server that is measured by the generator, as start_server has them.
SERVERS="ours go-list go-flat"
MIXED=ack=8,mention=1,read=1

# with_server NAME COMMAND…: while it runs and holds nothing; it must lose nothing first.
with_server() {
    local name=$1
    shift
    trap stop_server EXIT
    start_server "$name" $((states * 2)) "$to/$name.log"
    loses_nothing
    "$@"
    stop_server
    trap - EXIT
}

# run FILE COMMAND…: a run that answers with JSON, into the report.
run() {
    local file=$to/$1.json
    shift
    "$@" --users "$users" --channels "$channels" --output json >"$file.partial"
    mv "$file.partial" "$file"
}

# load FILE FLAG…: a run on the server, which is watched.
load() {
    local file=$1
    shift
    run "$file" bench --process "$SERVER" "$@"
}

# watched_load FILE FLAG…: the same, with what it says of itself.
watched_load() { load "$@" --metrics "http://127.0.0.1:$WATCH_PORT"; }

rate_of() { jq '.operations_per_second | floor' "$to/$1.json"; }

measure_flat() {
    local name number=10 least=0 rate
    # Half of what the slowest of them reaches, for all: the same work. Of the runs that tell it only the rate counts.
    for name in $SERVERS; do
        with_server "$name" load "flat-capacity-$name" --fill --saturate --mix "$MIXED" --duration "${seconds}s"
        rate=$(rate_of "flat-capacity-$name")
        if [ "$least" = 0 ] || [ "$rate" -lt "$least" ]; then least=$rate; fi
    done
    for name in $SERVERS; do
        with_server "$name" watched_load "flat-$number-$name" --fill --rate $((least / 2)) --mix "$MIXED" \
            --warmup 10s --duration "${flat_seconds}s"
        number=$((number + 10))
    done
}

measure_memory() {
    local count structure
    for count in $weights; do
        for structure in ours btreemap quick-cache moka; do
            bench_target cache --weigh "$structure" --states "$count" >"$to/memory-$count-$structure.json"
        done
        for structure in hash key; do
            bench_target redis --weigh "$structure" --states "$count" >"$to/memory-$count-redis-$structure.json"
        done
        for structure in go-list go-flat; do
            weigh_server "$structure" "$count" >"$to/memory-$count-$structure.json"
        done
    done
}

# weigh_server NAME STATES: what a state takes in its process, 20 for each user.
weigh_server() {
    local before
    trap stop_server EXIT
    start_server "$1" $(($2 * 2)) "$to/$1.log"
    before=$(resident "$SERVER")
    bench --fill --users $(($2 / channels)) --channels "$channels" --rate 100 --duration 1s >&2
    jq --null-input --arg structure "${1/go-/Go, }" --argjson states "$2" --argjson before "$before" \
        --argjson after "$(resident "$SERVER")" --argjson per_user "$channels" \
        '[{structure: $structure, per_user: $per_user, states: $states, bytes_per_state: (($after - $before) / $states)}]'
    stop_server
    trap - EXIT
}

measure_structures() { bench_target cache "${quick_flag[@]}" >"$to/structures.md"; }

# A machine is slow at times for reasons of its own: all are asked in turn, and the best round of each counts.
ROUNDS="1 2 3"

measure_throughput() {
    local name number round
    for round in $ROUNDS; do
        echo "round $round"
        number=10
        for name in $SERVERS; do
            with_server "$name" saturate_server "$name" "$number"
            number=$((number + 10))
        done
        saturate_redis
    done
    number=10
    for name in $SERVERS; do
        with_server "$name" half_load_server "$name" "$number"
        number=$((number + 10))
    done
    run throughput-64-redis-ack-half-load bench_redis --fill --duration "${seconds}s" \
        --rate $(($(rate_of throughput-60-redis-ack) / 2))
}

# better FILE COMMAND…: a run, kept if it did more per second than the one that the report has.
better() {
    local file=$1 before=-1
    shift
    [ ! -f "$to/$file.json" ] || before=$(rate_of "$file")
    [ "$before" = -1 ] || mv "$to/$file.json" "$to/$file.json.before"
    run "$file" "$@"
    if [ "$before" -gt "$(rate_of "$file")" ]; then mv "$to/$file.json.before" "$to/$file.json"; fi
    rm -f "$to/$file.json.before"
}

# saturate_server NAME NUMBER: a server that runs, with every state in its memory.
saturate_server() {
    local name=$1 number=$2 flags=(--saturate --warmup 1s --duration "$((seconds / 2))s")
    bench --fill --users "$users" --channels "$channels" --rate 100 --duration 1s >&2
    watched "throughput-$number-$name-ack" "${flags[@]}"
    watched "throughput-$((number + 1))-$name-batch-64" --batch 64 --connections 8 "${flags[@]}"
    watched "throughput-$((number + 2))-$name-mixed" --mix "$MIXED" "${flags[@]}"
    watched "throughput-$((number + 3))-$name-ready" --mix read=1 "${flags[@]}"
}

watched() {
    local file=$1
    shift
    better "$file" bench --process "$SERVER" "$@"
}

saturate_redis() {
    local flags=(--fill --saturate --warmup 1s --duration "$((seconds / 2))s")
    better throughput-60-redis-ack bench_redis "${flags[@]}"
    better throughput-61-redis-ack-16-deep bench_redis --pipeline 16 "${flags[@]}"
    better throughput-62-redis-mixed bench_redis --mix "$MIXED" "${flags[@]}"
    better throughput-63-redis-ready bench_redis --mix read=1 "${flags[@]}"
}

# half_load_server NAME NUMBER: at half of what it reached.
half_load_server() {
    local name=$1 number=$2
    load "throughput-$((number + 4))-$name-ack-half-load" --fill --duration "${seconds}s" \
        --rate $(($(rate_of "throughput-$number-$name-ack") / 2))
    load "throughput-$((number + 5))-$name-batch-64-half-load" --batch 64 --connections 8 --duration "${seconds}s" \
        --rate $(($(rate_of "throughput-$((number + 1))-$name-batch-64") / 2))
}

measure_cassandra() {
    trap leave_engine EXIT
    lock
    prepare_engine
    build_cassandra_image
    unlock
    # In a shell of its own, at whose end the container goes: before the engine.
    (with_cassandra measure_statements)
}

# The parts that follow want the machine for themselves.
leave_engine() {
    lock
    stop_engine
    unlock
}

# As many rows as a database of this size takes in soon; its process is this machine's.
measure_statements() {
    local process way number=10 users=5000
    process=$(docker inspect --format '{{.State.Pid}}' "$TEST_CASSANDRA")
    for way in rmw counter; do
        run "cassandra-$number-$way" bench_target cassandra --way "$way" --contact "$READSTATES_TEST_CQL" \
            --process "$process" --fill --saturate --duration "${seconds}s"
        run "cassandra-$((number + 1))-$way-half-load" bench_target cassandra --way "$way" --contact "$READSTATES_TEST_CQL" \
            --process "$process" --rate $(($(rate_of "cassandra-$number-$way") / 2)) --duration "${seconds}s"
        number=$((number + 10))
    done
}

measure_ring() { bench_target ownership "${quick_flag[@]}" >"$to/ring.md"; }

# Operations per second of the constant load: far below what three members on two processors take.
SCALING_RATE=2000
# Into a run, when slots begin to move.
BEFORE_MOVES=4

measure_scaling() {
    local folder three=(chat-0 chat-1 chat-2)
    folder=$(mktemp -d)
    # shellcheck disable=SC2064 # the folder is known now
    trap "stop_ring_members; rm -rf '$folder'" EXIT
    for name in "${three[@]}"; do start_ring_member "$name" "$folder"; done
    rebalance "$folder"
    # A second of load that nobody keeps: first every state is written once.
    "$(readstates_program)" bench --url "$(urls "${three[@]}")" --users "$users" --fill --rate "$SCALING_RATE" --duration 1s
    load_ring scaling-10-three-members "${three[@]}"
    during start_fourth "$folder" load_ring scaling-11-three-to-four "${three[@]}"
    load_ring scaling-12-four-members "${three[@]}" chat-3
    during stop_fourth "$folder" load_ring scaling-13-four-to-three "${three[@]}"
    handed_on "$folder" >"$to/scaling-handoffs.md"
}

# load_ring FILE NAME…
load_ring() {
    local file=$1
    shift
    run "$file" "$(readstates_program)" bench --url "$(urls "$@")" --rate "$SCALING_RATE" --mix "$MIXED" \
        --warmup 2s --duration "${scaling_seconds}s" --metrics "$(watch_urls "$@")"
}

# during EVENT FOLDER COMMAND…: lets something happen while a command runs.
during() {
    local event=$1 folder=$2
    shift 2
    "$@" &
    local running=$!
    # The warm-up comes first.
    sleep $((BEFORE_MOVES + 2))
    "$event" "$folder"
    wait "$running"
}

start_fourth() {
    start_ring_member chat-3 "$1"
    rebalance "$1"
}

stop_fourth() {
    kill -TERM "${RING_MEMBERS[chat-3]}"
    wait "${RING_MEMBERS[chat-3]}"
    unset "RING_MEMBERS[chat-3]"
}

# handed_on FOLDER: every batch of slots that went from one member to another, by the members' own logs.
handed_on() {
    echo "| from | batches | slots | MB | MB/s while sending | longest batch, s |"
    echo "|---|--:|--:|--:|--:|--:|"
    local name
    for name in chat-0 chat-1 chat-2 chat-3; do
        # Members alone hand on what is empty first: batches of less than a kilobyte are none.
        jq --raw-input --raw-output --slurp --arg name "$name" '
            def seconds:
                if endswith("ms") then .[:-2] | tonumber / 1e3
                elif endswith("µs") then .[:-2] | tonumber / 1e6
                elif endswith("ns") then .[:-2] | tonumber / 1e9
                else .[:-1] | tonumber end;
            def round_to($digits): pow(10; $digits) as $p | . * $p | round / $p;
            [split("\n")[] | fromjson? | select(.message == "slots were handed on" and .bytes > 1000)
                | {slots, bytes, took: (.took | seconds)}]
            | (map(.bytes) | add // 0) as $bytes | (map(.took) | add // 0) as $took
            | select($took > 0)
            | "| \($name) | \(length) | \(map(.slots) | add) | \($bytes / 1e6 | round_to(1)) | \($bytes / 1e6 / $took | round_to(1)) | \(map(.took) | max | round_to(2)) |"
        ' "$1/$name.log"
    done
}

measure_growth() {
    local count number=10
    for count in $growth; do
        # A state takes less than 40 bytes; an eighth of the memory is for everything else.
        if [ $((count * 40)) -gt $(($(available_bytes) * 7 / 8)) ]; then continue; fi
        bench_target cache --only ours --states "$count" --json "$to/growth-states-$(printf %09d "$count").json" >/dev/null
    done
    bench_target ownership "${quick_flag[@]}" --members 1,4,16,64 >"$to/growth-members.md"
    trap stop_server EXIT
    start_server ours $((states * 2)) "$to/ours.log"
    bench --fill --users "$users" --channels "$channels" --rate 100 --duration 1s
    for count in $connections; do
        load "growth-$number-connections-$count" --saturate --connections "$count" --duration "${seconds}s"
        load "growth-$((number + 1))-connections-$count-steady" --rate 10000 --connections "$count" --duration "${seconds}s"
        number=$((number + 10))
    done
    stop_server
    trap - EXIT
}

measure_disk() { "$ROOT/hack/disk-machine" bench | tee /dev/stderr | sed -n '/^Random reads/,$p' >"$to/disk.txt"; }

measure_operator() { "$ROOT/hack/bench-operator" --clusters "$clusters" --to "$to/operator.md"; }
