# Generators of clients, and the rounds with what they make: for hack/clients.
# shellcheck shell=bash

CLIENT_SOURCES=$ROOT/hack/generated-clients
DOCUMENT=$ROOT/readstates/api/openapi.json
OPENAPI_GENERATOR=7.25.0
OPENAPI_GENERATOR_HASH=41ce4f6b07f196676439d710759fa1ced7a08066d06ff1bf314681470289efae

# In the order of what they cost; the first are those of hack/test.
FAST_CLIENTS="typescript go"
ALL_CLIENTS="$FAST_CLIENTS python java openapi-generator-go"

# client_tools NAME: what its generator and its program are made of, in a folder of the cache.
client_tools() { echo "$CACHE/clients/$1-$(content_hash "$CLIENT_SOURCES/$1" "$ROOT/hack/lib/clients.sh")"; }

# prepare_client NAME: fetches them, by version and hash.
prepare_client() { fresh_dir "$(client_tools "$1")" "tools_of_${1//-/_}"; }

# Each of these fills the folder $1.
tools_of_typescript() {
    cp "$CLIENT_SOURCES"/typescript/package*.json "$1"
    npm ci --prefix "$1" --no-audit --no-fund --ignore-scripts
}
tools_of_go() { (cd "$CLIENT_SOURCES/go" && go mod download && GOBIN=$1 go install -trimpath github.com/oapi-codegen/oapi-codegen/v2/cmd/oapi-codegen); }
tools_of_python() {
    python3 -m venv "$1"
    "$1/bin/python" -m pip install --quiet --disable-pip-version-check --no-deps --only-binary :all: --require-hashes \
        --requirement "$CLIENT_SOURCES/python/requirements.txt"
}
tools_of_java() {
    mvn --batch-mode --no-transfer-progress --file "$CLIENT_SOURCES/java/pom.xml" dependency:copy-dependencies -DoutputDirectory="$1"
    openapi_generator_jar
}
tools_of_openapi_generator_go() { openapi_generator_jar; }

openapi_generator() { echo "$CACHE/clients/openapi-generator-$OPENAPI_GENERATOR/openapi-generator-cli-$OPENAPI_GENERATOR.jar"; }
openapi_generator_jar() { fresh_dir "$(dirname "$(openapi_generator)")" fetch_openapi_generator; }
fetch_openapi_generator() {
    mvn --batch-mode --no-transfer-progress --file "$CLIENT_SOURCES/java/pom.xml" dependency:copy -DoutputDirectory="$1" \
        -Dartifact="org.openapitools:openapi-generator-cli:$OPENAPI_GENERATOR"
    sha256sum --check <<<"$OPENAPI_GENERATOR_HASH  $1/openapi-generator-cli-$OPENAPI_GENERATOR.jar"
}
# openapi_generate GENERATOR FOLDER PROPERTIES [FLAG…]
openapi_generate() {
    local generator=$1 folder=$2 properties=$3
    shift 3
    java -jar "$(openapi_generator)" generate --input-spec "$DOCUMENT" --generator-name "$generator" --output "$folder" \
        --additional-properties "hideGenerationTimestamp=true,$properties" \
        --global-property apiTests=false,modelTests=false,apiDocs=false,modelDocs=false "$@"
}

# compile_client NAME FOLDER: generates and compiles; what is in FOLDER then is for round_of.
compile_client() {
    cp -r "$CLIENT_SOURCES/$1/." "$2"
    cd "$2" || return
    "compile_${1//-/_}" "$(client_tools "$1")"
}
compile_typescript() {
    ln -s "$1/node_modules" node_modules
    node_modules/.bin/openapi-typescript "$DOCUMENT" --output generated.ts
    node_modules/.bin/tsc
}
compile_go() {
    mkdir generated
    "$1/oapi-codegen" -config generate.yaml "$DOCUMENT"
    go vet ./...
    go build -o round .
}
# It is told of a formatter that it finds on the PATH.
compile_python() { PATH=$1/bin:$PATH "$1/bin/python" -m openapi_python_client generate --path "$DOCUMENT" --output-path generated --meta none --config generate.yaml --fail-on-warning; }
compile_java() {
    openapi_generate java made library=native,invokerPackage=generated,apiPackage=generated.api,modelPackage=generated.model,openApiNullable=false
    find made/src/main -name '*.java' >sources
    javac -nowarn -cp "$1/*" -d out @sources Round.java
}
compile_openapi_generator_go() {
    openapi_generate go generated packageName=generated,withGoMod=false
    go vet ./...
    go build -o round .
}

# round_of NAME FOLDER URL USER: the lines of its round.
round_of() {
    local name=$1 folder=$2 tools
    tools=$(client_tools "$name")
    shift 2
    case $name in
    typescript) node "$folder/out/round.js" "$@" ;;
    go | openapi-generator-go) "$folder/round" "$@" ;;
    python) PYTHONDONTWRITEBYTECODE=1 "$tools/bin/python" "$folder/round.py" "$@" ;;
    java) java -cp "$tools/*:$folder/out" Round "$@" ;;
    esac
}
