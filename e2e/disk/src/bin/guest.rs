//! The agent inside the disk machine: reads orders from a serial port, runs each with a shell, answers.
//!
//! Orders run concurrently. Their output goes to files, so that a command may leave something running in the
//! background without holding a pipe open.

use std::{
    fs::{self, File},
    io::{self, BufRead, BufReader, Write},
    os::unix::process::ExitStatusExt,
    path::Path,
    process::{ExitCode, ExitStatus, Stdio},
    sync::{
        Arc, Mutex,
        mpsc::{self, RecvTimeoutError},
    },
    thread,
    time::Duration,
};

use e2e_disk::protocol::{Ended, Order, Word};

/// Pause between reads while the other end of the port is not connected.
const IDLE: Duration = Duration::from_millis(50);
/// How long before a command's time limit it is recorded what every process waits for.
const BEFORE_THE_END: Duration = Duration::from_secs(5);

fn main() -> ExitCode {
    let Some(port) = std::env::args().nth(1) else {
        eprintln!("usage: guest PORT");
        return ExitCode::from(2);
    };
    match take_orders(&port) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("guest: {port}: {error}");
            ExitCode::FAILURE
        }
    }
}

fn take_orders(port: &str) -> io::Result<()> {
    let file = File::options().read(true).write(true).open(port)?;
    let answers = Arc::new(Mutex::new(file.try_clone()?));
    say(&answers, &Word::Up)?;
    let mut orders = BufReader::new(file);
    let (_never, clock) = mpsc::channel::<()>();
    let mut line = String::new();
    loop {
        // An empty read means that the other end is not connected, not that the input has ended.
        if orders.read_line(&mut line)? == 0 {
            let _ = clock.recv_timeout(IDLE);
            continue;
        }
        if !line.ends_with('\n') {
            continue;
        }
        let order: Order = serde_json::from_str(&line).map_err(io::Error::other)?;
        line.clear();
        let answers = answers.clone();
        // Ends with its command; the machine's end is the end of those that do not.
        thread::spawn(move || {
            let ended = run(&order).unwrap_or_else(|error| Ended {
                id: order.id,
                status: 127,
                stdout: String::new(),
                stderr: format!("guest: {error}"),
            });
            let _ = say(&answers, &Word::Ended(ended));
        });
    }
}

fn run(order: &Order) -> io::Result<Ended> {
    let Order { id, run, limit_s } = order;
    let path = |of: &str| format!("/run/guest-{id}.{of}");
    let (ended, end) = mpsc::channel::<()>();
    let errors = File::options()
        .create(true)
        .append(true)
        .open(path("err"))?;
    let mut post_mortem = errors.try_clone()?;
    let patience = Duration::from_secs(*limit_s).saturating_sub(BEFORE_THE_END);
    thread::spawn(move || {
        if end.recv_timeout(patience) == Err(RecvTimeoutError::Timeout) {
            // For a person who looks for the cause: as much as can be had.
            let _ = post_mortem.write_all(what_waits().as_bytes());
        }
    });
    let status = shell(run, *limit_s, File::create(path("out"))?, errors)?;
    drop(ended);
    let printed = |of: &str| -> io::Result<String> {
        let bytes = fs::read(path(of))?;
        fs::remove_file(path(of))?;
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    };
    Ok(Ended {
        id: *id,
        status: status
            .code()
            .unwrap_or_else(|| 128 + status.signal().unwrap_or_default()),
        stdout: printed("out")?,
        stderr: printed("err")?,
    })
}

#[expect(
    clippy::disallowed_methods,
    reason = "the one place in the guest that starts programs"
)]
fn shell(command: &str, limit_s: u64, stdout: File, stderr: File) -> io::Result<ExitStatus> {
    std::process::Command::new("/bin/timeout")
        .args(["-s", "KILL", &limit_s.to_string(), "/bin/sh", "-c", command])
        .env("PATH", "/usr/sbin:/usr/bin")
        .stdin(Stdio::null())
        .stdout(stdout)
        .stderr(stderr)
        .status()
}

/// What md does, and for each thread that is a program's or cannot be interrupted: where in the kernel it is.
fn what_waits() -> String {
    let read = |path: &Path| fs::read_to_string(path).unwrap_or_default();
    let mut text = format!("still at it:\n{}", read(Path::new("/proc/mdstat")));
    let processes = fs::read_dir("/proc").into_iter().flatten().flatten();
    let threads = processes.filter_map(|process| fs::read_dir(process.path().join("task")).ok());
    for thread in threads.flatten().flatten() {
        let thread = thread.path();
        let (comm, status) = (read(&thread.join("comm")), read(&thread.join("status")));
        let state = status.lines().find(|line| line.starts_with("State:"));
        let state = state.unwrap_or_default();
        let program = !read(&thread.join("cmdline")).is_empty();
        if program || state.contains('D') {
            let stack = read(&thread.join("stack"));
            let (comm, thread) = (comm.trim(), thread.display());
            text += &format!("{comm} {thread} {state}\n{stack}");
        }
    }
    text
}

fn say(answers: &Mutex<File>, word: &Word) -> io::Result<()> {
    let line = serde_json::to_string(word).map_err(io::Error::other)? + "\n";
    match answers.lock() {
        Ok(mut port) => port.write_all(line.as_bytes()),
        Err(_) => Err(io::Error::other("another answer failed half way")),
    }
}
