# Prometheus and promtool, and what is checked with them: for hack/monitoring and hack/test.
# shellcheck shell=bash

# Prometheus 3.16.0, by the version of its Go module.
PROMETHEUS_VERSION=v0.316.0
PROMETHEUS_MODULE=github.com/prometheus/prometheus
# newest: that. debian: the one that Debian has, years older, with which rules and dashboards must work as well. hack/test
# takes it, but for --full.
PROMETHEUS_FROM=${PROMETHEUS_FROM:-newest}

prometheus_dir() {
    local mark
    if [ "$PROMETHEUS_FROM" = debian ]; then
        mark=$(apt-cache show prometheus | sed -n 's/^Version: /Debian /p')
    else
        mark="$PROMETHEUS_VERSION $(go env GOVERSION GOARCH)"
    fi
    echo "$CACHE/programs/prometheus-$(content_hash -- "$mark")"
}

# The newest: some five minutes of two processors, once.
build_prometheus() {
    case $PROMETHEUS_FROM in
    newest) fresh_dir "$(prometheus_dir)" install_prometheus ;;
    debian)
        # A fresh container has no lists; only root may fetch them.
        apt-cache show prometheus >/dev/null 2>&1 || ! debian_root || apt-get update -q
        fresh_dir "$(prometheus_dir)" unpack_prometheus
        ;;
    *) die "no Prometheus from $PROMETHEUS_FROM" "PROMETHEUS_FROM is newest or debian" ;;
    esac
}

unpack_prometheus() {
    local work
    work=$(mktemp -d)
    chmod 755 "$work"
    (cd "$work" && apt-get download -q prometheus && dpkg-deb -x prometheus_*.deb .)
    cp "$work/usr/bin/prometheus" "$work/usr/bin/promtool" "$1/"
    rm -rf "$work"
}

# Without the ways to find targets in clouds, which is most of it: ours are files. Without its pages, too: the module does
# not have them.
install_prometheus() {
    GOBIN=$1 CGO_ENABLED=0 go install -trimpath -tags netgo,osusergo,remove_all_sd -ldflags "-s -w" \
        "$PROMETHEUS_MODULE/cmd/prometheus@$PROMETHEUS_VERSION" "$PROMETHEUS_MODULE/cmd/promtool@$PROMETHEUS_VERSION"
}

# check_monitoring PROGRAMS: rules, their unit tests, dashboards with their pictures, runbooks, and what the programs of that
# folder print.
check_monitoring() {
    local programs=$1 work promtool status=0
    promtool=$(prometheus_dir)/promtool
    work=$(mktemp -d)
    export PYTHONDONTWRITEBYTECODE=1
    "$promtool" check rules --lint=all --lint-fatal "$ROOT/charts/readstates-operator/files/monitoring/rules.yaml" || status=1
    python3 "$ROOT/hack/lib/monitoring_check.py" "$work" || status=1
    "$promtool" check rules "$work/panels.yaml" || status=1
    python3 "$ROOT/hack/lib/monitoring_rules.py" "$work" || status=1
    "$promtool" test rules "$work/rules-test.yaml" || status=1
    python3 "$ROOT/hack/lib/monitoring_pages.py" "$programs" "$work" || status=1
    python3 "$ROOT/hack/lib/monitoring_dashboards.py" "$programs" "$(prometheus_dir)/prometheus" "$LOGS/dashboards" || status=1
    note "pictures of the dashboards: $LOGS/dashboards"
    local page
    for page in "$work"/*.prom; do
        echo "metrics of $(basename "$page" .prom): $(grep -c '^# TYPE' "$page") families, $(grep -vc '^#' "$page") series"
        "$promtool" check metrics <"$page" || status=1
    done
    rm -rf "$work"
    return "$status"
}
