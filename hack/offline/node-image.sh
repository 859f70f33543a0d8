# The image that kind's nodes run: kind's own where a registry gives it, else built from Debian packages
# and the Go programs. hack/offline/node-image/ says what is in it.
# shellcheck shell=bash

own_node_image() {
    echo "readstates/node:$(kubernetes_version)-$(content_hash "$NODE_IMAGE_SOURCE" "$ROOT/hack/offline/node-image.sh" -- "$(programs_hash)")"
}

# The image that this version of kind was released with, pinned by digest in its source.
kinds_node_image() { sed -n 's/^const Image = "\(.*\)"$/\1/p' "$(module_dir sigs.k8s.io/kind)/pkg/apis/config/defaults/image.go"; }

module_dir() { (cd "$NODE_IMAGE_SOURCE" && go mod download -json "$1" | jq -r .Dir); }

# The one that is there already; none: an empty answer.
node_image() {
    local image
    for image in "$(own_node_image)" "$(kinds_node_image)"; do
        if docker image inspect "$image" >/dev/null 2>&1; then
            echo "$image"
            return
        fi
    done
}

build_node_image() {
    local context=$CACHE/node-image
    rm -rf "$context"
    mkdir -p "$context"
    cp -rl "$(node_programs_dir)" "$context/bin"
    node_files "$context/files"
    node_pod_images "$context"
    build_target node "$(own_node_image)" "$context"
    rm -rf "$context"
    # Those that a cluster runs on stay: docker refuses.
    docker images --format '{{.Repository}}:{{.Tag}}' readstates/node | grep -vxF "$(own_node_image)" |
        xargs --no-run-if-empty --max-args 1 docker rmi >/dev/null 2>&1 || true
}

# kind's files for a node, and what differs on a machine like a container or a small virtual machine.
node_files() {
    local files=$1 kind version
    kind=$(module_dir sigs.k8s.io/kind)
    version=$(kubernetes_version)
    cp -r "$kind/images/base/files" "$files"
    chmod -R u+w "$files"
    rm "$files/etc/systemd/system/containerd-fuse-overlayfs.service"
    find "$files" -type d -exec chmod 755 {} +
    chmod 755 "$files"/usr/local/bin/* "$files"/kind/bin/*
    # No CAP_SYS_RESOURCE: oom scores only rise, and pods are not given that capability.
    replace_line "$files/etc/containerd/config.toml" 'restrict_oom_score_adj = false' 'restrict_oom_score_adj = true'
    install -D -m 755 "$NODE_IMAGE_SOURCE/runc-without-sys-resource" "$files/usr/local/sbin/runc"
    # Kubernetes runs on cgroup v1 only when told so.
    sed -i '/^KUBELET_EXTRA_ARGS=/s/$/ --fail-cgroupv1=false/' "$files/etc/default/kubelet"
    mkdir -p "$files/kind/manifests"
    printf %s "$version" >"$files/kind/version"
    sed "s/KUBERNETES_VERSION/$version/" "$NODE_IMAGE_SOURCE/default-cni.yaml" >"$files/kind/manifests/default-cni.yaml"
    # The storage class is kind's own, found in its source, with our images.
    awk '/^const defaultStorageManifest = `/ {inside = 1; next} /^`$/ {inside = 0} inside' "$kind/pkg/build/nodeimage/const_storage.go" |
        sed "s#\` + storageProvisionerImage + \`#$(pod_image local-path-provisioner)#; s#\` + storageHelperImage + \`#$(pod_image kube-proxy)#" \
            >"$files/kind/manifests/default-storage.yaml"
    grep -q "$(pod_image local-path-provisioner)" "$files/kind/manifests/default-storage.yaml"
}

replace_line() {
    grep -qF "$2" "$1" || die "$1 no longer has the line '$2'" "kind's files changed: look at hack/offline/node-image.sh"
    sed -i "s/$2/$3/" "$1"
}

# The images of the pods that kubeadm and kind start, under the names that these ask for.
POD_IMAGES="kube-apiserver kube-controller-manager kube-scheduler kube-proxy etcd coredns pause local-path-provisioner"
pod_image() {
    case $1 in
    pause) sed -n 's/.*sandbox_image = "\(.*\)"/\1/p' "$(module_dir sigs.k8s.io/kind)/images/base/files/etc/containerd/config.toml" ;;
    local-path-provisioner) echo docker.io/kindest/local-path-provisioner:readstates ;;
    *) "$(node_programs_dir)/kubeadm" config images list --kubernetes-version "$(kubernetes_version)" 2>/dev/null | grep "/$1:" ;;
    esac
}

node_pod_images() {
    local context=$1 name image images=()
    for name in $POD_IMAGES; do
        image=$(pod_image "$name")
        build_target "$name" "$image" "$context"
        images+=("$image")
    done
    docker save -o "$context/images.tar" "${images[@]}"
    docker rmi "${images[@]}" >/dev/null
}

build_target() {
    docker build --network host --build-arg "BASE_IMAGE=$BASE_IMAGE" --target "$1" --tag "$2" --file "$NODE_IMAGE_SOURCE/Dockerfile" "$3"
}
