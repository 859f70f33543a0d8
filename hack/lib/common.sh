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
# log and its path are printed and the script ends; with KEEP_GOING set it goes on, and STEP_STATUS tells.
# Never call it in a condition: bash would not stop COMMAND at its first failing line then.
# With STEP_TIMES set, a line for that file says how long it took; with QUIET_PROGRESS set, nothing counts on a terminal.
KEEP_GOING=
STEP_STATUS=0
STEP_TIMES=
QUIET_PROGRESS=
step() {
    local title=$1 log status=0
    shift
    log=$(step_log "$title")
    mkdir -p "$LOGS"
    local started=$SECONDS
    # A process group of its own, so that an interrupt ends it with everything that it started.
    set -m
    ("$@") >"$log" 2>&1 </dev/null &
    set +m
    local pid=$!
    # shellcheck disable=SC2064 # the number is known now
    trap "kill -- -$pid 2>/dev/null; exit 130" INT TERM
    show_progress "$pid" "$title" "$log" "$started"
    wait "$pid" || status=$?
    trap - INT TERM
    ! counts_on_terminal || printf '\r\033[K'
    [ -z "$STEP_TIMES" ] || printf '%d\t%s\n' "$((SECONDS - started))" "$title" >>"$STEP_TIMES"
    if [ "$status" -ne 0 ]; then
        {
            flock 7
            say "$title: failed after $((SECONDS - started)) s; errors in its log, and the log's end:"
            { errors_in "$log"; tail -n 30 "$log"; } | sed 's/^/    | /'
            note "whole log: $log"
        } 7>>"$LOGS/output.lock"
        STEP_STATUS=$status
        [ -n "$KEEP_GOING" ] || exit "$status"
        return 0
    fi
    STEP_STATUS=0
    say "$title ($((SECONDS - started)) s)"
}

# errors_in LOG: the first dozen errors and panics of tests and programs, each with its causes and without its backtrace.
errors_in() {
    awk '
        {sub(/^ +/, "")}
        /^Error: / || /panicked at / {if (++errors > 12) exit; left = 10}
        /^Caused by:/ {left = 10}
        /^Stack backtrace:|^stack backtrace:|^note: run with/ {left = 0}
        left-- > 0 {print substr($0, 1, 400)}' "$1"
}

# begin TITLE COMMAND…: begins what mostly waits, beside the steps that follow; finish TITLE is the step that waits for its
# end. One at a time, in a script that has no trap for EXIT yet: whatever ends the script between the two ends it, too.
BEGUN=
begin() {
    local log
    log=$(step_log "$1").begun
    mkdir -p "$LOGS"
    # A process group of its own, so that its end is that of everything that it started.
    set -m
    (
        # shellcheck disable=SC2064 # the file is known now
        trap "echo \$? >'$log.status'" EXIT
        "${@:2}"
    ) >"$log" 2>&1 </dev/null &
    set +m
    BEGUN=$!
    trap 'kill -- -$BEGUN 2>/dev/null' EXIT
}
finish() {
    step "$1" follow_begun "$(step_log "$1").begun"
    trap - EXIT
    BEGUN=
}
follow_begun() {
    tail --lines +1 --follow --pid "$BEGUN" "$1"
    return "$(cat "$1.status")"
}

step_log() { echo "$LOGS/$(tr -cs 'a-z0-9\n' '-' <<<"${1,,}").log"; }

counts_on_terminal() { [ -t 1 ] && [ -z "$QUIET_PROGRESS" ]; }

show_progress() {
    local pid=$1 title=$2 log=$3 started=$4 said=0 spent
    while kill -0 "$pid" 2>/dev/null; do
        spent=$((SECONDS - started))
        if counts_on_terminal; then
            printf '\r\033[K    %s … %d s' "$title" "$spent"
        elif [ $((spent / 30)) -gt "$said" ]; then
            said=$((spent / 30))
            note "$title … $spent s: $(tail -n 1 "$log" | tr -d '\r' | cut -c1-100)"
        fi
        sleep 0.3
    done
}

# One run of these scripts at a time prepares, creates or deletes on this machine; the next waits and says so.
# Ends with unlock, or with the script.
lock() {
    mkdir -p "$CACHE"
    exec 9>>"$CACHE/lock"
    if ! flock --nonblock 9; then
        note "waiting for another run of these scripts to finish its part (lock $CACHE/lock)"
        flock 9
    fi
}
unlock() { exec 9>&-; }

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

# python_environment REQUIREMENTS DIR: a virtual environment with exactly these packages. It is moved once it is whole, so
# what is in it is called by its interpreter, or is no script.
python_environment() {
    python3 -m venv "$2"
    "$2/bin/python" -m pip install --quiet --disable-pip-version-check --no-deps --only-binary :all: --require-hashes \
        --requirement "$1"
}

# fresh_dir DIR COMMAND…: has COMMAND fill a folder, given as its last argument; DIR is there only when
# COMMAND succeeded, so that what a stopped run left is never taken for a whole result.
fresh_dir() {
    local dir=$1
    shift
    [ ! -d "$dir" ] || return 0
    mkdir -p "$(dirname "$dir")"
    (
        flock 8
        # Another run may have filled it while this one waited.
        [ ! -d "$dir" ] || exit 0
        rm -rf "$dir.partial"
        mkdir "$dir.partial"
        "$@" "$dir.partial"
        mv "$dir.partial" "$dir"
    ) 8>"$dir.lock"
}
