//! Hashes of a Redis server: a key for each user, with a field for each channel.
//!
//! The place to go on from is a cursor of SCAN: whatever was there the whole time is seen, some of it twice. It is a place
//! in a hash table, and each process orders its table differently. After a restart or a failover, all keys are scanned again
//! from the first.

use std::time::Duration;

use redis::{
    AsyncConnectionConfig, Client, ConnectionAddr, FromRedisValue, IntoConnectionInfo,
    RedisConnectionInfo, RedisError, aio::MultiplexedConnection,
};
use tokio::sync::mpsc;

use super::{
    ImportError, Progression, lines,
    values::{Texts, import_of},
    window::{BadRow, Position, Row, Window},
};
use crate::rows::{Columns, FIELDS, Field, RedisAddress, Template};

/// Windows that are read ahead of the one that is sent.
const AHEAD: usize = 2;
/// Keys, and fields of a large hash, that one command looks at: less than a millisecond of the server's time.
const KEYS: u32 = 500;
const HASH_FIELDS: u32 = 1000;
/// A command that fails is sent so many times more, each time after a longer pause.
const MOST_REPEATS: u32 = 5;
const FIRST_PAUSE: Duration = Duration::from_millis(if cfg!(test) { 10 } else { 1000 });
const CONNECT: Duration = Duration::from_secs(5);
const ANSWER: Duration = Duration::from_secs(30);

/// How the values of the hashes are read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Values {
    /// As objects with the names of columns.
    Json,
    Template(Template),
}

#[derive(Debug)]
pub(super) struct RedisSource {
    pub(super) address: RedisAddress,
    pub(super) user: Option<String>,
    pub(super) password: Option<String>,
    pub(super) keys: Template,
    pub(super) values: Values,
    pub(super) columns: Columns,
}

/// A server, and a connection to it that is made again when it breaks.
struct Server {
    client: Client,
    connection: Option<MultiplexedConnection>,
    /// The `run_id` of the process that was connected to last; `None`: it does not tell.
    process: Option<String>,
    /// How often that was not known to be the one before.
    changes: u64,
}

struct Gathering {
    keys: Template,
    values: Values,
    columns: Columns,
    most: usize,
    rows: Vec<Row>,
    bad: Vec<BadRow>,
    bytes: u64,
}

impl RedisSource {
    /// Connects, and reads windows of so many rows.
    pub(super) async fn start(
        self,
        from: Option<&Position>,
        most: usize,
    ) -> Result<mpsc::Receiver<Progression>, ImportError> {
        let Self {
            address: RedisAddress { host, port, db },
            user,
            password,
            keys,
            values,
            columns,
        } = self;
        let mut settings = RedisConnectionInfo::default().set_db(db);
        if let Some(user) = user {
            settings = settings.set_username(user);
        }
        if let Some(password) = password {
            settings = settings.set_password(password);
        }
        let address = ConnectionAddr::Tcp(host, port).into_connection_info();
        let client = Client::open(address?.set_redis_settings(settings))?;
        let mut server = Server {
            client,
            connection: None,
            process: None,
            changes: 0,
        };
        // What is wrong with the address or the password is said at once.
        server.connect().await?;
        let cursor = match from {
            Some(Position::Redis { cursor, process }) => {
                let is_its = process.is_some() && *process == server.process;
                if !is_its && *cursor != 0 {
                    again();
                }
                if is_its { *cursor } else { 0 }
            }
            Some(Position::File { .. } | Position::Cql { .. }) | None => 0,
        };
        let mut gathering = Gathering {
            keys,
            values,
            columns,
            most,
            rows: Vec::new(),
            bad: Vec::new(),
            bytes: 0,
        };
        let (sender, receiver) = mpsc::channel(AHEAD);
        // Ends with the receiver, or with the runtime.
        tokio::spawn(async move {
            let ended = gathering.all(&mut server, cursor, &sender).await;
            // The receiver may be gone.
            let _ = sender.send(ended.map(|()| None).map_err(Into::into)).await;
        });
        Ok(receiver)
    }
}

impl Server {
    async fn connect(&mut self) -> Result<&mut MultiplexedConnection, RedisError> {
        if self.connection.is_none() {
            let config = AsyncConnectionConfig::new()
                .set_connection_timeout(Some(CONNECT))
                .set_response_timeout(Some(ANSWER));
            let connecting = self
                .client
                .get_multiplexed_async_connection_with_config(&config);
            let mut connection = connecting.await?;
            let process = process(&mut connection).await?;
            if process.is_none() || process != self.process {
                self.changes += 1;
            }
            self.process = process;
            self.connection = Some(connection);
        }
        // Made above.
        self.connection
            .as_mut()
            .ok_or_else(|| std::io::Error::from(std::io::ErrorKind::NotConnected).into())
    }

    /// Sends a command that only reads, and again when it is not answered.
    async fn ask<T: FromRedisValue>(&mut self, command: &redis::Cmd) -> Result<T, RedisError> {
        let mut pause = FIRST_PAUSE;
        let mut repeats = 0;
        loop {
            let asked = match self.connect().await {
                Ok(connection) => command.query_async(connection).await,
                Err(error) => Err(error),
            };
            let error = match asked {
                Ok(answer) => return Ok(answer),
                Err(error) if is_final(&error) || repeats == MOST_REPEATS => return Err(error),
                Err(error) => error,
            };
            tracing::warn!(retry_in = ?pause, "Redis did not answer: {error}");
            self.connection = None;
            tokio::time::sleep(pause).await;
            pause *= 2;
            repeats += 1;
        }
    }
}

/// The `run_id` of the process; `None`: it refuses to tell.
async fn process(connection: &mut MultiplexedConnection) -> Result<Option<String>, RedisError> {
    let mut info = redis::cmd("INFO");
    info.arg("server");
    let told: String = match info.query_async(connection).await {
        Ok(told) => told,
        Err(error) if is_final(&error) => return Ok(None),
        Err(error) => return Err(error),
    };
    let mut ids = told.lines().filter_map(|line| line.strip_prefix("run_id:"));
    Ok(ids.next().map(|id| id.trim().to_owned()))
}

fn again() {
    tracing::warn!(
        "Redis is not known to be the process that was read before: all keys are gone over again from the first, which \
         changes nothing that is there"
    );
}

/// Whether the server would say it again: it has refused the command, and not because it is not ready.
fn is_final(error: &RedisError) -> bool {
    let not_ready = ["LOADING", "BUSY", "MASTERDOWN", "TRYAGAIN"];
    error.code().is_some_and(|code| !not_ready.contains(&code))
}

impl Gathering {
    async fn all(
        &mut self,
        server: &mut Server,
        from: u64,
        sender: &mpsc::Sender<Progression>,
    ) -> Result<(), RedisError> {
        let glob = self.keys.glob();
        let (mut cursor, mut changes) = (from, server.changes);
        loop {
            let mut scan = redis::cmd("SCAN");
            scan.arg(cursor).arg("MATCH").arg(&glob);
            scan.arg("COUNT").arg(KEYS);
            let (next, keys): (u64, Vec<Vec<u8>>) = server.ask(&scan).await?;
            if server.changes != changes && cursor != 0 {
                again();
                (cursor, changes) = (0, server.changes);
                continue;
            }
            changes = server.changes;
            let process = server.process.clone();
            let at = |cursor| Position::Redis {
                cursor,
                process: process.clone(),
            };
            let here = at(cursor);
            for key in keys {
                if !self.hash(server, &key, &here, sender).await? {
                    return Ok(());
                }
            }
            // All that the cursor went over is gathered.
            cursor = next;
            if (cursor == 0 || self.is_full()) && !self.send(at(cursor), sender).await {
                return Ok(());
            }
            if cursor == 0 {
                return Ok(());
            }
        }
    }

    /// Reads a hash. False: the import has ended. `here`: where the keys of this hash were found.
    async fn hash(
        &mut self,
        server: &mut Server,
        key: &[u8],
        here: &Position,
        sender: &mpsc::Sender<Progression>,
    ) -> Result<bool, RedisError> {
        let mut place = 0_u64;
        let mut changes = server.changes;
        loop {
            let mut scan = redis::cmd("HSCAN");
            scan.arg(key).arg(place).arg("COUNT").arg(HASH_FIELDS);
            let asked = server.ask::<(u64, Vec<Vec<u8>>)>(&scan).await;
            let (next, pairs) = match asked {
                Ok(found) => found,
                Err(error) if error.code() == Some("WRONGTYPE") => {
                    let key = format!("key {}", String::from_utf8_lossy(key));
                    let reason = "the key is no hash".to_owned();
                    self.bad.push(BadRow::new(None, reason, &key));
                    return Ok(true);
                }
                Err(error) => return Err(error),
            };
            if server.changes != changes && place != 0 {
                (place, changes) = (0, server.changes);
                continue;
            }
            changes = server.changes;
            let (pairs, _) = pairs.as_chunks::<2>();
            for [field, value] in pairs {
                self.add(key, field, value);
            }
            // A hash of a hundred thousand fields is more than one window: until it is done, the keys are read again.
            if self.is_full() && !self.send(here.clone(), sender).await {
                return Ok(false);
            }
            if next == 0 {
                return Ok(true);
            }
            place = next;
        }
    }

    fn add(&mut self, key: &[u8], field: &[u8], value: &[u8]) {
        self.bytes += (key.len() + field.len() + value.len()) as u64;
        let read = || {
            let text = |bytes| std::str::from_utf8(bytes).map_err(|_| "it is not UTF-8".to_owned());
            self.read(text(key)?, text(field)?, text(value)?)
        };
        match read() {
            Ok(import) => self.rows.push(Row { line: None, import }),
            Err(reason) => {
                let text = String::from_utf8_lossy;
                let shown = format!(
                    "key {}, field {}, value {}",
                    text(key),
                    text(field),
                    text(value)
                );
                self.bad.push(BadRow::new(None, reason, &shown));
            }
        }
    }

    fn read(
        &self,
        key: &str,
        field: &str,
        value: &str,
    ) -> Result<readstates_api::batch::v3::Import, String> {
        let of_key = self
            .keys
            .read(key)
            .ok_or_else(|| format!("the key is not of the form {}", self.keys))?;
        let object;
        let mut texts: Texts<'_> = match &self.values {
            Values::Json => {
                object = lines::object(value.as_bytes())?;
                lines::texts(&object, &self.columns)?
            }
            Values::Template(template) => {
                let found = template
                    .read(value)
                    .ok_or_else(|| format!("the value is not of the form {template}"))?;
                found.map(|text| text.map(Into::into))
            }
        };
        for (place, text) in of_key.into_iter().enumerate().take(FIELDS) {
            if let Some(text) = text {
                texts[place] = Some(text.into());
            }
        }
        texts[Field::Channel.place()] = Some(field.into());
        import_of(&texts, &self.columns)
    }

    fn is_full(&self) -> bool {
        self.rows.len() + self.bad.len() >= self.most
    }

    /// Hands over what there is. False: the import has ended.
    async fn send(&mut self, position: Position, sender: &mpsc::Sender<Progression>) -> bool {
        let window = Window {
            rows: std::mem::take(&mut self.rows),
            bad: std::mem::take(&mut self.bad),
            bytes: std::mem::take(&mut self.bytes),
            position,
        };
        sender.send(Ok(Some(window))).await.is_ok()
    }
}

#[cfg(test)]
mod tests;
