# Ground for every script of hack/: where things are kept, how a long step is shown, how runs keep
# out of each other's way. Sourced, never run; sourcing it changes nothing on the machine.
# shellcheck shell=bash

ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
CACHE=${READSTATES_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/readstates}
LOGS=$CACHE/logs/$(date +%Y%m%d-%H%M%S)-$$

# Words for a person: a headline, a line of detail, and the last word before an exit.
say() { printf '==> %s\n' "$*"; }
note() { printf '    %s\n' "$*"; }
die() {
    printf '\nerror: %s\n' "$1" >&2
    shift
    [ $# -eq 0 ] || printf '  %s\n' "$@" >&2
    exit 1
}

# The comment at the head of a script is its --help: from the second line to the first that is none.
usage() { sed -n '2,/^[^#]/{s/^# \{0,1\}//p}' "$0"; }

# step TITLE COMMAND…: runs COMMAND in a subshell with its output in a log file, and shows that time
# passes: a counter on a terminal, a line every half minute elsewhere. When it fails, the end of the
# log and its path are printed and the script ends.
step() {
    local title=$1 log status=0
    shift
    log=$LOGS/$(tr -cs 'a-z0-9\n' '-' <<<"${title,,}").log
    mkdir -p "$LOGS"
    local started=$SECONDS
    ("$@") >"$log" 2>&1 </dev/null &
    show_progress $! "$title" "$log" "$started"
    wait $! || status=$?
    [ ! -t 1 ] || printf '\r\033[K'
    if [ "$status" -ne 0 ]; then
        say "$title: failed after $((SECONDS - started)) s; the end of its log:"
        tail -n 40 "$log" | sed 's/^/    | /'
        note "whole log: $log"
        return "$status"
    fi
    say "$title ($((SECONDS - started)) s)"
}

show_progress() {
    local pid=$1 title=$2 log=$3 started=$4 said=0 spent
    while kill -0 "$pid" 2>/dev/null; do
        spent=$((SECONDS - started))
        if [ -t 1 ]; then
            printf '\r\033[K    %s … %d s' "$title" "$spent"
        elif [ $((spent / 30)) -gt "$said" ]; then
            said=$((spent / 30))
            note "$title … $spent s: $(tail -n 1 "$log" | tr -d '\r' | cut -c1-100)"
        fi
        sleep 0.3
    done
}

# with_lock NAME COMMAND…: one such command at a time on this machine; a second run waits and says so.
with_lock() {
    local file=$CACHE/locks/$1
    shift
    mkdir -p "$CACHE/locks"
    (
        if ! flock -n 9; then
            note "waiting for another run of these scripts (lock $file)"
            flock 9
        fi
        "$@"
    ) 9>"$file"
}

# The first 12 hex digits of the hash of files (names and contents), and of the words after --.
content_hash() {
    local file
    {
        while [ $# -gt 0 ] && [ "$1" != -- ]; do
            while IFS= read -r file; do
                printf '%s\n' "${file#"$ROOT/"}"
                cat "$file"
            done < <(find "$1" -type f | LC_ALL=C sort)
            shift
        done
        printf '%s\n' "$@"
    } | sha256sum | cut -c1-12
}

# fresh_dir DIR COMMAND…: has COMMAND fill a folder, given as its last argument; DIR is there only when
# COMMAND succeeded, so that what a stopped run left is never taken for a whole result.
fresh_dir() {
    local dir=$1
    shift
    [ ! -d "$dir" ] || return 0
    rm -rf "$dir.partial"
    mkdir -p "$dir.partial"
    "$@" "$dir.partial"
    mv "$dir.partial" "$dir"
}
