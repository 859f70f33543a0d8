# Puts the operator into the cluster with helm, applies the sample, and waits until it serves.
# kubectl and helm are pointed at the cluster by KUBECONFIG.
# shellcheck shell=bash

RELEASE=readstates
RELEASE_NAMESPACE=readstates-system
SAMPLE=$ROOT/hack/samples/chat.yaml
SAMPLE_NAME=chat
SAMPLE_NAMESPACE=default
# The Secret that holds the token of the sample's caller.
SAMPLE_CALLER=chat-caller
SAMPLE_TIMEOUT=420

# install_operator PREFIX [FILE]: where the nodes find the images, "readstates" unless they were pushed, and more values.
# Definitions that somebody applied by hand become part of the release.
install_operator() {
    local more=()
    [ $# -lt 2 ] || more=(--values "$2")
    write_values "$1" "$LOGS/values.yaml"
    helm upgrade "$RELEASE" "$ROOT/charts/readstates-operator" --install --namespace "$RELEASE_NAMESPACE" --create-namespace \
        --values "$LOGS/values.yaml" "${more[@]}" --take-ownership --force-conflicts --wait --timeout 3m
}

# write_values PREFIX FILE: the values that make the chart use the images built here.
write_values() {
    cat >"$2" <<EOF
image: {repository: $1/operator, tag: $(image_tag)}
readstatesImage: {repository: $1/readstates, tag: $(image_tag)}
superdiskImage: {repository: $1/superdisk, tag: $(image_tag)}
cassandraImage: {repository: $1/cassandra, tag: $(cassandra_tag)}
EOF
}

# e2e_environment COMMAND…: runs it with all that the end-to-end tests want to know of the cluster of KUBECONFIG, for which
# write_values has written $LOGS/values.yaml and load_other_image has loaded an image.
e2e_environment() (
    export READSTATES_E2E_KUBECONFIG=$KUBECONFIG READSTATES_E2E_CHART=$ROOT/charts/readstates-operator \
        READSTATES_E2E_VALUES=$LOGS/values.yaml
    READSTATES_E2E_KUBECTL=$(command -v kubectl)
    READSTATES_E2E_HELM=$(command -v helm)
    READSTATES_E2E_DOCKER=$(command -v docker)
    READSTATES_E2E_OTHER_IMAGE=$(other_image)
    READSTATES_E2E_FORMER_CASSANDRA=$(former_cassandra_image)
    export READSTATES_E2E_KUBECTL READSTATES_E2E_HELM READSTATES_E2E_DOCKER READSTATES_E2E_OTHER_IMAGE READSTATES_E2E_FORMER_CASSANDRA
    "$@"
)

# An existing token is kept, because clients may be using it.
apply_sample() {
    if ! kubectl get secret "$SAMPLE_CALLER" --namespace "$SAMPLE_NAMESPACE" --output name; then
        kubectl create secret generic "$SAMPLE_CALLER" --namespace "$SAMPLE_NAMESPACE" --from-file token=<(head -c 32 /dev/urandom | od -An -v -tx1 | tr -d ' \n')
    fi
    kubectl apply --namespace "$SAMPLE_NAMESPACE" --filename "$SAMPLE"
}

sample_token() {
    kubectl get secret "$SAMPLE_CALLER" --namespace "$SAMPLE_NAMESPACE" --output 'jsonpath={.data.token}' | base64 --decode
}

# Shows the status and what is waited for whenever they change, until the sample is Available with nothing
# left to roll: a run with new code waits for the new pods.
wait_for_sample() {
    local started=$SECONDS status shown='' row cache database waiting
    printf '    %6s  %-7s %-9s %s\n' '' CACHE DATABASE WAITING-ON
    while :; do
        status=$(kubectl get readstatecluster "$SAMPLE_NAME" --namespace "$SAMPLE_NAMESPACE" --output json)
        row=$(jq -r '.status // {} | [.cache // "-", .database // "-", .waitingOn.message // "-"] | @tsv' <<<"$status")
        if [ "$row" != "$shown" ]; then
            shown=$row
            IFS=$'\t' read -r cache database waiting <<<"$row"
            printf '    %4d s  %-7s %-9s %s\n' $((SECONDS - started)) "$cache" "$database" "$waiting"
        fi
        allow_updates <<<"$status"
        if is_settled <<<"$status"; then break; fi
        [ $((SECONDS - started)) -lt "$SAMPLE_TIMEOUT" ] || sample_is_late
        sleep 1
    done
    say "$SAMPLE_NAME is Available ($((SECONDS - started)) s)"
}

# allow_updates <STATUS: has the operator replace pods that an earlier one made otherwise, which it asks about first.
allow_updates() {
    local updates
    mapfile -t updates < <(jq -r '.status.conditions[]? | select(.type == "RequiresUpdate" and .status == "True") | .message' |
        grep -oE 'readstates\.dev/update-(cache|database)=[0-9a-z]+')
    [ ${#updates[@]} -eq 0 ] ||
        kubectl annotate readstatecluster "$SAMPLE_NAME" --namespace "$SAMPLE_NAMESPACE" --overwrite "${updates[@]}" >/dev/null
}

is_settled() {
    jq --exit-status '
        .metadata.generation as $generation
        | [.status.conditions[]? | select(.observedGeneration == $generation)]
        | any(.type == "Available" and .status == "True") and any(.type == "Progressing" and .status == "False")
        and any(.type == "RequiresUpdate" and .status == "False")' >/dev/null
}

sample_is_late() {
    local log=$LOGS/late
    save_cluster_state "$log"
    kubectl get readstatecluster "$SAMPLE_NAME" --namespace "$SAMPLE_NAMESPACE" --output json |
        jq -r '.status.conditions[]? | "    \(.type)=\(.status) \(.reason): \(.message)"'
    kubectl get pods --namespace "$SAMPLE_NAMESPACE" --output wide
    die "$SAMPLE_NAME is not Available after $SAMPLE_TIMEOUT s" "events, pod logs and descriptions: $log"
}

# What one needs to know of a cluster after it is gone.
save_cluster_state() {
    local dir=$1 namespace pod
    mkdir -p "$dir"
    kubectl get events --all-namespaces --sort-by .lastTimestamp >"$dir/events" 2>&1 || true
    kubectl get all,pvc,pv,pdb,cronjobs,readstateclusters,readstaterings,readstatebackups,readstatebackupschedules,readstatemigrations --all-namespaces --output wide >"$dir/objects" 2>&1 || true
    kubectl get readstateclusters,readstaterings,readstatebackups,readstatebackupschedules,readstatemigrations --all-namespaces --output yaml >"$dir/readstates.yaml" 2>&1 || true
    kubectl get volumesnapshots,volumesnapshotcontents --all-namespaces --output yaml >"$dir/snapshots.yaml" 2>&1 || true
    while read -r namespace pod; do
        kubectl describe pod "$pod" --namespace "$namespace" >"$dir/$namespace.$pod.describe" 2>&1 || true
        kubectl logs "$pod" --namespace "$namespace" --all-containers --prefix >"$dir/$namespace.$pod.log" 2>&1 || true
        kubectl logs "$pod" --namespace "$namespace" --all-containers --previous >"$dir/$namespace.$pod.previous.log" 2>/dev/null || true
    done < <(kubectl get pods --all-namespaces --no-headers --output custom-columns=:.metadata.namespace,:.metadata.name 2>/dev/null |
        grep -v -e '^kube-system ' -e '^local-path-storage ')
}

# tell_cluster_state DIR: saves it there, and prints what one looks at first: pods that restarted or do not run, and the last
# warnings.
tell_cluster_state() {
    save_cluster_state "$1"
    awk '$2 ~ /^pod\// && ($4 != "Running" || $5 > 0) && ++shown <= 20 {print "    " $0}' "$1/objects"
    awk '$3 == "Warning"' "$1/events" | tail -n 20 | cut -c1-300 | sed 's/^/    /'
    note "what the cluster knew: $1"
}

# The operator goes last: it lets a cluster with a database of its own go once its cache has written what it holds, which
# may take a quarter of an hour.
uninstall() {
    if ! kubectl get deployment readstates-operator --namespace "$RELEASE_NAMESPACE" --output name >/dev/null 2>&1; then
        note "no operator runs: $SAMPLE_NAME is not asked to write what it holds"
        kubectl patch readstatecluster "$SAMPLE_NAME" --namespace "$SAMPLE_NAMESPACE" --type merge --patch '{"metadata":{"finalizers":null}}' || true
    fi
    kubectl delete --namespace "$SAMPLE_NAMESPACE" --filename "$SAMPLE" --ignore-not-found --timeout 17m
    kubectl delete secret "$SAMPLE_CALLER" --namespace "$SAMPLE_NAMESPACE" --ignore-not-found
    kubectl delete pvc --namespace "$SAMPLE_NAMESPACE" --selector "readstates.dev/cluster=$SAMPLE_NAME" --ignore-not-found
    helm uninstall "$RELEASE" --namespace "$RELEASE_NAMESPACE" --ignore-not-found --wait --timeout 3m
    # The chart keeps the definitions, so that no uninstall deletes what users made. Ours were the only ones?
    if [ -z "$(kubectl get readstateclusters --all-namespaces --output name 2>/dev/null)" ]; then
        kubectl delete crd --ignore-not-found readstateclusters.readstates.dev readstaterings.readstates.dev \
            readstatebackups.readstates.dev readstatebackupschedules.readstates.dev readstatemigrations.readstates.dev
    else
        note "other ReadStateClusters are left, and those with a database of their own cannot be deleted without an operator"
    fi
    kubectl delete namespace "$RELEASE_NAMESPACE" --ignore-not-found --timeout 3m
}
