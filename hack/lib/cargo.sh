# Where cargo builds: one folder for all checkouts, so that a new one finds the dependencies built.
# shellcheck shell=bash

export CARGO_TARGET_DIR=${CARGO_TARGET_DIR:-$CACHE/target}
# The profile of programs for clusters and disk machines: Cargo.toml says what it is for.
CHECKED_PROFILE=checked

# Cargo knows our crates by their place in the workspace and goes by the age of files: of two checkouts
# the older would be taken for built. Whoever comes after another checkout makes its sources new.
claim_target_folder() {
    local owner=$CARGO_TARGET_DIR/last-checkout
    mkdir -p "$CARGO_TARGET_DIR"
    if [ "$(cat "$owner" 2>/dev/null)" = "$ROOT" ]; then return 0; fi
    git -C "$ROOT" ls-files -z '*.rs' 'Cargo.toml' '*/Cargo.toml' | (cd "$ROOT" && xargs -0 touch --no-create)
    echo "$ROOT" >"$owner"
}
