//! `readstates user`: shows and deletes what a running service has of one user.

use std::{fmt::Write, time::Duration};

use jiff::{ToSpan, civil::date};
use readstates_api::{Id, ReadState, ReadStates, Version};
use readstates_client::{Cause, Client, Deletion, Error, Outcome, Routing};
use tokio::time::{Instant, sleep};

use crate::config::{
    ServiceArgs, ServiceError, UserArgs, UserCommand, UserDeleteArgs, UserShowArgs,
};

/// Read states asked for at once: no answer is large, however many a user has.
const PAGE: u16 = 1000;
/// Between two requests that ask whether the database has it.
const ASK_AGAIN: Duration = Duration::from_millis(500);

/// Why it is not done.
#[derive(Debug, thiserror::Error)]
pub enum UserError {
    /// The service cannot be asked.
    #[error(transparent)]
    Service(#[from] ServiceError),
    /// The service did not do it.
    #[error("user {user}")]
    Refused { user: Id, source: Error },
    /// The service does not know who asks.
    #[error(
        "the service does not know who asks about user {user}; give --token-file FILE, or --cert-file and --key-file"
    )]
    Nobody { user: Id, source: Error },
    /// The user has changed since the version that was given.
    #[error(
        "user {user} has changed and is at version {now}; look with `readstates user show {user}`, and delete with \
         --if-version {now}, or without it whatever is there"
    )]
    Changed {
        user: Id,
        /// The version it has.
        now: Version,
    },
    /// The database does not have it in time.
    #[error(
        "user {user} is gone for readers, and the database does not have it within {waited:?}: a crash now could bring \
         the user back; give the command again once the database answers"
    )]
    NotWritten {
        user: Id,
        /// How long it was waited for.
        waited: Duration,
    },
}

/// Runs the command.
///
/// # Errors
/// When it is not done.
pub async fn run(args: UserArgs) -> Result<(), UserError> {
    match args.command {
        UserCommand::Show(args) => show(args).await,
        UserCommand::Delete(args) => delete(args).await,
    }
}

fn client(args: ServiceArgs) -> Result<Client, UserError> {
    // Through the given URL alone: from outside of a cluster single members cannot be reached.
    let config = args.client()?.routing(Routing::Seeds);
    Ok(Client::start(config).map_err(ServiceError::from)?)
}

async fn show(args: UserShowArgs) -> Result<(), UserError> {
    let UserShowArgs {
        user,
        json,
        service,
    } = args;
    let states = client(service)?.read_states_by_pages(user, PAGE).await;
    let states = states.map_err(|error| refused(user, error))?;
    if json {
        // Numbers, strings and lists: nothing that JSON cannot say.
        println!(
            "{}",
            serde_json::to_string_pretty(&states).unwrap_or_default()
        );
    } else {
        print!("{}", table(&states));
    }
    Ok(())
}

/// As a person reads it.
fn table(states: &ReadStates) -> String {
    let ReadStates {
        user_id,
        version,
        read_states,
        partial: _,
        deleted: _,
        next: _,
    } = states;
    let mut text = format!(
        "user {user_id} at version {version}: {} read states\n",
        read_states.len()
    );
    if read_states.is_empty() {
        return text;
    }
    // A string takes everything.
    let _ = writeln!(
        text,
        "{:<20} {:<20} {:>10} {:>10} {:<11} {:<24} VERSION",
        "CHANNEL", "LAST MESSAGE", "MENTIONS", "FLAGS", "LAST VIEWED", "LAST PIN"
    );
    for state in read_states {
        let ReadState {
            channel_id,
            last_message_id,
            mention_count,
            flags,
            last_viewed,
            last_pin_timestamp,
            version,
        } = state;
        let last = last_message_id.map_or("-".to_owned(), |id| id.to_string());
        let pin = last_pin_timestamp.map_or("-".to_owned(), |pin| pin.to_string());
        let viewed = day(*last_viewed);
        let channel = channel_id.to_string();
        let _ = writeln!(
            text,
            "{channel:<20} {last:<20} {mention_count:>10} {flags:>10} {viewed:<11} {pin:<24} {version}"
        );
    }
    text
}

/// A day as the API counts it, from 2015 on; 0 is none.
fn day(days: u16) -> String {
    match days {
        0 => "-".to_owned(),
        // At most 180 years.
        days => date(2015, 1, 1)
            .saturating_add(i64::from(days).days())
            .to_string(),
    }
}

async fn delete(args: UserDeleteArgs) -> Result<(), UserError> {
    let UserDeleteArgs {
        user,
        if_version,
        wait,
        service,
    } = args;
    let client = client(service)?;
    let deadline = Instant::now() + wait;
    let mut at = if_version;
    loop {
        match once(&client, user, at).await? {
            Some(Deletion {
                written: true,
                version,
            }) => {
                let version = version.map_or_else(String::new, |at| format!(", at version {at}"));
                println!("user {user} is deleted, from the database, too{version}");
                return Ok(());
            }
            // The deletion has raised the version: ask again at the new one.
            Some(Deletion { version, .. }) if at.is_some() => at = version.or(at),
            Some(_) | None => {}
        }
        if Instant::now() + ASK_AGAIN >= deadline {
            return Err(UserError::NotWritten { user, waited: wait });
        }
        sleep(ASK_AGAIN).await;
    }
}

/// Asks once; `None`: the outcome is unknown, and the whole user is to be deleted whatever its version.
async fn once(
    client: &Client,
    user: Id,
    at: Option<Version>,
) -> Result<Option<Deletion>, UserError> {
    let asked = match at {
        Some(version) => client.delete_user_if(user, version).await,
        None => client.delete_user(user).await,
    };
    match asked {
        Ok(deletion) => Ok(Some(deletion)),
        Err(error) if at.is_none() && error.outcome() == Outcome::Unknown => Ok(None),
        Err(error) => Err(refused(user, error)),
    }
}

fn refused(user: Id, error: Error) -> UserError {
    match (error.version(), error.cause()) {
        (Some(now), _) => UserError::Changed { user, now },
        (None, Cause::Unauthenticated(_)) => UserError::Nobody {
            user,
            source: error,
        },
        (None, _) => UserError::Refused {
            user,
            source: error,
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_user_is_a_line_and_a_table_of_channels() {
        let id = |number| Id::new(number).unwrap();
        let mut states = ReadStates {
            user_id: id(1),
            version: Version(57),
            partial: false,
            read_states: Vec::new(),
            deleted: None,
            next: None,
        };
        assert_eq!(table(&states), "user 1 at version 57: 0 read states\n");
        states.read_states.push(ReadState {
            channel_id: id(81_384_788_765_712_384),
            last_message_id: None,
            mention_count: 2,
            flags: 0,
            last_viewed: 4112,
            last_pin_timestamp: None,
            version: Version(9),
        });
        let text = table(&states);
        let row = text.lines().nth(2).unwrap();
        let words: Vec<&str> = row.split_whitespace().collect();
        let expected = ["81384788765712384", "-", "2", "0", "2026-04-05", "-", "9"];
        assert_eq!(words, expected);
        assert_eq!(day(u16::MAX), "2194-06-06");
    }
}
