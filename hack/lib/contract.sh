# Schemathesis and the process that it asks: for hack/contract.
# shellcheck shell=bash

CONTRACT_REQUIREMENTS=$ROOT/hack/lib/contract-requirements.txt

schemathesis_dir() { echo "$CACHE/schemathesis/$(content_hash "$CONTRACT_REQUIREMENTS")"; }

install_schemathesis() {
    python3 -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null ||
        die "there is no Python 3.11 or later" "install it from your distribution: Schemathesis wants it"
    fresh_dir "$(schemathesis_dir)" python_environment "$CONTRACT_REQUIREMENTS"
}

# start_member PROGRAM: sets API_URL and ADMIN_URL once it answers.
start_member() {
    local log=$LOGS/contract-member.log
    "$1" serve --listen 127.0.0.1:0 --admin-listen 127.0.0.1:0 --watch-listen 127.0.0.1:0 --store memory >"$log" 2>&1 &
    MEMBER=$!
    local tries=0 line
    until line=$(grep -m 1 '"message":"serving"' "$log"); do
        kill -0 "$MEMBER" 2>/dev/null || die "$1 ended at once" "$(tail -n 3 "$log")"
        [ $((tries += 1)) -lt 600 ] || die "$1 does not serve within a minute" "its log: $log"
        sleep 0.1
    done
    API_URL=http://$(address listen "$line")
    # shellcheck disable=SC2034 # hack/contract uses it
    ADMIN_URL=http://$(address admin "$line")
}

# address MEMBER LINE: of a line of the log.
address() { [[ $2 =~ \"$1\":\"([^\"]*)\" ]] && echo "${BASH_REMATCH[1]}"; }

stop_member() {
    kill "$MEMBER" 2>/dev/null || true
    wait "$MEMBER" 2>/dev/null || true
}

# holds EXAMPLES URL DOCUMENT [FLAG…]
holds() (
    local examples=$1 url=$2 document=$3
    shift 3
    say "$document, $examples requests for each operation"
    # It leaves a folder where it stands. Nobody has to prove anything to this process, so nobody is refused for that.
    cd "$LOGS" || return
    PYTHONDONTWRITEBYTECODE=1 SCHEMATHESIS_HOOKS=$ROOT/hack/lib/contract_hooks.py \
        "$(schemathesis_dir)/bin/python" -m schemathesis.cli --config-file "$ROOT/hack/lib/contract.toml" run "$ROOT/$document" --url "$url" --checks all \
        --exclude-checks ignored_auth,positive_data_acceptance,negative_data_rejection --phases examples,coverage,fuzzing --max-examples "$examples" \
        --no-color "$@"
)
