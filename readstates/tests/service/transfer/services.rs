//! Services that do not take everything: over a limit, of an earlier release, with callers.

use std::{
    io::{BufRead as _, BufReader, Read as _},
    net::{TcpListener, TcpStream},
    sync::{Arc, Mutex},
};

use readstates::access::token;
use readstates_api::{
    Problem, ProblemType,
    batch::v3::{self, ImportOutcome},
};

use super::*;

/// Acknowledges as a client does.
pub async fn ack(url: &str, user: u64, channel: u64, message: u64) {
    let url = format!("{url}/v1/users/{user}/read-states/{channel}/ack");
    let client = crate::common::client();
    let body = serde_json::json!({"message_id": message.to_string()});
    let answer = client.post(url).json(&body).send().await.unwrap();
    assert_eq!(answer.status(), 200);
}

/// What a service of the tests' making answers to a frame: the status, headers, and a body.
type Reply = (u16, &'static str, Vec<u8>);

/// A service that is asked for imports; ends with the process of the test.
struct Fake {
    url: String,
    /// How many records each frame had.
    asked: Arc<Mutex<Vec<usize>>>,
}

impl Fake {
    fn start(reply: impl Fn(usize, usize) -> Reply + Send + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let asked = Arc::new(Mutex::new(Vec::new()));
        let seen = Arc::clone(&asked);
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let mut stream = BufReader::new(stream.unwrap());
                while let Some(frame) = frame(&mut stream) {
                    let records = v3::Request::parse(&frame).unwrap().raw().len();
                    let number = {
                        let mut seen = seen.lock().unwrap();
                        seen.push(records);
                        seen.len()
                    };
                    let (status, headers, body) = reply(number, records);
                    let head = format!(
                        "HTTP/1.1 {status} x\r\n{headers}content-length: {}\r\n\r\n",
                        body.len()
                    );
                    stream.get_mut().write_all(head.as_bytes()).unwrap();
                    stream.get_mut().write_all(&body).unwrap();
                }
            }
        });
        Self { url, asked }
    }

    fn asked(&self) -> Vec<usize> {
        self.asked.lock().unwrap().clone()
    }
}

/// The body of the next request; `None` once the connection is closed.
fn frame(stream: &mut BufReader<TcpStream>) -> Option<Vec<u8>> {
    let mut length = 0;
    loop {
        let mut line = String::new();
        if stream.read_line(&mut line).ok()? == 0 {
            return None;
        }
        if line == "\r\n" {
            break;
        }
        if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length: ") {
            length = value.trim().parse().unwrap();
        }
    }
    let mut body = vec![0; length];
    stream.read_exact(&mut body).ok()?;
    Some(body)
}

fn problem(problem: ProblemType, headers: &'static str) -> Reply {
    let body = serde_json::to_vec(&Problem::new(problem, "a test says so")).unwrap();
    (problem.status(), headers, body)
}

fn outcomes(outcomes: &[ImportOutcome]) -> Reply {
    (200, "", v3::encode_answer(outcomes))
}

fn three_rows(world: &TransferWorld) -> String {
    let rows = "user_id,channel_id,last_message_id\n1,10,5\n2,10,5\n3,10,5\n";
    world.write("rows.csv", rows)
}

fn import(fake: &Fake, from: &str, more: &[&str]) -> Ran {
    let arguments = ["import", "--from", from, "--url", &fake.url];
    readstates(&[&arguments[..], more].concat())
}

#[test]
fn a_service_over_its_limit_is_asked_again_when_it_says_so_and_only_for_what_is_left() {
    let world = world();
    let from = three_rows(&world);
    let fake = Fake::start(|number, records| match number {
        1 => problem(ProblemType::Overloaded, "retry-after: 1\r\n"),
        2 => outcomes(&[
            ImportOutcome::Applied,
            ImportOutcome::NotTaken,
            ImportOutcome::Unknown,
        ]),
        _ => outcomes(&vec![ImportOutcome::Ignored; records]),
    });
    let said = import(&fake, &from, &[]).done();
    assert!(
        said.contains("imported 3 rows") && said.contains("1 applied, 2 ignored"),
        "{said}"
    );
    assert_eq!(fake.asked(), [3, 3, 2]);
}

#[test]
fn a_service_that_takes_nothing_is_given_up_and_rows_that_it_refuses_are_told() {
    let world = world();
    let from = three_rows(&world);
    let fake = Fake::start(|_, records| outcomes(&vec![ImportOutcome::NotTaken; records]));
    let checkpoint = world.text("checkpoint");
    let flags = ["--patience", "0s", "--checkpoint", &checkpoint];
    import(&fake, &from, &flags).failed(1, "the service took no row for 0ns");
    assert!(!world.path("checkpoint").exists(), "nothing is answered");

    let fake = Fake::start(|_, _| {
        outcomes(&[
            ImportOutcome::Applied,
            ImportOutcome::Full,
            ImportOutcome::Applied,
        ])
    });
    let bad = world.text("bad");
    let flags = ["--bad-rows", &bad, "--checkpoint", &checkpoint];
    let words =
        "1 rows are bad, and --max-bad-rows allows 0: line 3: the user has the most read states";
    import(&fake, &from, &flags).failed(4, words);
    let told = json(&world.path("bad"));
    assert_eq!(
        (&told["line"], &told["row"]),
        (&3.into(), &"user 2, channel 10".into())
    );
    // The row is done with: what is left is to say that it is accepted.
    let flags = [&flags[..], &["--max-bad-rows", "1"]].concat();
    let said = import(&fake, &from, &flags).done();
    assert!(
        said.contains("2 applied, 0 ignored") && said.contains("1 bad"),
        "{said}"
    );
    assert_eq!(fake.asked().len(), 1);
}

#[test]
fn a_service_of_an_earlier_release_is_told_from_one_that_is_over_a_limit() {
    let world = world();
    let from = three_rows(&world);
    let fake = Fake::start(|_, _| problem(ProblemType::MalformedBody, ""));
    import(&fake, &from, &[]).failed(3, "upgrade all members");
    // Some owner behind the one that is asked.
    let fake = Fake::start(|_, records| outcomes(&vec![ImportOutcome::OwnerTooOld; records]));
    import(&fake, &from, &["--patience", "0s"]).failed(3, "upgrade all members");
}

#[test]
fn a_caller_without_the_right_is_refused_and_one_with_it_imports() {
    let mut world = world();
    let caller = |name: &str, verbs: &str| {
        let hash = token::hash(&format!("secret-of-{name}"));
        format!("- {{name: {name}, verbs: [{verbs}], tokens: [\"{hash}\"]}}\n")
    };
    let callers = [
        caller("writer", "read, write"),
        caller("mover", "read, write, import"),
    ];
    let access = world.write("access.yaml", &format!("callers:\n{}", callers.concat()));
    world.member = serve(&["--access", &access], &[]);
    let from = three_rows(&world);
    world
        .import(&from, &[])
        .failed(3, "needs the verbs write and import");
    let writer = world.write("writer", "secret-of-writer\n");
    let refused = world.import(&from, &["--token-file", &writer]);
    refused.failed(3, "an import needs the verb import as well");
    let mover = world.write("mover", "secret-of-mover\n");
    let said = world.import(&from, &["--token-file", &mover]).done();
    assert!(said.contains("3 applied"), "{said}");
    let said = world
        .import(&from, &["--token-file", &mover, "--direct"])
        .done();
    assert!(said.contains("3 ignored"), "{said}");
}
