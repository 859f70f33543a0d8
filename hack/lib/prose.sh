# The checker of prose and what it is given: for hack/prose.
# shellcheck shell=bash

PROSE_REQUIREMENTS=$ROOT/hack/lib/prose-requirements.txt

typos_dir() { echo "$CACHE/typos/$(content_hash "$PROSE_REQUIREMENTS")"; }

install_typos() {
    python3 -c 'import sys; sys.exit(sys.version_info < (3, 8))' 2>/dev/null ||
        die "there is no Python 3.8 or later" "install it from your distribution"
    fresh_dir "$(typos_dir)" python_environment "$PROSE_REQUIREMENTS"
}

# read_prose MIRROR [FILE…]: fills the empty folder MIRROR with the prose of these files, or of all, each word where it
# stands in its file, and names the words that are wrong.
read_prose() {
    local mirror=$1
    shift
    PYTHONDONTWRITEBYTECODE=1 python3 "$ROOT/hack/lib/prose.py" "$ROOT" "$mirror" "$@"
    # Neither the settings nor the ignored files of a folder above have a say.
    (cd "$mirror" && "$(typos_dir)/bin/typos" --isolated --config "$ROOT/hack/prose.toml" --no-ignore --hidden --format brief .) |
        sed "s|^\./|/|; s|^$ROOT/||"
}
