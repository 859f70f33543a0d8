# debian:bookworm-slim, the base of every image here: pulled, or made by debootstrap where no registry answers.
# shellcheck shell=bash

BASE_IMAGE=debian:bookworm-slim

ensure_base_image() {
    if docker image inspect "$BASE_IMAGE" >/dev/null 2>&1; then return 0; fi
    if pull "$BASE_IMAGE"; then return 0; fi
    if ! debian_root || ! command -v debootstrap >/dev/null; then
        die "no registry gives $BASE_IMAGE, and it can be made only as root with debootstrap" "docker pull $BASE_IMAGE must succeed, or run as root on Debian"
    fi
    local root=$CACHE/base-image
    rm -rf "$root"
    debootstrap --variant=minbase bookworm "$root"
    rm -rf "$root"/var/cache/apt/* "$root"/var/lib/apt/lists/* "$root"/usr/share/{doc,man,locale,info}/*
    # Security updates, as in the image that this stands for.
    printf 'deb http://deb.debian.org/%s main\n' 'debian bookworm' 'debian bookworm-updates' 'debian-security bookworm-security' \
        >"$root/etc/apt/sources.list"
    tar -C "$root" -c . | docker import --change 'CMD ["bash"]' - "$BASE_IMAGE"
    rm -rf "$root"
}

# pull IMAGE: a "no" comes at once; a registry that has sent nothing after 30 s is as good as none.
pull() {
    local log pid
    log=$(mktemp)
    docker pull "$1" >"$log" 2>&1 &
    pid=$!
    for _ in $(seq 60); do
        kill -0 "$pid" 2>/dev/null || break
        if grep -qE 'Pulling fs layer|Already exists|Downloading' "$log"; then break; fi
        sleep 0.5
    done
    if ! grep -qE 'Pulling fs layer|Already exists|Downloading' "$log"; then kill "$pid" 2>/dev/null || true; fi
    local status=0
    wait "$pid" || status=1
    cat "$log"
    rm -f "$log"
    return "$status"
}

# For what can be made here instead.
try_to_pull() { pull "$1" || echo "not to be had: $1"; }
