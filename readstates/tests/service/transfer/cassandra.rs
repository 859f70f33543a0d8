//! Rows of a table in a real database, where the tests have one.

use scylla::client::{session::Session, session_builder::SessionBuilder};

use super::*;

async fn run(session: &Session, statement: String) {
    session.query_unpaged(statement, ()).await.unwrap();
}

#[tokio::test]
async fn a_table_with_a_row_for_each_user_and_channel_is_imported() {
    let Ok(address) = std::env::var("READSTATES_TEST_CQL") else {
        let skipped = "SKIPPED: no import of a CQL table; set READSTATES_TEST_CQL=HOST:PORT";
        writeln!(std::io::stderr(), "{skipped}").unwrap();
        return;
    };
    let datacenter = std::env::var("READSTATES_TEST_CQL_DC").unwrap_or("datacenter1".into());
    let session = SessionBuilder::new()
        .known_node(&address)
        .build()
        .await
        .unwrap();
    let keyspace = format!("foreign_{:x}", rand::random::<u32>());
    run(
        &session,
        format!(
            "CREATE KEYSPACE {keyspace} WITH replication = \
             {{'class': 'NetworkTopologyStrategy', '{datacenter}': 1}}"
        ),
    )
    .await;
    let table = format!("{keyspace}.reads");
    run(
        &session,
        format!(
            "CREATE TABLE {table} (\"userId\" bigint, channel text, seen varint, pings int, pinned timestamp, \
             PRIMARY KEY (\"userId\", channel))"
        ),
    )
    .await;
    for user in 1..=200 {
        for channel in [10, 11] {
            let seen = user * channel;
            let insert = format!(
                "INSERT INTO {table} (\"userId\", channel, seen, pings, pinned) \
                 VALUES ({user}, '{channel}', {seen}, {}, 1777863721500)",
                user % 4
            );
            run(&session, insert).await;
        }
    }
    // A row without a message, and one with an id that is none.
    run(
        &session,
        format!("INSERT INTO {table} (\"userId\", channel, pings) VALUES (1, '12', 2)"),
    )
    .await;
    run(
        &session,
        format!("INSERT INTO {table} (\"userId\", channel, seen) VALUES (-5, '10', 1)"),
    )
    .await;

    let world = world();
    let from = format!("cql://{address}");
    let columns = "user=userId,channel=channel,message=seen,mentions=pings,pin=pinned";
    let checkpoint = world.text("checkpoint");
    let flags = [
        "--table",
        &table,
        "--columns",
        columns,
        "--checkpoint",
        &checkpoint,
        "--rows",
        "50",
    ];
    let wrong = [&flags[..2], &["--columns", "user=userid"]].concat();
    world
        .import(&from, &wrong)
        .failed(3, "there is no column \"userid\" for the user");
    let other = format!("{keyspace}.nothing");
    let wrong = ["--table", &other, "--columns", columns];
    world.import(&from, &wrong).failed(1, "there is no table");

    world.import(&from, &flags).failed(4, "userId -5");
    let flags = [&flags[..], &["--max-bad-rows", "1"]].concat();
    let said = world.import(&from, &flags).done();
    assert!(said.contains("1 bad"), "{said}");
    for user in 2..=200 {
        let expected = [10, 11].map(|channel| (channel, user * channel, user % 4));
        assert_eq!(world.numbers(user), expected, "user {user}");
    }
    assert_eq!(world.numbers(1), [(10, 10, 1), (11, 11, 1), (12, 0, 2)]);
    let pinned = &world.states(7)[0]["last_pin_timestamp"];
    assert_eq!(pinned, "2026-05-04T03:02:01.5Z");
    run(&session, format!("DROP KEYSPACE {keyspace}")).await;
}
