//! Roles of a database that asks for a login: its superuser gets a password that only its keepers know, and
//! the service a role that may read and write the one table. Every step may be repeated, and the whole be
//! stopped between any two:
//! ```text
//! log in with the password it should have ─┬─▶ as many copies of the roles as of the rows ─▶ table ─▶ role
//!   refused: with the one of a new database └◀─ change it
//! ```

use std::time::Duration;

use scylla::{
    client::session::Session,
    statement::{Consistency, Statement},
};

use super::{
    CqlLogin, CqlTarget, Credentials, Replication, SchemaError, SchemaWish, TABLE, claim_table,
    connect::Connection, restore_table, schema, session,
};
use crate::store::chain;

/// The superuser that every new database has, and its password there.
pub const SUPERUSER: &str = "cassandra";
const FIRST_PASSWORD: &str = "cassandra";

/// Where Cassandra keeps its roles. ScyllaDB has no such keyspace any more: there all nodes have them.
const AUTH_KEYSPACE: &str = "system_auth";

/// How long a database caches passwords and rights, unless `credentials_validity` and the like are set
/// otherwise. The protocol does not tell what they are set to.
const REMEMBERED: Duration = Duration::from_secs(2);
/// Looks until a new password or right must be known.
const LOOKS: usize = 5;

/// The schema, as [`super::apply_schema`] makes it, and the roles: the superuser `cassandra` has
/// `superuser_password`, and the role of `login` may read and write the table and nothing else. The login is
/// proven in the end.
///
/// # Errors
/// When the database cannot be reached, lets the superuser in with neither password, or refuses a statement.
pub async fn apply_schema_with_roles(
    target: &CqlTarget,
    login: &CqlLogin,
    superuser_password: &Credentials,
    wish: &SchemaWish,
) -> Result<(), SchemaError> {
    let session = superuser(target, login, superuser_password).await?;
    spread_roles(&session, &wish.replication).await?;
    schema::make(&session, target, wish).await?;
    if let Some(credentials) = &login.credentials {
        make_role(&session, target, credentials, wish.claim.is_some()).await?;
    }
    prove(target, login).await
}

/// A session of the superuser, whose password is the given one from then on.
async fn superuser(
    target: &CqlTarget,
    login: &CqlLogin,
    wanted: &Credentials,
) -> Result<Session, SchemaError> {
    let open = async |credentials: Credentials| {
        let login = CqlLogin {
            credentials: Some(credentials),
            ..login.clone()
        };
        session::patient_session(target, &login).await
    };
    let refused = match open(wanted.clone()).await {
        Ok(session) => return Ok(session),
        Err(error) if session::login_refused(&error) => error,
        Err(error) => return Err(error.into()),
    };
    let first = Credentials::new(SUPERUSER, FIRST_PASSWORD);
    let session = match open(first).await {
        Ok(session) => session,
        Err(error) if session::login_refused(&error) => {
            return Err(SchemaError::Superuser {
                words: chain(&refused),
            });
        }
        Err(error) => return Err(error.into()),
    };
    let password = wanted.password().map_err(unreadable)?;
    let role = name(SUPERUSER);
    let text = format!("ALTER ROLE {role} WITH PASSWORD = {}", quoted(&password));
    run(&session, "change the superuser's password", text, &password).await?;
    tracing::info!("changed the password of the superuser {SUPERUSER}");
    // From here on with the new password; what was done with the old one stays.
    let session = until_known(async || open(wanted.clone()).await, session::login_refused).await?;
    Ok(session)
}

/// Looks until a change is known, or must be by now; an error that `unknown` does not explain ends it at once.
async fn until_known<T, E>(
    look: impl AsyncFn() -> Result<T, E>,
    unknown: impl Fn(&E) -> bool,
) -> Result<T, E> {
    for _ in 1..LOOKS {
        match look().await {
            Err(error) if unknown(&error) => tokio::time::sleep(REMEMBERED).await,
            outcome => return outcome,
        }
    }
    look().await
}

/// Keeps as many copies of the roles as of the rows: while rows can be read, so can the login. Reading everything
/// once from all nodes fills new copies.
async fn spread_roles(session: &Session, replication: &Replication) -> Result<(), SchemaError> {
    let Some(options) = schema::replication_of(session, AUTH_KEYSPACE).await? else {
        return Ok(());
    };
    let altered = !replication.is(&options);
    if altered {
        let text = format!(
            "ALTER KEYSPACE {AUTH_KEYSPACE} WITH replication = {}",
            replication.as_cql()
        );
        run(session, "alter the replication of the roles", text, "").await?;
        tracing::info!(%replication, before = ?options, "altered the replication of the roles");
    }
    match read_all_copies(session).await {
        // Done before, or its node is away: reading repairs it then.
        Err(error) if !altered => {
            tracing::warn!(
                "could not compare all copies of the roles: {}",
                chain(&error)
            );
            Ok(())
        }
        outcome => outcome,
    }
}

async fn read_all_copies(session: &Session) -> Result<(), SchemaError> {
    for table in schema::tables(session, AUTH_KEYSPACE).await? {
        let mut all = Statement::new(format!("SELECT * FROM {AUTH_KEYSPACE}.{table}"));
        all.set_consistency(Consistency::All);
        all.set_is_idempotent(true);
        session
            .query_unpaged(all, ())
            .await
            .map_err(|error| SchemaError::Roles {
                attempt: "read all copies of the roles",
                words: chain(&error),
            })?;
    }
    Ok(())
}

/// The service's role: made, or given this password; with the rights it needs.
async fn make_role(
    session: &Session,
    target: &CqlTarget,
    credentials: &Credentials,
    claimed: bool,
) -> Result<(), SchemaError> {
    let password = credentials.password().map_err(unreadable)?;
    let (role, secret) = (name(credentials.user()), quoted(&password));
    let with = format!("WITH LOGIN = true AND PASSWORD = {secret}");
    let table = format!("{}.{TABLE}", target.keyspace);
    let claims = format!("{}.{}", target.keyspace, claim_table::TABLE);
    let restores = format!("{}.{}", target.keyspace, restore_table::TABLE);
    let of_claim = [
        (
            "let the role see whose the keyspace is",
            format!("GRANT SELECT ON TABLE {claims} TO {role}"),
        ),
        (
            "let the role see what was restored",
            format!("GRANT SELECT ON TABLE {restores} TO {role}"),
        ),
        (
            "let the role record a restore",
            format!("GRANT MODIFY ON TABLE {restores} TO {role}"),
        ),
    ];
    for (attempt, text) in [
        (
            "make the role",
            format!("CREATE ROLE IF NOT EXISTS {role} {with}"),
        ),
        (
            "set the role's password",
            format!("ALTER ROLE {role} {with}"),
        ),
        (
            "let the role read",
            format!("GRANT SELECT ON TABLE {table} TO {role}"),
        ),
        (
            "let the role write",
            format!("GRANT MODIFY ON TABLE {table} TO {role}"),
        ),
    ]
    .into_iter()
    .chain(of_claim.into_iter().filter(|_| claimed))
    {
        run(session, attempt, text, &password).await?;
    }
    tracing::info!(
        role = credentials.user(),
        table,
        "the role may read and write the table"
    );
    Ok(())
}

/// The role can log in and read.
async fn prove(target: &CqlTarget, login: &CqlLogin) -> Result<(), SchemaError> {
    let look = async || {
        let connection = Connection::open(target, login).await;
        let connection = connection.map_err(|error| chain(&error))?;
        connection.load(0).await.map_err(|error| chain(&error))
    };
    match until_known(look, |_| true).await {
        Ok(_) => Ok(()),
        Err(words) => Err(SchemaError::Roles {
            attempt: "read with the role",
            words,
        }),
    }
}

fn unreadable(error: std::io::Error) -> SchemaError {
    SchemaError::Roles {
        attempt: "read a password",
        words: error.to_string(),
    }
}

/// Runs a statement with `secret` in it, which no error shows.
async fn run(
    session: &Session,
    attempt: &'static str,
    text: String,
    secret: &str,
) -> Result<(), SchemaError> {
    let outcome = session.query_unpaged(text, ()).await;
    outcome.map(drop).map_err(|error| SchemaError::Roles {
        attempt,
        words: without(&chain(&error), secret),
    })
}

fn without(words: &str, secret: &str) -> String {
    if secret.is_empty() {
        return words.to_owned();
    }
    words.replace(&quoted(secret), "…").replace(secret, "…")
}

/// A string of CQL.
fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}

/// A name of CQL, whatever is in it.
fn name(text: &str) -> String {
    format!("\"{}\"", text.replace('"', "\"\""))
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    /// Looks that fail with each of these and then succeed: how it ends, and after how many of the times that a
    /// database remembers.
    async fn looks(errors: &[&'static str]) -> (Result<usize, &'static str>, u64) {
        let begun = tokio::time::Instant::now();
        let looked = Cell::new(0);
        let look = async || {
            let at = looked.get();
            looked.set(at + 1);
            errors.get(at).map_or(Ok(at), |error| Err(*error))
        };
        let end = until_known(look, |error| *error == "refused").await;
        (end, begun.elapsed().as_secs() / REMEMBERED.as_secs())
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_not_known_yet_is_looked_for_a_while() {
        assert_eq!(looks(&[]).await, (Ok(0), 0));
        assert_eq!(looks(&["refused"; 2]).await, (Ok(2), 2));
        assert_eq!(looks(&["refused", "down"]).await, (Err("down"), 1));
        assert_eq!(looks(&["refused"; LOOKS]).await, (Err("refused"), 4));
    }

    #[test]
    fn nothing_ends_a_name_or_a_string_but_its_end() {
        assert_eq!(quoted("a'; DROP TABLE x"), "'a''; DROP TABLE x'");
        assert_eq!(name(r#"a" WITH SUPERUSER"#), r#""a"" WITH SUPERUSER""#);
    }

    #[test]
    fn no_error_shows_a_password() {
        let words = "line 1:40 mismatched input 'it''s' expecting EOF near it's";
        let shown = without(words, "it's");
        assert_eq!(shown, "line 1:40 mismatched input … expecting EOF near …");
        assert_eq!(without("refused", ""), "refused");
    }
}
