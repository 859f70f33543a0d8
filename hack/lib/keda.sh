# KEDA in a kind cluster, built from its Go module: for hack/monitoring --kind --keda.
# shellcheck shell=bash

KEDA_VERSION=v2.21.0
KEDA_MODULE=github.com/kedacore/keda/v2

keda_dir() { echo "$CACHE/programs/keda-$(content_hash -- "$KEDA_VERSION $(go env GOVERSION GOARCH)")"; }
keda_tag() { basename "$(keda_dir)" | sed 's/^keda-/dev-/'; }
keda_image() { echo "readstates-test/$1:$(keda_tag)"; }

# Some ten minutes of two processors, once: it knows every cloud's metrics.
build_keda() { fresh_dir "$(keda_dir)" install_keda; }

# Its module replaces others, which Go does only for the module that it stands in: so it is compiled in a copy.
install_keda() {
    local out=$1 module
    module=$(go mod download -json "$KEDA_MODULE@$KEDA_VERSION" | jq -r .Dir)
    cp -r "$module" "$out/source"
    chmod -R u+w "$out/source"
    (cd "$out/source" && CGO_ENABLED=0 go build -trimpath -ldflags "-s -w" -o "$out/" ./cmd/operator ./cmd/adapter)
    mv "$out/source/config" "$out/config"
    rm -rf "$out/source"
}

# In the places that KEDA's own manifests name.
build_keda_images() {
    local context
    context=$(mktemp -d)
    keda_one_image operator keda "$context"
    keda_one_image adapter keda-adapter "$context"
    rm -rf "$context"
}

# keda_one_image PROGRAM NAME CONTEXT
keda_one_image() {
    docker image inspect "$(keda_image "$2")" >/dev/null 2>&1 || {
        cp "$(keda_dir)/$1" "$3/$2"
        printf 'FROM scratch\nCOPY %s /%s\nUSER 1000\nENTRYPOINT ["/%s"]\n' "$2" "$2" "$2" >"$3/Dockerfile"
        docker build --tag "$(keda_image "$2")" "$3"
    }
    drop_older "readstates-test/$2" "$(keda_tag)"
}

load_keda_images() { load_images "$(keda_image keda)" "$(keda_image keda-adapter)"; }

# All of KEDA but the webhooks that check what people apply.
install_keda_here() {
    local overlay
    overlay=$(mktemp -d)
    cp -r "$(keda_dir)/config/." "$overlay"
    cat >"$overlay/kustomization.yaml" <<EOF
resources: [crd, general, rbac, manager, metrics-server, service_account]
images:
- {name: ghcr.io/kedacore/keda, newName: readstates-test/keda, newTag: $(keda_tag)}
- {name: ghcr.io/kedacore/keda-metrics-apiserver, newName: readstates-test/keda-adapter, newTag: $(keda_tag)}
EOF
    kubectl kustomize "$overlay" | sed 's/imagePullPolicy: Always/imagePullPolicy: IfNotPresent/' |
        kubectl apply --server-side --filename -
    rm -rf "$overlay"
    kubectl --namespace keda rollout status deployment/keda-operator --timeout=240s
    kubectl --namespace keda rollout status deployment/keda-metrics-apiserver --timeout=240s
    kubectl wait --for=condition=Available --timeout=120s apiservice/v1beta1.external.metrics.k8s.io
}
