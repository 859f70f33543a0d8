# Our images, from the Dockerfile. A tag is made of what is in the image, so that a second run with the
# same code changes nothing in a cluster, and one with other code rolls the pods.
# shellcheck shell=bash

# shellcheck source=hack/lib/cargo.sh
. "$ROOT/hack/lib/cargo.sh"
PROGRAMS=(operator readstates superdisk)
CASSANDRA_SOURCE=$ROOT/hack/offline/cassandra

# A folder of their own: a build of another command, with other features, may take their place in the profile's.
programs_folder() { echo "$CARGO_TARGET_DIR/programs"; }

# One tag for the three images of ours: they are one release.
image_tag() {
    if programs_run_in_base_image; then
        content_hash "$ROOT/Dockerfile" "${PROGRAMS[@]/#/$(programs_folder)/}"
    else
        content_hash "$ROOT"/{Dockerfile,Cargo.toml,Cargo.lock,rust-toolchain.toml,operator,readstates}
    fi | sed "s/^/${PROGRAM_PROFILE:-dev}-/"
}
# The tag names the release, by which the operator tells an upgrade of the engine from other changes.
cassandra_tag() { tag_of_cassandra "$(cassandra_version cassandra)"; }
tag_of_cassandra() { echo "$1-$(content_hash "$ROOT/Dockerfile" "$CASSANDRA_SOURCE")"; }
cassandra_image() { echo "readstates/cassandra:$(cassandra_tag)"; }
# Another release, from which an upgrade is tried.
former_cassandra_image() { echo "readstates/cassandra-former:$(tag_of_cassandra "$(cassandra_version former)")"; }
# cassandra_version PROPERTY: what the pom.xml says.
cassandra_version() { sed -n "s:.*<$1\.version>\(.*\)</$1\.version>.*:\1:p" "$CASSANDRA_SOURCE/pom.xml"; }

# A program runs on the C library that it was built with, or a later one; Debian bookworm's is 2.36.
programs_run_in_base_image() {
    local libc
    libc=$(getconf GNU_LIBC_VERSION 2>/dev/null | sed -n 's/^glibc 2\.//p')
    [ -n "$libc" ] && [ "$libc" -le 36 ]
}

# For images; where they would not run in them, they are compiled in an image.
compile_image_programs() { ! programs_run_in_base_image || compile_programs; }

# As they are compiled for tests, in half the time that optimising every dependency takes, or with the profile
# PROGRAM_PROFILE. With WORKSPACE_COMPILED=yes (hack/test) they are there, and so is the generator, which goes into no image
# and puts load on the Go servers.
compile_programs() {
    claim_target_folder
    local profile=${PROGRAM_PROFILE:-dev} programs=("${PROGRAMS[@]}") from
    # Cargo's one folder of another name than its profile.
    from=$CARGO_TARGET_DIR/$([ "$profile" = dev ] && echo debug || echo "$profile")
    if [ "${WORKSPACE_COMPILED:-no}" = no ]; then
        cargo build --manifest-path "$ROOT/Cargo.toml" --locked --profile "$profile" \
            --package readstates-operator --package readstates --package superdisk "${PROGRAMS[@]/#/--bin=}"
    else
        programs+=(readstates-bench)
    fi
    install -D --strip --target-directory "$(programs_folder)" "${programs[@]/#/$from/}"
}

build_images() {
    local context=$CACHE/image-context target tag arguments=()
    tag=$(image_tag)
    if programs_run_in_base_image; then
        rm -rf "$context"
        mkdir -p "$context"
        for target in "${PROGRAMS[@]}"; do ln "$(programs_folder)/$target" "$context/$target"; done
        arguments=(--build-arg BINARIES=prebuilt)
    else
        context=$ROOT
        arguments=(--build-arg "PROFILE=${PROGRAM_PROFILE:-$CHECKED_PROFILE}")
    fi
    for target in "${PROGRAMS[@]}"; do
        docker image inspect "readstates/$target:$tag" >/dev/null 2>&1 ||
            docker build --network host --build-arg "BASE_IMAGE=$BASE_IMAGE" "${arguments[@]}" --target "$target" --tag "readstates/$target:$tag" \
                --file "$ROOT/Dockerfile" "$context"
    done
    [ "$context" = "$ROOT" ] || rm -rf "$context"
    for target in "${PROGRAMS[@]}"; do drop_older "readstates/$target" "$tag"; done
}

# One image of each kind is kept: the others can be built again.
drop_older() {
    docker images --format '{{.Repository}}:{{.Tag}}' "$1" | grep -vxF "$1:$2" | xargs --no-run-if-empty docker rmi >/dev/null || true
}

build_cassandra_image() { build_cassandra "$(cassandra_image)" "$(cassandra_version cassandra)"; }
build_former_cassandra_image() { build_cassandra "$(former_cassandra_image)" "$(cassandra_version former)"; }

# build_cassandra IMAGE VERSION
build_cassandra() {
    if docker image inspect "$1" >/dev/null 2>&1; then return 0; fi
    local context
    context=$(cassandra_context "$2")
    fresh_dir "$context" fill_cassandra_context "$2"
    docker build --network host --build-arg "BASE_IMAGE=$BASE_IMAGE" --target cassandra --tag "$1" --file "$ROOT/Dockerfile" "$context"
    rm -rf "$context"
    drop_older "${1%:*}" "${1##*:}"
}

# cassandra_context VERSION: the folder of hack/offline/cassandra/ and the jars of that version.
cassandra_context() { echo "$CACHE/cassandra/$1-$(content_hash "$CASSANDRA_SOURCE")"; }

# fill_cassandra_context VERSION DIR: the jars are those that the pom.xml names, without those for systems that no
# container runs.
fill_cassandra_context() {
    cp -r "$CASSANDRA_SOURCE/." "$2"
    mvn --batch-mode --no-transfer-progress --file "$CASSANDRA_SOURCE/pom.xml" dependency:copy-dependencies "-Dcassandra.version=$1" \
        -DincludeScope=runtime -DexcludeClassifiers=osx-aarch_64,osx-x86_64,windows-x86_64 -DoutputDirectory="$2/lib"
}

# push_images PREFIX: for clusters whose nodes we cannot reach but by a registry.
push_images() {
    local prefix=$1 image
    for image in "${PROGRAMS[@]/%/:$(image_tag)}" "cassandra:$(cassandra_tag)"; do
        docker tag "readstates/$image" "$prefix/$image"
        docker push "$prefix/$image"
    done
}

# The cache pods' image under a second name: another image for Kubernetes, the same for everybody else.
other_image() { echo "readstates/readstates-again:$(image_tag)"; }

load_other_image() {
    docker tag "readstates/readstates:$(image_tag)" "$(other_image)"
    load_images "$(other_image)"
    drop_older readstates/readstates-again "$(image_tag)"
}
