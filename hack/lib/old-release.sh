# The release before this one, from which an upgrade is tried: compiled from its commit, once, and its chart.
# shellcheck shell=bash

# The last commit before mutual TLS between members, operator and agents.
OLD_RELEASE=1cb4914cb76ef6bb701456c3878bbe7e1c4fc2b4
# Its Dockerfile has more targets; these are what an upgrade is tried with.
OLD_PROGRAMS=(operator readstates)

old_release_dir() { echo "$CACHE/releases/$OLD_RELEASE"; }
old_chart() { echo "$(old_release_dir)/source/charts/readstates-operator"; }
old_tag() { echo "old-${OLD_RELEASE:0:12}"; }

prepare_old_release() {
    git -C "$ROOT" cat-file -e "$OLD_RELEASE^{commit}" 2>/dev/null ||
        die "this clone does not have commit $OLD_RELEASE, the release before" "git fetch --unshallow"
    programs_run_in_base_image ||
        die "programs compiled on this system do not run in $BASE_IMAGE, in which the release before is tried" "run it on Debian 12, or a system with glibc 2.36 or older"
    [ -d "$(old_release_dir)" ] || rm -rf "$CACHE/releases"
    step "release before compiled" fresh_dir "$(old_release_dir)" compile_old_release
    step "its images" build_old_images
}

# compile_old_release DIR: source/ and programs/. Compiled in a folder of its own: cargo knows crates by their place in
# the workspace and goes by the age of files, and in a shared folder it would take those of this release for these.
compile_old_release() {
    local dir=$1
    mkdir "$dir/source" "$dir/programs"
    git -C "$ROOT" archive "$OLD_RELEASE" | tar -C "$dir/source" -x
    CARGO_TARGET_DIR=$dir/target cargo build --manifest-path "$dir/source/Cargo.toml" --locked "${OLD_PROGRAMS[@]/#/--bin=}" \
        --config 'profile.dev.package."*".opt-level=1'
    install --strip --target-directory "$dir/programs" "${OLD_PROGRAMS[@]/#/$dir/target/debug/}"
    rm -rf "$dir/target"
}

build_old_images() {
    local target
    # A stage of the Dockerfile copies all programs; the super-disk's is not used.
    touch "$(old_release_dir)/programs/superdisk"
    for target in "${OLD_PROGRAMS[@]}"; do
        docker image inspect "readstates/$target:$(old_tag)" >/dev/null 2>&1 ||
            docker build --network host --build-arg "BASE_IMAGE=$BASE_IMAGE" --build-arg BINARIES=prebuilt --target "$target" \
                --tag "readstates/$target:$(old_tag)" --file "$(old_release_dir)/source/Dockerfile" "$(old_release_dir)/programs"
    done
}

load_old_images() {
    local images=("${OLD_PROGRAMS[@]/#/readstates/}")
    load_images "${images[@]/%/:$(old_tag)}"
}

write_old_values() {
    cat >"$1" <<EOF
image: {repository: readstates/operator, tag: $(old_tag)}
readstatesImage: {repository: readstates/readstates, tag: $(old_tag)}
cassandraImage: {repository: readstates/cassandra, tag: $(cassandra_tag)}
EOF
}

export_old_release() {
    write_old_values "$LOGS/old-values.yaml"
    export READSTATES_E2E_OLD_VALUES=$LOGS/old-values.yaml READSTATES_E2E_OLD_CHART
    READSTATES_E2E_OLD_CHART=$(old_chart)
}
