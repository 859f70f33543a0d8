# Volumes with snapshots and growth in a kind cluster: a CSI driver of ours, and the sidecars and the snapshot controller of
# Kubernetes, built from their Go modules. hack/offline/csi/ has the sources.
# shellcheck shell=bash

CSI_SOURCE=$ROOT/hack/offline/csi
CSI_NAMESPACE=csi-hostpath
CSI_DRIVER=hostpath.readstates.dev

csi_dir() { echo "$CACHE/programs/csi-$(content_hash "$CSI_SOURCE"/{go.mod,go.sum,driver} -- "$(go env GOVERSION GOARCH)")"; }
csi_image() { echo "readstates-test/csi:$(csi_tag)"; }
csi_tag() { content_hash "$CSI_SOURCE/Dockerfile" -- "$(basename "$(csi_dir)")" | sed 's/^/dev-/'; }

# csi_steps: all of it in the kind cluster of KUBECONFIG, quick where it is there already.
csi_steps() {
    step "CSI driver and sidecars compiled" build_csi_programs
    step "their image" build_csi_image
    step "image of the CSI driver loaded" load_csi_image
    step "CSI driver with snapshots installed" install_csi
}

# Some six minutes of two processors, once; a change of the driver takes one.
build_csi_programs() { fresh_dir "$(csi_dir)" fill_csi_dir; }

# fill_csi_dir DIR: bin/ and crds/. What is built anew is tested first.
fill_csi_dir() {
    local out=$1 flags=(-trimpath -buildvcs=false -tags 'netgo,osusergo') tools client
    tools=$(sed -n '/^tool (/,/^)/s/^\t//p' "$CSI_SOURCE/go.mod")
    mkdir "$out/bin" "$out/crds"
    (
        cd "$CSI_SOURCE" || return
        export CGO_ENABLED=0 GOGC=400
        # shellcheck disable=SC2086 # a list of packages
        go build -v "${flags[@]}" -ldflags "-s -w" -o "$out/bin/" ./driver $tools
        go test "${flags[@]}" ./driver
    )
    client=$(cd "$CSI_SOURCE" && go mod download -json github.com/kubernetes-csi/external-snapshotter/client/v8 | jq -r .Dir)
    cp "$client"/config/crd/snapshot.storage.k8s.io_*.yaml "$out/crds"
    chmod -R u+w "$out/crds"
}

build_csi_image() {
    docker image inspect "$(csi_image)" >/dev/null 2>&1 ||
        docker build --network host --build-arg "BASE_IMAGE=$BASE_IMAGE" --tag "$(csi_image)" --file "$CSI_SOURCE/Dockerfile" "$(csi_dir)"
    drop_older readstates-test/csi "$(csi_tag)"
}

# Again when more nodes take pods.
load_csi_image() { load_images "$(csi_image)"; }

install_csi() {
    kubectl apply --server-side --filename "$(csi_dir)/crds"
    kubectl wait --for=condition=Established --timeout=60s --filename "$(csi_dir)/crds"
    sed "s|image: csi\$|image: $(csi_image)|" "$CSI_SOURCE/objects.yaml" | kubectl apply --server-side --filename -
    local object
    for object in deployment/snapshot-controller daemonset/driver; do
        kubectl --namespace "$CSI_NAMESPACE" rollout status "$object" --timeout=180s || csi_is_late "$object"
    done
    wait_for_csi_nodes
}

# A node's volumes can be made once its kubelet has talked to the driver.
wait_for_csi_nodes() {
    local node try
    for node in $(worker_nodes); do
        for try in $(seq 60); do
            if kubectl get csinode "$node" --output 'jsonpath={.spec.drivers[*].name}' | grep -qw "$CSI_DRIVER"; then continue 2; fi
            sleep 1
        done
        csi_is_late "the kubelet of $node, which does not know the driver after $try s"
    done
}

csi_is_late() {
    kubectl --namespace "$CSI_NAMESPACE" get pods --output wide
    kubectl --namespace "$CSI_NAMESPACE" get events --sort-by .lastTimestamp | tail -n 15
    kubectl --namespace "$CSI_NAMESPACE" logs daemonset/driver --container driver --tail 15
    die "the CSI driver is not ready: $1" "kubectl --namespace $CSI_NAMESPACE describe pods"
}
