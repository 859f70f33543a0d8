//! Opens sessions with the database, and says why there is none.

use std::{sync::Arc, time::Duration};

use rustls::ClientConfig;
use scylla::{
    client::{
        execution_profile::{ExecutionProfile, ExecutionProfileHandle},
        session::Session,
        session_builder::SessionBuilder,
    },
    errors::{
        BrokenConnectionError, BrokenConnectionErrorKind, ConnectionError, ConnectionPoolError,
        ConnectionSetupRequestErrorKind, DbError, MetadataError, NewSessionError,
    },
    frame::frame_errors::FrameHeaderParseError,
    policies::{
        load_balancing::DefaultPolicy,
        speculative_execution::{Context, SpeculativeExecutionPolicy},
    },
    statement::Consistency,
};

use super::{CqlLogin, CqlTarget, READ_TIMEOUT, TlsRefusal, WRITE_TIMEOUT, tls};

/// A page of a scan: much more than a block, and no client waits for it.
const SCAN_TIMEOUT: Duration = Duration::from_secs(30);
/// A change of the schema, which a busy database takes many seconds for. It is done once, and only a command waits.
const SCHEMA_TIMEOUT: Duration = Duration::from_secs(60);
/// Until a node accepts a connection.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// A second read is not sent before this, however fast most reads are.
const LEAST_SPECULATION_DELAY_MS: u64 = 5;

/// Why there is no session with the database.
#[derive(Debug, thiserror::Error)]
pub enum SessionError {
    /// TLS, or the want of it, stands between.
    #[error(transparent)]
    Tls(#[from] TlsRefusal),
    /// Anything else.
    #[error(transparent)]
    Driver(NewSessionError),
}

/// A session that writes at LOCAL_QUORUM in the local data centre.
pub(super) async fn session(target: &CqlTarget, login: &CqlLogin) -> Result<Session, SessionError> {
    open(target, login, WRITE_TIMEOUT).await
}

/// The same for commands, which have the time that changes of the schema take.
pub(super) async fn patient_session(
    target: &CqlTarget,
    login: &CqlLogin,
) -> Result<Session, SessionError> {
    open(target, login, SCHEMA_TIMEOUT).await
}

async fn open(
    target: &CqlTarget,
    login: &CqlLogin,
    timeout: Duration,
) -> Result<Session, SessionError> {
    let nodes = target
        .hosts
        .iter()
        .map(|host| format!("{}:{}", super::bracketed(host), target.port));
    let mut builder = SessionBuilder::new()
        .known_nodes(nodes)
        .keyspaces_to_fetch([&target.keyspace])
        .connection_timeout(CONNECT_TIMEOUT)
        .default_execution_profile_handle(profile(login, timeout).build().into_handle());
    if let Some(credentials) = &login.credentials {
        builder = builder.authenticator_provider(credentials.authenticator());
    }
    if let Some(tls) = &login.tls {
        let config: Arc<ClientConfig> = tls.client_config(&target.hosts)?;
        builder = builder.tls_context(Some(config));
    }
    let built = builder.build().await;
    built.map_err(|error| match of_tls(&error, login.tls.is_some()) {
        Some(refusal) => refusal.into(),
        None => SessionError::Driver(error),
    })
}

/// What a failure has to do with TLS, if anything.
fn of_tls(error: &NewSessionError, with_tls: bool) -> Option<TlsRefusal> {
    let broken = match last_connection(error)? {
        ConnectionError::IoError(error) => return tls::refusal(error),
        ConnectionError::BrokenConnection(broken) => broken,
        ConnectionError::ConnectionSetupRequestError(setup) => match &setup.error {
            ConnectionSetupRequestErrorKind::BrokenConnection(broken) => broken,
            _ => return None,
        },
        _ => return None,
    };
    if with_tls {
        return tls::refusal(io_error(broken)?);
    }
    // Before anything was said: a node that took the first message for the beginning of TLS does this.
    Some(TlsRefusal::Plain {
        words: broken.to_string(),
    })
}

fn io_error(broken: &BrokenConnectionError) -> Option<&std::io::Error> {
    match broken.downcast_ref::<BrokenConnectionErrorKind>()? {
        BrokenConnectionErrorKind::FrameHeaderParseError(FrameHeaderParseError::HeaderIoError(
            error,
        ))
        | BrokenConnectionErrorKind::WriteError(error) => Some(error),
        _ => None,
    }
}

fn last_connection(error: &NewSessionError) -> Option<&ConnectionError> {
    match error {
        NewSessionError::MetadataError(MetadataError::ConnectionPoolError(
            ConnectionPoolError::Broken {
                last_connection_error,
                ..
            },
        )) => Some(last_connection_error),
        _ => None,
    }
}

/// Whether the database was reached and did not let this user in.
pub(super) fn login_refused(error: &SessionError) -> bool {
    let SessionError::Driver(error) = error else {
        return false;
    };
    let Some(ConnectionError::ConnectionSetupRequestError(setup)) = last_connection(error) else {
        return false;
    };
    matches!(
        setup.error,
        ConnectionSetupRequestErrorKind::DbError(DbError::AuthenticationError, _)
    )
}

fn profile(
    login: &CqlLogin,
    timeout: Duration,
) -> scylla::client::execution_profile::ExecutionProfileBuilder {
    let mut nodes = DefaultPolicy::builder().token_aware(true);
    if let Some(datacenter) = &login.local_datacenter {
        nodes = nodes.prefer_datacenter(datacenter.clone());
    }
    ExecutionProfile::builder()
        .consistency(Consistency::LocalQuorum)
        .request_timeout(Some(timeout))
        .load_balancing_policy(nodes.build())
}

/// For pages of rows, which no client waits for.
pub(super) fn scan_profile(login: &CqlLogin) -> ExecutionProfileHandle {
    profile(login, SCAN_TIMEOUT).build().into_handle()
}

pub(super) fn read_profile(login: &CqlLogin) -> ExecutionProfileHandle {
    profile(login, READ_TIMEOUT)
        .speculative_execution_policy(Some(Arc::new(OnceAfterP99)))
        .build()
        .into_handle()
}

/// Asks one more node when the first is slower than 99 of 100 reads are.
#[derive(Debug)]
struct OnceAfterP99;

impl SpeculativeExecutionPolicy for OnceAfterP99 {
    fn max_retry_count(&self, _: &Context) -> usize {
        1
    }

    fn retry_interval(&self, context: &Context) -> Duration {
        // Nothing measured yet: as if reads were slow.
        let p99 = context
            .metrics
            .get_latency_percentile_ms(99.0)
            .unwrap_or(100);
        Duration::from_millis(p99.max(LEAST_SPECULATION_DELAY_MS))
    }
}
