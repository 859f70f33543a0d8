//! Flags of `readstates user`.

use std::{path::PathBuf, time::Duration};

use clap::{Args, Subcommand};
use readstates_api::{Id, Version};
use readstates_client::{Config, ConfigError, Tls};

/// Flags of `readstates user`.
#[derive(Debug, Args)]
#[command(after_long_help = EXAMPLES)]
pub struct UserArgs {
    /// What to do.
    #[command(subcommand)]
    pub command: UserCommand,
}

/// What to do with a user.
#[derive(Debug, Subcommand)]
pub enum UserCommand {
    /// Print the read states of a user.
    Show(UserShowArgs),
    /// Delete all data of a user, and wait until the database has the deletion. Do not use CQL for this: a DELETE
    /// without the timestamp that the service uses hides everything that it writes later.
    Delete(UserDeleteArgs),
}

/// Flags of `readstates user show`.
#[derive(Debug, Args)]
#[command(after_long_help = EXAMPLES)]
pub struct UserShowArgs {
    /// Id of the user.
    #[arg(value_name = "USER")]
    pub user: Id,

    /// Print JSON, in the format of the API.
    #[arg(long)]
    pub json: bool,

    /// The service.
    #[command(flatten)]
    pub service: ServiceArgs,
}

/// Flags of `readstates user delete`.
#[derive(Debug, Args)]
#[command(after_long_help = EXAMPLES)]
pub struct UserDeleteArgs {
    /// Id of the user.
    #[arg(value_name = "USER")]
    pub user: Id,

    /// Delete only if the user is still at this version, as shown by `user show`; fail if it has changed.
    #[arg(long, value_name = "VERSION", value_parser = version)]
    pub if_version: Option<Version>,

    /// How long to wait until the database has the deletion. After that, the command fails and can be repeated.
    #[arg(
        long,
        default_value = "60s",
        value_parser = humantime::parse_duration,
        value_name = "DURATION"
    )]
    pub wait: Duration,

    /// The service.
    #[command(flatten)]
    pub service: ServiceArgs,
}

/// Flags to reach a running service.
#[derive(Debug, Clone, Args)]
pub struct ServiceArgs {
    /// Members, or a Service in front of them: http://HOST[:PORT] or https://HOST[:PORT].
    #[arg(
        long,
        env = "READSTATES_URL",
        default_value = "http://127.0.0.1:7400",
        value_delimiter = ',',
        value_name = "URL,..."
    )]
    pub url: Vec<String>,

    /// File with the token to send, if the service has callers: `user show` needs the verb read, `user delete` the verb
    /// delete, `import` the verbs write and import, `mirror` the verbs read and write, and delete if a route deletes.
    #[arg(long, env = "READSTATES_TOKEN_FILE", value_name = "FILE")]
    pub token_file: Option<PathBuf>,

    /// File with the CAs (PEM) to trust for members, with --url https://HOST[:PORT]. Absent: those of the system.
    #[arg(long, env = "READSTATES_CA_FILE", value_name = "FILE")]
    pub ca_file: Option<PathBuf>,

    /// File with the certificate (PEM) to present to members that request one, instead of a token.
    #[arg(long, env = "READSTATES_CERT_FILE", requires_all = ["ca_file", "key_file"], value_name = "FILE")]
    pub cert_file: Option<PathBuf>,

    /// File with its private key (PEM, not encrypted).
    #[arg(
        long,
        env = "READSTATES_KEY_FILE",
        requires = "cert_file",
        value_name = "FILE"
    )]
    pub key_file: Option<PathBuf>,
}

/// Why a service cannot be asked.
#[derive(Debug, thiserror::Error)]
pub enum ServiceError {
    /// A flag about the service makes no sense, or a file cannot be used.
    #[error("--url, --token-file, --ca-file, --cert-file or --key-file")]
    Service(#[from] ConfigError),
    /// The token cannot be used.
    #[error("--token-file {}", file.display())]
    Token {
        /// The file.
        file: PathBuf,
        /// What is wrong with it.
        source: ConfigError,
    },
}

impl ServiceArgs {
    /// How a client asks the service.
    ///
    /// # Errors
    /// When a flag makes no sense, or a file cannot be used.
    pub fn client(self) -> Result<Config, ServiceError> {
        let Self {
            url,
            token_file,
            ca_file,
            cert_file,
            key_file,
        } = self;
        let mut config = Config::new(url)?;
        if let Some(file) = token_file {
            let with = config.token_file(&file);
            config = with.map_err(|source| ServiceError::Token { file, source })?;
        }
        if let Some(ca) = ca_file {
            let tls = Tls::of_ca_file(ca);
            config = config.tls(match cert_file.zip(key_file) {
                Some((certificate, key)) => tls.with_certificate(certificate, key),
                None => tls,
            });
        }
        Ok(config)
    }
}

fn version(text: &str) -> Result<Version, String> {
    let version = text.parse().map(Version);
    version.map_err(|_| format!("{text:?} is no version; give a number as `user show` prints it"))
}

const EXAMPLES: &str = "\
Examples:
  What user 4001 has read, at a member on this machine:
    readstates user show 4001
  The same as JSON, of a service with callers, over TLS:
    readstates user show 4001 --json --url https://chat:7400 --token-file token --ca-file ca.crt
  Erase the user, in a cluster:
    kubectl port-forward service/chat 7400 &
    readstates user delete 4001 --token-file token";
