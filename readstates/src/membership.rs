//! Who this member is, and who the others are.
//!
//! In this form the members are given at start and do not change while the process runs: a change of
//! the table stops all members, which flush, and starts them with the new one.

use std::str::FromStr;

use http::Uri;
use readstates_api::{RingDocument, RingMember};
use readstates_ring::{Ring, RingError};

/// One member of the table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Member {
    /// Its name.
    pub name: String,
    /// `http://host:port`, without a slash at the end.
    pub url: String,
}

impl FromStr for Member {
    type Err = String;

    /// Parses `name=url`.
    fn from_str(text: &str) -> Result<Self, String> {
        let form = "write NAME=URL, for example chat-0=http://chat-0.chat-members:7400";
        let (name, url) = text
            .split_once('=')
            .ok_or_else(|| format!("{text:?} has no URL; {form}"))?;
        let uri: Uri = url
            .parse()
            .map_err(|_| format!("{url:?} is no URL; {form}"))?;
        let plain = uri.scheme_str() == Some("http")
            && uri.host().is_some_and(|host| !host.is_empty())
            && uri.path() == "/"
            && uri.query().is_none();
        if !plain {
            return Err(format!("{url:?} is not http://HOST[:PORT]; {form}"));
        }
        Ok(Self {
            name: name.to_owned(),
            url: url.trim_end_matches('/').to_owned(),
        })
    }
}

/// Who owns a user, as seen by this member.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Owner<'a> {
    /// This member.
    Me,
    /// Another one: its index in the table, and the member.
    Other(usize, &'a Member),
}

/// The table of members and this member's place in it.
#[derive(Debug, Clone)]
pub struct Membership {
    ring: Ring,
    members: Vec<Member>,
    me: usize,
    incarnation: u64,
    zone: Option<String>,
}

/// Why a table is none.
#[derive(Debug, thiserror::Error)]
pub enum MembershipError {
    /// The names make no ring.
    #[error("--members: {0}")]
    Ring(#[from] RingError),
    /// This member is not in the table.
    #[error("--member {0:?} is not in --members; the table lists every member, this one included")]
    NotListed(String),
}

impl Membership {
    /// The membership of the member `name` in this table.
    ///
    /// # Errors
    /// When the names make no ring, or `name` is not among them.
    pub fn new(
        number: u64,
        members: Vec<Member>,
        name: &str,
        incarnation: u64,
        zone: Option<String>,
    ) -> Result<Self, MembershipError> {
        let ring = Ring::new(
            number,
            members.iter().map(|member| member.name.clone()).collect(),
        )?;
        let me = ring
            .index_of(name)
            .ok_or_else(|| MembershipError::NotListed(name.to_owned()))?;
        Ok(Self {
            ring,
            members,
            me,
            incarnation,
            zone,
        })
    }

    /// The ring.
    #[must_use]
    pub fn ring(&self) -> &Ring {
        &self.ring
    }

    /// All members, in ring order.
    #[must_use]
    pub fn members(&self) -> &[Member] {
        &self.members
    }

    /// This member's name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.members[self.me].name
    }

    /// This process: 16 hexadecimal digits.
    #[must_use]
    pub fn incarnation(&self) -> String {
        format!("{:016x}", self.incarnation)
    }

    /// Who owns a user.
    #[must_use]
    pub fn owner(&self, user: u64) -> Owner<'_> {
        match self.ring.owner_of_user(user) {
            index if index == self.me => Owner::Me,
            index => Owner::Other(index, &self.members[index]),
        }
    }

    /// How many slots are this member's.
    #[must_use]
    pub fn owned(&self) -> u16 {
        let mine = |&&owner: &&u16| usize::from(owner) == self.me;
        // At most 1024.
        self.ring.owners().iter().filter(mine).count() as u16
    }

    /// The ring as clients read it.
    #[must_use]
    pub fn document(&self) -> RingDocument {
        let member = |(index, member): (usize, &Member)| RingMember {
            name: member.name.clone(),
            incarnation: (index == self.me).then(|| self.incarnation()),
            url: member.url.clone(),
            zone: if index == self.me {
                self.zone.clone()
            } else {
                None
            },
        };
        RingDocument::new(
            &self.ring,
            self.members.iter().enumerate().map(member).collect(),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_member_is_a_name_and_a_plain_http_url() {
        let member: Member = "chat-0=http://chat-0.chat-members.ns.svc:7400/"
            .parse()
            .unwrap();
        assert_eq!(member.url, "http://chat-0.chat-members.ns.svc:7400");
        for bad in [
            "chat-0",
            "a=b",
            "a=https://b",
            "a=http://b/c",
            "a=http://b?c",
            "a=http://",
        ] {
            assert!(bad.parse::<Member>().is_err(), "{bad}");
        }
    }

    #[test]
    fn a_member_outside_of_the_table_is_refused_by_name() {
        let members = vec!["a=http://a".parse().unwrap()];
        let refusal = Membership::new(1, members, "b", 0, None)
            .unwrap_err()
            .to_string();
        assert!(refusal.contains("\"b\" is not in --members"), "{refusal}");
    }
}
