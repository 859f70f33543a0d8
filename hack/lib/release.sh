# What hack/release does: compile, pack, push, check, sign, publish. Versions of its tools stand here.
# shellcheck shell=bash

RELEASE_TOOLS="
python3 python3  your distribution
readelf binutils your distribution
tar     tar      your distribution
"
# As OCI and Kubernetes name them.
ARCHITECTURES=(amd64 arm64)
# What is packed; the generator goes into no image.
BINARIES=("${PROGRAMS[@]}" readstates-bench)
# Debian bookworm's: the base of the images, and older than what most distributions have.
OLDEST_GLIBC=2.36

# crane copies, joins and looks at images without an engine, and has a registry in it.
CRANE=github.com/google/go-containerregistry/cmd/crane@v0.22.1
SYFT=github.com/anchore/syft/cmd/syft@v1.57.1
# Writes into a program which crates it is made of; scanners of images read it there.
AUDITABLE_VERSION=0.7.7
ZIG_REQUIREMENTS=$ROOT/hack/lib/release-requirements.txt

go_tool_dir() { echo "$CACHE/programs/$1-$(content_hash -- "$2 $(go env GOVERSION GOARCH)")"; }
install_go_tool() { GOBIN=$2 CGO_ENABLED=0 go install -trimpath -ldflags "-s -w" "$1"; }
build_crane() { fresh_dir "$(go_tool_dir crane "$CRANE")" install_go_tool "$CRANE"; }
build_syft() { fresh_dir "$(go_tool_dir syft "$SYFT")" install_go_tool "$SYFT"; }
crane() { "$(go_tool_dir crane "$CRANE")/crane" "$@"; }
syft() { SYFT_CHECK_FOR_APP_UPDATE=false "$(go_tool_dir syft "$SYFT")/syft" "$@"; }

zig_dir() { echo "$CACHE/zig/$(content_hash "$ZIG_REQUIREMENTS")"; }
install_zig() {
    fresh_dir "$(zig_dir)" python_environment "$ZIG_REQUIREMENTS"
    local architecture
    for architecture in "${ARCHITECTURES[@]}"; do rustup target add "$(rust_target "$architecture")"; done
}

# --- versions ---------------------------------------------------------------------------------------------------------

workspace_version() { sed -n '/^\[workspace.package\]/,/^\[/s/^version = "\(.*\)"/\1/p' "$ROOT/Cargo.toml"; }
CHANGELOG=$ROOT/readstates/book/src/reference/changelog.md
CHART=$ROOT/charts/readstates-operator

check_versions() {
    [[ $1 =~ ^[0-9]+\.[0-9]+\.[0-9]+(-[0-9A-Za-z.]+)?$ ]] || die "Cargo.toml has no version of the form X.Y.Z: '$1'"
    local name
    for name in version appVersion; do
        [ "$(sed -n "s/^$name: \"\{0,1\}\([^\"]*\)\"\{0,1\}$/\1/p" "$CHART/Chart.yaml")" = "$1" ] ||
            die "$name of charts/readstates-operator/Chart.yaml is not $1" "Cargo.toml and Chart.yaml name one version"
    done
}

# Before anything is compiled: what would make the last step fail after an hour.
ready_to_publish() {
    local program
    for program in gh cosign; do
        command -v "$program" >/dev/null || die "$program is not installed" "gh: https://cli.github.com, cosign: https://docs.sigstore.dev/cosign"
    done
    [ -z "$(git -C "$ROOT" status --porcelain)" ] || die "the checkout has changes" "a release is made of a clean checkout of its tag"
    [ "$(git -C "$ROOT" describe --tags --exact-match 2>/dev/null)" = "v$1" ] ||
        die "this commit is not tagged v$1" "git tag --sign v$1 && git push origin v$1"
    [ -n "$(release_notes "$1" no)" ] || die "the changelog says nothing about $1" "rename its section Unreleased to $1 (date)"
}

# release_notes VERSION DRY_RUN: the changelog's section; in a dry run of a version that has none yet, what is unreleased.
release_notes() {
    local section
    section=$(changelog_section "$1")
    if [ -z "$section" ] && [ "$2" = yes ]; then section=$(changelog_section Unreleased); fi
    echo "$section"
}
changelog_section() { awk -v wanted="$1" '/^## / {inside = $2 == wanted; next} inside' "$CHANGELOG"; }

# --- programs ---------------------------------------------------------------------------------------------------------

rust_target() {
    case $1 in
    amd64) echo x86_64-unknown-linux-gnu ;;
    arm64) echo aarch64-unknown-linux-gnu ;;
    *) die "no Rust target is known for $1" ;;
    esac
}
# Pages of up to 64 KiB are used on arm64: the operator's allocator works with those that are smaller, too.
log_of_largest_page() { case $1 in arm64) echo 16 ;; *) echo 12 ;; esac; }
release_programs() { echo "$CARGO_TARGET_DIR/release-programs/$1-$2"; }

# compile_release ARCHITECTURE PROFILE: for any Linux with that C library or a later one, whatever this machine has.
compile_release() {
    local target programs from
    local bins=("${BINARIES[@]/#/--bin=}")
    target=$(rust_target "$1")
    programs=$(release_programs "$1" "$2")
    claim_target_folder
    PATH=$(rust_tool_dir cargo-auditable "$AUDITABLE_VERSION")/bin:$(zig_dir)/bin:$PATH \
        JEMALLOC_SYS_WITH_LG_PAGE=$(log_of_largest_page "$1") \
        CARGO_ZIGBUILD_ZIG_PATH=$(zig_dir)/lib/python$(python_minor)/site-packages/ziglang/zig \
        cargo auditable zigbuild --manifest-path "$ROOT/Cargo.toml" --profile "$2" --locked --target "$target.$OLDEST_GLIBC" \
        "${bins[@]}"
    from=$CARGO_TARGET_DIR/$target/$2
    rm -rf "$programs"
    install -D --target-directory "$programs" "${BINARIES[@]/#/$from/}"
}
python_minor() { "$(zig_dir)/bin/python" -c 'import sys; print("%d.%d" % sys.version_info[:2])'; }

# Of the right machine, on no later C library, with the list of its crates in it; what runs here also says its version.
check_programs() {
    local programs program machine newest
    programs=$(release_programs "$1" "$2")
    case $1 in amd64) machine=X86-64 ;; arm64) machine=AArch64 ;; esac
    for program in "${BINARIES[@]}"; do
        readelf --file-header "$programs/$program" | grep -E "^ *Machine: .*$machine" ||
            die "$program is no program for $1" "$programs/$program"
        newest=$(readelf --version-info "$programs/$program" | grep -oE 'GLIBC_[0-9.]+' | sort -uV | tail -n 1)
        [ "$(printf '%s\n' "GLIBC_$OLDEST_GLIBC" "$newest" | sort -V | tail -n 1)" = "GLIBC_$OLDEST_GLIBC" ] ||
            die "$program wants $newest" "the images have $OLDEST_GLIBC"
        readelf --section-headers --wide "$programs/$program" | grep -qF .dep-v0 || die "$program does not list its crates" "$programs/$program"
        if [ "$(machine_architecture)" = "$1" ]; then
            "$programs/$program" --version | grep -F "$3" || die "$program does not say that it is version $3" "$("$programs/$program" --version)"
        fi
    done
}
machine_architecture() { case $(uname -m) in x86_64) echo amd64 ;; aarch64) echo arm64 ;; *) uname -m ;; esac; }

# The same bytes from the same commit: sorted, with the commit's time, and nobody's name.
pack_programs() {
    local name=readstates-$3-linux-$1 folder
    folder=$(mktemp -d)
    install -D --target-directory "$folder/$name" "$(release_programs "$1" "$2")"/*
    install -m 644 "$ROOT/LICENSE" "$folder/$name/LICENSE"
    tar --create --directory "$folder" --sort name --mtime "@$(commit_time)" --owner 0 --group 0 --numeric-owner "$name" |
        gzip --no-name >"$4/$name.tar.gz"
    rm -rf "$folder"
}
commit_time() { git -C "$ROOT" log -1 --format=%ct; }

# --- images -----------------------------------------------------------------------------------------------------------

# The engine keeps one image under a name, of whichever architecture was pulled last.
has_base_image() {
    if [ "$(docker image inspect --format '{{.Architecture}}' "$BASE_IMAGE" 2>/dev/null)" = "$1" ]; then return 0; fi
    timeout 120 docker pull --quiet --platform "linux/$1" "$BASE_IMAGE" >/dev/null 2>&1
}

image_title() {
    case $1 in
    operator) echo "Operator of ReadStateClusters, and agent beside database nodes" ;;
    readstates) echo "Read states of a chat platform: cache pods and command line" ;;
    superdisk) echo "Assembles super-disks: local NVMe mirrored to a network disk" ;;
    esac
}

# push_release_images ARCHITECTURE PROFILE VERSION REGISTRY: under a tag of their architecture.
push_release_images() {
    local target tag
    for target in "${PROGRAMS[@]}"; do
        tag=$4/$target:$3-$1
        docker build --network host --platform "linux/$1" --build-arg "BASE_IMAGE=$BASE_IMAGE" --build-arg BINARIES=prebuilt \
            --label org.opencontainers.image.title="$(image_title "$target")" \
            --label org.opencontainers.image.version="$3" \
            --label org.opencontainers.image.revision="$(git -C "$ROOT" rev-parse HEAD)" \
            --label org.opencontainers.image.created="$(date --utc --date "@$(commit_time)" +%FT%TZ)" \
            --label org.opencontainers.image.licenses=Apache-2.0 \
            --target "$target" --tag "$tag" --file "$ROOT/Dockerfile" "$(release_programs "$1" "$2")"
        docker push "$tag"
        docker rmi "$tag"
    done
}

# join_images VERSION REGISTRY FILE ARCHITECTURE…: one name for all architectures; their digests into FILE.
join_images() {
    local version=$1 registry=$2 file=$3 target architecture parts
    shift 3
    [ $# -gt 0 ] || die "no image could be built" "docker pull $BASE_IMAGE must succeed for one architecture"
    : >"$file"
    for target in "${PROGRAMS[@]}"; do
        parts=()
        for architecture in "$@"; do parts+=(--manifest "$registry/$target:$version-$architecture"); done
        crane index append "${parts[@]}" --tag "$registry/$target:$version"
        echo "$registry/$target@$(crane digest "$registry/$target:$version")" >>"$file"
    done
}

# start_registry FOLDER: on a free port of loopback; its address is in FOLDER/address.
start_registry() {
    mkdir -p "$1"
    local port
    port=$(python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
    mkdir "$1/blobs"
    setsid "$(go_tool_dir crane "$CRANE")/crane" registry serve --address "127.0.0.1:$port" --disk "$1/blobs" </dev/null >"$1/log" 2>&1 &
    echo $! >"$1/pid"
    local try
    for try in $(seq 100); do
        if curl --silent --fail "http://127.0.0.1:$port/v2/" >/dev/null; then
            echo "127.0.0.1:$port" >"$1/address"
            return 0
        fi
        kill -0 "$(cat "$1/pid")" 2>/dev/null || break
        sleep 0.1
    done
    die "the registry did not start (after $try tries)" "$(cat "$1/log")"
}

stop_registry() {
    [ -f "$1/pid" ] || return 0
    kill "$(cat "$1/pid")" 2>/dev/null || true
    rm -rf "$1/blobs" "$1/pid"
}

# --- chart, manifests, bills of materials -----------------------------------------------------------------------------

# digest_of TARGET FOLDER
digest_of() { sed -n "s|^.*/$1@||p" "$2/images.txt"; }

# pin_images REGISTRY FOLDER: of the chart's values on standard input, those of our images by digest.
pin_images() {
    awk -v registry="$1" -v operator="$(digest_of operator "$2")" -v readstates="$(digest_of readstates "$2")" -v superdisk="$(digest_of superdisk "$2")" '
        /^[a-zA-Z]/ {name = ""}
        /^image:/ {name = "operator"; digest = operator}
        /^readstatesImage:/ {name = "readstates"; digest = readstates}
        /^superdiskImage:/ {name = "superdisk"; digest = superdisk}
        name != "" && /^  repository:/ {$0 = "  repository: " registry "/" name}
        name != "" && /^  digest:/ {$0 = "  digest: " digest}
        {print}'
}

# push_chart VERSION REGISTRY FOLDER: packed there, and pushed beside the images, under charts.
push_chart() {
    local work plain=()
    work=$(mktemp -d)
    cp -r "$CHART" "$work/chart"
    rm -rf "$work/chart/ci"
    pin_images "$2" "$3" <"$CHART/values.yaml" >"$work/chart/values.yaml"
    helm package "$work/chart" --destination "$3"
    is_loopback "$2" && plain=(--plain-http)
    helm push "$3/readstates-operator-$1.tgz" "oci://$2/charts" "${plain[@]}"
    rm -rf "$work"
}
is_loopback() { [[ $1 == 127.0.0.1:* ]]; }

# For those who do not use Helm: the definitions, and everything else of the chart as it stands, with its namespace.
write_manifests() {
    cat "$ROOT"/crds/*.yaml >"$2/readstates-crds-$1.yaml"
    {
        printf 'apiVersion: v1\nkind: Namespace\nmetadata: {name: readstates-system}\n'
        helm template readstates "$2/readstates-operator-$1.tgz" --namespace readstates-system --skip-tests --set crds.install=false
    } >"$2/readstates-operator-$1.yaml"
}

# Of each image: its packages and crates. For the programs that is the same, without Debian's.
write_boms() {
    local image name
    while read -r image; do
        name=${image%@*}
        SYFT_REGISTRY_INSECURE_USE_HTTP=$(is_loopback "$image" && echo true || echo false) \
            syft scan "registry:$image" --output "spdx-json=$2/${name##*/}-$1.spdx.json"
    done <"$2/images.txt"
}

write_checksums() (cd "$1" && sha256sum -- *.tar.gz *.tgz *.yaml *.json images.txt >SHA256SUMS)

# --- checks -----------------------------------------------------------------------------------------------------------

# check_release VERSION REGISTRY FOLDER ARCHITECTURE…: as a user finds it, from the registry and the folder alone.
check_release() {
    local version=$1 registry=$2 folder=$3 work image found architecture name plain=()
    shift 3
    work=$(mktemp -d)
    (cd "$folder" && sha256sum --check --quiet SHA256SUMS)
    is_loopback "$registry" && plain=(--plain-http)
    helm pull "oci://$registry/charts/readstates-operator" --version "$version" --destination "$work" "${plain[@]}"
    cmp "$work/readstates-operator-$version.tgz" "$folder/readstates-operator-$version.tgz"
    helm template readstates "$work/readstates-operator-$version.tgz" >"$work/rendered.yaml"
    for name in "${PROGRAMS[@]}"; do
        image=$registry/$name@$(digest_of "$name" "$folder")
        grep -qF "$image" "$work/rendered.yaml" || die "the chart does not name $image" "it is pinned in values.yaml by pin_images"
        found=$(crane manifest "$image" | jq -r '[.manifests[].platform | "\(.os)/\(.architecture)"] | sort | join(" ")')
        for architecture in "$@"; do
            [[ " $found " == *" linux/$architecture "* ]] || die "$image has nothing for linux/$architecture" "it has: $found"
        done
        [ "$(crane config --platform "linux/$1" "$image" | jq -r '.config.Labels["org.opencontainers.image.version"]')" = "$version" ] ||
            die "$image does not say that it is version $version"
        check_bom "$folder/$name-$version.spdx.json"
    done
    if grep -E "image[=:] *\"?$registry/[a-z]*:" "$work/rendered.yaml"; then die "the chart names an image of ours by tag (above)"; fi
    rm -rf "$work"
}

# It has a crate of ours, one of others, and a Debian package, all of which each program has: each comes from another part of
# the scan.
check_bom() {
    local name
    for name in readstates-metrics serde_json libc6; do
        jq --exit-status --arg name "$name" 'any(.packages[]; .name == $name)' "$1" >/dev/null || die "$1 does not name $name"
    done
    echo "$(basename "$1"): $(jq '.packages | length' "$1") packages"
}

# --- publishing -------------------------------------------------------------------------------------------------------

# Signatures without keys of ours: cosign asks for the identity of whoever runs this, a workflow as a rule.
sign_release() {
    local version=$1 registry=$2 folder=$3 image name
    while read -r image; do
        name=${image%@*}
        cosign sign --yes "$image"
        cosign attest --yes --type spdxjson --predicate "$folder/${name##*/}-$version.spdx.json" "$image"
    done <"$folder/images.txt"
    cosign sign --yes "$registry/charts/readstates-operator@$(crane digest "$registry/charts/readstates-operator:$version")"
    cosign sign-blob --yes --bundle "$folder/SHA256SUMS.sigstore.json" "$folder/SHA256SUMS"
}

# As a draft first, so that nobody sees half of it.
publish() {
    local kind=()
    [[ $1 != *-* ]] || kind=(--prerelease)
    gh release create "v$1" --draft --verify-tag --title "$1" --notes-file "$2/notes.md" "${kind[@]}" \
        "$2"/*.tar.gz "$2"/*.tgz "$2"/*.yaml "$2"/*.json "$2"/images.txt "$2"/SHA256SUMS
    gh release edit "v$1" --draft=false
}
