# The cargo subcommands of hack/test, by exact version, built into the cache.
# shellcheck shell=bash

NEXTEST_VERSION=0.9.151
DENY_VERSION=0.20.2

rust_tool_dir() { echo "$CACHE/rust-tools/$1-$2"; }

# Without optimisation: they are built for longer than they will ever run.
ensure_rust_tool() {
    fresh_dir "$(rust_tool_dir "$1" "$2")" env --unset=CARGO_TARGET_DIR cargo install --locked --debug "$1@$2" --root
}
