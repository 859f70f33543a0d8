//! Makes the parts of a member that its configuration names: store, ring, callers, TLS.

use std::{net::SocketAddr, sync::Arc};

use rand::Rng;
use tokio_util::task::AbortOnDropHandle;

use super::StartError;
use crate::{
    access::Access,
    cache::{BYTES_PER_STATE, Process},
    clock::UnixClock,
    config::{RingConfig, ServeConfig, StoreConfig},
    http::ApiTls,
    ownership::{
        LeaseClock, OwnershipConfig,
        store::{FileRing, KubernetesRing, MemoryRing, RingStore, RingStoreError},
    },
    store::{EmbeddedStore, MemoryStore, MovingStore, OpenError, Store, TlsFile},
};

/// However small the capacity, this many bytes are held for others.
const LEAST_HELD: usize = 32 << 20;

/// Opens the store that a configuration names.
///
/// # Errors
/// When an embedded store cannot be opened. A CQL database that does not answer is no error: the
/// member waits for it.
pub fn open_store(config: &ServeConfig) -> Result<Arc<dyn Store>, OpenError> {
    Ok(match &config.store {
        StoreConfig::Memory => Arc::new(MemoryStore::default()),
        StoreConfig::Embedded(folder) => {
            let budget = config.capacity_states.saturating_mul(BYTES_PER_STATE);
            Arc::new(EmbeddedStore::open(folder, budget)?)
        }
        StoreConfig::Cql(target) => {
            MovingStore::or_alone(target, &config.login, config.moving_to.as_ref())
        }
    })
}

/// Opens the ring that a configuration names.
///
/// # Errors
/// When it is in a folder that cannot be used, or this process has no access to a Kubernetes API
/// server. One that does not answer is no error: the member waits for it.
pub async fn open_ring(config: &ServeConfig) -> Result<Arc<dyn RingStore>, RingStoreError> {
    Ok(match &config.ring {
        RingConfig::Memory => Arc::new(MemoryRing::default()),
        RingConfig::File(folder) => Arc::new(FileRing::open(folder)?),
        RingConfig::Kubernetes { namespace, name } => {
            Arc::new(KubernetesRing::connect(namespace, name).await?)
        }
    })
}

/// Who may call, and TLS with them.
pub(super) type Guards = (Option<Arc<Access>>, Option<Arc<ApiTls>>);

pub(super) fn guards(config: &ServeConfig) -> Result<Guards, StartError> {
    let access = config.access.clone();
    let access = access
        .map(|access| Access::open(access, &config.limits))
        .transpose()?;
    // Without callers a certificate is all that a client can prove itself by.
    let must_show = access.is_none();
    let tls = config.api_tls.clone();
    let tls = tls.map(|files| ApiTls::open(files, must_show)).transpose();
    let tls = tls.map_err(|source| {
        let flag = match source.of() {
            TlsFile::Ca => "--tls-client-ca-file",
            TlsFile::Certificate => "--tls-cert-file",
            TlsFile::Key => "--tls-key-file",
        };
        StartError::ApiTls { flag, source }
    })?;
    Ok((access, tls))
}

/// Looks at their files from now on.
pub(super) fn follow(
    access: Option<&Arc<Access>>,
    tls: Option<&Arc<ApiTls>>,
) -> Vec<AbortOnDropHandle<()>> {
    let access = access.map(|access| tokio::spawn(Arc::clone(access).follow()));
    let tls = tls.map(|tls| tokio::spawn(Arc::clone(tls).follow()));
    access
        .into_iter()
        .chain(tls)
        .map(AbortOnDropHandle::new)
        .collect()
}

pub(super) fn this_process() -> Result<Process, StartError> {
    let micros = jiff::Timestamp::now().as_microsecond();
    let started_micros = u64::try_from(micros).map_err(|_| StartError::Clock)?;
    Ok(Process {
        incarnation: rand::rng().random(),
        started_micros,
    })
}

pub(super) fn of_member(
    config: &ServeConfig,
    incarnation: u64,
    http_address: SocketAddr,
    members_address: Option<SocketAddr>,
) -> OwnershipConfig {
    let of_clients = if config.api_tls.is_some() {
        "https"
    } else {
        "http"
    };
    let here = || format!("{of_clients}://{http_address}");
    let url = config.advertise.clone().unwrap_or_else(here);
    let members = members_address.map(|address| match (&config.members_advertise, host(&url)) {
        (Some(advertised), _) => advertised.clone(),
        // Where it listens is no address: at the host by which clients reach it.
        (None, Some(host)) if address.ip().is_unspecified() => {
            format!("{}://{host}:{}", scheme(config), address.port())
        }
        (None, Some(_) | None) => format!("{}://{address}", scheme(config)),
    });
    OwnershipConfig {
        name: config.member.clone(),
        incarnation,
        url,
        members,
        zone: config.zone.clone(),
        shared: config.ring != RingConfig::Memory,
        backing: config.backing,
        most_held: most_held(config.capacity_states),
        timing: config.timing,
        lease_clock: LeaseClock::Boottime,
        unix_clock: UnixClock::System,
        max_per_member: config.limits.max_per_member,
    }
}

/// Bytes that a member holds at most of what others acknowledge: a quarter of what its cache may take, and as much as a
/// few messages at least. The cache takes as much less as is held.
fn most_held(capacity_states: u64) -> usize {
    let quarter = capacity_states.saturating_mul(BYTES_PER_STATE) / 4;
    usize::try_from(quarter)
        .unwrap_or(usize::MAX)
        .max(LEAST_HELD)
}

/// The scheme by which members and the operator call this one.
pub(super) fn scheme(config: &ServeConfig) -> &'static str {
    match config.tls {
        Some(_) => "https",
        None => "http",
    }
}

/// The host in a URL, with brackets where it is an IPv6 address.
fn host(url: &str) -> Option<String> {
    let url = reqwest::Url::parse(url).ok()?;
    url.host_str().map(ToOwned::to_owned)
}
