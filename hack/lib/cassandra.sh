# A Cassandra on a loopback port, for tests and measurements that want a database and no cluster: in a container of its own, or
# as a process.
# shellcheck shell=bash

TEST_CASSANDRA=readstates-test-cassandra
TEST_CASSANDRA_PORT=19142

# with_cassandra COMMAND…: runs COMMAND while it answers; it is gone afterwards, whatever happened.
with_cassandra() { with_cassandra_that '' READSTATES_TEST_CQL "$@"; }

# with_cassandra_that_asks COMMAND…: the same, with one that asks for a login.
with_cassandra_that_asks() {
    local options="-Dcassandra.config.allow_system_properties=true -Dcassandra.settings.authenticator=PasswordAuthenticator"
    with_cassandra_that "$options -Dcassandra.settings.authorizer=CassandraAuthorizer" READSTATES_TEST_CQL_LOGIN "$@"
}

# with_cassandra_that JAVA-OPTIONS VARIABLE COMMAND…
with_cassandra_that() {
    local options=$1 variable=$2
    shift 2
    trap remove_test_cassandra EXIT
    remove_test_cassandra
    docker run --detach --name "$TEST_CASSANDRA" --publish "127.0.0.1:$TEST_CASSANDRA_PORT:9042" \
        --env CASSANDRA_BROADCAST_RPC_ADDRESS=127.0.0.1 --env MAX_HEAP_SIZE=512M --env HEAP_NEWSIZE=128M \
        --env JVM_EXTRA_OPTS="$options" "$(cassandra_image)"
    wait_for_test_cassandra
    export "$variable=127.0.0.1:$TEST_CASSANDRA_PORT" READSTATES_TEST_CQL_DC=datacenter1
    "$@"
}

# Asked inside of the container: outside of it docker answers for a port that nobody listens on yet.
wait_for_test_cassandra() {
    local try
    for try in $(seq 120); do
        if docker exec "$TEST_CASSANDRA" bash -c '</dev/tcp/127.0.0.1/9042' 2>/dev/null; then return 0; fi
        echo "no answer yet ($try)"
        sleep 1
    done
    docker logs --tail 30 "$TEST_CASSANDRA"
    return 1
}

remove_test_cassandra() { docker rm --force --volumes "$TEST_CASSANDRA" >/dev/null 2>&1 || true; }

# The process of the Cassandra that start_cassandra_process started, its ports for clients and for JMX, and its folder.
CASSANDRA_PROCESS=
CASSANDRA_PORT=19242
CASSANDRA_JMX_PORT=19299
CASSANDRA_FOLDER=

# start_cassandra_process FOLDER: one node on the loopback, whose data and log lie in FOLDER, until stop_cassandra_process.
start_cassandra_process() {
    local try
    CASSANDRA_FOLDER=$1
    mkdir -p "$1/conf"
    cassandra_options >"$1/conf/cassandra.yaml"
    # shellcheck disable=SC2046 # a class path and an agent, without spaces
    java @"$CASSANDRA_SOURCE/java17.options" -Xss256k -Xmx1g -XX:+UseSerialGC -Djava.net.preferIPv4Stack=true \
        -Dcassandra.storagedir="$1" -Dcassandra.jmx.local.port="$CASSANDRA_JMX_PORT" -Dcassandra-foreground=yes \
        -Dio.netty.tryReflectionSetAccessible=true -Dlogback.configurationFile="file://$CASSANDRA_SOURCE/logback.xml" \
        "-javaagent:$(echo "$(cassandra_jars)"/jamm-*.jar)" -cp "$1/conf:$(cassandra_jars)/*" \
        org.apache.cassandra.service.CassandraDaemon >"$1/cassandra.log" 2>&1 &
    CASSANDRA_PROCESS=$!
    for try in $(seq 300); do
        if (: <"/dev/tcp/127.0.0.1/$CASSANDRA_PORT") 2>/dev/null; then return 0; fi
        kill -0 "$CASSANDRA_PROCESS" 2>/dev/null || break
        sleep 0.5
    done
    tail -n 30 "$1/cassandra.log"
    echo "Cassandra does not answer (looked $try times)"
    stop_cassandra_process
    return 1
}

stop_cassandra_process() {
    [ -n "$CASSANDRA_PROCESS" ] || return 0
    kill "$CASSANDRA_PROCESS" 2>/dev/null || true
    wait "$CASSANDRA_PROCESS" || true
    CASSANDRA_PROCESS=
}

cassandra_options() {
    cat <<EOF
cluster_name: bench
num_tokens: 16
partitioner: org.apache.cassandra.dht.Murmur3Partitioner
endpoint_snitch: SimpleSnitch
seed_provider: [{class_name: org.apache.cassandra.locator.SimpleSeedProvider, parameters: [{seeds: '127.0.0.1:17000'}]}]
listen_address: 127.0.0.1
rpc_address: 127.0.0.1
storage_port: 17000
native_transport_port: $CASSANDRA_PORT
commitlog_sync: periodic
commitlog_sync_period: 10000ms
auto_snapshot: false
EOF
}

# The jars that hack/offline/cassandra's pom.xml names, fetched once.
cassandra_jars() {
    local version context
    version=$(cassandra_version cassandra)
    context=$(cassandra_context "$version")
    [ -d "$context/lib" ] || fresh_dir "$context" fill_cassandra_context "$version" >&2
    echo "$context/lib"
}

# node_tool WORD…: nodetool on that process.
node_tool() {
    java @"$CASSANDRA_SOURCE/java17.options" -Xmx64m -XX:TieredStopAtLevel=1 -Dlogback.configurationFile="file://$CASSANDRA_SOURCE/logback.xml" \
        -cp "$CASSANDRA_FOLDER/conf:$(cassandra_jars)/*" org.apache.cassandra.tools.NodeTool --host 127.0.0.1 --port "$CASSANDRA_JMX_PORT" "$@"
}
