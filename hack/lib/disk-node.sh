# A node of the kind cluster that is a virtual machine with local disks: its system is that of kind's nodes, with our
# images in it, and its card is plugged into kind's network.
# shellcheck shell=bash

DISK_NODE_TOOLS="
mke2fs e2fsprogs                your distribution
ip     iproute2                 your distribution
tar    tar                      your distribution
"
DISK_NODE_TAP=readstates0
# shellcheck disable=SC2153 # common.sh sets it
DISK_NODE_SOURCE=$ROOT/hack/disk-node

# The image of its database.
disk_node_cassandra() { echo "readstates/cassandra-emulated:$(disk_node_cassandra_tag)"; }
disk_node_cassandra_tag() { content_hash "$DISK_NODE_SOURCE" -- "$(cassandra_image)"; }

build_disk_node_cassandra() {
    docker build --build-arg "CASSANDRA_IMAGE=$(cassandra_image)" --tag "$(disk_node_cassandra)" "$DISK_NODE_SOURCE"
    drop_older readstates/cassandra-emulated "$(disk_node_cassandra_tag)"
}

disk_node_images() {
    printf '%s\n' "${PROGRAMS[@]/#/readstates/}" | sed "s/\$/:$(image_tag)/"
    disk_node_cassandra
}

disk_node_dir() {
    # shellcheck disable=SC2046 # one word for each image
    echo "$CACHE/disk-node/$(content_hash "$ROOT/hack/lib/disk-node.sh" -- "$(node_image)" $(disk_node_images))"
}

# Its system as a node finds it that is switched on for the first time. One is kept: each release has its own.
build_disk_node() {
    local dir
    build_disk_node_cassandra
    dir=$(disk_node_dir)
    [ -d "$dir" ] || rm -rf "$CACHE/disk-node"
    fresh_dir "$dir" fill_disk_node
}

# fill_disk_node DIR: system.img
fill_disk_node() {
    local dir=$1 root=$1/root container size
    mkdir "$root"
    container=$(docker create "$(node_image)")
    docker export "$container" | tar -C "$root" -x --xattrs --xattrs-include='*' --numeric-owner
    docker rm "$container" >/dev/null
    # By this systemd thinks that it is in a container.
    rm -f "$root/.dockerenv"
    : >"$root/etc/resolv.conf"
    # kind's nodes share their machine's cgroups and so have a root of their own; this one has all of them.
    rm "$root/etc/systemd/system/kubelet.service.d/11-kind.conf"
    sed -i '/^KUBELET_EXTRA_ARGS=/s/$/ --cgroup-root=\//' "$root/etc/default/kubelet"
    install -m 755 "$DISK_NODE_SOURCE/runc-on-one-processor" "$root/usr/local/sbin/runc"
    # Unpacked here: an emulated processor would take minutes over it.
    # shellcheck disable=SC2046 # one word for each image
    docker save $(disk_node_images) | docker run --rm --interactive --privileged --network none \
        --volume "$root/var/lib/containerd:/var/lib/containerd" --entrypoint bash "$(node_image)" -euc '
            containerd >/tmp/log 2>&1 &
            for try in $(seq 50); do ctr version >/dev/null 2>&1 && break; sleep 0.2; done
            ctr --namespace k8s.io images import --local --all-platforms --digests - || { cat /tmp/log; exit 1; }
            kill $!
            wait || true'
    size=$(($(du --summarize --block-size=M "$root" | cut -dM -f1) + 3072))
    mke2fs -q -t ext4 -d "$root" "$dir/system.img" "${size}M"
    rm -rf "$root"
}

# Plugs a cable into the network of kind's nodes.
plug_disk_node() {
    remove_disk_node
    ip tuntap add dev "$DISK_NODE_TAP" mode tap
    ip link set "$DISK_NODE_TAP" master "br-$(docker network inspect kind --format '{{.Id}}' | cut -c1-12)"
    ip link set "$DISK_NODE_TAP" up
}

# What a run leaves but for the system that the next one starts with.
remove_disk_node() {
    rm -f "$CACHE/disk-node/system.img"
    if [ -e "/sys/class/net/$DISK_NODE_TAP" ]; then ip link delete "$DISK_NODE_TAP"; fi
}

# network_of_nodes FIELD: Subnet or Gateway, of IPv4.
network_of_nodes() { docker network inspect kind | jq -r ".[0].IPAM.Config[].$1" | grep -v :; }

# An address that docker, which counts from the beginning, gives to nobody so soon: the sixth from the end, with its bits.
disk_node_address() {
    local subnet bits a b c d number
    subnet=$(network_of_nodes Subnet)
    bits=${subnet#*/}
    IFS=. read -r a b c d <<<"${subnet%/*}"
    number=$(((a << 24 | b << 16 | c << 8 | d) + (1 << (32 - bits)) - 6))
    echo "$((number >> 24)).$((number >> 16 & 255)).$((number >> 8 & 255)).$((number & 255))/$bits"
}

# For the test: all that it wants to know besides. The system is a copy: what a node writes is not for the next run.
export_disk_node() {
    export_disk_machine
    READSTATES_E2E_NODE_SYSTEM=$CACHE/disk-node/system.img
    READSTATES_E2E_NODE_TAP=$DISK_NODE_TAP
    READSTATES_E2E_NODE_ADDRESS=$(disk_node_address)
    READSTATES_E2E_NODE_GATEWAY=$(network_of_nodes Gateway)
    READSTATES_E2E_NODE_DATABASE=$(disk_node_cassandra)
    export READSTATES_E2E_NODE_SYSTEM READSTATES_E2E_NODE_TAP READSTATES_E2E_NODE_ADDRESS READSTATES_E2E_NODE_GATEWAY \
        READSTATES_E2E_NODE_DATABASE
    cp --sparse=always "$(disk_node_dir)/system.img" "$READSTATES_E2E_NODE_SYSTEM"
}
