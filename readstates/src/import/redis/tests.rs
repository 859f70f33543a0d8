//! Against a server of the tests' making that speaks as much of the protocol as is asked for. It is no Redis: what is
//! tested is what is made of its answers.

use std::sync::{
    Arc, Mutex,
    atomic::{AtomicU64, Ordering},
};

use readstates_api::Id;
use tokio::{
    io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader},
    net::{TcpListener, TcpStream},
    task::JoinSet,
};

use super::*;

/// What a test answers to a command; `None`: it hangs up.
type Handler = dyn Fn(&[String]) -> Option<String> + Send + Sync;

struct Fake {
    address: RedisAddress,
    asked: Arc<Mutex<Vec<Vec<String>>>>,
    /// The number of its process, which a test counts up as a restart does; above 99 it does not tell.
    process: Arc<AtomicU64>,
    _task: JoinSet<()>,
}

impl Fake {
    async fn start(handler: impl Fn(&[String]) -> Option<String> + Send + Sync + 'static) -> Self {
        Self::of(Arc::new(AtomicU64::new(1)), handler).await
    }

    async fn of(
        process: Arc<AtomicU64>,
        handler: impl Fn(&[String]) -> Option<String> + Send + Sync + 'static,
    ) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let asked = Arc::new(Mutex::new(Vec::new()));
        let (handler, seen): (Arc<Handler>, _) = (Arc::new(handler), Arc::clone(&asked));
        let now = Arc::clone(&process);
        let mut task = JoinSet::new();
        task.spawn(async move {
            let mut connections = JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                let (handler, seen) = (Arc::clone(&handler), Arc::clone(&seen));
                connections.spawn(serve(stream, handler, seen, Arc::clone(&now)));
            }
        });
        let host = "127.0.0.1".to_owned();
        Self {
            address: RedisAddress { host, port, db: 2 },
            asked,
            process,
            _task: task,
        }
    }

    /// The commands of this name, without it.
    fn asked(&self, name: &str) -> Vec<Vec<String>> {
        let asked = self.asked.lock().unwrap();
        let named = asked.iter().filter(|words| words[0] == name);
        named.map(|words| words[1..].to_vec()).collect()
    }
}

async fn serve(
    stream: TcpStream,
    handler: Arc<Handler>,
    asked: Arc<Mutex<Vec<Vec<String>>>>,
    process: Arc<AtomicU64>,
) {
    let mut stream = BufReader::new(stream);
    while let Some(words) = command(&mut stream).await {
        let answer = match words[0].as_str() {
            "CLIENT" | "SELECT" | "AUTH" => Some("+OK\r\n".to_owned()),
            "INFO" => Some(match process.load(Ordering::SeqCst) {
                number @ ..100 => bulk(&format!("# Server\r\nrun_id:{number}\r\nuptime:1")),
                _ => "-NOPERM no permissions to run info\r\n".to_owned(),
            }),
            _ => handler(&words),
        };
        asked.lock().unwrap().push(words);
        let Some(answer) = answer else {
            return;
        };
        if stream.write_all(answer.as_bytes()).await.is_err() {
            return;
        }
    }
}

/// A command: an array of bulk strings.
async fn command(stream: &mut BufReader<TcpStream>) -> Option<Vec<String>> {
    let mut words = Vec::new();
    for _ in 0..number(stream, '*').await? {
        let mut word = vec![0; number(stream, '$').await? + 2];
        stream.read_exact(&mut word).await.ok()?;
        word.truncate(word.len() - 2);
        words.push(String::from_utf8(word).unwrap());
    }
    Some(words)
}

async fn number(stream: &mut BufReader<TcpStream>, kind: char) -> Option<usize> {
    let mut line = String::new();
    stream.read_line(&mut line).await.ok()?;
    line.trim().strip_prefix(kind)?.parse().ok()
}

fn bulk(text: &str) -> String {
    format!("${}\r\n{text}\r\n", text.len())
}

/// A place in the first process.
fn place(cursor: u64) -> Position {
    Position::Redis {
        cursor,
        process: Some("1".to_owned()),
    }
}

/// A cursor and a list.
fn page(cursor: u64, items: &[&str]) -> Option<String> {
    let cursor = bulk(&cursor.to_string());
    let items_text: String = items.iter().map(|item| bulk(item)).collect();
    Some(format!("*2\r\n{cursor}*{}\r\n{items_text}", items.len()))
}

fn source(fake: &Fake, values: Values) -> RedisSource {
    RedisSource {
        address: fake.address.clone(),
        user: Some("chat".to_owned()),
        password: Some("secret".to_owned()),
        keys: "u:{user}:r*".parse().unwrap(),
        values,
        columns: Columns::default(),
    }
}

fn pattern() -> Values {
    Values::Template("{message}:{mentions}".parse().unwrap())
}

/// All windows.
async fn windows(source: RedisSource, from: Option<Position>, most: usize) -> Vec<Window> {
    let mut receiver = source.start(from.as_ref(), most).await.unwrap();
    let mut windows = Vec::new();
    while let Some(window) = receiver.recv().await {
        windows.extend(window.unwrap());
    }
    windows
}

/// (user, channel, last message, mentions)
fn numbers(window: &Window) -> Vec<(u64, u64, u64, u32)> {
    let of = |row: &Row| {
        let import = row.import;
        let message = import.last_message_id.map_or(0, Id::get);
        (
            import.user.get(),
            import.channel.get(),
            message,
            import.mention_count,
        )
    };
    window.rows.iter().map(of).collect()
}

#[tokio::test]
async fn keys_are_users_and_fields_are_channels() {
    let fake = Fake::start(|words| match (words[0].as_str(), words[1].as_str()) {
        ("SCAN", "0") => page(17, &["u:1:r*", "u:2:r*"]),
        ("SCAN", "17") => page(0, &["u:3:r*", "u:x:r*", "u:9:r*"]),
        ("HSCAN", "u:1:r*") => page(0, &["10", "100:3", "11", "0:1"]),
        ("HSCAN", "u:2:r*") => page(0, &["10", "7"]),
        ("HSCAN", "u:3:r*") => page(0, &[]),
        ("HSCAN", "u:x:r*") => page(0, &["10", "100:3"]),
        ("HSCAN", "u:9:r*") => Some("-WRONGTYPE Operation against a key\r\n".to_owned()),
        other => panic!("{other:?}"),
    })
    .await;
    let windows = windows(source(&fake, pattern()), None, 100).await;
    assert_eq!(windows.len(), 1);
    assert_eq!(numbers(&windows[0]), [(1, 10, 100, 3), (1, 11, 0, 1)]);
    assert_eq!(windows[0].position, place(0));
    let bad: Vec<String> = windows[0].bad.iter().map(ToString::to_string).collect();
    assert_eq!(bad.len(), 3, "{bad:?}");
    assert!(bad[0].contains("key u:2:r*, field 10, value 7: the value is not of the form"));
    assert!(bad[1].contains("user_id is \"x\""));
    assert!(bad[2].contains("key u:9:r*: the key is no hash"));
    let scans = fake.asked("SCAN");
    assert_eq!(scans[0], ["0", "MATCH", "u:*:r\\*", "COUNT", "500"]);
    assert_eq!(fake.asked("AUTH"), [["chat", "secret"]]);
    assert_eq!(fake.asked("SELECT"), [["2"]]);
}

#[tokio::test]
async fn values_may_be_objects() {
    let fake = Fake::start(|words| match words[0].as_str() {
        "SCAN" => page(0, &["u:1:r*"]),
        _ => page(
            0,
            &[
                "5",
                r#"{"last_message_id": "9", "mention_count": 2, "user_id": 77}"#,
                "6",
                "[]",
            ],
        ),
    })
    .await;
    let windows = windows(source(&fake, Values::Json), None, 100).await;
    // The key says who it is.
    assert_eq!(numbers(&windows[0]), [(1, 5, 9, 2)]);
    assert!(windows[0].bad[0].reason.contains("no JSON object"));
}

#[tokio::test]
async fn a_large_hash_is_several_windows_and_goes_on_from_its_keys() {
    let fake =
        Fake::start(
            |words| match (words[0].as_str(), words[1].as_str(), words[2].as_str()) {
                ("SCAN", "40", _) => page(0, &["u:1:r*"]),
                ("HSCAN", _, "0") => page(9, &["1", "1:0", "2", "2:0"]),
                ("HSCAN", _, "9") => page(0, &["3", "3:0"]),
                other => panic!("{other:?}"),
            },
        )
        .await;
    let from = place(40);
    let windows = windows(source(&fake, pattern()), Some(from.clone()), 2).await;
    let channels: Vec<Vec<u64>> = windows
        .iter()
        .map(|window| numbers(window).iter().map(|row| row.1).collect())
        .collect();
    assert_eq!(channels, [vec![1, 2], vec![3]]);
    // Killed after the first, an import reads the same keys again.
    assert_eq!(windows[0].position, from);
    assert_eq!(windows[1].position, place(0));
}

#[tokio::test]
async fn a_server_that_hangs_up_is_asked_again_and_one_that_refuses_is_not() {
    let scans = Mutex::new(0);
    let fake = Fake::start(move |words| match words[0].as_str() {
        "SCAN" => {
            let mut scans = scans.lock().unwrap();
            *scans += 1;
            match *scans {
                1 => None,
                2 => Some("-LOADING Redis is loading the dataset in memory\r\n".to_owned()),
                _ => page(0, &["u:1:r*"]),
            }
        }
        _ => page(0, &["5", "9:2"]),
    })
    .await;
    let windows = windows(source(&fake, pattern()), None, 100).await;
    assert_eq!(numbers(&windows[0]), [(1, 5, 9, 2)]);
    assert_eq!(fake.asked("SCAN").len(), 3);

    let fake = Fake::start(|_| Some("-NOPERM no permissions to run scan\r\n".to_owned())).await;
    let mut receiver = source(&fake, pattern()).start(None, 100).await.unwrap();
    let error = receiver.recv().await.unwrap().unwrap_err();
    assert!(
        crate::store::chain(&error).contains("no permissions to run scan"),
        "{error:?}"
    );
    assert_eq!(fake.asked("SCAN").len(), 1);
}

/// The cursors that were asked for, in order.
fn cursors(fake: &Fake) -> Vec<String> {
    let scans = fake.asked("SCAN");
    scans.iter().map(|scan| scan[0].clone()).collect()
}

#[tokio::test]
async fn another_process_is_read_from_its_first_key() {
    let fake = Fake::start(|words| match (words[0].as_str(), words[1].as_str()) {
        ("SCAN", "0") => page(17, &["u:1:r*"]),
        ("SCAN", _) => page(0, &["u:2:r*"]),
        _ => page(0, &["5", "9:2"]),
    })
    .await;
    // Of the same process, one that is left goes on.
    assert_eq!(
        windows(source(&fake, pattern()), Some(place(17)), 100)
            .await
            .len(),
        1
    );
    assert_eq!(cursors(&fake), ["17"]);
    // Of another, or of an earlier release's checkpoint, it does not.
    let old: Position = serde_json::from_str(r#"{"redis":{"cursor":17}}"#).unwrap();
    for from in [old, place(17)] {
        fake.process.store(2, Ordering::SeqCst);
        fake.asked.lock().unwrap().clear();
        windows(source(&fake, pattern()), Some(from), 100).await;
        assert_eq!(cursors(&fake), ["0", "17"]);
    }
}

#[tokio::test]
async fn a_server_that_restarts_meanwhile_is_read_again_from_its_first_key() {
    for next in [2, 100] {
        let process = Arc::new(AtomicU64::new(1));
        let now = Arc::clone(&process);
        let fake = Fake::of(process, move |words| {
            match (words[0].as_str(), words[1].as_str()) {
                ("SCAN", "0") => page(17, &["u:1:r*"]),
                ("SCAN", "17") if now.swap(next, Ordering::SeqCst) == 1 => None,
                ("SCAN", _) => page(0, &["u:2:r*"]),
                _ => page(0, &["5", "9:2"]),
            }
        })
        .await;
        let windows = windows(source(&fake, pattern()), None, 100).await;
        // Asked for once more before it is known whom that asks.
        assert_eq!(cursors(&fake), ["0", "17", "17", "0", "17"], "{next}");
        let users: Vec<u64> = numbers(&windows[0]).iter().map(|row| row.0).collect();
        assert_eq!(users, [1, 1, 2]);
    }
}

#[tokio::test]
async fn a_large_hash_of_a_server_that_restarts_is_read_again_whole() {
    let process = Arc::new(AtomicU64::new(1));
    let now = Arc::clone(&process);
    let fake = Fake::of(Arc::clone(&process), move |words| {
        match (words[0].as_str(), words[1].as_str(), words[2].as_str()) {
            ("SCAN", ..) => page(0, &["u:1:r*"]),
            ("HSCAN", _, "0") => page(9, &["1", "1:0"]),
            ("HSCAN", _, "9") if now.swap(2, Ordering::SeqCst) == 1 => None,
            _ => page(0, &["2", "2:0"]),
        }
    })
    .await;
    let windows = windows(source(&fake, pattern()), None, 100).await;
    let places: Vec<String> = fake
        .asked("HSCAN")
        .into_iter()
        .map(|mut scan| scan.remove(1))
        .collect();
    assert_eq!(places, ["0", "9", "9", "0", "9"]);
    let channels: Vec<u64> = numbers(&windows[0]).iter().map(|row| row.1).collect();
    assert_eq!(channels, [1, 1, 2]);
}
