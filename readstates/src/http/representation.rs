//! In which form the read states of a user are answered: JSON or binary rows, and compressed or not.
//!
//! Comes in: the headers `Accept` and `Accept-Encoding`. Goes out: a [`Form`], and bodies in it. Nothing is refused: what
//! is not known is answered with JSON as it is.

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Response, header};
use readstates_api::rows;

use super::{json, packing, reply::Body, rows as written_rows};
use crate::block::{BlockRef, State};

/// Below it, compressing saves less than it costs.
const WORTH_COMPRESSING: usize = 1 << 10;

const VARY: HeaderValue = HeaderValue::from_static("accept, accept-encoding");
const ZSTD: HeaderValue = HeaderValue::from_static("zstd");

/// The media type of a body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Representation {
    Json,
    Rows,
}

/// Whether a body is compressed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Coding {
    Identity,
    Zstd,
}

/// Both.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Form {
    pub(super) representation: Representation,
    pub(super) coding: Coding,
}

impl Form {
    /// What a request asks for.
    pub(super) fn of(headers: &HeaderMap) -> Self {
        Self {
            representation: Representation::of(headers),
            coding: Coding::of(headers),
        }
    }

    /// How a body of so many bytes is answered, which is in its representation and not compressed.
    pub(super) fn coding_of(self, bytes: usize) -> Coding {
        if bytes < WORTH_COMPRESSING {
            Coding::Identity
        } else {
            self.coding
        }
    }

    /// A short body in this form.
    pub(super) fn short(self, body: Vec<u8>) -> Response<Body> {
        let (body, coding) = match self.coding_of(body.len()) {
            Coding::Identity => (body, Coding::Identity),
            Coding::Zstd => match packing::compress(&body) {
                Some(short) => (short, Coding::Zstd),
                None => (body, Coding::Identity),
            },
        };
        self.response(Body::whole(body.into()), coding)
    }

    /// A body in memory that is counted already.
    pub(super) fn shared(self, body: Bytes, coding: Coding) -> Response<Body> {
        self.response(Body::Shared((!body.is_empty()).then_some(body)), coding)
    }

    fn response(self, body: Body, coding: Coding) -> Response<Body> {
        let mut response = Response::new(body);
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, self.representation.media_type());
        if coding == Coding::Zstd {
            headers.insert(header::CONTENT_ENCODING, ZSTD);
        }
        headers.insert(header::VARY, VARY);
        response
    }
}

impl Representation {
    /// Rows where they are named and not less wanted than JSON: `*/*` is JSON.
    fn of(headers: &HeaderMap) -> Self {
        match (
            quality(headers, &header::ACCEPT, rows::MEDIA_TYPE),
            quality(headers, &header::ACCEPT, "application/json"),
        ) {
            (Some(rows), json) if rows > 0 && json.is_none_or(|json| rows >= json) => Self::Rows,
            (Some(_) | None, _) => Self::Json,
        }
    }

    fn media_type(self) -> HeaderValue {
        HeaderValue::from_static(match self {
            Self::Json => "application/json",
            Self::Rows => rows::MEDIA_TYPE,
        })
    }

    /// What so many states take at most.
    pub(super) const fn most_bytes(self, states: usize) -> usize {
        match self {
            Self::Json => json::most_bytes(states),
            Self::Rows => written_rows::most_bytes(states),
        }
    }

    /// All read states of a block, or those that changed since a version where that can be told: `shown` of them.
    pub(super) fn read_states(
        self,
        user: u64,
        block: BlockRef<'_>,
        since: Option<u64>,
        shown: usize,
    ) -> Vec<u8> {
        match self {
            Self::Json => json::read_states(user, block, since, shown),
            Self::Rows => written_rows::read_states(user, block, since, shown),
        }
    }

    /// A page of read states of a user at this version, and the channel after which the next one begins.
    pub(super) fn page(
        self,
        user: u64,
        version: u64,
        states: &[State],
        next: Option<u64>,
    ) -> Vec<u8> {
        match self {
            Self::Json => json::page(user, version, states, next),
            Self::Rows => written_rows::page(user, version, states, next),
        }
    }
}

impl Coding {
    /// Compressed only where zstd is named. (Common HTTP libraries ask for gzip without being told to, and it takes several
    /// times as long as everything else about an answer.)
    fn of(headers: &HeaderMap) -> Self {
        match quality(headers, &header::ACCEPT_ENCODING, "zstd") {
            Some(1..) => Self::Zstd,
            Some(0) | None => Self::Identity,
        }
    }
}

/// How much a value is wanted, in thousandths, where the lists of a header name it.
fn quality(headers: &HeaderMap, name: &HeaderName, wanted: &str) -> Option<u16> {
    let lists = headers.get_all(name).iter();
    let mut items = lists
        .filter_map(|list| list.to_str().ok())
        .flat_map(|list| list.split(','));
    items.find_map(|item| {
        let mut parts = item.split(';').map(str::trim);
        let named = parts
            .next()
            .is_some_and(|value| value.eq_ignore_ascii_case(wanted));
        let weight =
            || parts.find_map(|part| part.strip_prefix("q=").or_else(|| part.strip_prefix("Q=")));
        named
            .then(weight)
            .map(|weight| weight.map_or(1000, thousandths))
    })
}

/// As RFC 9110 writes a weight; one that makes no sense is as good as none.
fn thousandths(weight: &str) -> u16 {
    match weight.parse::<f32>() {
        Ok(weight) if (0.0..=1.0).contains(&weight) => (weight * 1000.0).round() as u16,
        Ok(_) | Err(_) => 1000,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn form(headers: &[(HeaderName, &str)]) -> Form {
        let headers = headers
            .iter()
            .map(|(name, value)| (name.clone(), HeaderValue::from_str(value).unwrap()));
        let mut map = HeaderMap::new();
        for (name, value) in headers {
            map.append(name, value);
        }
        Form::of(&map)
    }

    #[test]
    fn rows_are_for_those_who_name_them_and_json_is_for_everybody_else() {
        let accept = |values: &[&str]| {
            let headers: Vec<_> = values
                .iter()
                .map(|value| (header::ACCEPT, *value))
                .collect();
            form(&headers).representation
        };
        for values in [
            &["application/vnd.readstates.rows"][..],
            &["Application/Vnd.Readstates.Rows"],
            &["application/json;q=0.9, application/vnd.readstates.rows"],
            &["application/json", "application/vnd.readstates.rows"],
            &[
                "text/plain",
                "application/vnd.readstates.rows ; q=0.1, */*;q=0.05",
            ],
        ] {
            assert_eq!(accept(values), Representation::Rows, "{values:?}");
        }
        for values in [
            &[][..],
            &["*/*"],
            &["application/*"],
            &["application/json"],
            &["application/vnd.readstates.rows;q=0"],
            &["application/vnd.readstates.rows;q=0.5, application/json"],
            &["application/vnd.readstates.rowsx"],
        ] {
            assert_eq!(accept(values), Representation::Json, "{values:?}");
        }
    }

    #[test]
    fn a_body_is_compressed_for_those_who_name_zstd_and_only_where_it_is_worth_it() {
        let coding = |value: &str| form(&[(header::ACCEPT_ENCODING, value)]).coding;
        for value in ["zstd", "gzip, deflate, br, zstd", "gzip;q=1, zstd;q=0.5"] {
            assert_eq!(coding(value), Coding::Zstd, "{value}");
        }
        for value in ["", "gzip", "*", "zstd;q=0", "zstd;q=0.000", "identity"] {
            assert_eq!(coding(value), Coding::Identity, "{value}");
        }
        let form = form(&[(header::ACCEPT_ENCODING, "zstd")]);
        let response = form.short(vec![b'a'; WORTH_COMPRESSING - 1]);
        assert!(!response.headers().contains_key(header::CONTENT_ENCODING));
        let response = form.short(vec![b'a'; WORTH_COMPRESSING]);
        assert_eq!(response.headers()[header::CONTENT_ENCODING], "zstd");
        assert_eq!(response.headers()[header::VARY], "accept, accept-encoding");
        let Body::Whole(Some(body)) = response.into_body() else {
            panic!("it has a body");
        };
        assert!(body.len() < 100);
        assert_eq!(
            zstd::bulk::decompress(&body, 1 << 20).unwrap(),
            vec![b'a'; WORTH_COMPRESSING]
        );
    }
}
