//! Flags about callers of the API: who may call, and TLS between them and the member.

use std::path::PathBuf;

use clap::Args;

use crate::{
    access::AccessConfig,
    http::{TLS_RELOAD_EVERY, TlsFiles},
};

/// Flags about callers of the API and its encryption.
#[derive(Debug, Default, Args)]
#[command(next_help_heading = "Callers")]
pub struct CallerArgs {
    /// File (YAML or JSON) that says who may call the API. Absent: any client that reaches --listen.
    ///
    /// With it, every request except /openapi.json needs a caller: 401 without one, 403 if the caller lacks the verb,
    /// 429 if it has too many requests in flight. The file is checked every 5 s; an invalid file is logged, and the
    /// previous callers stay in force. For example:
    ///
    /// callers:
    /// - name: gateway
    ///   verbs: [read, write]            # of read, write, import, delete, admin-read
    ///   tokens: ["sha256:2cf2…"]        # `readstates token` prints a token and its hash; two while one is replaced
    ///   serviceAccounts: ["talk/gateway"]        # in Kubernetes: tokens for the audience "readstates"
    ///   certificates: ["gateway.talk.example"]   # DNS name of a client certificate, with --tls-client-ca-file
    ///   maxConcurrent: 1024             # requests in flight at this member; default 1024
    #[arg(
        long,
        env = "READSTATES_ACCESS",
        value_name = "FILE",
        verbatim_doc_comment
    )]
    pub access: Option<PathBuf>,

    /// File with the certificate (PEM, with intermediates) to present to clients. With it, the API accepts only TLS 1.2
    /// or 1.3, and members are listed with https:// URLs. The TLS files are checked every 10 s; open connections are
    /// not affected.
    #[arg(
        long,
        env = "READSTATES_TLS_CERT_FILE",
        requires = "tls_key_file",
        value_name = "FILE"
    )]
    pub tls_cert_file: Option<PathBuf>,

    /// File with its private key (PEM, not encrypted).
    #[arg(
        long,
        env = "READSTATES_TLS_KEY_FILE",
        requires = "tls_cert_file",
        value_name = "FILE"
    )]
    pub tls_key_file: Option<PathBuf>,

    /// File with the CAs (PEM) of client certificates. With --access, a client may present a certificate instead of a
    /// token; without it, every client must present one.
    #[arg(
        long,
        env = "READSTATES_TLS_CLIENT_CA_FILE",
        requires = "tls_cert_file",
        value_name = "FILE"
    )]
    pub tls_client_ca_file: Option<PathBuf>,
}

impl CallerArgs {
    pub(super) fn access(&self) -> Option<AccessConfig> {
        self.access.clone().map(AccessConfig::new)
    }

    pub(super) fn tls(&self) -> Option<TlsFiles> {
        // Each requires the other.
        let certificate = self.tls_cert_file.clone()?;
        let key = self.tls_key_file.clone()?;
        Some(TlsFiles {
            certificate,
            key,
            client_ca: self.tls_client_ca_file.clone(),
            reload_every: TLS_RELOAD_EVERY,
        })
    }
}
