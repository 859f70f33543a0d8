//! Roles in a database that asks for a login: give the address of a Cassandra of its own, with
//! PasswordAuthenticator and CassandraAuthorizer and nothing in it, in READSTATES_TEST_CQL_LOGIN=HOST:PORT.

use std::{
    fs,
    io::Write,
    path::Path,
    process::{Command, Stdio},
    time::Duration,
};

use readstates::store::{CqlLogin, CqlStore, CqlTarget, Credentials, Store};
use readstates_ring::Stamp;
use scylla::client::{session::Session, session_builder::SessionBuilder};

/// The command as the operator's Job runs it, with these passwords.
#[allow(
    clippy::disallowed_methods,
    reason = "the program itself is what is tested here"
)]
fn command(address: &str, folder: &Path, superuser: &str, password: &str) -> Command {
    let file = |name: &str, text: &str| {
        let path = folder.join(name);
        fs::write(&path, text).unwrap();
        path
    };
    let datacenter = std::env::var("READSTATES_TEST_CQL_DC").unwrap_or("datacenter1".into());
    let mut command = Command::new(env!("CARGO_BIN_EXE_readstates"));
    command
        .args(["schema", "--cql-user", "chat", "--store"])
        .arg(format!("cql://{address}/readstates_roles"))
        .args(["--replication", &format!("{datacenter}=1")])
        .arg("--superuser-password-file")
        .arg(file("superuser", superuser))
        .arg("--cql-password-file")
        .arg(file("password", password))
        .stderr(Stdio::piped());
    command
}

fn run(mut command: Command) -> Result<(), String> {
    let output = command.output().unwrap();
    let error = String::from_utf8(output.stderr).unwrap();
    output.status.success().then_some(()).ok_or(error)
}

async fn session(address: &str, user: &str, password: &str) -> Result<Session, String> {
    let builder = SessionBuilder::new()
        .known_node(address)
        .user(user, password);
    builder.build().await.map_err(|error| error.to_string())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_database_gets_its_roles_however_often_the_command_is_killed() {
    let Ok(address) = std::env::var("READSTATES_TEST_CQL_LOGIN") else {
        let skipped = "SKIPPED: roles were not tested; set READSTATES_TEST_CQL_LOGIN=HOST:PORT";
        writeln!(std::io::stderr(), "{skipped}").unwrap();
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let (superuser, password) = ("it's \"secret\"", "one'; DROP");

    // Killed a little later each time, from before it connects to after it is done.
    for tenths in 1..=25 {
        let mut child = command(&address, folder.path(), superuser, password)
            .spawn()
            .unwrap();
        tokio::time::sleep(Duration::from_millis(tenths * 100)).await;
        child.kill().unwrap();
        child.wait().unwrap();
    }
    run(command(&address, folder.path(), superuser, password)).unwrap();
    run(command(&address, folder.path(), superuser, password))
        .expect("a second time changes nothing");

    // The well-known default password is not valid any more.
    let known = session(&address, "cassandra", "cassandra").await;
    assert!(known.unwrap_err().contains("bad credentials"));
    let admin = session(&address, "cassandra", superuser).await.unwrap();

    // Stopped right after the superuser was changed: everything else is still made.
    for text in ["DROP ROLE chat", "DROP KEYSPACE readstates_roles"] {
        admin.query_unpaged(text, ()).await.unwrap();
    }
    run(command(&address, folder.path(), superuser, password)).unwrap();

    // The service's role does what it needs, and nothing else.
    let target: CqlTarget = format!("{address}/readstates_roles").parse().unwrap();
    let login = |password: &str| CqlLogin {
        credentials: Some(Credentials::new("chat", password)),
        ..CqlLogin::default()
    };
    let store = connected(&target, login(password)).await;
    store
        .save(7, b"kept".to_vec(), Stamp::from_database(5))
        .await
        .unwrap();
    assert_eq!(store.load(7).await.unwrap().unwrap().bytes, b"kept");
    let chat = session(&address, "chat", password).await.unwrap();
    for text in [
        "SELECT * FROM system_auth.roles",
        "CREATE KEYSPACE theirs WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}",
        "DROP TABLE readstates_roles.read_states",
        "ALTER ROLE cassandra WITH PASSWORD = 'mine'",
        "GRANT SELECT ON ALL KEYSPACES TO chat",
    ] {
        let refused = chat.query_unpaged(text, ()).await.unwrap_err().to_string();
        assert!(
            refused.contains("have the right to perform the query"),
            "{text}: {refused}"
        );
    }

    // Another password: the old one is refused from then on.
    run(command(&address, folder.path(), superuser, "two")).unwrap();
    let store = connected(&target, login("two")).await;
    assert_eq!(store.load(7).await.unwrap().unwrap().bytes, b"kept");
    assert!(session(&address, "chat", password).await.is_err());

    // The error names a superuser whose password is lost, and not the passwords that were tried.
    let mut lost = command(&address, folder.path(), "l0st", "two");
    let error = run({
        lost.args(["--timeout", "3s"]);
        lost
    })
    .unwrap_err();
    assert!(
        error.contains("superuser cassandra is let in neither"),
        "{error}"
    );
    assert!(!error.contains("l0st"), "{error}");
    let same = command(&address, folder.path(), superuser, "two")
        .arg("--cql-user=cassandra")
        .output();
    assert!(!same.unwrap().status.success());
}

async fn connected(target: &CqlTarget, login: CqlLogin) -> CqlStore {
    let store = CqlStore::start(target.clone(), login);
    for _ in 0..300 {
        if store.check().await.is_ok() {
            break;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    store
}
