//! Hashes of a real Redis server, where there is one: `redis-server` of the path, or what `READSTATES_TEST_REDIS` names.

use std::{net::TcpListener, process::Child, time::Duration};

use ::redis::{Client, Connection, Pipeline};

use super::{runs::under_way, *};

const PASSWORD: &str = "hashes-of-a-real-server";
const DATABASE: u8 = 3;
const USERS: u64 = 3000;
/// Of one user: more than Redis keeps in a list, so that it is a table with a cursor of its own.
const CHANNELS: u64 = 2500;

/// A server of its own, without files; it ends with the test.
struct Server {
    child: Child,
    port: u16,
}

impl Drop for Server {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Server {
    /// None: there is no Redis on this machine.
    #[expect(
        clippy::disallowed_methods,
        reason = "a server of somebody else's, as a process beside the program"
    )]
    fn start() -> Option<Self> {
        let program = std::env::var("READSTATES_TEST_REDIS").unwrap_or("redis-server".into());
        let free = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = free.local_addr().unwrap().port();
        drop(free);
        let mut command = Command::new(&program);
        command.args(["--port", &port.to_string(), "--bind", "127.0.0.1"]);
        command.args([
            "--save",
            "",
            "--appendonly",
            "no",
            "--requirepass",
            PASSWORD,
        ]);
        match command.stdout(Stdio::null()).spawn() {
            Ok(child) => Some(Self { child, port }),
            Err(error) if std::env::var_os("READSTATES_TEST_REDIS").is_some() => {
                panic!("{program}: {error}")
            }
            Err(_) => {
                let skipped = "SKIPPED: no import from a Redis; there is no redis-server here";
                std::io::stderr()
                    .write_all(format!("{skipped}\n").as_bytes())
                    .unwrap();
                None
            }
        }
    }

    fn url(&self) -> String {
        format!("redis://127.0.0.1:{}/{DATABASE}", self.port)
    }

    #[expect(
        clippy::disallowed_methods,
        reason = "while a server of somebody else's starts there is nothing to wait for but time"
    )]
    fn connect(&self) -> Connection {
        let url = format!("redis://:{PASSWORD}@127.0.0.1:{}/{DATABASE}", self.port);
        let client = Client::open(url).unwrap();
        for _ in 0..200 {
            if let Ok(connection) = client.get_connection() {
                return connection;
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        panic!("it does not answer");
    }
}

/// The states of a user before: channel, last message, mentions.
fn states(user: u64) -> [(u64, u64, u64); 2] {
    [(7, user * 7, user % 5), (8, user * 8, 0)]
}

fn fill(connection: &mut Connection) {
    let mut all = Pipeline::new();
    for user in 1..=USERS {
        let key = format!("user:{user}:reads");
        for (channel, message, mentions) in states(user) {
            all.hset(&key, channel, format!("{message}:{mentions}"))
                .ignore();
        }
        // Of something else.
        all.set(format!("session:{user}"), user).ignore();
    }
    for channel in 1..=CHANNELS {
        all.hset("user:9000001:reads", channel, format!("{}:1", channel * 10))
            .ignore();
    }
    // A hash for no user, one with a value that is none, and a key that is no hash.
    all.hset("user:nobody:reads", 7, "5:0").ignore();
    all.hset("user:9000002:reads", 7, "none").ignore();
    all.set("user:9000003:reads", "no hash").ignore();
    all.query::<()>(connection).unwrap();
}

#[tokio::test]
async fn hashes_of_a_real_redis_are_imported_through_a_kill_and_while_it_is_written() {
    let Some(server) = Server::start() else {
        return;
    };
    let mut connection = server.connect();
    fill(&mut connection);
    let world = world();
    let (url, checkpoint) = (server.url(), world.text("checkpoint"));
    let password = world.write("password", PASSWORD);
    let wrong = world.write("wrong", "another");
    let form = [
        "--pattern",
        "user:{user}:reads",
        "--value",
        "{message}:{mentions}",
    ];
    let flags = [&form[..], &["--redis-password-file", &password]].concat();
    world.import(&url, &form).failed(1, "");
    world
        .import(
            &url,
            &[&form[..], &["--redis-password-file", &wrong]].concat(),
        )
        .failed(1, "");
    assert_eq!(world.states(1), [] as [Value; 0], "nothing was read");

    let recorded = ["--checkpoint", &checkpoint, "--max-bad-rows", "9"];
    let slow = ["--rows", "500", "--rate", "1500"];
    let command = ["import", "--from", &url, "--url", &world.member.url];
    let slow = [&command[..], &flags, &recorded, &slow].concat();
    let (mut killed, rows) = under_way(&world, &slow, 0).await;
    killed.kill().unwrap();
    killed.wait().unwrap();
    assert!(rows < USERS, "it was killed too late: {rows}");
    // The old system is still in use: the server's table grows, and is ordered anew, in the middle of the scan.
    let mut more = Pipeline::new();
    for other in 0..20_000 {
        more.set(format!("later:{other}"), other).ignore();
    }
    more.query::<()>(&mut connection).unwrap();

    let said = world.import(&url, &[&flags[..], &recorded].concat()).done();
    assert!(said.contains("bad"), "{said}");
    for user in (1..=USERS).step_by(37) {
        assert_eq!(world.numbers(user), states(user), "user {user}");
    }
    let large = world.numbers(9_000_001);
    assert_eq!(large.len() as u64, CHANNELS);
    assert!(
        large
            .iter()
            .all(|&(channel, message, one)| message == channel * 10 && one == 1)
    );
    for user in [9_000_002, 9_000_003] {
        assert_eq!(world.states(user), [] as [Value; 0]);
    }
    // Again from the start: what is there stays as it is.
    world
        .import(&url, &[&flags[..], &["--max-bad-rows", "9"]].concat())
        .done();
    assert_eq!(world.numbers(5), states(5));
    let unchanged: String = ::redis::cmd("HGET")
        .arg("user:5:reads")
        .arg(7)
        .query(&mut connection)
        .unwrap();
    assert_eq!(unchanged, "35:0", "nothing is written there");
}
