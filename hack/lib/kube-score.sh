# kube-score, built from source at the version that is pinned here. Apart from the programs of hack/offline/programs.sh: it
# brings versions of Kubernetes' libraries of its own.
# shellcheck shell=bash

KUBE_SCORE=github.com/zegl/kube-score/cmd/kube-score@v1.20.0

kube_score_dir() { echo "$CACHE/programs/kube-score-$(content_hash -- "$KUBE_SCORE $(go env GOVERSION GOARCH)")"; }
build_kube_score() { fresh_dir "$(kube_score_dir)" install_kube_score; }
install_kube_score() { GOBIN=$1 CGO_ENABLED=0 go install -trimpath "$KUBE_SCORE"; }
