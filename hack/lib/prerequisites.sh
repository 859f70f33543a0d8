# What must be on the machine before anything else: installed on Debian as root, named everywhere else.
# shellcheck shell=bash

# command, Debian package, where it comes from elsewhere
BUILD_TOOLS="
awk    gawk                     your distribution
cc     build-essential          your distribution
curl   curl                     your distribution
flock  util-linux               your distribution
git    git                      your distribution
jq     jq                       your distribution
make   make                     your distribution
"
CLUSTER_TOOLS="
docker docker.io                https://docs.docker.com/engine/install/
java   openjdk-17-jdk-headless  a Java 17 JDK
mvn    maven                    https://maven.apache.org/install.html
"
# Servers of others, of which the tests import.
STORE_TOOLS="
redis-server redis-server      https://redis.io/docs/latest/operate/oss_and_stack/install/
"
# An engine of our own and a base image of our own: where no engine answers, and no registry may.
ENGINE_PACKAGES="docker.io runc iptables debootstrap"
# These are never installed here: what a distribution has is mostly too old.
RUST_HINT="rust 1.95 or later: https://rustup.rs (rustup fetches the parts in rust-toolchain.toml by itself)"
GO_HINT="go 1.21 or later: https://go.dev/doc/install (the version in hack/offline/node-image/go.mod follows by itself)"

# ensure_prerequisites TABLE…
ensure_prerequisites() {
    local name package hint packages=() hints=()
    while read -r name package hint; do
        if [ -z "$name" ] || command -v "$name" >/dev/null; then continue; fi
        packages+=("$package")
        debian_root || hints+=("$name: $hint")
    done <<<"$*"
    if debian_root && [[ "$*" == *"$CLUSTER_TOOLS"* ]] && ! docker info >/dev/null 2>&1; then
        for package in $ENGINE_PACKAGES; do
            package_installed "$package" || [[ " ${packages[*]} " == *" $package "* ]] || packages+=("$package")
        done
    fi
    # What a bare Debian lacks although it has the commands: the C library to link with, and what makes Python's environments.
    if debian_root; then
        [ -e /usr/include/stdio.h ] || [[ " ${packages[*]} " == *" build-essential "* ]] || packages+=(build-essential)
        [[ $* != *python3-venv* ]] || python3 -c 'import ensurepip' 2>/dev/null || [[ " ${packages[*]} " == *" python3-venv "* ]] || packages+=(python3-venv)
    fi
    command -v cargo >/dev/null || hints+=("$RUST_HINT")
    go_suffices || hints+=("$GO_HINT")
    [ ${#hints[@]} -eq 0 ] || die "this machine lacks what these scripts need" "${hints[@]}"
    [ ${#packages[@]} -eq 0 ] || step "Debian packages installed: ${packages[*]}" apt_install "${packages[@]}"
}

debian_root() { [ "$(id -u)" = 0 ] && [ -f /etc/debian_version ] && command -v apt-get >/dev/null; }
package_installed() { dpkg-query -W -f '${Status}' "$1" 2>/dev/null | grep -q 'ok installed'; }

apt_install() {
    apt-get update -q
    DEBIAN_FRONTEND=noninteractive apt-get install -yq --no-install-recommends "$@"
}

# From 1.21 on, go fetches the toolchain that a go.mod asks for.
go_suffices() {
    local minor
    minor=$(go env GOVERSION 2>/dev/null | sed -n 's/^go1\.\([0-9]*\).*/\1/p')
    [ -n "$minor" ] && [ "$minor" -ge 21 ]
}
