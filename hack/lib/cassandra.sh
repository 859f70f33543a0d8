# A Cassandra in a container of its own, on a loopback port, for the tests that want a database and no cluster.
# shellcheck shell=bash

TEST_CASSANDRA=readstates-test-cassandra
TEST_CASSANDRA_PORT=19142

# with_cassandra COMMAND…: runs COMMAND while it answers; it is gone afterwards, whatever happened.
with_cassandra() { with_cassandra_that '' READSTATES_TEST_CQL "$@"; }

# with_cassandra_that_asks COMMAND…: the same, with one that lets nobody in without a login.
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
