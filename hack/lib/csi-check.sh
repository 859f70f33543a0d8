# Tries what hack/csi has installed: snapshots beneath a pod that writes, restores elsewhere, growth.
# shellcheck shell=bash

CSI_CHECK_FROM=csi-check-from
CSI_CHECK_TO=csi-check-to

check_csi() {
    trap 'step "namespaces of the check deleted" end_csi_check' EXIT
    step "a pod writes to a volume" start_csi_writer
    step "snapshot of the volume, twenty times" take_csi_snapshots
    say "snapshot $(csi_handle) was taken $(kubectl --namespace "$CSI_CHECK_FROM" get volumesnapshot kept --output 'jsonpath={.status.creationTime}')"
    CSI_HANDLE=$(csi_handle)
    step "pod, volume and snapshot objects deleted" lose_csi_source
    step "restored in another namespace" restore_csi_snapshot "$CSI_HANDLE"
    step "growth while it is used" grow_csi_volume
    step "snapshot deleted" delete_csi_snapshot "$CSI_HANDLE"
    trap - EXIT
    step "namespaces of the check deleted" end_csi_check
}

in_from() { kubectl --namespace "$CSI_CHECK_FROM" "$@"; }
in_to() { kubectl --namespace "$CSI_CHECK_TO" "$@"; }

# The pod writes each number to one file and then to another: at no moment has the second file a number that the first has not.
start_csi_writer() {
    end_csi_check
    kubectl create namespace "$CSI_CHECK_FROM"
    kubectl create namespace "$CSI_CHECK_TO"
    csi_claim data 300Mi | in_from apply --filename -
    # shellcheck disable=SC2016 # for the pod's shell
    csi_pod writer data 'echo kept >/data/kept && sync && touch /tmp/ready && for ((number = 1; ; number++)); do echo $number >>/data/first; echo $number >>/data/second; done' |
        in_from apply --filename -
    in_from wait pod/writer --for=condition=Ready --timeout=60s
    in_from exec writer -- bash -c 'until [ -s /data/second ]; do sleep 0.1; done'
}

# The last is kept. Those before are for the odds that one catches a write half done.
take_csi_snapshots() {
    local number
    for number in $(seq 19); do
        csi_snapshot "busy-$number" csi-hostpath | in_from apply --filename -
    done
    csi_snapshot kept csi-hostpath-retain | in_from apply --filename -
    in_from wait volumesnapshot --all --for=jsonpath='{.status.readyToUse}'=true --timeout=120s
    in_from get volumesnapshots
    for number in 1 10 19; do
        csi_restored "busy-$number" 300Mi "busy-$number" | in_from apply --filename -
        csi_pod "reader-$number" "busy-$number" "$CSI_READER" | in_from apply --filename -
    done
    for number in 1 10 19; do
        in_from wait "pod/reader-$number" --for=condition=Ready --timeout=120s
        in_from logs "reader-$number"
    done
}

# Ready is a reader only after all that was written is there as it must be.
# shellcheck disable=SC2016 # for the pod's shell
CSI_READER='grep -qx kept /data/kept || exit 1
first=$(wc -l </data/first) second=$(wc -l </data/second)
echo "$first numbers in one file, $second in the other"
[ $((first - second)) = 0 ] || [ $((first - second)) = 1 ] || exit 1
cmp <(seq $first) /data/first && cmp <(seq $second) /data/second || exit 1
touch /tmp/ready && sleep infinity'

csi_content() { in_from get volumesnapshot kept --output 'jsonpath={.status.boundVolumeSnapshotContentName}'; }
csi_handle() { kubectl get volumesnapshotcontent "$(csi_content)" --output 'jsonpath={.status.snapshotHandle}'; }

lose_csi_source() {
    local content
    content=$(csi_content)
    in_from delete volumesnapshot,pod,pvc --all --grace-period 1 --timeout 120s
    kubectl delete volumesnapshotcontent "$content" --timeout 60s
}

# restore_csi_snapshot HANDLE: as somebody does who knows the handle and nothing else. The scheduler has chosen a node without the
# snapshot, if there is one, before it can know where the snapshot is.
restore_csi_snapshot() {
    local node elsewhere=
    for node in $(worker_nodes); do
        has_csi_snapshot "$node" "$1" || elsewhere=$node
    done
    csi_pod reader restored "$CSI_READER" | in_to apply --filename -
    csi_restored restored 300Mi found |
        kubectl annotate --local --filename - --output yaml "volume.kubernetes.io/selected-node=$elsewhere" | in_to apply --filename -
    in_to apply --filename - <<END
apiVersion: snapshot.storage.k8s.io/v1
kind: VolumeSnapshotContent
metadata: {name: $CSI_CHECK_TO}
spec:
  driver: $CSI_DRIVER
  deletionPolicy: Delete
  source: {snapshotHandle: $1}
  volumeSnapshotRef: {namespace: $CSI_CHECK_TO, name: found}
---
apiVersion: snapshot.storage.k8s.io/v1
kind: VolumeSnapshot
metadata: {name: found}
spec: {source: {volumeSnapshotContentName: $CSI_CHECK_TO}}
END
    in_to wait volumesnapshot/found --for=jsonpath='{.status.readyToUse}'=true --timeout=120s
    in_to wait pod/reader --for=condition=Ready --timeout=120s
    in_to logs reader
    in_to get pods,pvc,volumesnapshots --output wide
}

grow_csi_volume() {
    local before try
    before=$(in_to exec reader -- df --output=size /data | tail -n 1)
    in_to patch pvc restored --type merge --patch '{"spec":{"resources":{"requests":{"storage":"600Mi"}}}}'
    in_to wait pvc/restored --for=jsonpath='{.status.capacity.storage}'=600Mi --timeout=180s
    echo "KiB before and after: $before $(in_to exec reader -- df --output=size /data | tail -n 1)"
    in_to exec reader -- bash -c "[ \$(df --output=size /data | tail -n 1) -gt $((before * 3 / 2)) ]"
}

# delete_csi_snapshot HANDLE: its content says Delete now, whatever the one said that it was made by.
delete_csi_snapshot() {
    local node
    in_to delete volumesnapshot found --timeout 60s
    kubectl wait --for=delete "volumesnapshotcontent/$CSI_CHECK_TO" --timeout=60s
    for node in $(worker_nodes); do
        if has_csi_snapshot "$node" "$1"; then
            echo "snapshot $1 is still on $node"
            return 1
        fi
    done
}

# has_csi_snapshot NODE HANDLE
has_csi_snapshot() { docker exec "$1" test -e "/var/lib/csi-hostpath/snapshots/$2"; }

end_csi_check() {
    kubectl delete namespace "$CSI_CHECK_FROM" "$CSI_CHECK_TO" --ignore-not-found --timeout 180s
}

# csi_claim NAME SIZE
csi_claim() {
    cat <<END
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: $1}
spec:
  storageClassName: csi-hostpath
  accessModes: [ReadWriteOnce]
  resources: {requests: {storage: $2}}
END
}

# csi_restored NAME SIZE SNAPSHOT: a claim for a volume made of a VolumeSnapshot.
csi_restored() {
    csi_claim "$1" "$2"
    echo "  dataSource: {apiGroup: snapshot.storage.k8s.io, kind: VolumeSnapshot, name: $3}"
}

# csi_snapshot NAME CLASS: of the volume of claim data.
csi_snapshot() {
    cat <<END
apiVersion: snapshot.storage.k8s.io/v1
kind: VolumeSnapshot
metadata: {name: $1}
spec:
  volumeSnapshotClassName: $2
  source: {persistentVolumeClaimName: data}
---
END
}

# csi_pod NAME CLAIM SCRIPT: a pod in which bash, as a user without rights, runs SCRIPT with the volume at /data.
csi_pod() {
    jq --null-input --arg name "$1" --arg claim "$2" --arg script "$3" --arg image "$(csi_image)" '{
        apiVersion: "v1", kind: "Pod", metadata: {name: $name}, spec: {
            terminationGracePeriodSeconds: 1,
            securityContext: {runAsUser: 999, runAsGroup: 999, fsGroup: 999},
            restartPolicy: "Never",
            volumes: [{name: "data", persistentVolumeClaim: {claimName: $claim}}],
            containers: [{
                name: "bash", image: $image, imagePullPolicy: "Never", command: ["bash", "-c", $script],
                volumeMounts: [{name: "data", mountPath: "/data"}],
                readinessProbe: {exec: {command: ["test", "-e", "/tmp/ready"]}, periodSeconds: 1}
            }]
        }
    }'
}
