//! Refusals: RFC 9457 problem details with types that stay the same.

use std::{borrow::Cow, fmt};

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use utoipa::{
    PartialSchema, ToSchema,
    openapi::{ObjectBuilder, RefOr, Schema, schema::Type},
};

use crate::Version;

/// Prefix of the `type` of every problem.
const TYPE_PREFIX: &str = "/problems/";

/// Body of every refusal, `application/problem+json`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(example = json!({"type": "/problems/bad-value", "title": "A value is not acceptable", "status": 400, "detail": "read_states is empty; give 1 to 1000 acknowledgements", "pointer": "/read_states", "request_id": "1c8d4e5f-4a41-4b1c-8a53-0f4f3a1d9e07"}))]
pub struct Problem {
    /// The kind of problem; stable.
    #[serde(rename = "type")]
    pub problem: ProblemType,
    /// The kind in words; stable.
    pub title: String,
    /// The HTTP status.
    #[schema(minimum = 400, maximum = 599)]
    pub status: u16,
    /// What is wrong with this request, and how to fix it.
    pub detail: String,
    /// JSON pointer to the invalid member of the body.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pointer: Option<String>,
    /// With `not-the-owner`: the member that owns the user.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub owner: Option<String>,
    /// With `not-the-owner`: the URL of that member.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub owner_url: Option<String>,
    /// With `not-the-owner`: the number of the ring that names this owner.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ring_number: Option<u64>,
    /// With `version-moved`: the user's current version.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<Version>,
    /// The id of the request: its `x-request-id`, or one that the member generated. It also appears in the member's
    /// log.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request_id: Option<String>,
}

impl Problem {
    /// A problem of this type, with the title and status that go with it.
    pub fn new(problem: ProblemType, detail: impl Into<String>) -> Self {
        Self {
            problem,
            title: problem.title().to_owned(),
            status: problem.status(),
            detail: detail.into(),
            pointer: None,
            owner: None,
            owner_url: None,
            ring_number: None,
            version: None,
            request_id: None,
        }
    }

    /// The same problem, with a pointer to the invalid member of the body.
    #[must_use]
    pub fn at(mut self, pointer: impl Into<String>) -> Self {
        self.pointer = Some(pointer.into());
        self
    }
}

macro_rules! problem_types {
    ($($(#[$doc:meta])+ $variant:ident = ($name:literal, $status:literal, $title:literal),)+) => {
        /// The kinds of problems. In JSON: `/problems/` and the kebab-case name.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum ProblemType {
            $($(#[$doc])+ $variant,)+
        }

        impl ProblemType {
            /// All of them.
            pub const ALL: &'static [Self] = &[$(Self::$variant,)+];

            /// The last part of the type.
            #[must_use]
            pub fn name(self) -> &'static str {
                match self {
                    $(Self::$variant => $name,)+
                }
            }

            /// The HTTP status that goes with it.
            #[must_use]
            pub fn status(self) -> u16 {
                match self {
                    $(Self::$variant => $status,)+
                }
            }

            /// The type in words.
            #[must_use]
            pub fn title(self) -> &'static str {
                match self {
                    $(Self::$variant => $title,)+
                }
            }
        }
    };
}

problem_types! {
    /// The body is not JSON, has an unknown member, or lacks a required one.
    MalformedBody = ("malformed-body", 400, "The body is malformed"),
    /// A value is out of range, or contradicts another one.
    BadValue = ("bad-value", 400, "A value is not acceptable"),
    /// The request does not authenticate a caller; `WWW-Authenticate` says how to.
    Unauthenticated = ("unauthenticated", 401, "The caller is not known"),
    /// The caller lacks the verb that the detail names.
    Forbidden = ("forbidden", 403, "The caller may not do this"),
    /// The user has no read state for this channel.
    NoReadState = ("no-read-state", 404, "No such read state"),
    /// There is nothing at this path.
    NoRoute = ("no-route", 404, "No such resource"),
    /// The path does not support this method; `Allow` lists the supported ones.
    MethodNotAllowed = ("method-not-allowed", 405, "The resource has no such method"),
    /// The request is meant for a process other than the one that now has the member's name.
    AnotherIncarnation = ("another-incarnation", 409, "The member is another process now"),
    /// The sender or the receiver of slots is not a member that the ring or its own lease names.
    NotAMember = ("not-a-member", 409, "Not a live member of the ring"),
    /// The user's version does not match `If-Match`; nothing was done.
    VersionMoved = ("version-moved", 412, "The user has changed meanwhile"),
    /// The body is larger than 4 MiB.
    BodyTooLarge = ("body-too-large", 413, "The body is too large"),
    /// The list in the body has too many items.
    TooManyItems = ("too-many-items", 413, "Too many items"),
    /// The body is not declared with the media type that the path accepts.
    UnsupportedMediaType = ("unsupported-media-type", 415, "The media type is not supported"),
    /// Another member owns the user, and the client asked not to forward.
    NotTheOwner = ("not-the-owner", 421, "Another member owns this user"),
    /// The user has reached the maximum number of read states.
    TooManyReadStates = ("too-many-read-states", 429, "The user has too many read states"),
    /// The user changes faster than the database can write.
    UserTooBusy = ("user-too-busy", 429, "The user changes too fast"),
    /// The caller has too many requests under way.
    CallerTooBusy = ("caller-too-busy", 429, "The caller is at its limit"),
    /// The member is already handling too many requests.
    Overloaded = ("overloaded", 503, "The member is at its limit"),
    /// Too many changes are waiting for the database.
    TooManyUnwritten = ("too-many-unwritten", 503, "Too many changes wait for the database"),
    /// The user is not cached, and the database does not return the user's block.
    DatabaseAway = ("database-away", 503, "The database does not answer"),
    /// The member is stopping.
    Draining = ("draining", 503, "The member is stopping"),
    /// The user's slot is moving from one owner to the next; nothing was done.
    SlotMoving = ("slot-moving", 503, "The user is moving to another member"),
    /// The user's slot has no owner, or its owner may not acknowledge at the moment; nothing was done.
    NoOwner = ("no-owner", 503, "No member may acknowledge for this user now"),
    /// The owner of the user cannot be reached; nothing was done.
    OwnerUnreachable = ("owner-unreachable", 503, "The owner of the user cannot be reached"),
    /// Members do not agree on who owns the user; nothing was done.
    RingDisagreement = ("ring-disagreement", 503, "The members disagree about the owner"),
    /// The token cannot be checked at the moment; nothing was done.
    AccessUnavailable = ("access-unavailable", 503, "The caller cannot be checked now"),
    /// The data stored in the database for this user cannot be read.
    UnreadableBlock = ("unreadable-block", 500, "The stored block cannot be read"),
    /// The owner did not answer in time. Operations that only move forward, and operations with `If-Match`, may be sent
    /// again.
    OutcomeUnknown = ("outcome-unknown", 504, "The outcome is unknown"),
}

impl ProblemType {
    /// Whether the answer carries `Retry-After`: the same request may succeed later.
    #[must_use]
    pub fn passes(self) -> bool {
        matches!(self.status(), 429 | 503)
    }

    /// Whether it describes the user's data; then it is reliable only in an answer of the user's owner.
    #[must_use]
    pub fn is_about_the_user(self) -> bool {
        matches!(
            self,
            Self::NoReadState | Self::VersionMoved | Self::TooManyReadStates
        )
    }
}

impl fmt::Display for ProblemType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{TYPE_PREFIX}{}", self.name())
    }
}

impl Serialize for ProblemType {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for ProblemType {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.strip_prefix(TYPE_PREFIX)
            .and_then(|name| Self::ALL.iter().find(|problem| problem.name() == name))
            .copied()
            .ok_or_else(|| {
                de::Error::invalid_value(de::Unexpected::Str(&text), &"a known problem type")
            })
    }
}

// By hand, because the derive writes the names of the variants.
impl PartialSchema for ProblemType {
    fn schema() -> RefOr<Schema> {
        ObjectBuilder::new()
            .schema_type(Type::String)
            .description(Some("The kinds of problems; stable."))
            .enum_values(Some(Self::ALL.iter().map(ToString::to_string)))
            .into()
    }
}

impl ToSchema for ProblemType {
    fn name() -> Cow<'static, str> {
        Cow::Borrowed("ProblemType")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_are_distinct_kebab_names_that_survive_json() {
        for (index, &problem) in ProblemType::ALL.iter().enumerate() {
            let name = problem.name();
            assert!(
                name.bytes()
                    .all(|byte| byte.is_ascii_lowercase() || byte == b'-'),
                "{name}"
            );
            assert!(
                ProblemType::ALL[..index]
                    .iter()
                    .all(|other| other.name() != name),
                "{name}"
            );
            let json = serde_json::to_string(&problem).unwrap();
            assert_eq!(json, format!("\"/problems/{name}\""));
            assert_eq!(serde_json::from_str::<ProblemType>(&json).unwrap(), problem);
        }
    }

    #[test]
    fn a_problem_carries_its_status_title_and_pointer() {
        let problem = Problem::new(ProblemType::BadValue, "count must be at least 1").at("/count");
        let json = r#"{"type":"/problems/bad-value","title":"A value is not acceptable","status":400,"detail":"count must be at least 1","pointer":"/count"}"#;
        assert_eq!(serde_json::to_string(&problem).unwrap(), json);
    }
}
