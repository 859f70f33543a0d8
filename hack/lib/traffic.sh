# Real requests through the Service, shown as one would type them.
# shellcheck shell=bash

# Two people in one channel: both read it, both are mentioned, one catches up. Message ids are snowflakes of
# now (milliseconds since 2015, 22 bits of counter), so that every run reads on where the last one ended.
show_traffic() {
    local log port
    log=$(mktemp)
    kubectl port-forward --namespace "$SAMPLE_NAMESPACE" "service/$SAMPLE_NAME" :7400 >"$log" 2>&1 &
    local forward=$!
    # shellcheck disable=SC2064 # the number is known now
    trap "kill $forward 2>/dev/null || true" EXIT
    for _ in $(seq 50); do
        port=$(sed -n 's/^Forwarding from 127.0.0.1:\([0-9]*\) .*/\1/p' "$log")
        [ -z "$port" ] || break
        sleep 0.2
    done
    [ -n "$port" ] || die "kubectl port-forward did not start" "$(cat "$log")"
    TOKEN=$(sample_token)
    wait_until_known "http://127.0.0.1:$port/v1/ring"
    local base=http://127.0.0.1:$port/v1 channel=81384788765712384
    local read_message=$((($(date +%s%3N) - 1420070400000) << 22))
    local mention=$((read_message + 1))
    request POST "$base/users/4001/read-states/$channel/ack" "{\"message_id\": \"$read_message\"}"
    request POST "$base/users/4002/read-states/$channel/ack" "{\"message_id\": \"$read_message\"}"
    request POST "$base/mentions" "{\"channel_id\": \"$channel\", \"message_id\": \"$mention\", \"user_ids\": [\"4001\", \"4002\"]}"
    request POST "$base/users/4002/read-states/$channel/ack" "{\"message_id\": \"$mention\"}"
    request GET "$base/users/4001/read-states"
    request GET "$base/users/4002/read-states/$channel"
    kill "$forward"
    wait "$forward" 2>/dev/null || true
    trap - EXIT
    rm -f "$log"
}

# Pods of an older sample, without callers or with another token, learn of this one when their kubelet brings it.
wait_until_known() {
    local status started=$SECONDS
    while :; do
        status=$(curl --silent --max-time 30 --output /dev/null --write-out '%{http_code}' --header @- "$1" <<<"Authorization: Bearer $TOKEN") || true
        [ "$status" = 401 ] || return 0
        [ $((SECONDS - started)) -lt 150 ] || die "the token of Secret $SAMPLE_CALLER is still not taken" \
            "kubectl get readstatecluster $SAMPLE_NAME -o yaml: condition ApiOpen says why"
        sleep 2
    done
}

request() {
    local method=$1 url=$2 body=${3:-} answer status
    local arguments=(--silent --show-error --max-time 30 --request "$method" --write-out '\n%{http_code}' --header @-)
    if [ -n "$body" ]; then arguments+=(--header 'content-type: application/json' --data "$body"); fi
    printf '    %s %s %s\n' "$method" "${url#http://*/}" "$body"
    answer=$(curl "${arguments[@]}" "$url" <<<"Authorization: Bearer $TOKEN") || die "no answer from $url"
    status=${answer##*$'\n'}
    printf '      %s %s\n' "$status" "${answer%$'\n'*}"
    [ "$status" = 200 ] || die "$method $url was answered with $status"
}
