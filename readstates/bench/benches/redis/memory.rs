//! What read states take in a Redis server's memory, in the two ways one would keep them.

use std::{
    io::{self, BufRead, BufReader, Write as _},
    net::{SocketAddr, TcpStream},
    thread,
};

use clap::ValueEnum;
use readstates_bench::{
    population::Population,
    process::{self, RESIDENT_BYTES},
    weight::Weight,
};

/// Users between two looks at whether the server still answers.
const USERS_AT_ONCE: u64 = 1000;
const PER_USER: u64 = 20;

/// How states are kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Layout {
    /// One hash per user, with one field per channel; small hashes are packed (`hash-max-listpack-entries`).
    Hash,
    /// One key per state.
    Key,
}

/// Ids are keys of 8 bytes, and a value is 16: message, version, mentions. Less than the Lua script keeps.
pub(crate) fn weigh(
    layout: Layout,
    states: u64,
    server: u32,
    address: SocketAddr,
) -> io::Result<Weight> {
    let population = Population::of(states, PER_USER);
    let resident = || process::sample(server).map(|sample| sample[RESIDENT_BYTES]);
    let before = resident()?;
    let stream = TcpStream::connect(address)?;
    let answers = BufReader::new(stream.try_clone()?);
    let reader = thread::spawn(move || count_answers(answers));
    let mut output = stream;
    let mut commands = Vec::new();
    for number in 0..population.users {
        write_user(layout, &population, number, &mut commands);
        if number % USERS_AT_ONCE == USERS_AT_ONCE - 1 {
            output.write_all(&commands)?;
            commands.clear();
        }
    }
    // QUIT: the server closes when everything before it is answered.
    commands.extend_from_slice(b"*1\r\n$4\r\nQUIT\r\n");
    output.write_all(&commands)?;
    let gone = |_| io::Error::other("the thread that reads answers ended in a panic");
    let written = reader.join().map_err(gone)??;
    let name = match layout {
        Layout::Hash => "Redis, a hash for each user",
        Layout::Key => "Redis, a key for each state",
    };
    Ok(Weight {
        structure: name.to_owned(),
        per_user: PER_USER,
        states: written,
        bytes_per_state: (resident()? - before) / written as f64,
    })
}

fn write_user(layout: Layout, population: &Population, number: u64, commands: &mut Vec<u8>) {
    let user = Population::user(number).to_be_bytes();
    let value = [number.to_be_bytes(), 1_u64.to_be_bytes()].concat();
    match layout {
        Layout::Hash => {
            let channels: Vec<[u8; 8]> =
                population.channels(number).map(u64::to_be_bytes).collect();
            let mut words: Vec<&[u8]> = vec![b"HSET", &user];
            for channel in &channels {
                words.extend([&channel[..], &value]);
            }
            command(&words, commands);
        }
        Layout::Key => {
            for channel in population.channels(number) {
                let key = [user, channel.to_be_bytes()].concat();
                command(&[b"SET", &key, &value], commands);
            }
        }
    }
}

fn command(words: &[&[u8]], output: &mut Vec<u8>) {
    // Into a vector, which takes everything.
    let _ = write!(output, "*{}\r\n", words.len());
    for word in words {
        let _ = write!(output, "${}\r\n", word.len());
        output.extend_from_slice(word);
        output.extend_from_slice(b"\r\n");
    }
}

/// How many states were written: HSET answers with the number of new fields, SET with OK; the last OK is of QUIT.
fn count_answers(answers: impl BufRead) -> io::Result<u64> {
    let (mut fields, mut done) = (0, 0_u64);
    for line in answers.lines() {
        let line = line?;
        match line.split_at_checked(1) {
            Some(("+", "OK")) => done += 1,
            Some((":", number)) => fields += number.parse::<u64>().map_err(io::Error::other)?,
            Some(_) | None => return Err(io::Error::other(format!("Redis says {line:?}"))),
        }
    }
    Ok(fields + done.saturating_sub(1))
}
