//! A client of the read-states service that knows who owns what.
//!
//! Any member of the service answers any request: a member that does not own the user forwards it. This client
//! saves the hop. It follows the ring (which member owns which slot of users), asks the owner, and believes a member
//! that says it is not the owner any more. Everything else is what a client of any service needs, done once:
//!
//! - **Attempts.** What only moves forward may be sent again with the same ids, and is applied at most once; so what is
//!   refused for now (429, 503) or lost (504, a broken connection, silence) is tried again, after a pause
//!   that grows and is partly drawn by lot, never before a `Retry-After`, until the call's deadline. All
//!   retries of a client together have a budget: a service in trouble is not sent a multiple of its load.
//! - **What is not safe to repeat.** Manual acknowledgements and deletions are not sent again once their outcome is
//!   unknown, unless they are for one version of the user ([`Client::ack_if`], [`Client::delete_user_if`]…): then they
//!   are applied at most once, too.
//! - **The ring.** One request waits for the next ring (`GET /v1/ring?after=N`); each answer says by which
//!   ring it was made. An old ring costs one more request (421 names the owner) for the slots that moved,
//!   until the new one is there; however many calls notice, it is fetched once.
//! - **Many users in one call** ([`Client::mention`], [`Client::batch`], [`Client::import`]) become one request for each
//!   owner.
//! - **Many tasks with one operation each** ([`Client::coalescing`]) share requests by themselves.
//! - **Bounds.** Requests in flight are bounded, in all and for each member: a slow member does not block
//!   the whole client.
//! - **Errors say what is known**: [`Outcome::NothingDone`] or [`Outcome::Unknown`].
//!
//! - **Authentication.** [`Config::token_file`] or [`Config::token`] where the service asks for a token,
//!   [`Config::tls`] where it speaks TLS. A call whose caller is refused ([`Cause::Unauthenticated`],
//!   [`Cause::Forbidden`]) is not tried again.
//!
//! The members must be reachable under the URLs that the ring gives them, or under those that
//! [`Config::translate`] makes of them. Where they are not, [`Routing::Seeds`] asks the Service alone.
//!
//! # Example
//! ```no_run
//! use readstates_api::{AckRequest, Id, MentionsRequest};
//! use readstates_client::{Client, Config, Outcome};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let client = Client::start(Config::new(["http://chat:7400"])?)?;
//! let (user, channel): (Id, Id) = ("4001".parse()?, "81384788765712384".parse()?);
//!
//! // Somebody is mentioned…
//! let mention = MentionsRequest {
//!     channel_id: channel,
//!     message_id: "1175928847299117063".parse()?,
//!     user_ids: vec![user],
//!     count: None,
//! };
//! for not_yet in client.mention(&mention).await.failed {
//!     eprintln!("{}: {:?}, to be sent again later", not_yet.user_id, not_yet.outcome);
//! }
//!
//! // …connects and sees it…
//! for state in client.read_states(user).await?.read_states {
//!     println!("{}: {} mentions", state.channel_id, state.mention_count);
//! }
//!
//! // …and reads the message.
//! let ack = AckRequest {
//!     message_id: mention.message_id,
//!     manual: false,
//!     mention_count: None,
//!     flags: None,
//!     last_viewed: None,
//! };
//! match client.ack(user, channel, &ack).await {
//!     Ok(answer) => println!("read; version {} now", answer.version),
//!     Err(error) if error.outcome() == Outcome::Unknown => println!("perhaps read: {error}"),
//!     Err(error) => println!("not read: {error}"),
//! }
//! # Ok(())
//! # }
//! ```
#![deny(missing_docs)]

mod batch;
mod call;
mod client;
mod coalescing;
mod conditional;
mod config;
mod error;
mod exchange;
mod follow;
mod import;
mod many;
mod mentions;
mod pages;
mod retry;
mod ring;
mod routes;
mod tls;
mod token;
mod verdict;

pub use client::Client;
pub use coalescing::Coalescing;
pub use conditional::Deletion;
pub use config::{Config, ConfigError, Routing};
pub use error::{Cause, Error, Outcome};
pub use import::Imported;
pub use mentions::{Mentioned, NotMentioned};
pub use readstates_api as api;
pub use ring::{Ring, RingError};
pub use tls::{Tls, TlsError};
pub use token::TokenError;
