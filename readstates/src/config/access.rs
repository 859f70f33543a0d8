//! Flags about callers of the API: who may call, and TLS between them and the member.

use std::path::PathBuf;

use clap::Args;

use crate::{
    access::AccessConfig,
    http::{TLS_RELOAD_EVERY, TlsFiles},
};

/// Who may call the API, and how it is encrypted.
#[derive(Debug, Default, Args)]
#[command(next_help_heading = "Callers")]
pub struct CallerArgs {
    /// A file (YAML or JSON) that says who may call the API. Absent: whoever reaches --listen.
    ///
    /// With it every request needs a caller, except for /openapi.json: 401 without one, 403 when the caller lacks the
    /// verb, 429 when it has as many requests under way as it may. The file is looked at every 5 s; one that is
    /// broken is logged, and the callers from before stay. For example:
    ///
    /// callers:
    /// - name: gateway
    ///   verbs: [read, write]            # of read, write, delete, admin-read
    ///   tokens: ["sha256:2cf2…"]        # `readstates token` prints a token and its hash; two while one is replaced
    ///   serviceAccounts: ["talk/gateway"]        # in Kubernetes: tokens for the audience "readstates"
    ///   certificates: ["gateway.talk.example"]   # DNS name of a client certificate, with --tls-client-ca-file
    ///   maxConcurrent: 1024             # requests under way at this member; 1024 when it is not said
    #[arg(
        long,
        env = "READSTATES_ACCESS",
        value_name = "FILE",
        verbatim_doc_comment
    )]
    pub access: Option<PathBuf>,

    /// The certificate (PEM, with those between it and its CA) that is shown to clients. With it the API is spoken over
    /// TLS 1.2 or 1.3 alone, and members are listed with https:// URLs. The files of TLS are looked at every 10 s; open
    /// connections stay as they are.
    #[arg(
        long,
        env = "READSTATES_TLS_CERT_FILE",
        requires = "tls_key_file",
        value_name = "FILE"
    )]
    pub tls_cert_file: Option<PathBuf>,

    /// Its private key (PEM, not encrypted).
    #[arg(
        long,
        env = "READSTATES_TLS_KEY_FILE",
        requires = "tls_cert_file",
        value_name = "FILE"
    )]
    pub tls_key_file: Option<PathBuf>,

    /// The CAs (PEM) of clients' certificates. With --access a client may show one in place of a token; without it
    /// every client has to.
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
