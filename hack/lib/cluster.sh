# A kind cluster by name. Its kubeconfig lies in the cache folder; nobody's ~/.kube/config is touched.
# shellcheck shell=bash

cluster_dir() { echo "$CACHE/clusters/$1"; }
cluster_kubeconfig() { echo "$(cluster_dir "$1")/kubeconfig"; }
cluster_exists() { kind get clusters 2>/dev/null | grep -qx -- "$1"; }

# Creates the cluster unless it is there and answers; one that does not answer is replaced.
ensure_cluster() {
    local name=$1 config image
    config=$(cluster_kubeconfig "$name")
    if cluster_exists "$name"; then
        mkdir -p "$(cluster_dir "$name")"
        kind export kubeconfig --name "$name" --kubeconfig "$config"
        if cluster_answers "$config"; then return 0; fi
        echo "cluster $name does not answer: deleting it"
        kind delete cluster --name "$name" --kubeconfig "$config"
    fi
    rm -rf "$(cluster_dir "$name")"
    mkdir -p "$(cluster_dir "$name")"
    allow_inotify
    image=$(node_image)
    [ -n "$image" ] || die "there is no node image"
    kind create cluster --name "$name" --image "$image" --config - --kubeconfig "$config" --wait 120s < <(kind_config)
}

# The API server is reached by IPv4 from here, whatever the family of pods and Services (IP_FAMILY) is.
kind_config() {
    cat "$ROOT/hack/kind.yaml"
    echo "networking: {ipFamily: ${IP_FAMILY:-ipv4}, apiServerAddress: 127.0.0.1}"
}

# A node takes some twenty inotify instances, and Linux gives a user 128: the API server of a second cluster
# would not start.
allow_inotify() {
    local limit=/proc/sys/fs/inotify/max_user_instances wanted=1024
    [ "$(cat "$limit")" -lt "$wanted" ] || return 0
    if [ -w "$limit" ]; then
        echo "fs.inotify.max_user_instances: $(cat "$limit") -> $wanted"
        echo "$wanted" >"$limit"
    else
        echo "if the API server does not start: sysctl fs.inotify.max_user_instances=$wanted as root"
    fi
}

# After a restart of the machine or the engine the nodes start by themselves; give them time.
cluster_answers() {
    local try
    for try in $(seq 30); do
        if kubectl --kubeconfig "$1" get --raw /readyz >/dev/null 2>&1; then return 0; fi
        echo "no answer yet ($try)"
        sleep 2
    done
    return 1
}

# kind waits for the control plane only.
wait_for_nodes() {
    local config=$1
    kubectl --kubeconfig "$config" wait nodes --all --for=condition=Ready --timeout=180s
    kubectl --kubeconfig "$config" --namespace kube-system rollout status daemonset,deployment --timeout=180s
    kubectl --kubeconfig "$config" --namespace local-path-storage rollout status deployment --timeout=180s
}

delete_cluster() {
    if cluster_exists "$1"; then kind delete cluster --name "$1" --kubeconfig "$(cluster_kubeconfig "$1")"; fi
    rm -rf "$(cluster_dir "$1")"
}

# load_images IMAGE…: puts images into every node of the kind cluster of KUBECONFIG that takes pods of ours and
# lacks them, by containerd's own client, which every kind node has.
load_images() {
    local node image pids=() missing pid
    for node in $(worker_nodes); do
        missing=()
        for image in "$@"; do
            node_has_image "$node" "$image" || missing+=("$image")
        done
        [ ${#missing[@]} -gt 0 ] || continue
        echo "$node: loading ${missing[*]}"
        docker save "${missing[@]}" | docker exec -i "$node" ctr --namespace k8s.io images import --local --all-platforms --digests - &
        pids+=($!)
    done
    for pid in "${pids[@]}"; do wait "$pid"; done
}

# Every node takes pods from now on, the control plane's, too: no two members of a database share one.
let_every_node_take_pods() {
    local label=node-role.kubernetes.io/control-plane
    if [ "$(worker_nodes | wc -l)" -lt "$(kubectl get nodes --output name | wc -l)" ]; then
        kubectl taint nodes --selector "$label" "$label:NoSchedule-"
    fi
}

worker_nodes() {
    kubectl get nodes --output json |
        jq -r '.items[] | select(any(.spec.taints[]?; .key == "node-role.kubernetes.io/control-plane") | not) | .metadata.name'
}

node_has_image() { docker exec "$1" ctr --namespace k8s.io images ls -q | grep -qx -- "docker.io/$2"; }
