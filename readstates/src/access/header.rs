//! The `Authorization` header: what is a bearer token, and what is not. Pure.

/// The longest token: those of service accounts have about a thousand bytes.
pub const MAX_TOKEN: usize = 8 << 10;
const SCHEME: &[u8] = b"bearer";

/// Why a header holds no token.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum NoToken {
    /// `Basic` and the like.
    #[error("the Authorization header is not of the scheme Bearer")]
    OtherScheme,
    /// Nothing behind the scheme, or what no token looks like (RFC 6750, 2.1).
    #[error("the Authorization header is not \"Bearer TOKEN\"")]
    Malformed,
    /// Longer than [`MAX_TOKEN`].
    #[error("the token in the Authorization header has more than {MAX_TOKEN} bytes")]
    TooLong,
}

/// The token in the value of an `Authorization` header.
///
/// # Errors
/// When there is none.
pub fn bearer(value: &[u8]) -> Result<&str, NoToken> {
    let (scheme, rest) = value.split_at_checked(SCHEME.len()).unwrap_or((value, b""));
    if !scheme.eq_ignore_ascii_case(SCHEME) || rest.first().is_some_and(|&byte| byte != b' ') {
        return Err(NoToken::OtherScheme);
    }
    let token = rest.trim_ascii();
    if token.len() > MAX_TOKEN {
        return Err(NoToken::TooLong);
    }
    let unpadded = token.iter().rposition(|&byte| byte != b'=');
    let (body, _padding) = token.split_at(unpadded.map_or(0, |last| last + 1));
    let fits = |byte: &u8| byte.is_ascii_alphanumeric() || b"-._~+/".contains(byte);
    if body.is_empty() || !body.iter().all(fits) {
        return Err(NoToken::Malformed);
    }
    std::str::from_utf8(token).map_err(|_| NoToken::Malformed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_what_stands_behind_the_scheme() {
        for (value, token) in [
            ("Bearer abc", "abc"),
            ("bearer abc", "abc"),
            ("BEARER   a.b-c_d~e+f/g==", "a.b-c_d~e+f/g=="),
            ("Bearer abc ", "abc"),
        ] {
            assert_eq!(bearer(value.as_bytes()), Ok(token), "{value}");
        }
    }

    #[test]
    fn what_is_no_token_is_said_to_be_none() {
        let long = format!("Bearer {}", "a".repeat(MAX_TOKEN + 1));
        for (value, why) in [
            ("", NoToken::OtherScheme),
            ("Basic YTpi", NoToken::OtherScheme),
            ("Bearerabc", NoToken::OtherScheme),
            ("abc", NoToken::OtherScheme),
            ("Bearer", NoToken::Malformed),
            ("Bearer ", NoToken::Malformed),
            ("Bearer ==", NoToken::Malformed),
            ("Bearer a b", NoToken::Malformed),
            ("Bearer a=b", NoToken::Malformed),
            ("Bearer a,b", NoToken::Malformed),
            ("Bearer \u{e9}", NoToken::Malformed),
            (&long, NoToken::TooLong),
        ] {
            assert_eq!(bearer(value.as_bytes()), Err(why), "{value}");
        }
    }
}
