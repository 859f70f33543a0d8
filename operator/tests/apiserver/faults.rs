//! Faults between an operator and the API server: writes that conflict, fail, are done and not answered or done when
//! they are no longer expected; watches that lag, end, break, and have to list again. Either the nth write fails in one
//! way, or a seed decides what happens to which request: the same seed, the same faults. The interleaving is up to the
//! machine.

use std::{
    collections::BTreeMap,
    future::Future,
    hash::{DefaultHasher, Hash, Hasher},
    time::Duration,
};

use axum::body::{Body, Bytes, HttpBody};
use futures::{StreamExt, stream};
use http::{Method, Response};
use serde_json::json;
use tower::BoxError;

/// What happens to a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// Another client was faster, and it is not done.
    Conflict,
    /// The API server fails, and it is not done.
    Failure,
    /// The API server refuses it, as by a quota, and it is not done.
    Forbidden,
    /// The API server is of a release that does not know what is asked for.
    Unknown,
    /// It is done, and the answer is lost.
    Lost,
    /// It is done after this time, when the caller has given up.
    Late(Duration),
    /// It is done at once, and the answer takes this time.
    Slow(Duration),
}

/// How a watch goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct WatchCourse {
    /// Whether it is refused, since what it asks for is too old.
    gone: bool,
    /// How long each part of it is on its way.
    lag: Duration,
    /// After how many parts it ends, and how.
    cut: Option<(usize, Ending)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ending {
    /// As the API server ends watches.
    Clean,
    /// The connection breaks.
    Reset,
    /// It ends in the middle of an event.
    Torn,
}

#[derive(Clone, Copy, Debug, Default)]
enum Plan {
    #[default]
    Calm,
    /// This happens to the nth write from 0.
    Nth(u64, Fault),
    /// This happens to the nth read from 0.
    NthRead(u64, Fault),
    /// This happens to every write to a path that ends like this.
    Each(&'static str, Fault),
    /// No read of a path that ends like this is answered with more than a failure.
    Unreadable(&'static str),
    Seed(u64),
}

/// What is to happen to requests, and what has.
#[derive(Debug, Default)]
pub(crate) struct Faults {
    plan: Plan,
    /// Requests of each sort so far.
    counts: BTreeMap<String, u64>,
    /// What happened to which request, in order.
    log: Vec<String>,
}

impl Faults {
    /// By this seed.
    pub(crate) fn seeded(seed: u64) -> Self {
        Self {
            plan: Plan::Seed(seed),
            ..Self::default()
        }
    }

    /// From now on the nth write, counted from 0, and no other.
    pub(crate) fn only_nth(nth: u64, fault: Fault) -> Self {
        Self {
            plan: Plan::Nth(nth, fault),
            ..Self::default()
        }
    }

    /// From now on the nth read, counted from 0, and no other.
    pub(crate) fn only_nth_read(nth: u64, fault: Fault) -> Self {
        Self {
            plan: Plan::NthRead(nth, fault),
            ..Self::default()
        }
    }

    /// From now on every write to a path that ends like this, and no other.
    pub(crate) fn each(end: &'static str, fault: Fault) -> Self {
        Self {
            plan: Plan::Each(end, fault),
            ..Self::default()
        }
    }

    /// Writes to paths that end like this are not known.
    pub(crate) fn without(end: &'static str) -> Self {
        Self::each(end, Fault::Unknown)
    }

    /// Reads of paths that end like this fail.
    pub(crate) fn unreadable(end: &'static str) -> Self {
        Self {
            plan: Plan::Unreadable(end),
            ..Self::default()
        }
    }

    /// What has happened, in order.
    pub(crate) fn log(&self) -> &[String] {
        &self.log
    }

    /// What happens to this write.
    pub(crate) fn of_write(&mut self, method: &Method, path: &str) -> Option<Fault> {
        if path.ends_with("/events") {
            // Words to a person, which nothing rests on.
            return None;
        }
        let nth = self.count("write");
        let fault = match self.plan {
            Plan::Calm | Plan::NthRead(..) | Plan::Unreadable(_) => None,
            Plan::Nth(which, fault) => (nth == which).then_some(fault),
            Plan::Each(end, fault) => path.ends_with(end).then_some(fault),
            Plan::Seed(seed) => {
                let dice = Dice(seed, "write", nth);
                match dice.below("fault", 32) {
                    0 => Some(Fault::Conflict),
                    1 => Some(Fault::Failure),
                    2 => Some(Fault::Lost),
                    3 => Some(Fault::Late(dice.pick("late", [1, 4, 10, 20]))),
                    _ => None,
                }
            }
        };
        self.tell(fault, method.as_str(), path)
    }

    /// What happens to this read.
    pub(crate) fn of_read(&mut self, path: &str) -> Option<Fault> {
        let nth = self.count("read");
        if let Plan::NthRead(which, fault) = self.plan {
            return self.tell((nth == which).then_some(fault), "GET", path);
        }
        if let Plan::Unreadable(end) = self.plan {
            let fails = path.ends_with(end).then_some(Fault::Failure);
            return self.tell(fails, "GET", path);
        }
        let Plan::Seed(seed) = self.plan else {
            return None;
        };
        let fault = match Dice(seed, "read", nth).below("fault", 200) {
            0 => Some(Fault::Failure),
            1 => Some(Fault::Lost),
            _ => None,
        };
        self.tell(fault, "GET", path)
    }

    /// How this watch goes.
    pub(crate) fn of_watch(&mut self, path: &str) -> WatchCourse {
        let nth = self.count(path);
        let Plan::Seed(seed) = self.plan else {
            return WatchCourse::CALM;
        };
        let dice = Dice(seed, path.rsplit('/').next().unwrap_or_default(), nth);
        let ending = match dice.below("ending", 6) {
            0 => Some(Ending::Clean),
            1 => Some(Ending::Reset),
            2 => Some(Ending::Torn),
            _ => None,
        };
        let parts = usize::try_from(dice.below("parts", 5)).unwrap();
        let course = WatchCourse {
            gone: dice.below("gone", 5) == 0,
            lag: dice.pick("lag", [0, 0, 1, 4, 15]),
            cut: ending.map(|ending| (parts, ending)),
        };
        if course != WatchCourse::CALM {
            self.log.push(format!("{course:?} of {path}"));
        }
        course
    }

    fn count(&mut self, sort: &str) -> u64 {
        let count = self.counts.entry(sort.to_owned()).or_default();
        *count += 1;
        *count - 1
    }

    fn tell(&mut self, fault: Option<Fault>, method: &str, path: &str) -> Option<Fault> {
        let fault = fault?;
        self.log.push(format!("{fault:?} of {method} {path}"));
        Some(fault)
    }
}

impl WatchCourse {
    const CALM: Self = Self {
        gone: false,
        lag: Duration::ZERO,
        cut: None,
    };

    /// The answer as it arrives.
    pub(crate) async fn of<R>(
        self,
        response: impl Future<Output = Result<Response<R>, BoxError>>,
    ) -> Result<Response<Body>, BoxError>
    where
        R: HttpBody<Data = Bytes> + Send + 'static,
        R::Error: Into<BoxError>,
    {
        let Self { gone, lag, cut } = self;
        if gone {
            return Ok(too_old());
        }
        let response = response.await?.map(Body::new);
        if !response.status().is_success() {
            return Ok(response);
        }
        Ok(response.map(|body| {
            let parts = body.into_data_stream().then(move |part| async move {
                tokio::time::sleep(lag).await;
                part.map_err(BoxError::from)
            });
            let Some((count, ending)) = cut else {
                return Body::from_stream(parts);
            };
            let last: Option<Result<_, BoxError>> = match ending {
                Ending::Clean => None,
                Ending::Reset => Some(Err("the connection was reset".into())),
                Ending::Torn => Some(Ok(Bytes::from_static(br#"{"type":"MODIFIED","obj"#))),
            };
            Body::from_stream(parts.take(count).chain(stream::iter(last)))
        }))
    }
}

/// The end of a watch that asks for what is not kept any more, as the API server says it.
fn too_old() -> Response<Body> {
    let event = json!({ "type": "ERROR", "object": status(410, "Expired") });
    Response::new(Body::from(format!("{event}\n")))
}

/// An answer of the API server that is none.
pub(crate) fn refusal(code: u16, reason: &str) -> Response<Body> {
    let mut response = Response::new(Body::from(status(code, reason).to_string()));
    *response.status_mut() = code.try_into().unwrap();
    response
}

fn status(code: u16, reason: &str) -> serde_json::Value {
    json!({
        "apiVersion": "v1", "kind": "Status", "metadata": {}, "status": "Failure",
        "message": "it went wrong because the test wants it", "reason": reason, "code": code,
    })
}

/// Random answers, the same ones for the same seed, sort of request and number of it.
pub(crate) struct Dice<'a>(pub(crate) u64, pub(crate) &'a str, pub(crate) u64);

impl Dice<'_> {
    fn below(&self, question: &str, end: u64) -> u64 {
        let Self(seed, sort, nth) = self;
        let mut hasher = DefaultHasher::new();
        (seed, sort, nth, question).hash(&mut hasher);
        hasher.finish() % end
    }

    /// One of these numbers of seconds.
    pub(crate) fn pick<const N: usize>(&self, question: &str, seconds: [u64; N]) -> Duration {
        let at = self.below(question, N as u64);
        Duration::from_secs(seconds[usize::try_from(at).unwrap()])
    }
}
