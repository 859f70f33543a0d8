# A docker engine: the one that answers, or one of our own that lives wholly in the cache folder.
# shellcheck shell=bash

ENGINE=$CACHE/engine
ENGINE_SOCKET=$ENGINE/docker.sock

# Puts a docker client that can build with BuildKit first in PATH, and points it at the engine.
# Newer clients need the buildx plugin for that; those before version 23 bring BuildKit with them.
use_engine() {
    local client major
    for client in $(type -ap docker); do
        major=$("$client" --version | sed -n 's/^Docker version \([0-9]*\).*/\1/p')
        [ -n "$major" ] || continue
        if [ "$major" -lt 23 ] || "$client" buildx version >/dev/null 2>&1; then
            mkdir -p "$CACHE/bin"
            ln -sfn "$(readlink -f "$client")" "$CACHE/bin/docker"
            PATH=$CACHE/bin:$PATH
            break
        fi
    done
    export PATH DOCKER_BUILDKIT=1 BUILDKIT_PROGRESS=plain
    if engine_is_ours; then export DOCKER_HOST=unix://$ENGINE_SOCKET; fi
}

engine_answers() { docker info >/dev/null 2>&1; }

# Ours: the recorded process lives and is a dockerd on our socket.
engine_is_ours() {
    [ -f "$ENGINE/pid" ] && tr '\0' ' ' 2>/dev/null <"/proc/$(cat "$ENGINE/pid")/cmdline" | grep -q -- "$ENGINE_SOCKET"
}

# Starts an engine when none answers. It is Debian's, with data, sockets and process id under the cache folder.
start_engine() {
    use_engine
    if engine_answers; then return 0; fi
    [ "$(id -u)" = 0 ] || die "no docker engine answers" "start one (systemctl start docker), or let this user reach it: docker info must succeed"
    command -v dockerd >/dev/null || die "no docker engine answers and dockerd is not installed" "install docker: on Debian, apt-get install docker.io"
    mkdir -p "$ENGINE"
    rm -f "$ENGINE/pid"
    install -m 755 "$ROOT/hack/offline/node-image/runc-without-sys-resource" "$ENGINE/runc"
    local runtime=(--default-runtime runc)
    if ! has_sys_resource; then runtime=(--add-runtime "ours=$ENGINE/runc" --default-runtime ours); fi
    (
        # A new session, without the lock's descriptor: the engine outlives this script.
        exec 9>&- </dev/null >>"$ENGINE/dockerd.log" 2>&1
        setsid dockerd --host "unix://$ENGINE_SOCKET" --pidfile "$ENGINE/pid" --data-root "$ENGINE/data" \
            --exec-root "$ENGINE/exec" --storage-driver overlay2 "${runtime[@]}" &
    )
    export DOCKER_HOST=unix://$ENGINE_SOCKET
    local try
    for try in $(seq 60); do
        if engine_answers; then
            note "started a docker engine of our own ($ENGINE, log dockerd.log)"
            return 0
        fi
        # It had time to write its process id, and is gone.
        if [ "$try" -gt 10 ] && ! engine_is_ours; then break; fi
        sleep 0.5
    done
    tail -n 20 "$ENGINE/dockerd.log"
    die "the docker engine did not start" "its log: $ENGINE/dockerd.log"
}

# Bit 24 of the bounding set.
has_sys_resource() {
    local bounding
    bounding=$(awk '/^CapBnd/ {print $2}' /proc/self/status)
    [ $(((16#$bounding >> 24) & 1)) = 1 ]
}

# Stops the engine if it is ours and nothing runs on it any more: no cluster, and no database of another run's tests.
# What it does not say, it may have.
stop_engine() {
    engine_is_ours || return 0
    local pid clusters running
    pid=$(cat "$ENGINE/pid")
    if ! clusters=$(docker --host "unix://$ENGINE_SOCKET" ps -aq --filter label=io.x-k8s.kind.cluster) ||
        ! running=$(docker --host "unix://$ENGINE_SOCKET" ps -q); then
        note "the docker engine stays: it does not say what runs on it"
        return 0
    fi
    if [ -n "$clusters" ]; then
        note "the docker engine stays: other clusters run on it"
        return 0
    fi
    if [ -n "$running" ]; then
        note "the docker engine stays: other containers run on it"
        return 0
    fi
    kill "$pid"
    while kill -0 "$pid" 2>/dev/null; do sleep 0.2; done
    rm -f "$ENGINE/pid"
    note "stopped the docker engine that hack/up had started"
}
