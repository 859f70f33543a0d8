//! Names in the lineage header: text of letters, digits, dots, dashes and underscores, which is what a UID of
//! Kubernetes is made of.

/// What the lineage header has room for.
pub(crate) const MAX: usize = 64;

/// Whether the header takes a text as a name.
pub(crate) fn is_name(text: &str) -> bool {
    let good = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_');
    (1..=MAX).contains(&text.len()) && text.chars().all(good)
}

/// A type for one kind of such names, and the error of a text that is none.
macro_rules! name {
    ($(#[$docs:meta])* $name:ident, $(#[$error_docs:meta])* $error:ident, $what:literal) => {
        $(#[$docs])*
        #[derive(
            Clone, Debug, PartialEq, Eq, PartialOrd, Ord, serde::Serialize, serde::Deserialize,
        )]
        #[serde(try_from = "String", into = "String")]
        pub struct $name(String);

        $(#[$error_docs])*
        #[derive(Debug, thiserror::Error)]
        #[error(
            "a {} has 1 to {} letters, digits, dots, dashes or underscores",
            $what,
            $crate::names::MAX
        )]
        pub struct $error;

        impl $name {
            /// What the lineage header has room for.
            pub const MAX: usize = $crate::names::MAX;

            /// The text as it was given.
            #[must_use]
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl std::str::FromStr for $name {
            type Err = $error;

            fn from_str(text: &str) -> Result<Self, Self::Err> {
                Self::try_from(text.to_owned())
            }
        }

        impl TryFrom<String> for $name {
            type Error = $error;

            fn try_from(text: String) -> Result<Self, Self::Error> {
                match $crate::names::is_name(&text) {
                    true => Ok(Self(text)),
                    false => Err($error),
                }
            }
        }

        impl From<$name> for String {
            fn from(name: $name) -> Self {
                name.0
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(&self.0)
            }
        }
    };
}

pub(crate) use name;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_text_that_the_header_has_room_for() {
        for bad in ["", "a b", "a/b", "a@b", "ä", &"x".repeat(MAX + 1)] {
            assert!(!is_name(bad), "{bad:?}");
        }
        for good in ["v-1", "0d1e.8f_3C", &"x".repeat(MAX)] {
            assert!(is_name(good), "{good:?}");
        }
    }
}
