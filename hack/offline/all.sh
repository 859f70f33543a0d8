# What a machine without a registry of images needs, in the order in which it is used: the docker engine from a package, Kubernetes and
# kind from Go modules, images from packages. Where docker is there and registries answer, nothing of this is wanted by users.
# shellcheck shell=bash

for part in engine programs base-image node-image; do
    # shellcheck source=/dev/null
    . "$(dirname "${BASH_SOURCE[0]}")/$part.sh"
done
