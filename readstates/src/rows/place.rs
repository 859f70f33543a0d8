//! Where foreign rows are.

use std::{fmt, path::PathBuf, str::FromStr};

use crate::store::{CqlTarget, bare, bracketed};

/// The port of Redis.
const REDIS_PORT: u16 = 6379;

/// What `--from` says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Place {
    File(PathBuf),
    Stdin,
    /// A CQL database: what follows `cql://`, perhaps without a keyspace.
    Cql(String),
    Redis(RedisAddress),
}

/// A Redis server and one of its databases.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RedisAddress {
    pub(crate) host: String,
    pub(crate) port: u16,
    pub(crate) db: i64,
}

impl FromStr for Place {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if let Some(hosts) = text.strip_prefix("cql://") {
            // Only the hosts are looked at here: the table may name the keyspace.
            let hosts_alone = hosts.split_once('/').map_or(hosts, |(hosts, _)| hosts);
            format!("{hosts_alone}/k").parse::<CqlTarget>()?;
            return Ok(Self::Cql(hosts.to_owned()));
        }
        if let Some(address) = text.strip_prefix("redis://") {
            return address.parse().map(Self::Redis);
        }
        match text {
            "" => Err("give a file, or - for standard input".to_owned()),
            "-" => Ok(Self::Stdin),
            // A misspelt scheme is no file.
            text if text.contains("://") => Err(format!(
                "{text:?} is no source that is known; give a file, -, cql://HOST[,HOST...][:PORT][/KEYSPACE] or \
                 redis://HOST[:PORT][/DB]"
            )),
            text => Ok(Self::File(text.into())),
        }
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(file) => file.display().fmt(f),
            Self::Stdin => f.write_str("standard input"),
            Self::Cql(hosts) => write!(f, "cql://{hosts}"),
            Self::Redis(RedisAddress { host, port, db }) => {
                write!(f, "redis://{}:{port}/{db}", bracketed(host))
            }
        }
    }
}

impl FromStr for RedisAddress {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let form = "write redis://HOST[:PORT][/DB], and the password in --redis-password-file";
        let (authority, db) = text.split_once('/').unwrap_or((text, "0"));
        let (host, port) = match authority.rsplit_once(':') {
            // The colon is in an IPv6 address.
            Some(_) if authority.ends_with(']') => (authority, Some(REDIS_PORT)),
            Some((host, port)) => (host, port.parse().ok().filter(|&port: &u16| port > 0)),
            None => (authority, Some(REDIS_PORT)),
        };
        let port = port.ok_or_else(|| format!("the port is no port number; {form}"))?;
        let host = bare(host).ok_or_else(|| {
            format!("{host:?} is no host name, IPv4 address or IPv6 address in brackets; {form}")
        })?;
        let db = db.parse().ok().filter(|&db: &i64| db >= 0);
        let db = db.ok_or_else(|| format!("the database is no number; {form}"))?;
        let host = host.to_owned();
        Ok(Self { host, port, db })
    }
}

/// A table of a CQL database, perhaps with its keyspace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TableName {
    keyspace: Option<String>,
    pub(crate) table: String,
}

impl FromStr for TableName {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (keyspace, table) = match text.split_once('.') {
            Some((keyspace, table)) => (Some(keyspace.to_owned()), table),
            None => (None, text),
        };
        let allowed = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
        if table.is_empty() || !table.bytes().all(allowed) {
            return Err(format!(
                "{text:?} is no table; give TABLE or KEYSPACE.TABLE"
            ));
        }
        let table = table.to_owned();
        Ok(Self { keyspace, table })
    }
}

impl fmt::Display for TableName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(keyspace) = &self.keyspace {
            write!(f, "{keyspace}.")?;
        }
        f.write_str(&self.table)
    }
}

impl TableName {
    /// The hosts of a place with the keyspace of the table.
    pub(crate) fn target(&self, hosts: &str) -> Result<CqlTarget, String> {
        match (&self.keyspace, hosts.split_once('/')) {
            (None, _) => hosts.parse(),
            (Some(keyspace), None) => format!("{hosts}/{keyspace}").parse(),
            (Some(keyspace), Some((_, other))) if keyspace == other => hosts.parse(),
            (Some(keyspace), Some((_, other))) => Err(format!(
                "--table names the keyspace {keyspace}, and --from names {other}"
            )),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(text: &str) -> Result<Place, String> {
        text.parse()
    }

    #[test]
    fn a_place_is_a_file_or_a_server() {
        assert_eq!(place("a/b.csv"), Ok(Place::File("a/b.csv".into())));
        assert_eq!(place("-"), Ok(Place::Stdin));
        assert_eq!(place("cql://a,b:9043"), Ok(Place::Cql("a,b:9043".into())));
        let redis = place("redis://cache:6380/3").unwrap();
        assert_eq!(redis.to_string(), "redis://cache:6380/3");
        assert_eq!(
            place("redis://cache").unwrap().to_string(),
            "redis://cache:6379/0"
        );
        for (text, whole) in [
            ("redis://[fd00::7]", "redis://[fd00::7]:6379/0"),
            ("redis://[fd00::7]:6380/1", "redis://[fd00::7]:6380/1"),
        ] {
            let redis = place(text).unwrap();
            assert_eq!(redis.to_string(), whole);
            assert!(matches!(redis, Place::Redis(RedisAddress { host, .. }) if host == "fd00::7"));
        }
        for (text, words) in [
            ("", "give a file"),
            ("mysql://db", "is no source that is known"),
            ("rediss://db", "is no source that is known"),
            ("cql://", "is no host name"),
            ("redis://", "is no host name"),
            ("redis://u:p@cache", "no port number"),
            ("redis://fd00::7", "IPv6 address in brackets"),
            ("redis://[cache]", "IPv6 address in brackets"),
            ("redis://cache/x", "the database is no number"),
        ] {
            let refusal = place(text).unwrap_err();
            assert!(refusal.contains(words), "{text}: {refusal}");
        }
    }

    #[test]
    fn a_keyspace_is_named_once() {
        let table = |text: &str| text.parse::<TableName>();
        let target = |name: &str, hosts| table(name).unwrap().target(hosts);
        assert_eq!(
            target("chat.reads", "db").unwrap().to_string(),
            "cql://db:9042/chat"
        );
        assert_eq!(target("reads", "db/chat").unwrap().keyspace, "chat");
        assert_eq!(target("chat.reads", "db/chat").unwrap().keyspace, "chat");
        assert!(
            target("chat.reads", "db/talk")
                .unwrap_err()
                .contains("names talk")
        );
        assert!(
            target("reads", "db")
                .unwrap_err()
                .contains("keyspace is missing")
        );
        assert!(table("chat.").is_err() && table("a b").is_err() && table("").is_err());
    }
}
