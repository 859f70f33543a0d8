# The Prometheus operator and a Prometheus in a kind cluster, built from their Go modules: for hack/monitoring --kind.
# shellcheck shell=bash

PROMETHEUS_OPERATOR_VERSION=v0.85.0
PROMETHEUS_OPERATOR_MODULE=github.com/prometheus-operator/prometheus-operator
MONITORING_NAMESPACE=monitoring
# So often are targets asked and rules evaluated.
MONITORING_INTERVAL=2s

prometheus_operator_dir() {
    echo "$CACHE/programs/prometheus-operator-$(content_hash -- "$PROMETHEUS_OPERATOR_VERSION $PROMETHEUS_VERSION $(go env GOVERSION GOARCH)")"
}
monitoring_tag() { basename "$(prometheus_operator_dir)" | sed 's/^prometheus-operator-/dev-/'; }
monitoring_image() { echo "readstates-test/$1:$(monitoring_tag)"; }

# Some ten minutes of two processors, once: Prometheus finds targets in Kubernetes, and nowhere else.
build_prometheus_operator() { fresh_dir "$(prometheus_operator_dir)" install_prometheus_operator; }

install_prometheus_operator() {
    local out=$1 module name=$PROMETHEUS_OPERATOR_MODULE version=$PROMETHEUS_OPERATOR_VERSION
    # Go installs nothing of a module that replaces others by folders of its own: it becomes a requirement of a module here.
    mkdir "$out/module"
    (
        cd "$out/module" || return
        go mod init readstates-test/prometheus-operator
        go get "$name/cmd/operator@$version" "$name/cmd/prometheus-config-reloader@$version" \
            "$name/pkg/apis/monitoring@$version" "$name/pkg/client@$version"
        CGO_ENABLED=0 go build -trimpath -tags netgo,osusergo -ldflags "-s -w" -o "$out/" \
            "$name/cmd/operator" "$name/cmd/prometheus-config-reloader"
    )
    GOBIN=$out CGO_ENABLED=0 go install -trimpath -tags netgo,osusergo,remove_all_sd,enable_kubernetes_sd -ldflags "-s -w" \
        "$PROMETHEUS_MODULE/cmd/prometheus@$PROMETHEUS_VERSION"
    module=$(go mod download -json "$PROMETHEUS_OPERATOR_MODULE@$PROMETHEUS_OPERATOR_VERSION" | jq -r .Dir)
    mkdir "$out/objects"
    cp "$module"/example/prometheus-operator-crd/*.yaml "$module/example/rbac/prometheus-operator/prometheus-operator-cluster-role.yaml" "$out/objects"
    chmod -R u+w "$out/objects"
}

# An image for each program: what the operator makes of them names no command.
build_monitoring_images() {
    local program context
    context=$(mktemp -d)
    for program in operator prometheus-config-reloader prometheus; do
        docker image inspect "$(monitoring_image "$program")" >/dev/null 2>&1 || {
            cp "$(prometheus_operator_dir)/$program" "$context/"
            printf 'FROM scratch\nCOPY %s /bin/%s\nUSER 1000\nENTRYPOINT ["/bin/%s"]\n' "$program" "$program" "$program" >"$context/Dockerfile"
            docker build --tag "$(monitoring_image "$program")" "$context"
        }
        drop_older "readstates-test/$program" "$(monitoring_tag)"
    done
    rm -rf "$context"
}

load_monitoring_images() {
    load_images "$(monitoring_image operator)" "$(monitoring_image prometheus-config-reloader)" "$(monitoring_image prometheus)"
}

# The operator with the rights that its project gives it, and one Prometheus that takes every monitor and rule.
install_prometheus_operator_here() {
    local objects
    objects=$(prometheus_operator_dir)/objects
    kubectl apply --server-side --filename "$objects"
    kubectl wait --for=condition=Established --timeout=60s customresourcedefinitions/{prometheuses,podmonitors,servicemonitors,prometheusrules}.monitoring.coreos.com
    monitoring_objects | kubectl apply --server-side --filename -
    kubectl --namespace "$MONITORING_NAMESPACE" rollout status deployment/prometheus-operator --timeout=180s
    kubectl --namespace "$MONITORING_NAMESPACE" wait prometheus/tests --for=condition=Available --timeout=240s
}

monitoring_objects() {
    cat <<EOF
apiVersion: v1
kind: Namespace
metadata: {name: $MONITORING_NAMESPACE}
---
apiVersion: v1
kind: ServiceAccount
metadata: {name: prometheus-operator, namespace: $MONITORING_NAMESPACE}
---
apiVersion: v1
kind: ServiceAccount
metadata: {name: prometheus, namespace: $MONITORING_NAMESPACE}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: prometheus-operator}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: prometheus-operator}
subjects: [{kind: ServiceAccount, name: prometheus-operator, namespace: $MONITORING_NAMESPACE}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: prometheus}
rules:
- {apiGroups: [""], resources: [services, endpoints, pods], verbs: [get, list, watch]}
- {apiGroups: [discovery.k8s.io], resources: [endpointslices], verbs: [get, list, watch]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: prometheus}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: prometheus}
subjects: [{kind: ServiceAccount, name: prometheus, namespace: $MONITORING_NAMESPACE}]
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: prometheus-operator, namespace: $MONITORING_NAMESPACE}
spec:
  selector: {matchLabels: {app: prometheus-operator}}
  template:
    metadata: {labels: {app: prometheus-operator}}
    spec:
      serviceAccountName: prometheus-operator
      containers:
      - name: operator
        image: $(monitoring_image operator)
        args: [--prometheus-config-reloader=$(monitoring_image prometheus-config-reloader)]
---
apiVersion: monitoring.coreos.com/v1
kind: Prometheus
metadata: {name: tests, namespace: $MONITORING_NAMESPACE}
spec:
  image: $(monitoring_image prometheus)
  serviceAccountName: prometheus
  securityContext: {runAsNonRoot: true, runAsUser: 1000, fsGroup: 1000}
  scrapeInterval: $MONITORING_INTERVAL
  evaluationInterval: $MONITORING_INTERVAL
  podMonitorSelector: {}
  podMonitorNamespaceSelector: {}
  serviceMonitorSelector: {}
  serviceMonitorNamespaceSelector: {}
  ruleSelector: {}
  ruleNamespaceSelector: {}
EOF
}

# Values of the chart that have it write a ServiceMonitor and the rules.
write_monitoring_values() {
    cat >"$1" <<EOF
metrics: {serviceMonitor: {enabled: true, interval: $MONITORING_INTERVAL}}
monitoring: {rules: {enabled: true}}
EOF
}

monitor_sample() {
    kubectl patch readstatecluster "$SAMPLE_NAME" --namespace "$SAMPLE_NAMESPACE" --type merge \
        --patch "{\"spec\": {\"monitoring\": {\"interval\": \"$MONITORING_INTERVAL\"}}}"
}
