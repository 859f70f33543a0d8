# The cargo subcommands of hack/test, by exact version, built into the cache.
# shellcheck shell=bash

NEXTEST_VERSION=0.9.151
DENY_VERSION=0.20.2

rust_tool_dir() { echo "$CACHE/rust-tools/$1-$2"; }

# Without optimisation, symbols, and what they would replace themselves with: they are compiled for longer than
# they will ever run. In one target folder, for what both are made of.
ensure_rust_tool() { fresh_dir "$(rust_tool_dir "$1" "$2")" install_rust_tool "$1" "$2"; }

install_rust_tool() {
    CARGO_TARGET_DIR=$CACHE/rust-tools/target CARGO_PROFILE_DEV_DEBUG=0 \
        cargo install --locked --debug --no-default-features "$1@$2" --root "$3"
}

# tests_of PROFILE PACKAGE FILTER [FLAG…]: runs those tests of a package of the workspace that match FILTER, by a profile
# of .config/nextest.toml. With WORKSPACE_COMPILED=yes (hack/test) as part of the workspace, for which everything is
# compiled: alone, a package has fewer features, and what it is made of would be compiled once more.
tests_of() {
    local profile=$1 package=$2 filter=$3
    shift 3
    local of=(--package "$package")
    [ "${WORKSPACE_COMPILED:-no}" = no ] || of=(--workspace)
    cargo nextest run --locked --profile "$profile" "${of[@]}" \
        --filterset "package($package) & ($filter)" "$@"
}
