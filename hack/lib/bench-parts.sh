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
        trap stop_server EXIT
        for structure in go-list go-flat; do
            weigh_server "$structure" "$count" >"$to/memory-$count-$structure.json"
        done
        weigh_with_store "$count"
    done
}

# weigh_with_store STATES: ours, with stores that have everything when it is weighed.
weigh_with_store() {
    local folder count=$1
    folder=$(mktemp -d -p "$to")
    # shellcheck disable=SC2064 # the folder is known now
    trap "stop_server; stop_cassandra_process; rm -rf '$folder'" EXIT
    STORE_FOLDER=$folder/embedded
    weigh_server ours-embedded "$count" >"$to/memory-$count-ours-embedded.json"
    start_cassandra_process "$folder/cassandra"
    make_keyspace memory >&2
    weigh_server ours-cassandra "$count" >"$to/memory-$count-ours-cassandra.json"
    stop_cassandra_process
    rm -rf "$folder"
    trap - EXIT
}

# weigh_server NAME STATES: what a state takes in its process, 20 for each user.
weigh_server() {
    local before name=${1/go-/Go, }
    start_server "$1" $(($2 * 2)) "$to/$1.log"
    before=$(resident "$SERVER")
    bench --fill --users $(($2 / channels)) --channels "$channels" --rate 100 --duration 1s >&2
    case $1 in ours-*) everything_is_written ;; esac
    jq --null-input --arg structure "${name/ours-/ours over the wire, }" --argjson states "$2" --argjson before "$before" \
        --argjson after "$(resident "$SERVER")" --argjson per_user "$channels" \
        '[{structure: $structure, per_user: $per_user, states: $states, bytes_per_state: (($after - $before) / $states)}]'
    stop_server
}

# everything_is_written: waits until the member that runs has nothing dirty.
everything_is_written() {
    local try dirty=
    for try in $(seq 1800); do
        dirty=$(curl --silent --fail "http://127.0.0.1:$WATCH_PORT/metrics" | awk '$1 == "readstates_dirty_users" {print $2}')
        [ "$dirty" != 0 ] || return 0
        sleep 1
    done
    echo "$dirty users are dirty yet (looked $try times)" >&2
    return 1
}

measure_structures() { bench_target cache "${quick_flag[@]}" >"$to/structures.md"; }

# A machine is slow at times for reasons of its own: all are asked in turn, and the best round of each counts.
ROUNDS="1 2 3"

measure_throughput() {
    local name number round
    make_secrets
    for round in $ROUNDS; do
        echo "round $round"
        number=10
        for name in $SERVERS; do
            with_server "$name" saturate_server "$name" "$number"
            number=$((number + 10))
        done
        saturate_redis
        number=70
        for name in $GUARDED; do
            with_server "$name" saturate_guarded "$name" "$number"
            number=$((number + 2))
        done
        better throughput-74-redis-tls-ack bench_redis --tls "$SECRETS" --fill --saturate --warmup 1s \
            --duration "$((seconds / 2))s"
    done
    number=10
    for name in $SERVERS; do
        with_server "$name" half_load_server "$name" "$number"
        number=$((number + 10))
    done
    run throughput-64-redis-ack-half-load bench_redis --fill --duration "${seconds}s" \
        --rate $(($(rate_of throughput-60-redis-ack) / 2))
    # All of them at half of what ours does with neither: so that their latencies can be compared.
    number=70
    for name in $GUARDED; do
        with_server "$name" half_load_guarded "$name" "$((number + 1))"
        number=$((number + 2))
    done
    run throughput-75-redis-tls-ack-half-load bench_redis --tls "$SECRETS" --fill --duration "${seconds}s" \
        --rate $(($(rate_of throughput-60-redis-ack) / 2))
    rm -rf "$SECRETS"
}

# Everybody connects at once: while all are in memory, and to members that were just started.
measure_ready() {
    local folder name three=(chat-0 chat-1 chat-2)
    folder=$(mktemp -d -p "$to")
    # shellcheck disable=SC2064 # the folder is known now
    trap "stop_ring_members; stop_cassandra_process; rm -rf '$folder'" EXIT
    start_cassandra_process "$folder/cassandra"
    make_keyspace ready
    start_three "$folder"
    "$(generator)" --url "$(urls "${three[@]}")" --users "$users" --channels "$channels" --fill --rate 100 --duration 1s
    for name in "${three[@]}"; do WATCH_PORT=$(watch_port "$(ring_port "$name")") everything_is_written; done
    connect_all ready-10-warm
    connect_all ready-11-warm-rows --rows
    start_three_anew "$folder"
    connect_all ready-12-cold
    start_three_anew "$folder"
    connect_all ready-13-cold-rows --rows
    stop_ring_members
    stop_cassandra_process
    rm -rf "$folder"
    trap - EXIT
}

# start_three FOLDER: a ring of three on the Cassandra that runs.
start_three() {
    local name
    for name in chat-0 chat-1 chat-2; do start_ring_member "$name" "$1" "$(keyspace ready)"; done
    rebalance "$1"
}

# Nothing is dirty: nothing is lost with the processes, and the next have another ring.
start_three_anew() {
    stop_ring_members
    rm -rf "$1/ring"
    start_three "$1"
}

# connect_all FILE FLAG…
connect_all() {
    local file=$1
    shift
    run "$file" "$(generator)" --url "$(urls chat-0 chat-1 chat-2)" --users "$users" --channels "$channels" \
        --connect --connections 1000 --timeout 60s --process "$(IFS=, && echo "${RING_MEMBERS[*]}")" "$@"
}

# Two members, or Redis and its replica, are a round trip of half a millisecond apart: zones of one region.
ZONE_ROUND_TRIP=500us

measure_durability() {
    local folder name number round sync
    # Beside the report: on a disk, and not in the memory of a tmpfs.
    folder=$(mktemp -d "$to/work.XXXXXX")
    for round in $ROUNDS; do
        echo "round $round"
        number=10
        for name in ours-interval ours-journal; do
            STORE_FOLDER=$folder/$name-$round
            with_server "$name" saturate_durable "$name" "$number"
            number=$((number + 10))
        done
        for sync in everysec always; do
            mkdir "$folder/$sync-$round" "$folder/$sync-$round-batch"
            better "durability-$number-redis-$sync-ack" bench_redis --append-to "$folder/$sync-$round" --append-sync "$sync" \
                --fill --saturate --warmup 1s --duration "$((seconds / 2))s"
            better "durability-$((number + 1))-redis-$sync-batch-64" bench_redis --append-to "$folder/$sync-$round-batch" \
                --append-sync "$sync" --batch 64 --connections 8 --fill --saturate --warmup 1s --duration "$((seconds / 2))s"
            number=$((number + 10))
        done
        for name in interval available replicated; do
            with_pair "$name" "$folder/pair-$name-$round" saturate_durable "pair-$name" "$number"
            number=$((number + 10))
        done
        bench_replica better "durability-$number-redis-replica-ack" --saturate --warmup 1s --duration "$((seconds / 2))s"
        bench_replica better "durability-$((number + 1))-redis-replica-batch-64" --batch 64 --connections 8 --saturate \
            --warmup 1s --duration "$((seconds / 2))s"
    done
    # All of them at half of what the slowest pair reached: so that latencies and processor time can be compared.
    local single batched
    single=$(half_of_slowest ack pair-interval pair-available pair-replicated redis-replica)
    batched=$(half_of_slowest batch-64 pair-interval pair-available pair-replicated redis-replica)
    number=50
    for name in interval available replicated; do
        with_pair "$name" "$folder/pair-$name-half" half_load_pair "pair-$name" "$number" "$single" "$batched"
        number=$((number + 10))
    done
    bench_replica run "durability-$((number + 2))-redis-replica-ack-half-load" --rate "$single" --duration "${seconds}s"
    bench_replica run "durability-$((number + 3))-redis-replica-batch-64-half-load" --batch 64 --connections 8 --rate "$batched" \
        --duration "${seconds}s"
    rm -rf "$folder"
}

# bench_replica KEEP FILE FLAG…: KEEP is run or better.
bench_replica() {
    local keep=$1 file=$2
    shift 2
    "$keep" "$file" bench_redis --replica --replica-round-trip "$ZONE_ROUND_TRIP" --fill "$@"
}

# half_of_slowest WHAT NAME…
half_of_slowest() {
    local what=$1 name least=0 rate
    shift
    for name in "$@"; do
        rate=$(jq '.operations_per_second | floor' "$to"/durability-*-"$name-$what.json")
        if [ "$least" = 0 ] || [ "$rate" -lt "$least" ]; then least=$rate; fi
    done
    echo $((least / 2))
}

# with_pair DURABILITY FOLDER COMMAND…: while two members run, of which one owns every slot and holds nothing; they must lose
# nothing first.
with_pair() {
    local mode=$1 folder=$2
    shift 2
    # shellcheck disable=SC2064 # the folder is known now
    trap "stop_pair; stop_ring_members; rm -rf '$folder'" EXIT
    mkdir "$folder"
    start_pair "$mode" "$folder" "$to/durability-distance.md"
    loses_nothing
    "$@"
    stop_pair
    stop_ring_members
    rm -rf "$folder"
    trap - EXIT
}

# saturate_durable NAME NUMBER
saturate_durable() {
    local name=$1 number=$2 flags=(--saturate --warmup 1s --duration "$((seconds / 2))s")
    bench --fill --users "$users" --channels "$channels" --rate 100 --duration 1s >&2
    watched "durability-$number-$name-ack" "${flags[@]}"
    watched "durability-$((number + 1))-$name-batch-64" --batch 64 --connections 8 "${flags[@]}"
}

# half_load_pair NAME NUMBER SINGLE BATCHED: operations a second, one by one and in batches.
half_load_pair() {
    local name=$1 number=$2
    load "durability-$((number + 2))-$name-ack-half-load" --fill --rate "$3" --duration "${seconds}s"
    load "durability-$((number + 3))-$name-batch-64-half-load" --batch 64 --connections 8 --rate "$4" --duration "${seconds}s"
}

# Ours with callers, and with TLS.
GUARDED="ours-token ours-tls"

# saturate_guarded NAME NUMBER
saturate_guarded() {
    local name=$1 number=$2
    bench --fill --users "$users" --channels "$channels" --rate 100 --duration 1s >&2
    watched "throughput-$number-$name-ack" --saturate --warmup 1s --duration "$((seconds / 2))s"
}

# half_load_guarded NAME NUMBER
half_load_guarded() {
    local name=$1 number=$2
    load "throughput-$number-$name-ack-half-load" --fill --duration "${seconds}s" \
        --rate $(($(rate_of throughput-10-ours-ack) / 2))
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
    # Only ours have them.
    [ "$name" != ours ] || watched "throughput-$((number + 6))-$name-ready-rows" --mix read=1 --rows "${flags[@]}"
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

# What the service makes its table with, and what that is compared with: name and options.
table_options() {
    local lz4="compression = {'class': 'LZ4Compressor', 'chunk_length_in_kb': 4}"
    local unified="'class': 'UnifiedCompactionStrategy', 'scaling_parameters'"
    cat <<EOF
ours ours
defaults
size-tiered compaction = {'class': 'SizeTieredCompactionStrategy'} AND $lz4
leveled compaction = {'class': 'LeveledCompactionStrategy'} AND $lz4
unified-t4 compaction = {$unified: 'T4'} AND $lz4
unified-n compaction = {$unified: 'N'} AND $lz4
unified-l4 compaction = {$unified: 'L4'} AND $lz4
plain compaction = {$unified: 'T4'} AND compression = {'enabled': 'false'}
lz4-16 compaction = {$unified: 'T4'} AND compression = {'class': 'LZ4Compressor', 'chunk_length_in_kb': 16}
zstd-4 compaction = {$unified: 'T4'} AND compression = {'class': 'ZstdCompressor', 'chunk_length_in_kb': 4}
bloom-0.1 compaction = {$unified: 'T4'} AND $lz4 AND bloom_filter_fp_chance = 0.1
EOF
}

# Rows of half a kilobyte; so many that a table of them has several files, overwritten three times over.
measure_table() {
    local folder name options rows=$((users / 2)) writes
    writes=$((seconds * 3))
    folder=$(mktemp -d -p "$to")
    # shellcheck disable=SC2064 # the folder is known now
    trap "stop_cassandra_process; rm -rf '$folder'" EXIT
    start_cassandra_process "$folder"
    # A JVM that has just started is several times slower.
    measure_options warm-up ours "$rows" "$writes" >/dev/null
    # What is run may read its standard input.
    while read -r name options <&3; do
        measure_options "$name" "$options" "$rows" "$writes" >"$folder/$name.json"
    done 3< <(table_options)
    for name in $(table_options | cut -d' ' -f1); do cat "$folder/$name.json"; done | table_ratios >"$to/table.md"
    stop_cassandra_process
    rm -rf "$folder"
    trap - EXIT
}

# measure_options NAME OPTIONS ROWS SECONDS: one line of JSON.
measure_options() {
    local name=$1 table=${1//[-.]/_} flags write read before after room
    flags=(--contact "127.0.0.1:$CASSANDRA_PORT" --process "$CASSANDRA_PROCESS" --table "$table" --users "$3")
    before=$(cpu_seconds "$CASSANDRA_PROCESS")
    bench_target table "${flags[@]}" --phase fill --with "$2" >/dev/null
    write=$(bench_target table "${flags[@]}" --phase overwrite --seconds "$4")
    node_tool flush bench_table "$table" >&2
    until [ "$(node_tool compactionstats | awk '/^pending tasks/ {print $NF}')" = 0 ]; do sleep 1; done
    after=$(cpu_seconds "$CASSANDRA_PROCESS")
    room=$(du --bytes --summarize "$CASSANDRA_FOLDER"/data/bench_table/"$table"-* | cut -f1)
    read=$(bench_target table "${flags[@]}" --phase read --seconds "$4")
    jq --null-input --compact-output --arg name "$name" --argjson write "$write" --argjson read "$read" \
        --argjson room "$room" --argjson rows "$3" --argjson busy "$(jq --null-input "$after - $before")" '
        {name: $name, writes: $write.per_second, write_cpu: ($busy * 1e6 / ($rows + $write.operations)), write_p99: $write.p99_us,
            reads: $read.per_second, read_cpu: $read.cpu_us, read_p50: $read.p50_us, read_p99: $read.p99_us,
            room: ($room / ($rows * $write.block_bytes))}'
}

# cpu_seconds PID: of all its threads, since it began.
cpu_seconds() { awk '{sub(/.*\) /, ""); print ($12 + $13) / 100}' "/proc/$1/stat"; }

# Ratios to the first line; room is bytes on disk for each byte of a block.
table_ratios() {
    echo "Rows of 504 bytes on one Cassandra, 64 operations at once. Processor of a write with its flushes and compactions. As ratios to"
    echo "*ours*; room is bytes on disk for each byte of a block, after the last compaction that the options ask for."
    echo
    echo "| options | writes/s | processor of a write | p99 of a write | reads/s | processor of a read | p50 of a read | p99 of a read | room |"
    echo "|---|--:|--:|--:|--:|--:|--:|--:|--:|"
    jq --raw-output --slurp '
        def ratio($of; $to): if $to == 0 then "" else ($of / $to * 100 | round / 100) end;
        .[0] as $ours | .[]
        | "| \(.name) | \(ratio(.writes; $ours.writes)) | \(ratio(.write_cpu; $ours.write_cpu)) | \(ratio(.write_p99; $ours.write_p99)) | \(ratio(.reads; $ours.reads)) | \(ratio(.read_cpu; $ours.read_cpu)) | \(ratio(.read_p50; $ours.read_p50)) | \(ratio(.read_p99; $ours.read_p99)) | \(.room * 100 | round / 100) |"'
}

# Readers of the source at once while a table moves: far from all that it can answer.
READERS_OF_SOURCE=4

# Rows of half a kilobyte in one keyspace, moved to another one of the same database, which does the work of two.
measure_migrate() {
    local folder
    folder=$(mktemp -d -p "$to")
    # shellcheck disable=SC2064 # the folder is known now
    trap "stop_cassandra_process; rm -rf '$folder'" EXIT
    start_cassandra_process "$folder"
    source_phase fill --with ours >/dev/null
    # One that has just started answers slowly.
    source_phase read --seconds "$seconds" >/dev/null
    {
        read_source alone 0
        move_table "readstates migrate copy" bench_move_paced
        move_table "the same, never slowed down" bench_move_fast --back-off-at 100 --parallel 16
        copy_with_cqlsh
    } >"$folder/moves.json"
    move_ratios <"$folder/moves.json" >"$to/migrate.md"
    stop_cassandra_process
    rm -rf "$folder"
    trap - EXIT
}

# source_phase PHASE FLAG…: on the table that is moved.
source_phase() {
    local phase=$1
    shift
    bench_target table --contact "127.0.0.1:$CASSANDRA_PORT" --process "$CASSANDRA_PROCESS" --table read_states --users "$users" \
        --phase "$phase" --at-once "$READERS_OF_SOURCE" "$@"
}

# read_source NAME USERS-A-SECOND: one line of JSON.
read_source() {
    source_phase read --seconds "$seconds" |
        jq --compact-output --arg name "$1" --argjson rate "$2" '{name: $name, rate: $rate, reads: .per_second, p50: .p50_us, p99: .p99_us}'
}

# move_table NAME KEYSPACE FLAG…: while the source is read.
move_table() {
    local name=$1 keyspace=$2 report="$CASSANDRA_FOLDER/$2.json" reads
    shift 2
    local to_store=cql://127.0.0.1:$CASSANDRA_PORT/$keyspace moving
    "$(readstates_program)" schema --store "$to_store" --replication datacenter1=1 >&2
    "$(readstates_program)" migrate copy --store "cql://127.0.0.1:$CASSANDRA_PORT/bench_table" --to "$to_store" \
        --checkpoint "$CASSANDRA_FOLDER/$keyspace.checkpoint" --until "$users" --report "$report" "$@" >&2 &
    moving=$!
    reads=$(read_source "$name" 0)
    wait "$moving"
    jq --compact-output --slurpfile report "$report" '
        # Times have nine digits after the second.
        def at: capture("(?<s>[^.Z]+)(?<part>[.][0-9]+)?Z") | ((.s + "Z") | fromdate) + ((.part // ".0") | "0\(.)" | tonumber);
        .rate = ($report[0].passes[0] | .tally.users / (((.ended | at) - (.begun | at)) | if . > 0 then . else 0.001 end))' <<<"$reads"
}

# Into a file and from there, as COPY does it; WRITETIME is lost on the way. Where there is no cqlsh, nothing.
copy_with_cqlsh() {
    local file=$CASSANDRA_FOLDER/rows.csv began ended reads copying
    command -v cqlsh >/dev/null || return 0
    "$(readstates_program)" schema --store "cql://127.0.0.1:$CASSANDRA_PORT/bench_move_copy" --replication datacenter1=1 >&2
    began=$(date +%s.%N)
    (
        cqlsh 127.0.0.1 "$CASSANDRA_PORT" -e "COPY bench_table.read_states TO '$file'"
        cqlsh 127.0.0.1 "$CASSANDRA_PORT" -e "COPY bench_move_copy.read_states FROM '$file'"
        date +%s.%N >"$file.ended"
    ) >&2 &
    copying=$!
    reads=$(read_source "COPY of cqlsh, without the times of writes" 0)
    wait "$copying"
    ended=$(cat "$file.ended")
    jq --compact-output --argjson users "$users" --argjson took "$(jq --null-input "$ended - $began")" '.rate = $users / $took' <<<"$reads"
}

# Ratios to the reads of a source from which nothing is moved.
move_ratios() {
    echo "$users rows of 504 bytes, from one keyspace of a Cassandra to another, while $READERS_OF_SOURCE clients read random rows of the source."
    echo "Reads as ratios to those without a move."
    echo
    echo "| moved by | users/s | reads/s | p50 of a read | p99 of a read |"
    echo "|---|--:|--:|--:|--:|"
    jq --raw-output --slurp '
        def ratio($of; $to): if $to == 0 then "" else ($of / $to * 100 | round / 100) end;
        .[0] as $alone | .[]
        | "| \(.name) | \(if .rate == 0 then "" else .rate | floor end) | \(ratio(.reads; $alone.reads)) | \(ratio(.p50; $alone.p50)) | \(ratio(.p99; $alone.p99)) |"'
}

# Ours has one set of processors, the client the other, as in the other parts.
measure_coalescing() { with_server ours coalesced_and_single; }

coalesced_and_single() (
    taskset --cpu-list --pid "$LOAD_PROCESSORS" "$BASHPID" >/dev/null
    bench_target coalescing --url "http://127.0.0.1:$BENCH_PORT" --server-processors "$SERVER_PROCESSORS" --seconds "$seconds" >"$to/coalescing.md"
)

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
    "$(generator)" --url "$(urls "${three[@]}")" --users "$users" --fill --rate "$SCALING_RATE" --duration 1s
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
    run "$file" "$(generator)" --url "$(urls "$@")" --rate "$SCALING_RATE" --mix "$MIXED" \
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
