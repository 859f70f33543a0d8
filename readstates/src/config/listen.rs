//! Listen addresses of a member: one each for clients, the operator, other members, and probes.

use std::{net::SocketAddr, path::PathBuf};

use clap::Args;

use super::ConfigError;
use crate::members_tls::MembersTls;

/// The default ports beside the clients': 7403 and 7404 where theirs is 7400.
const MEMBERS_ABOVE: u16 = 3;
const WATCH_ABOVE: u16 = 4;

/// Flags about listening.
#[derive(Debug, Args)]
pub struct ListenArgs {
    /// Address that serves clients. Port 0 chooses a free port, which is logged.
    #[arg(
        long,
        env = "READSTATES_LISTEN",
        default_value = "127.0.0.1:7400",
        value_name = "ADDR"
    )]
    pub listen: SocketAddr,

    /// Address that serves the operator (status, drain, moves, flush, capacity).
    #[arg(
        long,
        env = "READSTATES_ADMIN_LISTEN",
        default_value = "127.0.0.1:7401",
        value_name = "ADDR"
    )]
    pub admin_listen: SocketAddr,

    /// Address that serves other members: forwarded requests, and slots being handed on. Absent: the address of
    /// --listen with its port + 3. A single member (--ring memory) does not listen for others.
    #[arg(long, env = "READSTATES_MEMBERS_LISTEN", value_name = "ADDR")]
    pub members_listen: Option<SocketAddr>,

    /// Address that serves probes and Prometheus: /livez, /readyz and /metrics, without encryption. Absent: the address
    /// of --listen with its port + 4.
    #[arg(long, env = "READSTATES_WATCH_LISTEN", value_name = "ADDR")]
    pub watch_listen: Option<SocketAddr>,

    /// Folder with ca.crt, tls.crt and tls.key of a member. With it, the ports of --members-listen and --admin-listen
    /// accept only TLS, and only from members and the operator of the same cluster. Without it, they serve only
    /// processes on this machine: any address other than loopback is refused. The files are checked every ten seconds.
    /// `readstates certificates DIR` creates them: use DIR/member.
    #[arg(long, env = "READSTATES_MEMBERS_TLS_DIR", value_name = "DIR")]
    pub members_tls_dir: Option<PathBuf>,
}

/// Addresses to listen on, no two the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ListenConfig {
    /// For clients.
    pub api: SocketAddr,
    /// For the operator.
    pub admin: SocketAddr,
    /// For the other members; `None`: there are none.
    pub members: Option<SocketAddr>,
    /// For probes and Prometheus.
    pub watch: SocketAddr,
}

impl ListenConfig {
    /// Any free port of this address for each. `alone`: without one for other members.
    #[must_use]
    pub fn free(address: std::net::IpAddr, alone: bool) -> Self {
        let any = SocketAddr::new(address, 0);
        Self {
            api: any,
            admin: any,
            members: (!alone).then_some(any),
            watch: any,
        }
    }
}

impl ListenArgs {
    /// What members and the operator prove, if they do. Ports on which nothing is proven are for this machine alone.
    pub(super) fn tls(&self, config: &ListenConfig) -> Result<Option<MembersTls>, ConfigError> {
        if let Some(folder) = &self.members_tls_dir {
            let tls = MembersTls::read(folder);
            let tls = tls.map_err(|source| ConfigError::MembersTls {
                folder: folder.clone(),
                source,
            })?;
            return Ok(Some(tls));
        }
        let guarded = [
            ("--admin-listen", Some(config.admin)),
            ("--members-listen", config.members),
        ];
        for (flag, address) in guarded {
            if let Some(address) = address.filter(|address| !address.ip().is_loopback()) {
                let problem = format!(
                    "any client that reaches {address} would be obeyed; give --members-tls-dir DIR/member with \
                     what `readstates certificates DIR` makes, or an address of this machine \
                     alone, such as 127.0.0.1:{}",
                    address.port()
                );
                return Err(ConfigError::Value { flag, problem });
            }
        }
        Ok(None)
    }

    /// What is not given follows from `--listen`.
    pub(super) fn config(&self, alone: bool) -> Result<ListenConfig, ConfigError> {
        let wrong = |flag, problem| Err(ConfigError::Value { flag, problem });
        let members = match (self.members_listen, alone) {
            (Some(_), true) => {
                let problem = "a member that is alone has no others to listen for; it goes with \
                               --ring file:DIR or kubernetes";
                return wrong("--members-listen", problem.into());
            }
            (Some(given), false) => Some(given),
            (None, true) => None,
            (None, false) => Some(self.above("--members-listen", MEMBERS_ABOVE)?),
        };
        let watch = match self.watch_listen {
            Some(given) => given,
            None => self.above("--watch-listen", WATCH_ABOVE)?,
        };
        let all = [
            ("--listen", Some(self.listen)),
            ("--admin-listen", Some(self.admin_listen)),
            ("--members-listen", members),
            ("--watch-listen", Some(watch)),
        ];
        for (at, &(flag, address)) in all.iter().enumerate() {
            let taken = |&&(_, other): &&(_, Option<SocketAddr>)| {
                other == address && address.is_some_and(|address| address.port() != 0)
            };
            if let (Some((other, _)), Some(address)) = (all[..at].iter().find(taken), address) {
                let problem = format!("{address} is the address of {other} too; give another");
                return wrong(flag, problem);
            }
        }
        Ok(ListenConfig {
            api: self.listen,
            admin: self.admin_listen,
            members,
            watch,
        })
    }

    /// The address of `--listen` with a higher port; a free one stays a free one.
    fn above(&self, flag: &'static str, by: u16) -> Result<SocketAddr, ConfigError> {
        let mut address = self.listen;
        if address.port() != 0 {
            let port = address.port().checked_add(by);
            let port = port.ok_or_else(|| ConfigError::Value {
                flag,
                problem: format!("there is no port {by} above that of --listen; give an address"),
            })?;
            address.set_port(port);
        }
        Ok(address)
    }
}
