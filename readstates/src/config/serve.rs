//! Flags that parsed, made into a configuration that makes sense.

use std::{fmt, io, net::Ipv4Addr, num::NonZeroUsize, path::PathBuf, str::FromStr, time::Duration};

use super::{Limits, ListenConfig, ObserveConfig, RingArgs, RingConfig, ServeArgs};
use crate::{
    access::AccessConfig,
    cache::FlushMode,
    http::TlsFiles,
    journal::{self, Durability, JournalConfig},
    members_tls::{MembersTls, TlsFolderError},
    ownership::{Backing, Timing},
    store::{CqlLogin, CqlTarget, TlsFileError},
};

/// Below this it is no write-behind any more; above, a crash loses too much.
const FLUSH_INTERVALS: std::ops::RangeInclusive<Duration> =
    Duration::from_millis(10)..=Duration::from_secs(3600);

/// Where blocks are kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StoreConfig {
    /// In the memory of the process.
    Memory,
    /// In a folder.
    Embedded(PathBuf),
    /// In a CQL database.
    Cql(CqlTarget),
}

impl FromStr for StoreConfig {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text == "memory" {
            return Ok(Self::Memory);
        }
        if let Some(folder) = text.strip_prefix("embedded:") {
            return match folder {
                "" => Err("the folder is missing; write embedded:DIR".into()),
                folder => Ok(Self::Embedded(folder.into())),
            };
        }
        match text.strip_prefix("cql://") {
            Some(target) => target.parse().map(Self::Cql),
            None => {
                Err("write memory, embedded:DIR or cql://HOST[,HOST...][:PORT]/KEYSPACE".into())
            }
        }
    }
}

impl fmt::Display for StoreConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Memory => f.write_str("memory"),
            Self::Embedded(folder) => write!(f, "embedded:{}", folder.display()),
            Self::Cql(target) => target.fmt(f),
        }
    }
}

/// A configuration of `readstates serve` that makes sense.
#[derive(Debug, Clone)]
pub struct ServeConfig {
    /// Where it listens.
    pub listen: ListenConfig,
    /// What members and the operator prove to each other; `None`: nothing.
    pub tls: Option<MembersTls>,
    /// Where blocks are kept.
    pub store: StoreConfig,
    /// How to log in there.
    pub login: CqlLogin,
    /// The database that the table moves to, and how to log in there; `None`: it stays where it is.
    pub moving_to: Option<(CqlTarget, CqlLogin)>,
    /// Where changes are written before they are acknowledged, and what is there is done again at the start; `None`: nowhere.
    pub journal: Option<JournalConfig>,
    /// Whether the slots of this member have backups.
    pub backing: Backing,
    /// How long after its first change a user is written at the latest.
    pub flush_interval: Duration,
    /// Whether that is waited for.
    pub flush_mode: FlushMode,
    /// How many read states are kept in memory.
    pub capacity_states: u64,
    /// Who may call the API; `None`: anyone.
    pub access: Option<AccessConfig>,
    /// TLS on the API port; `None`: plain HTTP.
    pub api_tls: Option<TlsFiles>,
    /// This member's name.
    pub member: String,
    /// Where the ring is kept.
    pub ring: RingConfig,
    /// Where clients reach this member; `None`: where it listens.
    pub advertise: Option<String>,
    /// Where the other members reach this one; `None`: as `advertise` and `listen` say.
    pub members_advertise: Option<String>,
    /// How long members wait for each other.
    pub timing: Timing,
    /// This member's zone.
    pub zone: Option<String>,
    /// How long a stop may take.
    pub drain_timeout: Duration,
    /// Threads that answer clients.
    pub workers: NonZeroUsize,
    /// What is refused, and who is not waited for.
    pub limits: Limits,
    /// What is said about requests.
    pub observe: ObserveConfig,
}

/// Why flags make no sense together.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// A value is outside of its range.
    #[error("{flag}: {problem}")]
    Value {
        flag: &'static str,
        /// What is wrong, and what to give instead.
        problem: String,
    },
    /// The password cannot be read.
    #[error("{flag}: failed to read {file:?}")]
    Password {
        /// The flag that names the file.
        flag: &'static str,
        file: PathBuf,
        /// The cause.
        source: io::Error,
    },
    /// The certificates for other members cannot be used.
    #[error("--members-tls-dir {}", folder.display())]
    MembersTls {
        folder: PathBuf,
        /// What is wrong with it.
        source: TlsFolderError,
    },
    /// A file of TLS cannot be used.
    #[error("{flag}")]
    Tls {
        /// The flag that names the file.
        flag: &'static str,
        /// The file, and what is wrong with it.
        source: TlsFileError,
    },
}

impl ServeConfig {
    /// Checks what flags alone cannot say.
    ///
    /// # Errors
    /// When a value is out of range, or values contradict each other; the text names the flag.
    pub fn from_args(args: ServeArgs) -> Result<Self, ConfigError> {
        let ServeArgs {
            listen,
            store,
            durability,
            accept_journal_damage,
            flush_interval,
            flush_mode,
            capacity_states,
            callers,
            ring,
            cql,
            moving_to,
            to_cql,
            drain_timeout,
            workers,
            limits,
            observe,
        } = args;
        if !FLUSH_INTERVALS.contains(&flush_interval) {
            let problem = format!("{flush_interval:?} is out of range; give 10ms to 1h");
            return wrong("--flush-interval", problem);
        }
        if capacity_states == 0 {
            return wrong(
                "--capacity-states",
                "0 keeps nothing; give at least 1".into(),
            );
        }
        let place = ring.place()?;
        let flags = listen;
        let listen = flags.config(place == RingConfig::Memory)?;
        let advertise = ring.advertised(&listen, callers.tls().is_some())?;
        let tls = flags.tls(&listen)?;
        let members_advertise = ring.advertised_to_members(tls.is_some())?;
        let embedded = matches!(store, StoreConfig::Embedded(_));
        if embedded && matches!(place, RingConfig::File(_)) {
            let problem = "an embedded store is for a member that is alone; with --ring give \
                           cql://HOST/KEYSPACE";
            return wrong("--store", problem.into());
        }
        let backing = backing(durability, &place)?;
        let journal = journal(&store, durability, accept_journal_damage)?;
        let moving_to = to_cql.moving(moving_to, &store, cql.claim.as_ref())?;
        let zone = ring.known_zone();
        let RingArgs { member, .. } = ring;
        Ok(Self {
            listen,
            tls,
            store,
            journal,
            backing,
            login: cql.login()?,
            moving_to,
            flush_interval,
            flush_mode,
            capacity_states,
            access: callers.access(),
            api_tls: callers.tls(),
            member,
            ring: place,
            advertise,
            members_advertise,
            timing: Timing::default(),
            zone,
            drain_timeout,
            workers: workers.unwrap_or_else(cores),
            limits,
            observe: observe.config(),
        })
    }

    /// A member in this process, for tests and benchmarks to start from: alone, on free ports of the loopback, with one
    /// worker. Its store is memory, to which it writes after an hour, unless it is asked to.
    #[must_use]
    pub fn alone_in_memory() -> Self {
        Self {
            listen: ListenConfig::free(Ipv4Addr::LOCALHOST.into(), true),
            tls: None,
            store: StoreConfig::Memory,
            journal: None,
            backing: Backing::Off,
            login: CqlLogin::default(),
            moving_to: None,
            flush_interval: Duration::from_secs(3600),
            flush_mode: FlushMode::Interval,
            capacity_states: 1_000_000,
            access: None,
            api_tls: None,
            member: "local".into(),
            ring: RingConfig::Memory,
            advertise: None,
            members_advertise: None,
            timing: Timing::default(),
            zone: None,
            drain_timeout: Duration::from_secs(10),
            workers: NonZeroUsize::MIN,
            limits: Limits::default(),
            observe: ObserveConfig::default(),
        }
    }
}

fn wrong<T>(flag: &'static str, problem: String) -> Result<T, ConfigError> {
    Err(ConfigError::Value { flag, problem })
}

fn backing(durability: Option<Durability>, ring: &RingConfig) -> Result<Backing, ConfigError> {
    let backing = match durability {
        None | Some(Durability::Interval | Durability::Journal) => return Ok(Backing::Off),
        Some(Durability::Available) => Backing::Available,
        Some(Durability::Replicated) => Backing::Required,
    };
    if *ring == RingConfig::Memory {
        let problem = "a member that is alone has no other that could keep its changes, too; give --ring file:DIR or \
                       kubernetes, or --durability interval (journal with an embedded store)";
        return wrong("--durability", problem.into());
    }
    Ok(backing)
}

fn journal(
    store: &StoreConfig,
    durability: Option<Durability>,
    accept_damage: bool,
) -> Result<Option<JournalConfig>, ConfigError> {
    Ok(match (store, durability) {
        (StoreConfig::Embedded(folder), Some(Durability::Available | Durability::Replicated)) => {
            let problem = format!(
                "the embedded store in {} is for a member that is alone, which has no other that could keep its \
                 changes, too; give --durability journal, or with --store cql://HOST/KEYSPACE",
                folder.display()
            );
            return wrong("--durability", problem);
        }
        (StoreConfig::Embedded(folder), durability) => Some(JournalConfig {
            folder: journal::folder_of(folder),
            durability: durability.unwrap_or(Durability::Journal),
            accept_damage,
        }),
        // Where a member is alone, backups were refused.
        (
            StoreConfig::Memory | StoreConfig::Cql(_),
            None | Some(Durability::Interval | Durability::Available | Durability::Replicated),
        ) => None,
        (StoreConfig::Memory | StoreConfig::Cql(_), Some(Durability::Journal)) => {
            let problem = "a journal goes with an embedded store; give --durability interval";
            return wrong("--durability", problem.into());
        }
    })
}

/// The cores that this process may use, by its affinity and its control group.
fn cores() -> NonZeroUsize {
    std::thread::available_parallelism().unwrap_or(NonZeroUsize::MIN)
}

#[cfg(test)]
mod tests;
