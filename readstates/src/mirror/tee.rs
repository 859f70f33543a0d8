//! Bodies: one that is read before it is sent on, and one that is copied while it is sent on.

use std::{
    pin::Pin,
    task::{Context, Poll},
};

use bytes::{Bytes, BytesMut};
use http_body_util::{BodyExt as _, combinators::UnsyncBoxBody};
use hyper::body::{Body as _, Frame, Incoming, SizeHint};

/// The body of an answer to a caller.
pub(super) type Body = UnsyncBoxBody<Bytes, reqwest::Error>;

/// A body of an answer that is whole.
pub(super) fn whole(bytes: impl Into<Bytes>) -> Body {
    let body = http_body_util::Full::new(bytes.into());
    body.map_err(|never| match never {}).boxed_unsync()
}

/// A body on its way to the old system.
pub(super) enum Outgoing {
    None,
    /// All of it has been read.
    Whole(Bytes),
    /// What has been read, and the rest: too large, or not read at all.
    Streamed(Prefixed),
}

impl Outgoing {
    /// A body that is not looked at.
    pub(super) fn unread(body: Incoming) -> Self {
        if body.is_end_stream() {
            return Self::None;
        }
        Self::Streamed(Prefixed {
            read: Bytes::new(),
            rest: body,
        })
    }

    /// Reads a body of `most` bytes, or that much of a larger one. An error is one of the caller's connection.
    pub(super) async fn read(mut body: Incoming, most: usize) -> Result<Self, hyper::Error> {
        if body.is_end_stream() {
            return Ok(Self::None);
        }
        let mut read = BytesMut::new();
        while let Some(frame) = body.frame().await {
            if let Ok(data) = frame?.into_data() {
                read.extend_from_slice(&data);
            }
            if read.len() > most {
                let read = read.freeze();
                return Ok(Self::Streamed(Prefixed { read, rest: body }));
            }
        }
        Ok(Self::Whole(read.freeze()))
    }

    pub(super) fn into_body(self) -> Option<reqwest::Body> {
        match self {
            Self::None => None,
            Self::Whole(bytes) => Some(bytes.into()),
            Self::Streamed(body) => Some(reqwest::Body::wrap(body)),
        }
    }
}

/// What has been read of a body, and then the rest of it.
pub(super) struct Prefixed {
    read: Bytes,
    rest: Incoming,
}

impl hyper::body::Body for Prefixed {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        let body = self.get_mut();
        if !body.read.is_empty() {
            let read = std::mem::take(&mut body.read);
            return Poll::Ready(Some(Ok(Frame::data(read))));
        }
        Pin::new(&mut body.rest).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.read.is_empty() && self.rest.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        let (read, rest) = (self.read.len() as u64, self.rest.size_hint());
        let mut hint = SizeHint::new();
        hint.set_lower(rest.lower() + read);
        if let Some(upper) = rest.upper() {
            hint.set_upper(upper + read);
        }
        hint
    }
}

/// What is called with the copy at the end; `None`: it was too large.
type AtEnd = Box<dyn FnOnce(Option<Bytes>) + Send>;

/// A body of the old system on its way to a caller, and a copy. A caller that leaves ends the copy, too.
pub(super) struct Tee {
    body: reqwest::Body,
    copy: Option<BytesMut>,
    most: usize,
    /// Bytes that are still to come, where the old system has said how many.
    left: Option<u64>,
    at_end: Option<AtEnd>,
}

impl Tee {
    pub(super) fn new(
        body: reqwest::Body,
        most: usize,
        at_end: impl FnOnce(Option<Bytes>) + Send + 'static,
    ) -> Self {
        let left = body.size_hint().exact();
        let mut tee = Self {
            left,
            body,
            copy: Some(BytesMut::new()),
            most,
            at_end: Some(Box::new(at_end)),
        };
        tee.end_if_complete();
        tee
    }

    /// Nobody polls a body that is complete.
    fn end_if_complete(&mut self) {
        if self.body.is_end_stream() || self.left == Some(0) {
            self.end();
        }
    }

    fn end(&mut self) {
        if let Some(at_end) = self.at_end.take() {
            at_end(self.copy.take().map(BytesMut::freeze));
        }
    }
}

impl hyper::body::Body for Tee {
    type Data = Bytes;
    type Error = reqwest::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, reqwest::Error>>> {
        let tee = self.get_mut();
        let polled = Pin::new(&mut tee.body).poll_frame(context);
        match &polled {
            Poll::Ready(Some(Ok(frame))) => {
                let data = frame.data_ref();
                let length = data.map_or(0, |data| data.len() as u64);
                tee.left = tee.left.map(|left| left.saturating_sub(length));
                if let (Some(data), Some(copy)) = (data, &mut tee.copy) {
                    match copy.len() + data.len() > tee.most {
                        true => tee.copy = None,
                        false => copy.extend_from_slice(data),
                    }
                }
                tee.end_if_complete();
            }
            Poll::Ready(None) => tee.end(),
            Poll::Ready(Some(Err(_))) | Poll::Pending => {}
        }
        polled
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// All of a body of the old system; `None`: it is too large, or its connection broke.
pub(super) async fn collected(mut body: reqwest::Body, most: usize) -> Option<Bytes> {
    let mut read = BytesMut::new();
    while let Some(frame) = body.frame().await {
        if let Ok(data) = frame.ok()?.into_data() {
            read.extend_from_slice(&data);
        }
        if read.len() > most {
            return None;
        }
    }
    Some(read.freeze())
}
