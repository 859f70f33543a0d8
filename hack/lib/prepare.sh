# What hack/up and hack/test do alike before there is anything to install: engine, programs, images, cluster.
# Each is a step that is quick when its result is there already.
# shellcheck shell=bash

prepare_engine() {
    step "docker engine" start_engine
    use_engine
    step "base image" ensure_base_image
}

prepare_node_image() {
    ask_for_node_image
    if [ -n "$(node_image)" ]; then return 0; fi
    step "$NODE_PROGRAMS" build_node_programs
    step "node image" build_node_image
}

NODE_PROGRAMS="Kubernetes, etcd, containerd compiled"

ask_for_node_image() {
    if [ -n "$(node_image)" ]; then return 0; fi
    step "kind's node image asked for at its registry" try_to_pull "$(kinds_node_image)"
    [ -n "$(node_image)" ] || note "no registry gives it: building Kubernetes here"
}

# prepare_for_cluster [here]: engine, clients and images; for a kind cluster its node's image, too. What compiles Go runs
# beside what compiles Rust: each of them waits for downloads, and ends with a part that takes one processor.
prepare_for_cluster() {
    local build_node=
    step "docker engine" start_engine
    use_engine
    if [ "${1:-}" != here ]; then
        ask_for_node_image
        [ -n "$(node_image)" ] || build_node=yes
    fi
    if [ "$build_node" = yes ]; then begin "$NODE_PROGRAMS; node image" build_programs_and_node_image; fi
    step "base image" ensure_base_image
    step "Cassandra image" build_cassandra_image
    step "programs compiled" compile_image_programs
    if [ "$build_node" = yes ]; then finish "$NODE_PROGRAMS; node image"; fi
    prepare_clients
    step "images" build_images
}

# Another step makes the base image meanwhile.
build_programs_and_node_image() {
    build_node_programs
    until docker image inspect "$BASE_IMAGE" >/dev/null 2>&1; do sleep 1; done
    build_node_image
}

prepare_clients() {
    step "kind, kubectl and helm" build_clients
    PATH=$(clients_dir):$PATH
}

use_kind_cluster() {
    start_kind_cluster "$1"
    step "images loaded" load_our_images
}

start_kind_cluster() {
    step "cluster $1" ensure_cluster "$1"
    KUBECONFIG=$(cluster_kubeconfig "$1")
    export KUBECONFIG
    step "nodes and system pods ready" wait_for_nodes "$KUBECONFIG"
}

# What the tests want that hack/test runs with --full only: all three machines, another release of Cassandra, and volumes with
# snapshots.
prepare_full_tests() {
    step "every node takes pods" let_every_node_take_pods
    step "images loaded there, too" load_our_images
    step "another release of Cassandra" build_former_cassandra_image
    step "it is loaded" load_images "$(former_cassandra_image)"
    csi_steps
}

load_our_images() {
    load_images "readstates/operator:$(image_tag)" "readstates/readstates:$(image_tag)" "$(cassandra_image)"
}
