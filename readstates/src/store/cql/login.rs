//! The login to the database. The password is read again for every connection, so that a change of its
//! file takes effect without a restart.

use std::{
    fmt, fs, io,
    path::{Path, PathBuf},
    sync::Arc,
};

use async_trait::async_trait;
use scylla::authentication::{
    AuthError, AuthenticatorProvider, AuthenticatorSession, PlainTextAuthenticator,
};

use super::{ClaimName, CqlTls};

/// How to log in, and from where.
#[derive(Clone, Debug, Default)]
pub struct CqlLogin {
    /// User and password; `None` for a database that asks for none.
    pub credentials: Option<Credentials>,
    /// The data centre whose nodes are asked; `None`: whichever node is asked chooses its own.
    pub local_datacenter: Option<String>,
    /// TLS; `None`: in the clear.
    pub tls: Option<CqlTls>,
    /// As which cluster; `None`: only where no cluster has claimed the keyspace.
    pub claim: Option<ClaimName>,
}

/// A user and where the password is. A database that does not ask for them is not told.
#[derive(Clone)]
pub struct Credentials {
    user: String,
    password: Password,
}

#[derive(Clone)]
enum Password {
    Given(String),
    File(PathBuf),
}

impl Credentials {
    /// A user with this password.
    pub fn new(user: impl Into<String>, password: impl Into<String>) -> Self {
        Self {
            user: user.into(),
            password: Password::Given(password.into()),
        }
    }

    /// A user with the password that the file holds; a line end after it does not count.
    ///
    /// # Errors
    /// When the file cannot be read now.
    pub fn from_file(user: impl Into<String>, file: &Path) -> io::Result<Self> {
        read(file)?;
        Ok(Self {
            user: user.into(),
            password: Password::File(file.to_owned()),
        })
    }

    #[must_use]
    pub fn user(&self) -> &str {
        &self.user
    }

    /// The password as it is now.
    ///
    /// # Errors
    /// When its file cannot be read.
    pub(super) fn password(&self) -> io::Result<String> {
        match &self.password {
            Password::Given(password) => Ok(password.clone()),
            Password::File(file) => read(file),
        }
    }

    pub(super) fn authenticator(&self) -> Arc<dyn AuthenticatorProvider> {
        Arc::new(self.clone())
    }
}

fn read(file: &Path) -> io::Result<String> {
    let text = fs::read_to_string(file)?;
    Ok(text.trim_end_matches(['\r', '\n']).to_owned())
}

impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Credentials")
            .field("user", &self.user)
            .finish_non_exhaustive()
    }
}

#[async_trait]
impl AuthenticatorProvider for Credentials {
    async fn start_authentication_session(
        &self,
        name: &str,
    ) -> Result<(Option<Vec<u8>>, Box<dyn AuthenticatorSession>), AuthError> {
        // A file of a few bytes, in memory where Kubernetes mounts it: not worth a thread.
        let password = self
            .password()
            .map_err(|error| format!("failed to read the password of {}: {error}", self.user))?;
        PlainTextAuthenticator::new(self.user.clone(), password)
            .start_authentication_session(name)
            .await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_password_that_changed_in_its_file_is_sent_with_the_next_connection() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("password");
        fs::write(&file, "first\n").unwrap();
        let credentials = Credentials::from_file("chat", &file).unwrap();
        let sent = async || {
            let (sent, _) = credentials.start_authentication_session("x").await.unwrap();
            String::from_utf8(sent.unwrap()).unwrap()
        };
        assert_eq!(sent().await, "\0chat\0first");
        fs::write(&file, "second").unwrap();
        assert_eq!(sent().await, "\0chat\0second");
        fs::remove_file(&file).unwrap();
        let error = credentials.start_authentication_session("x").await.err();
        assert!(
            error
                .unwrap()
                .contains("failed to read the password of chat")
        );
    }

    #[test]
    fn a_password_does_not_show_in_debug_output() {
        let login = CqlLogin {
            credentials: Some(Credentials::new("user", "secret")),
            ..CqlLogin::default()
        };
        let text = format!("{login:?}");
        assert!(text.contains("user") && !text.contains("secret"), "{text}");
    }
}
