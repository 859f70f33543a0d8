//! Where the ring is kept, and this member's identity in it.

use std::{fmt, path::PathBuf, str::FromStr};

use clap::Args;
use readstates_ring::{Incarnation, RingMember, record::RecordError};

use super::{ConfigError, ListenConfig};

/// Flags about the ring.
#[derive(Debug, Args)]
pub struct RingArgs {
    /// Where the ring, which says which member owns which users, is stored: `memory`, for a single member; `file:DIR`,
    /// a folder for several members on one machine; `kubernetes`, a ReadStateRing object, for pods.
    #[arg(long, env = "READSTATES_RING", default_value = "memory")]
    pub ring: RingPlace,

    /// Namespace of the ReadStateRing object, with --ring kubernetes.
    #[arg(long, env = "READSTATES_RING_NAMESPACE", value_name = "NAMESPACE")]
    pub ring_namespace: Option<String>,

    /// Name of the ReadStateRing object, with --ring kubernetes.
    #[arg(long, env = "READSTATES_RING_NAME", value_name = "NAME")]
    pub ring_name: Option<String>,

    /// Name of this member, for people; should be unique in the ring.
    #[arg(
        long,
        env = "READSTATES_MEMBER",
        default_value = "local",
        value_name = "NAME"
    )]
    pub member: String,

    /// URL through which clients reach this member: http://HOST:PORT, or https:// with --tls-cert-file. Absent: the
    /// address that it listens on. Other members reach it at the same host, unless --members-listen is an address that
    /// others can connect to.
    #[arg(long, env = "READSTATES_ADVERTISE", value_name = "URL")]
    pub advertise: Option<String>,

    /// URL through which the other members reach this one, where that is another than its host with the port of
    /// --members-listen: behind a port mapping, for example. http://HOST:PORT, or https:// with --members-tls-dir.
    #[arg(long, env = "READSTATES_MEMBERS_ADVERTISE", value_name = "URL")]
    pub members_advertise: Option<String>,

    /// Zone of this member, for the ring document. Empty: unknown.
    #[arg(long, env = "READSTATES_ZONE", value_name = "ZONE")]
    pub zone: Option<String>,
}

/// What `--ring` says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RingPlace {
    /// The memory of the process.
    Memory,
    /// A folder.
    File(PathBuf),
    /// A `ReadStateRing` object.
    Kubernetes,
}

impl FromStr for RingPlace {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match (text, text.strip_prefix("file:")) {
            (_, Some("")) => Err("the folder is missing; write file:DIR".into()),
            (_, Some(folder)) => Ok(Self::File(folder.into())),
            ("memory", None) => Ok(Self::Memory),
            ("kubernetes", None) => Ok(Self::Kubernetes),
            (_, None) => Err("write memory, file:DIR or kubernetes".into()),
        }
    }
}

/// Where the ring is kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RingConfig {
    /// In the memory of the process: the member is alone.
    Memory,
    /// In a folder that all members share.
    File(PathBuf),
    /// In a `ReadStateRing` object that all members share.
    Kubernetes { namespace: String, name: String },
}

impl fmt::Display for RingConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Memory => f.write_str("memory"),
            Self::File(folder) => write!(f, "file:{}", folder.display()),
            Self::Kubernetes { namespace, name } => write!(f, "kubernetes:{namespace}/{name}"),
        }
    }
}

impl RingArgs {
    /// Where the ring is kept.
    pub(super) fn place(&self) -> Result<RingConfig, ConfigError> {
        let object = [
            ("--ring-namespace", &self.ring_namespace),
            ("--ring-name", &self.ring_name),
        ];
        let wrong = |flag, problem: &str| {
            let problem = problem.to_owned();
            Err(ConfigError::Value { flag, problem })
        };
        if self.ring != RingPlace::Kubernetes
            && let Some(&(flag, _)) = object.iter().find(|(_, value)| value.is_some())
        {
            return wrong(flag, "this names an object; it goes with --ring kubernetes");
        }
        match (&self.ring, &self.ring_namespace, &self.ring_name) {
            (RingPlace::Memory, _, _) => Ok(RingConfig::Memory),
            (RingPlace::File(folder), _, _) => Ok(RingConfig::File(folder.clone())),
            (RingPlace::Kubernetes, Some(namespace), Some(name)) => Ok(RingConfig::Kubernetes {
                namespace: namespace.clone(),
                name: name.clone(),
            }),
            (RingPlace::Kubernetes, None, _) => wrong(
                "--ring-namespace",
                "with --ring kubernetes give the namespace of the ReadStateRing object",
            ),
            (RingPlace::Kubernetes, Some(_), None) => wrong(
                "--ring-name",
                "with --ring kubernetes give the name of the ReadStateRing object",
            ),
        }
    }

    /// Where others reach this member, when it is said; otherwise where it listens must do.
    pub(super) fn advertised(
        &self,
        listen: &ListenConfig,
        tls: bool,
    ) -> Result<Option<String>, ConfigError> {
        let scheme = if tls { "https" } else { "http" };
        let wrong = |flag, problem| Err(ConfigError::Value { flag, problem });
        let alone = self.ring == RingPlace::Memory;
        let nowhere = [Some(listen.api), listen.members]
            .into_iter()
            .flatten()
            .find(|address| address.ip().is_unspecified());
        let url = match (&self.advertise, nowhere) {
            (Some(url), _) => url.trim_end_matches('/').to_owned(),
            (None, Some(nowhere)) if !alone => {
                let problem = format!(
                    "no client can be sent to {nowhere}; give the URL by which clients and other \
                     members reach this one, for example {scheme}://{}:{}",
                    self.member,
                    listen.api.port()
                );
                return wrong("--advertise", problem);
            }
            (None, _) => format!("{scheme}://{}", listen.api),
        };
        if tls && url.starts_with("http://") {
            let problem = format!(
                "clients cannot reach {url}: with --tls-cert-file the member speaks TLS; write https://"
            );
            return wrong("--advertise", problem);
        }
        // The process has no incarnation yet; whether it can be listed does not depend on it.
        let listed = RingMember::new(&*self.member, Incarnation::new(0), url, self.known_zone());
        match listed {
            Ok(listed) => Ok(self.advertise.as_ref().map(|_| listed.url().to_owned())),
            Err(error) => {
                let flag = match error {
                    RecordError::BadName(_) => "--member",
                    RecordError::BadZone(_) => "--zone",
                    // A member has nothing else that can be wrong.
                    _ => "--advertise",
                };
                wrong(flag, error.to_string())
            }
        }
    }

    /// Where the other members reach this one, when it is said; `tls`: whether they speak TLS.
    pub(super) fn advertised_to_members(&self, tls: bool) -> Result<Option<String>, ConfigError> {
        let Some(url) = &self.members_advertise else {
            return Ok(None);
        };
        let wrong = |problem| {
            let flag = "--members-advertise";
            Err(ConfigError::Value { flag, problem })
        };
        if self.ring == RingPlace::Memory {
            let problem = "a member that is alone has no others that could reach it; it goes with --ring file:DIR or \
                           kubernetes";
            return wrong(problem.into());
        }
        let url = url.trim_end_matches('/');
        let scheme = if tls { "https://" } else { "http://" };
        if url.contains("://") && !url.starts_with(scheme) {
            let which = if tls { "with" } else { "without" };
            let problem = format!(
                "members cannot reach {url}: {which} --members-tls-dir they speak {scheme}…"
            );
            return wrong(problem);
        }
        match RingMember::new("local", Incarnation::new(0), url, None) {
            Ok(listed) => Ok(Some(listed.url().to_owned())),
            Err(error) => wrong(error.to_string()),
        }
    }

    /// The zone; Kubernetes hands on a label that the pod does not have as an empty one.
    pub fn known_zone(&self) -> Option<String> {
        self.zone.clone().filter(|zone| !zone.is_empty())
    }
}
