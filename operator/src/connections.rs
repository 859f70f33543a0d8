//! HTTP clients for the pods of each cluster. In: what the operator shows there. Out: [`PodClients`], by which
//! members and agents are reached: mutual TLS, and plain HTTP for pods of the release before alone.

use std::{
    collections::BTreeMap,
    net::{IpAddr, SocketAddr},
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use readstates_identity::{Identity, Pems, Role};
use reqwest::redirect::Policy;

/// Longest wait for a connection with its handshake; a pod that is there answers in milliseconds.
const CONNECT: Duration = Duration::from_secs(2);
/// A connection that nothing uses is closed after this. A change under way asks each pod every two seconds; a cluster
/// at rest does so every 15, and its connections would hold 30 KiB each between: at 500 clusters, 80 MiB.
const IDLE: Duration = Duration::from_secs(3);
/// Clusters whose clients are kept. Above that, the least recently used are dropped and created again when needed.
const KEPT: usize = 1024;

/// The clients of all clusters.
#[derive(Clone, Debug)]
pub struct Connections {
    plain: reqwest::Client,
    kept: Arc<Mutex<BTreeMap<String, Kept>>>,
}

#[derive(Debug)]
struct Kept {
    pems: Pems,
    clients: PodClients,
    /// Number of its last use.
    used: u64,
}

/// Clients for the pods of one cluster.
#[derive(Clone, Debug)]
pub struct PodClients {
    plain: reqwest::Client,
    /// Or why there are none.
    mutual: Result<Mutual, Arc<str>>,
}

#[derive(Clone, Debug)]
struct Mutual {
    members: reqwest::Client,
    agents: reqwest::Client,
}

/// The process of a pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Peer {
    pub ip: IpAddr,
    /// Whether it speaks mutual TLS.
    pub mutual_tls: bool,
}

impl Connections {
    /// Pods are reached directly: proxies from the environment are for elsewhere.
    ///
    /// # Errors
    /// When the HTTP client cannot be made.
    pub fn new() -> reqwest::Result<Self> {
        Ok(Self {
            plain: builder().build()?,
            kept: Arc::default(),
        })
    }

    /// The clients for a cluster to which the operator shows `own`; the same ones while that is the same.
    #[must_use]
    pub fn of(&self, cluster_uid: &str, own: Option<&Pems>) -> PodClients {
        let Some(pems) = own else {
            return self.without("the operator has no certificate for this cluster");
        };
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let used = kept.values().map(|k| k.used).max().unwrap_or_default() + 1;
        if let Some(known) = kept.get_mut(cluster_uid).filter(|k| k.pems == *pems) {
            known.used = used;
            return known.clients.clone();
        }
        let clients = match mutual(pems) {
            Ok(mutual) => PodClients {
                plain: self.plain.clone(),
                mutual: Ok(mutual),
            },
            Err(why) => return self.without(&why),
        };
        let entry = Kept {
            pems: pems.clone(),
            clients: clients.clone(),
            used,
        };
        kept.insert(cluster_uid.to_owned(), entry);
        if kept.len() > KEPT {
            let oldest = kept.iter().min_by_key(|(_, k)| k.used);
            let oldest = oldest.map(|(uid, _)| uid.clone());
            oldest.and_then(|uid| kept.remove(&uid));
        }
        clients
    }

    fn without(&self, why: &str) -> PodClients {
        PodClients {
            plain: self.plain.clone(),
            mutual: Err(why.into()),
        }
    }
}

impl PodClients {
    /// The client for a process of this role, and the beginning of its URL.
    ///
    /// # Errors
    /// Why there is none.
    pub fn to(
        &self,
        role: Role,
        peer: Peer,
        port: u16,
    ) -> Result<(reqwest::Client, String), String> {
        let address = SocketAddr::new(peer.ip, port);
        if !peer.mutual_tls {
            return Ok((self.plain.clone(), format!("http://{address}")));
        }
        let mutual = self.mutual.as_ref().map_err(ToString::to_string)?;
        let client = match role {
            Role::Member => &mutual.members,
            Role::Agent => &mutual.agents,
            Role::Operator => return Err("operators accept no connections".to_owned()),
        };
        Ok((client.clone(), format!("https://{address}")))
    }

    /// The client for a port that proves nothing and tells nothing that is secret.
    #[must_use]
    pub fn plain(&self) -> &reqwest::Client {
        &self.plain
    }
}

fn builder() -> reqwest::ClientBuilder {
    reqwest::Client::builder()
        .no_proxy()
        // A container may have no CAs of a system, and none is believed here.
        .tls_certs_only([])
        // A redirect would let anybody who may run a pod send the operator to any address, and read the answer in a status.
        .redirect(Policy::none())
        .connect_timeout(CONNECT)
        .pool_idle_timeout(IDLE)
}

fn mutual(pems: &Pems) -> Result<Mutual, String> {
    let identity = Identity::new(pems.clone()).map_err(|error| error.to_string())?;
    let client = |role| {
        let tls = identity
            .client_config(role)
            .map_err(|error| error.to_string())?;
        let client = builder().tls_backend_preconfigured(tls).build();
        client.map_err(|error| error.to_string())
    };
    Ok(Mutual {
        members: client(Role::Member)?,
        agents: client(Role::Agent)?,
    })
}

#[cfg(test)]
mod tests {
    use std::time::SystemTime;

    use readstates_identity::{Authority, ClusterName};

    use super::*;

    const DAY: Duration = Duration::from_hours(24);

    fn operator() -> Pems {
        let name: ClusterName = "chat.talk".parse().unwrap();
        let authority = Authority::new(&name, SystemTime::now(), DAY).unwrap();
        let issued = authority.issue(Role::Operator, &name, SystemTime::now(), DAY);
        issued.unwrap()
    }

    fn peer(mutual_tls: bool) -> Peer {
        let ip = IpAddr::from([10, 0, 0, 1]);
        Peer { ip, mutual_tls }
    }

    #[test]
    fn a_pod_with_an_identity_is_never_reached_in_the_clear() {
        let connections = Connections::new().unwrap();
        let url = |clients: &PodClients, mutual| {
            let found = clients.to(Role::Member, peer(mutual), 7401);
            found.map(|(_, url)| url)
        };
        let none = connections.of("uid", None);
        assert_eq!(url(&none, false).unwrap(), "http://10.0.0.1:7401");
        let why = url(&none, true).unwrap_err();
        assert_eq!(why, "the operator has no certificate for this cluster");
        let own = operator();
        let clients = connections.of("uid", Some(&own));
        assert_eq!(url(&clients, true).unwrap(), "https://10.0.0.1:7401");
        let ip = "fd00:10:244:1::7".parse().unwrap();
        let of_ipv6 = Peer {
            ip,
            mutual_tls: true,
        };
        let (_, url) = clients.to(Role::Agent, of_ipv6, 7402).unwrap();
        assert_eq!(url, "https://[fd00:10:244:1::7]:7402");
        assert!(clients.to(Role::Operator, peer(true), 7401).is_err());
    }

    #[test]
    fn clients_are_kept_while_the_certificate_is_the_same_and_their_number_is_bounded() {
        let connections = Connections::new().unwrap();
        let own = operator();
        for uid in ["a", "b", "a"] {
            let _ = connections.of(uid, Some(&own));
        }
        let kept = || connections.kept.lock().unwrap();
        let uses: Vec<_> = kept().values().map(|k| k.used).collect();
        assert_eq!(uses, [3, 2]);
        let _ = connections.of("a", Some(&operator()));
        assert_eq!(kept().len(), 2);
        assert_ne!(kept()["a"].pems, own);
    }
}
