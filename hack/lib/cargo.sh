# Where cargo builds: one folder for all checkouts, so that a new one finds everything built that is in it as it was.
# shellcheck shell=bash

export CARGO_TARGET_DIR=${CARGO_TARGET_DIR:-$CACHE/target}
# The profile of programs for clusters and disk machines: Cargo.toml says what it is for.
CHECKED_PROFILE=checked

# Cargo knows our crates by their place in the workspace and goes by the age of files: of two checkouts the older would be
# taken for built. So a checkout that comes after another takes over the times of the files that are the same in both, and
# all others are new. A source that has its checkout's path compiled in is never the same.
claim_target_folder() {
    local owner=$CARGO_TARGET_DIR/last-checkout last
    mkdir -p "$CARGO_TARGET_DIR"
    last=$(cat "$owner" 2>/dev/null || true)
    if [ "$last" = "$ROOT" ]; then return 0; fi
    # First, so that an interrupted run leaves nothing that is taken for built.
    (cd "$ROOT" && git ls-files -z | xargs -0 touch --no-create --no-dereference)
    if [ -d "$last" ]; then
        (cd "$last" && same_files "$last" | xargs -0 --no-run-if-empty \
            cp --attributes-only --preserve=timestamps --no-dereference --parents --target-directory "$ROOT")
    fi
    echo "$ROOT" >"$owner"
}

# same_files OTHER: the files of this checkout that are byte for byte those of another, each ended by a zero byte.
same_files() {
    comm -z -12 <(checked_files "$1" "$1") <(checked_files "$ROOT" "$1") | cut -z -c 67-
}

# checked_files DIR OTHER: a line `SHA-256  PATH` for each file of DIR that both checkouts have.
checked_files() {
    (cd "$ROOT" && git ls-files -z && git grep -lz CARGO_MANIFEST_DIR -- '*.rs') | LC_ALL=C sort -z | uniq -zu |
        while IFS= read -r -d '' path; do
            [ ! -f "$ROOT/$path" ] || [ ! -f "$2/$path" ] || printf '%s\0' "$path"
        done | (cd "$1" && xargs -0 --no-run-if-empty sha256sum --zero) | LC_ALL=C sort -z
}
