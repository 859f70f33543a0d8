//! The program as a member that serves: started on free ports, asked over HTTP, terminated or killed.

use std::process::{Child, Command};

use reqwest::{Client, RequestBuilder, StatusCode};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use crate::process::{Log, start};

/// A program that serves, and where.
pub struct Serving {
    child: Child,
    log: Log,
    pub url: String,
    pub admin: String,
}

/// On free ports. It ends with this thread, however that ends: also when the test is killed.
pub fn serve_with(more: &[&str]) -> Serving {
    let any = "127.0.0.1:0";
    serve_at(any, any, more)
}

/// At these addresses for clients and for the operator.
#[expect(
    clippy::disallowed_methods,
    reason = "the program itself is what is tested here"
)]
pub fn serve_at(clients: &str, operator: &str, more: &[&str]) -> Serving {
    let mut command = Command::new("setpriv");
    command.env_clear().args(["--pdeathsig", "KILL", "--"]);
    command.args([env!("CARGO_BIN_EXE_readstates"), "serve"]);
    command.args(["--listen", clients, "--admin-listen", operator]);
    let (child, event, log) = start(command.args(more));
    let url = |of: &str| format!("http://{}", event[of].as_str().unwrap());
    Serving {
        child,
        log,
        url: url("listen"),
        admin: url("admin"),
    }
}

impl Serving {
    /// SIGTERM; returns whether the program succeeded.
    pub fn terminate(mut self) -> bool {
        let pid = Pid::from_child(&self.child);
        kill_process(pid, Signal::TERM).unwrap();
        let status = self.child.wait().unwrap();
        let rest = self.log.lines();
        assert!(
            rest.iter().any(|line| line.contains("\"stopped\"")),
            "{rest:?}"
        );
        status.success()
    }

    /// SIGKILL.
    pub fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

/// The read states of a user.
pub fn read_states(base: &str, user: u64) -> String {
    format!("{base}/v1/users/{user}/read-states")
}

/// Acknowledges a message of channel 10.
pub fn ack(client: &Client, base: &str, user: u64, message: u64) -> RequestBuilder {
    let url = format!("{}/10/ack", read_states(base, user));
    let body = json!({ "message_id": message.to_string() });
    client.post(url).json(&body)
}

/// Reads the state of channel 10.
pub fn state(client: &Client, base: &str, user: u64) -> RequestBuilder {
    client.get(format!("{}/10", read_states(base, user)))
}

/// The body of what is answered, which is good.
pub async fn answer(request: RequestBuilder) -> Value {
    let answer = request.send().await.unwrap();
    let (status, text) = (answer.status(), answer.text().await.unwrap());
    assert_eq!(status, StatusCode::OK, "{text}");
    serde_json::from_str(&text).unwrap()
}
