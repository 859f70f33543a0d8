# The Go programs that the scripts and a node image need, built from the versions that
# hack/offline/node-image/go.mod pins: nothing here depends on a registry of images or on release downloads.
# One module and one build, because they share most of what there is to compile.
# shellcheck shell=bash

NODE_IMAGE_SOURCE=$ROOT/hack/offline/node-image
# Ours by path; the others are the tool lines of go.mod. These three suffice where a node image is pulled.
CLIENT_PACKAGES="helm.sh/helm/v4/cmd/helm k8s.io/kubernetes/cmd/kubectl sigs.k8s.io/kind"

kubernetes_version() { awk '$1 == "k8s.io/kubernetes" && NF >= 2 {print $2; exit}' "$NODE_IMAGE_SOURCE/go.mod"; }

programs_hash() {
    content_hash "$NODE_IMAGE_SOURCE/go.mod" "$NODE_IMAGE_SOURCE/go.sum" "$NODE_IMAGE_SOURCE/coredns" "$NODE_IMAGE_SOURCE/pause" \
        "$ROOT/hack/offline/programs.sh" -- "$(go env GOVERSION GOARCH)"
}
clients_dir() { echo "$CACHE/programs/clients-$(programs_hash)"; }
node_programs_dir() { echo "$CACHE/programs/node-$(programs_hash)"; }

# kind, kubectl and helm.
build_clients() { fresh_dir "$(clients_dir)" go_build "$CLIENT_PACKAGES"; }

# Everything a node runs; the clients fall out of the same build.
build_node_programs() {
    fresh_dir "$(node_programs_dir)" build_all_programs
    [ -d "$(clients_dir)" ] || ln -sfn "$(node_programs_dir)" "$(clients_dir)"
}

build_all_programs() {
    local out=$1 tools
    tools=$(sed -n '/^tool (/,/^)/s/^\t//p' "$NODE_IMAGE_SOURCE/go.mod")
    # It spells one import path in another case than the rest: never in one build with them.
    go_build "./coredns ./pause $(grep -v local-path-provisioner <<<"$tools")" "$out"
    go_build "$(grep local-path-provisioner <<<"$tools")" "$out"
    mv "$out/server" "$out/etcd"
}

# go_build PACKAGES DIR: static programs, stripped; Kubernetes' own report their version by these stamps. It names each
# package as it compiles it, and collects garbage less often than Go does by itself: a compiler does not live long.
go_build() {
    local version major minor stamp=k8s.io/component-base/version
    version=$(kubernetes_version)
    IFS=. read -r major minor _ <<<"${version#v}"
    # shellcheck disable=SC2086 # a list of packages
    (cd "$NODE_IMAGE_SOURCE" && CGO_ENABLED=0 GOGC=400 go build -v -trimpath -buildvcs=false -tags netgo,osusergo -o "$2/" \
        -ldflags "-s -w -X $stamp.gitVersion=$version -X $stamp.gitMajor=$major -X $stamp.gitMinor=$minor -X $stamp.gitTreeState=clean" \
        $1)
}
