//! The tables and statements that a service without a cache would have.

use clap::ValueEnum;
use scylla::{
    client::{
        execution_profile::ExecutionProfile, session::Session, session_builder::SessionBuilder,
    },
    statement::{Consistency, prepared::PreparedStatement},
};

/// What an operation is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Way {
    /// An acknowledgement: read the row, and write it if the message is newer.
    Rmw,
    /// A mention: increment a counter.
    Counter,
}

/// Whatever the driver says.
pub(crate) type CqlError = Box<dyn std::error::Error + Send + Sync>;

/// Rows of a user lie together, by channel, as one wants them when a client connects. One copy: there is one node.
const SCHEMA: [&str; 3] = [
    "CREATE KEYSPACE IF NOT EXISTS bench_direct WITH replication = {'class': 'NetworkTopologyStrategy', 'replication_factor': 1}",
    "CREATE TABLE IF NOT EXISTS bench_direct.states (user_id bigint, channel_id bigint, last_message_id bigint, \
     mention_count int, PRIMARY KEY (user_id, channel_id))",
    "CREATE TABLE IF NOT EXISTS bench_direct.mentions (user_id bigint, channel_id bigint, mention_count counter, \
     PRIMARY KEY (user_id, channel_id))",
];

/// A session with all that is sent.
#[derive(Debug)]
pub(crate) struct Statements {
    session: Session,
    read: PreparedStatement,
    write: PreparedStatement,
    count: PreparedStatement,
}

impl Statements {
    /// Makes the tables and prepares the statements, at LOCAL_QUORUM as ours are.
    pub(crate) async fn prepare(contact: &str) -> Result<Self, CqlError> {
        let profile = ExecutionProfile::builder().consistency(Consistency::LocalQuorum);
        let session = SessionBuilder::new()
            .known_node(contact)
            .default_execution_profile_handle(profile.build().into_handle())
            .build()
            .await?;
        for statement in SCHEMA {
            session.query_unpaged(statement, ()).await?;
        }
        let place = "WHERE user_id = ? AND channel_id = ?";
        let read = format!("SELECT last_message_id FROM bench_direct.states {place}");
        let write = format!(
            "UPDATE bench_direct.states SET last_message_id = ?, mention_count = 0 {place}"
        );
        let count =
            format!("UPDATE bench_direct.mentions SET mention_count = mention_count + 1 {place}");
        Ok(Self {
            read: session.prepare(read).await?,
            write: session.prepare(write).await?,
            count: session.prepare(count).await?,
            session,
        })
    }

    /// One operation; whether it changed anything.
    pub(crate) async fn operate(
        &self,
        way: Way,
        place: (u64, u64),
        message: u64,
    ) -> Result<bool, CqlError> {
        match way {
            Way::Counter => {
                let place = bigints(place);
                self.session.execute_unpaged(&self.count, place).await?;
                Ok(true)
            }
            Way::Rmw => {
                let newer = self.read(place).await?.is_none_or(|last| last < message);
                if newer {
                    self.write(place, message).await?;
                }
                Ok(newer)
            }
        }
    }

    async fn read(&self, place: (u64, u64)) -> Result<Option<u64>, CqlError> {
        let rows = self
            .session
            .execute_unpaged(&self.read, bigints(place))
            .await?;
        let row = rows
            .into_rows_result()?
            .maybe_first_row::<(Option<i64>,)>()?;
        Ok(row.and_then(|(message,)| message).map(i64::cast_unsigned))
    }

    pub(crate) async fn write(&self, place: (u64, u64), message: u64) -> Result<(), CqlError> {
        let (user, channel) = bigints(place);
        let values = (message.cast_signed(), user, channel);
        self.session.execute_unpaged(&self.write, values).await?;
        Ok(())
    }
}

/// A bigint has a sign and an id has none: the same 64 bits.
fn bigints((user, channel): (u64, u64)) -> (i64, i64) {
    (user.cast_signed(), channel.cast_signed())
}
