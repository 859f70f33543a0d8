# Servers to put load on, and what a report says about the machine it was made on.
# shellcheck shell=bash

BENCH_TOOLS="
fc-list      fontconfig        your distribution
openssl      openssl           your distribution
java         a JDK 17        https://adoptium.net
mvn          maven             https://maven.apache.org/install.html
redis-server redis-server      https://redis.io/docs/latest/operate/oss_and_stack/install/
taskset      util-linux        your distribution
"
BENCH_PORT=17400
# The process of the server that runs, and the port of its probes and metrics.
SERVER=
WATCH_PORT=
# What the generator has to say to the server that runs.
BENCH_FLAGS=(--url "http://127.0.0.1:$BENCH_PORT")

# list_processors FIRST LAST: those from one to the other, of the ones that we may use, as taskset has them.
list_processors() {
    taskset --cpu-list --pid "$$" | sed 's/.*: //' | tr ',' '\n' | awk -F- '{for (i = $1; i <= $NF; i++) print i}' |
        sed -n "$1,$2p" | paste --serial --delimiters ,
}

# Half of the processors serve, the others put load on them: neither waits while the other works.
if [ "$(nproc)" -gt 1 ]; then
    LOAD_PROCESSORS=$(list_processors 1 $(($(nproc) / 2)))
    SERVER_PROCESSORS=$(list_processors $(($(nproc) / 2 + 1)) "$(nproc)")
else
    LOAD_PROCESSORS=$(list_processors 1 1)
    SERVER_PROCESSORS=$LOAD_PROCESSORS
fi

BENCH_PROFILE=release

readstates_program() { echo "$CARGO_TARGET_DIR/$BENCH_PROFILE/readstates"; }
generator() { echo "$CARGO_TARGET_DIR/$BENCH_PROFILE/readstates-bench"; }
go_servers() { echo "$CARGO_TARGET_DIR/bench-go"; }

# compile_benchmarks BENCH…: the programs, and these benches; all without a name. Each takes minutes to be put together.
compile_benchmarks() {
    claim_target_folder
    cd "$ROOT" || return
    # Of the whole workspace, as the programs of the images are: what these share is built once.
    cargo build --release --locked --workspace --bin readstates --bin readstates-bench
    cargo bench --locked --package readstates-bench --no-run "${@/#/--bench=}"
    # A bench of the same package has the same dependencies.
    case " $* " in *" redis "*) cargo build --release --locked --package readstates-bench --example distance ;; esac
    compile_go_servers
}

compile_go_servers() { (cd "$ROOT/hack/bench-go" && go build -o "$(go_servers)" .); }

# bench_target NAME FLAG…
bench_target() {
    local name=$1
    shift
    (cd "$ROOT" && cargo bench --quiet --locked --package readstates-bench --bench "$name" -- "$@")
}

# bench_redis FLAG…: a generator of the same kind that starts the server it puts load on.
bench_redis() (
    taskset --cpu-list --pid "$LOAD_PROCESSORS" "$BASHPID" >/dev/null
    bench_target redis --server-processors "$SERVER_PROCESSORS" "$@"
)

# start_server NAME STATES LOG: ours (with neither, ours-token or ours-tls; ours-embedded or ours-interval, in the folder
# $STORE_FOLDER, and there with a journal ours-journal; or ours-cassandra, on the Cassandra that runs), go-list or go-flat with room for so many, until stop_server.
start_server() {
    local name=$1 states=$2 log=$3
    BENCH_FLAGS=(--url "http://127.0.0.1:$BENCH_PORT")
    case $name in
    ours) start_member "$log" --store memory --capacity-states "$states" ;;
    ours-embedded | ours-interval)
        start_member "$log" --store "embedded:$STORE_FOLDER" --durability interval --capacity-states "$states"
        ;;
    ours-journal) start_member "$log" --store "embedded:$STORE_FOLDER" --durability journal --capacity-states "$states" ;;
    ours-cassandra) start_member "$log" --store "$(keyspace memory)" --capacity-states "$states" ;;
    ours-token)
        BENCH_FLAGS+=(--token-file "$SECRETS/token")
        start_member "$log" --store memory --capacity-states "$states" --access "$SECRETS/access.yaml"
        ;;
    ours-tls)
        BENCH_FLAGS=(--url "https://127.0.0.1:$BENCH_PORT" --ca-file "$SECRETS/ca.crt")
        start_member "$log" --store memory --capacity-states "$states" \
            --tls-cert-file "$SECRETS/tls.crt" --tls-key-file "$SECRETS/tls.key"
        ;;
    # Go's own setting.
    go-list) start_program "$log" "$BENCH_PORT" env GOGC=100 "$(go_servers)" --listen "127.0.0.1:$BENCH_PORT" --layout list --capacity-states "$states" ;;
    # As Go's guide says for a program that has its memory for itself, https://go.dev/doc/gc-guide#Memory_limit:
    # room for what it holds and as much for what it does not need yet.
    go-flat) start_program "$log" "$BENCH_PORT" env GOGC=off GOMEMLIMIT=$((states * 32 / 1048576 + 256))MiB "$(go_servers)" \
        --listen "127.0.0.1:$BENCH_PORT" --layout flat --capacity-states "$states" ;;
    esac
}

# keyspace NAME: a store on the Cassandra that runs; make_keyspace makes its table.
keyspace() { echo "cql://127.0.0.1:$CASSANDRA_PORT/bench_$1"; }
make_keyspace() { "$(readstates_program)" schema --store "$(keyspace "$1")" --replication datacenter1=1; }

# What servers with callers and TLS are given, and those who put load on them.
SECRETS=

# make_secrets: a CA, a certificate of it for 127.0.0.1, and a token with the access file that admits its bearer.
make_secrets() {
    SECRETS=$(mktemp -d)
    openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 -subj /CN=bench \
        -keyout "$SECRETS/ca.key" -out "$SECRETS/ca.crt" 2>/dev/null
    openssl req -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -subj /CN=127.0.0.1 -keyout "$SECRETS/tls.key" 2>/dev/null |
        openssl x509 -req -days 2 -CA "$SECRETS/ca.crt" -CAkey "$SECRETS/ca.key" -CAcreateserial \
            -extfile <(echo "subjectAltName=IP:127.0.0.1") -out "$SECRETS/tls.crt" 2>/dev/null
    local printed
    printed=$("$(readstates_program)" token)
    sed -n 's/^token: //p' <<<"$printed" >"$SECRETS/token"
    echo "callers: [{name: bench, verbs: [read, write], maxConcurrent: 4096, tokens: [\"$(sed -n 's/^hash: //p' <<<"$printed")\"]}]" \
        >"$SECRETS/access.yaml"
}

# start_member LOG FLAG…: one of ours.
start_member() {
    local log=$1
    shift
    start_program "$log" "$(watch_port "$BENCH_PORT")" "$(readstates_program)" serve --listen "127.0.0.1:$BENCH_PORT" --admin-listen "127.0.0.1:$((BENCH_PORT + 1))" "$@"
}

# The port of one of ours for probes and metrics, by that for clients.
watch_port() { echo $(($1 + 4)); }

# start_program LOG PORT COMMAND…: PORT is that of its probes and metrics.
start_program() {
    local log=$1
    WATCH_PORT=$2
    shift 2
    taskset --cpu-list "$SERVER_PROCESSORS" "$@" >"$log" 2>&1 &
    SERVER=$!
    until_ready "$SERVER" "$WATCH_PORT" "$log" && return
    stop_server
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

stop_server() {
    [ -n "$SERVER" ] || return 0
    kill "$SERVER" 2>/dev/null || true
    # What it could not write in time is of no use.
    wait "$SERVER" || true
    SERVER=
}

# loses_nothing: the server that runs, by the generator's own check: one by one and in batches.
loses_nothing() {
    bench --check --users 1000 --rate 2000 --warmup 0s --duration 2s --connections 16
    bench --check --users 1000 --rate 8000 --warmup 0s --duration 2s --connections 4 --batch
}

# resident PID: bytes of its memory.
resident() { awk '/^VmRSS/ {printf "%.0f\n", $2 * 1024}' "/proc/$1/status"; }
available_bytes() { awk '/^MemAvailable/ {printf "%.0f\n", $2 * 1024}' /proc/meminfo; }

# Members of one ring in a folder, by name; the number at its end is that of the port.
declare -A RING_MEMBERS=()

# Each listens on five ports in a row.
ring_port() { echo $((BENCH_PORT + 10 + 5 * ${1##*-})); }

# What members of a ring are started with, and their further flags.
RING_RUN=()
RING_FLAGS=()

# start_ring_member NAME FOLDER [STORE]: with room for everything; without a STORE with one of its own in memory.
start_ring_member() {
    local name=$1 folder=$2 store=${3:-memory} port
    port=$(ring_port "$name")
    "${RING_RUN[@]}" "$(readstates_program)" serve --listen "127.0.0.1:$port" --admin-listen "127.0.0.1:$((port + 1))" \
        --ring "file:$folder/ring" --member "$name" --store "$store" --capacity-states 20000000 "${RING_FLAGS[@]}" \
        >"$folder/$name.log" 2>&1 &
    RING_MEMBERS[$name]=$!
    until_ready "${RING_MEMBERS[$name]}" "$(watch_port "$port")" "$folder/$name.log"
}

# All at once, so that none hands its slots to another.
stop_ring_members() {
    local name
    for name in "${!RING_MEMBERS[@]}"; do
        kill -KILL "${RING_MEMBERS[$name]}" 2>/dev/null || true
        wait "${RING_MEMBERS[$name]}" 2>/dev/null || true
    done
    RING_MEMBERS=()
}

# The relay between a pair of members.
DISTANCE=

# start_pair DURABILITY FOLDER FILE: chat-0, which owns every slot, and chat-1, both on the processors for servers and
# $ZONE_ROUND_TRIP apart, as FILE then says; until stop_pair and stop_ring_members. $SERVER is both, for the generator.
start_pair() {
    local mode=$1 folder=$2 file=$3 name port pairs=()
    for name in chat-0 chat-1; do
        port=$(ring_port "$name")
        pairs+=(--relay "127.0.0.1:$((port + 103))=127.0.0.1:$((port + 3))")
    done
    taskset --cpu-list "$LOAD_PROCESSORS" "$CARGO_TARGET_DIR/$BENCH_PROFILE/examples/distance" "${pairs[@]}" \
        --round-trip "$ZONE_ROUND_TRIP" >"$file" &
    DISTANCE=$!
    for name in chat-0 chat-1; do
        port=$(ring_port "$name")
        RING_RUN=(taskset --cpu-list "$SERVER_PROCESSORS")
        RING_FLAGS=(--durability "$mode" --members-advertise "http://127.0.0.1:$((port + 103))")
        start_ring_member "$name" "$folder"
    done
    RING_RUN=() RING_FLAGS=()
    SERVER=${RING_MEMBERS[chat-0]},${RING_MEMBERS[chat-1]}
    BENCH_FLAGS=(--url "$(urls chat-0)")
    [ "$mode" = interval ] || is_backed chat-0
}

stop_pair() {
    SERVER=
    [ -n "$DISTANCE" ] || return 0
    kill "$DISTANCE" 2>/dev/null || true
    wait "$DISTANCE" 2>/dev/null || true
    DISTANCE=
}

# is_backed NAME: waits until every slot of a member has a backup.
is_backed() {
    local try left=
    for try in $(seq 300); do
        left=$(curl --silent --fail "$(watch_urls "$1")/metrics" | awk '$1 == "readstates_slots_unprotected" {print $2}')
        [ "$left" != 0 ] || return 0
        sleep 0.2
    done
    echo "${left:-all} slots of $1 have no backup (looked $try times)" >&2
    return 1
}

rebalance() { "$(readstates_program)" rebalance --ring "file:$1/ring"; }

# urls NAME…: of ring members, with commas between.
urls() {
    local name all=()
    for name in "$@"; do all+=("http://127.0.0.1:$(ring_port "$name")"); done
    (IFS=, && echo "${all[*]}")
}

# watch_urls NAME…: where ring members answer for their metrics, with commas between.
watch_urls() {
    local name all=()
    for name in "$@"; do all+=("http://127.0.0.1:$(watch_port "$(ring_port "$name")")"); done
    (IFS=, && echo "${all[*]}")
}

# bench FLAG…: our generator against that member.
bench() { taskset --cpu-list "$LOAD_PROCESSORS" "$(generator)" "${BENCH_FLAGS[@]}" "$@"; }

now_and_commit() { echo "$(date --utc '+%Y-%m-%d %H:%M UTC'), commit $(git -C "$ROOT" rev-parse --short=12 HEAD)"; }

describe_machine() {
    local model
    model=$(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -n 1)
    echo "# $1"
    echo
    echo "- $(now_and_commit)"
    echo "- ${model:-processor unknown}, $(nproc) processors, $(awk '/^MemTotal/ {printf "%.0f", $2 / 1048576}' /proc/meminfo) GiB, Linux $(uname -r)"
    echo "- $(rustc --version); $(go version); $(redis-server --version 2>/dev/null | cut -d' ' -f1-3)"
    echo "- load average before: $(cut -d' ' -f1-3 /proc/loadavg). What other programs did meanwhile is in the figures:"
    echo "  compare within this page, as ratios."
    echo "- one server at a time has the processors $SERVER_PROCESSORS, the generator has $LOAD_PROCESSORS; members of a ring, databases and virtual machines share all"
}
