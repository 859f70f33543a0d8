//! The routes file: which requests of the old system are which operations. Read once, at the start, and strictly.

use std::{fs, io, path::Path};

use http::Method;
use serde::Deserialize;
use serde_json::Value;

use super::{
    field::{Source, USED},
    operation::{Does, Manual, Users},
    pattern::Pattern,
    shape::Shape,
};
use crate::rows::Field;

/// Longer files are refused before they are read.
const MAX_BYTES: u64 = 1 << 20;
/// Each request is compared with each route, and each has a series of metrics.
const MAX_ROUTES: usize = 200;

/// Why a routes file cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum RoutesError {
    /// It cannot be read.
    #[error("failed to read it")]
    Io(#[from] io::Error),
    /// There is too much in it.
    #[error("it is larger than {MAX_BYTES} bytes")]
    TooLarge,
    /// It is not of the form.
    #[error("{place}: {problem}")]
    Malformed {
        /// Where in the file.
        place: String,
        /// What is wrong there.
        problem: String,
    },
    /// A route makes no sense.
    #[error("{}routes[{index}] ({request}): {problem}", line.map_or(String::new(), |line| format!("line {line}: ")))]
    Route {
        /// Where its request is.
        line: Option<usize>,
        /// Which one, from 0.
        index: usize,
        request: String,
        /// What is wrong with it.
        problem: String,
    },
}

/// What the file says.
#[derive(Debug)]
pub(super) struct Routes {
    pub(super) routes: Vec<Route>,
    /// How reads are answered; `None`: there are none.
    pub(super) shape: Option<Shape>,
}

/// A kind of request.
#[derive(Debug)]
pub(super) struct Route {
    /// As it is written, for people and metrics.
    pub(super) request: String,
    pub(super) pattern: Pattern,
    pub(super) does: Does,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Written {
    #[serde(default)]
    shape: Option<WrittenShape>,
    routes: Vec<WrittenRoute>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct WrittenShape {
    whole: Value,
    each: Value,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct WrittenRoute {
    request: String,
    does: WrittenDoes,
    user: Option<String>,
    users: Option<String>,
    channel: Option<String>,
    message: Option<String>,
    mentions: Option<String>,
    manual: Option<String>,
    login: Option<WrittenLogin>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum WrittenDoes {
    Ack,
    AckManual,
    Mention,
    Delete,
    Read,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum WrittenLogin {
    Old,
    None,
}

impl Routes {
    pub(super) fn open(file: &Path) -> Result<Self, RoutesError> {
        if fs::metadata(file)?.len() > MAX_BYTES {
            return Err(RoutesError::TooLarge);
        }
        Self::parse(&fs::read_to_string(file)?)
    }

    pub(super) fn parse(text: &str) -> Result<Self, RoutesError> {
        let malformed = |place: &str, problem: String| RoutesError::Malformed {
            place: if place == "." { "the file" } else { place }.to_owned(),
            problem,
        };
        let yaml = serde_yaml_ng::Deserializer::from_str(text);
        let written: Written = serde_path_to_error::deserialize(yaml).map_err(|error| {
            let place = error.path().to_string();
            malformed(&place, error.into_inner().to_string())
        })?;
        let shape = written
            .shape
            .map(|shape| Shape::new(shape.whole, shape.each));
        let shape = shape
            .transpose()
            .map_err(|problem| malformed("shape", problem))?;
        if written.routes.is_empty() || written.routes.len() > MAX_ROUTES {
            let count = written.routes.len();
            return Err(malformed(
                "routes",
                format!("there are {count}; give 1 to {MAX_ROUTES}"),
            ));
        }
        let mut routes: Vec<Route> = Vec::new();
        for (index, written) in written.routes.into_iter().enumerate() {
            let request = written.request.clone();
            let route = route(written, shape.is_some(), &routes);
            routes.push(route.map_err(|problem| RoutesError::Route {
                line: line(text, &request, &routes),
                index,
                request,
                problem,
            })?);
        }
        if shape.is_some() && !routes.iter().any(|route| route.does.is_read()) {
            return Err(malformed(
                "shape",
                "no route reads; leave it out".to_owned(),
            ));
        }
        Ok(Self { routes, shape })
    }

    /// The route of a request.
    pub(super) fn find(&self, method: &Method, path: &str) -> Option<usize> {
        let mut routes = self.routes.iter();
        routes.position(|route| route.pattern.matches(method, path))
    }
}

/// The line of a route: that of its request, behind those of the same text before it.
fn line(text: &str, request: &str, before: &[Route]) -> Option<usize> {
    let same = before
        .iter()
        .filter(|route| route.request == request)
        .count();
    // Not a longer one that begins with it.
    let goes_on = |rest: &str| {
        rest.starts_with(|next: char| next.is_alphanumeric() || "/{*-_.~%".contains(next))
    };
    let is = |line: &str| {
        let found = line.split_once(request);
        found.is_some_and(|(_, rest)| !goes_on(rest))
    };
    let mut at = text.lines().enumerate().filter(|(_, line)| is(line));
    at.nth(same).map(|(line, _)| line + 1)
}

fn route(written: WrittenRoute, has_shape: bool, before: &[Route]) -> Result<Route, String> {
    let pattern = Pattern::parse(&written.request)?;
    if let Some(other) = before.iter().find(|other| other.pattern.overlaps(&pattern)) {
        return Err(format!("a request could be this and {:?}", other.request));
    }
    let request = written.request.clone();
    let does = does(written, &pattern, has_shape)?;
    Ok(Route {
        request,
        pattern,
        does,
    })
}

/// The values of a route that are not taken yet.
struct Given<'p> {
    pattern: &'p Pattern,
    written: [(Field, Option<String>); USED.len()],
    taken: Vec<Field>,
}

impl Given<'_> {
    fn optional(&mut self, field: Field) -> Result<Option<Source>, String> {
        let key = field.key();
        self.taken.push(field);
        let written = self.written.iter_mut().find(|(other, _)| *other == field);
        let written = written.and_then(|(_, written)| written.take());
        let of_path = Source::of_path(self.pattern, field);
        match (of_path, written) {
            (Some(_), Some(_)) => Err(format!("{key} is in the path already; leave `{key}:` out")),
            (Some(source), None) => Ok(Some(source)),
            (None, Some(text)) => {
                let source = Source::parse(&text);
                source
                    .map(Some)
                    .map_err(|problem| format!("{key}: {problem}"))
            }
            (None, None) => Ok(None),
        }
    }

    fn needed(&mut self, field: Field) -> Result<Source, String> {
        let key = field.key();
        self.optional(field)?.ok_or_else(|| {
            format!(
                "{key} is missing: put {{{key}}} into the path, or say where it is with `{key}:`"
            )
        })
    }

    /// Nothing is given that the operation has no use for.
    fn end(self) -> Result<(), String> {
        let rest = self.written.iter().filter(|(_, written)| written.is_some());
        let rest = rest.map(|(field, _)| *field);
        let in_path = self
            .pattern
            .fields()
            .filter(|field| !self.taken.contains(field));
        match rest.chain(in_path).next() {
            Some(field) => Err(format!(
                "{} has no meaning here; in the path write *",
                field.key()
            )),
            None => Ok(()),
        }
    }
}

fn does(written: WrittenRoute, pattern: &Pattern, has_shape: bool) -> Result<Does, String> {
    let WrittenRoute {
        request: _,
        does,
        user,
        users,
        channel,
        message,
        mentions,
        manual,
        login,
    } = written;
    let mut given = Given {
        pattern,
        written: [
            (Field::User, user),
            (Field::Channel, channel),
            (Field::Message, message),
            (Field::Mentions, mentions),
        ],
        taken: Vec::new(),
    };
    let only = |key: &str, given: bool, of: bool| match given && !of {
        true => Err(format!("{key} has no meaning here")),
        false => Ok(()),
    };
    only("users", users.is_some(), does == WrittenDoes::Mention)?;
    only("manual", manual.is_some(), does == WrittenDoes::Ack)?;
    only("login", login.is_some(), does == WrittenDoes::Read)?;
    let made = match does {
        WrittenDoes::Ack => match manual {
            Some(text) => ack(&mut given, Manual::If(in_body("manual", &text)?))?,
            None => ack(&mut given, Manual::Never)?,
        },
        WrittenDoes::AckManual => ack(&mut given, Manual::Always)?,
        WrittenDoes::Mention => Does::Mention {
            users: match users {
                Some(text) => Users::Listed(in_body("users", &text)?),
                None => Users::One(given.needed(Field::User)?),
            },
            channel: given.needed(Field::Channel)?,
            message: given.needed(Field::Message)?,
        },
        WrittenDoes::Delete => Does::Delete {
            user: given.needed(Field::User)?,
            channel: given.optional(Field::Channel)?,
        },
        WrittenDoes::Read => read(&mut given, has_shape, login)?,
    };
    given.end()?;
    Ok(made)
}

fn ack(given: &mut Given<'_>, manual: Manual) -> Result<Does, String> {
    Ok(Does::Ack {
        user: given.needed(Field::User)?,
        channel: given.needed(Field::Channel)?,
        message: given.needed(Field::Message)?,
        mentions: match manual {
            Manual::Never => None,
            Manual::Always | Manual::If(_) => given.optional(Field::Mentions)?,
        },
        manual,
    })
}

fn read(
    given: &mut Given<'_>,
    has_shape: bool,
    login: Option<WrittenLogin>,
) -> Result<Does, String> {
    let user = given.needed(Field::User)?;
    if given.pattern.method != Method::GET || user.is_body() {
        return Err("a read is a GET without a body".to_owned());
    }
    if !has_shape {
        return Err("`shape:` is missing, which says what the answer looks like".to_owned());
    }
    let open = login == Some(WrittenLogin::None);
    Ok(Does::Read { user, open })
}

/// What may be in the body only.
fn in_body(key: &str, text: &str) -> Result<Source, String> {
    match Source::parse(text) {
        Ok(source) if source.is_body() => Ok(source),
        Ok(_) => Err(format!("{key}: give `body /POINTER`")),
        Err(problem) => Err(format!("{key}: {problem}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHAPE: &str = "shape: {whole: '{states}', each: {c: '{channel}', m: '{message}'}}\n";

    #[test]
    fn a_file_says_what_requests_are() {
        let text = format!(
            "{SHAPE}routes:\n\
             - request: POST /channels/{{channel}}/messages/{{message}}/ack\n  does: ack\n  user: header x-user\n  \
               manual: body /manual\n  mentions: body /mention_count\n\
             - {{request: 'PUT /u/{{user}}/{{channel}}', does: ack-manual, message: body /to}}\n\
             - {{request: POST /mentions, does: mention, users: body /users, channel: body /channel, message: body /id}}\n\
             - {{request: 'DELETE /users/{{user}}', does: delete}}\n\
             - {{request: 'GET /users/{{user}}/states', does: read, login: none}}\n"
        );
        let routes = Routes::parse(&text).unwrap();
        assert_eq!(
            routes.find(&Method::POST, "/channels/1/messages/2/ack"),
            Some(0)
        );
        assert_eq!(routes.find(&Method::GET, "/users/7/states"), Some(4));
        assert_eq!(routes.find(&Method::GET, "/users/x/states"), None);
        assert!(matches!(
            routes.routes[0].does,
            Does::Ack {
                manual: Manual::If(_),
                mentions: Some(_),
                ..
            }
        ));
        assert!(matches!(
            routes.routes[4].does,
            Does::Read { open: true, .. }
        ));
    }

    #[test]
    fn a_file_that_makes_no_sense_is_refused_with_the_place() {
        let with_shape = |text: &str| format!("{SHAPE}{text}");
        let ack = "- {request: 'POST /{channel}/{message}', does: ack, user: header x}\n";
        for (text, words) in [
            ("routes: []".to_owned(), "routes: there are 0"),
            ("routs: []".to_owned(), "unknown field `routs`"),
            ("routes:\n- {request: GET /x, does: reed}".to_owned(), "routes[0].does: "),
            ("routes:\n- {request: GET /x, does: read, usr: x}".to_owned(), "at line 2"),
            ("routes:\n- {request: GET /{guild}, does: read}".to_owned(), "line 2"),
            ("routes:\n- {request: 'GET /{guild}', does: read}".to_owned(), "line 2: routes[0] (GET /{guild}): \"GET /{guild}\": {guild} is no placeholder"),
            (format!("routes:\n{ack}{ack}"), "line 3: routes[1] (POST /{channel}/{message}): a request could be this and \"POST /{channel}/{message}\""),
            ("routes:\n- {request: POST /x, does: ack}".to_owned(), "user is missing: put {user} into the path"),
            ("routes:\n- {request: 'GET /{user}', does: read}".to_owned(), "`shape:` is missing"),
            (with_shape("routes:\n- {request: 'POST /{user}', does: read}"), "a read is a GET"),
            (with_shape(&format!("routes:\n{ack}")), "shape: no route reads"),
            (with_shape("routes:\n- {request: 'GET /{user}', does: read, user: header x}"), "leave `user:` out"),
            (with_shape("routes:\n- {request: 'GET /{user}/{channel}', does: read}"), "channel has no meaning here; in the path write *"),
            ("routes:\n- {request: 'POST /{user}', does: delete, login: old}".to_owned(), "login has no meaning here"),
            ("routes:\n- {request: 'POST /{user}/{channel}/{message}', does: ack, mentions: body /m}".to_owned(), "mentions has no meaning here"),
            ("routes:\n- {request: 'POST /{channel}/{message}', does: mention, users: header x}".to_owned(), "users: give `body /POINTER`"),
            ("shape: {whole: x, each: y}\nroutes: []".to_owned(), "shape: whole: \"{states}\" is missing"),
        ] {
            let refusal = Routes::parse(&text).unwrap_err().to_string();
            assert!(refusal.contains(words), "{text}\n{refusal}");
        }
    }
}
