//! A plain GET on a connection of its own: for what is asked seldom and not measured.

use std::{
    io::{self, Read, Write},
    net::{SocketAddr, TcpStream},
    time::Duration,
};

use rustls::StreamOwned;

use crate::{config::Target, http, secure::Head};

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
pub(crate) enum GetError {
    #[error("failed to get {path} from {address}")]
    Io {
        path: String,
        address: SocketAddr,
        source: io::Error,
    },
    #[error("{address} answered GET {path} with status {status}: {body}")]
    Status {
        path: String,
        address: SocketAddr,
        status: u16,
        body: String,
    },
}

/// The body of a 200.
pub(crate) fn get(
    address: SocketAddr,
    target: &Target,
    path: &str,
    patience: Duration,
) -> Result<Vec<u8>, GetError> {
    let (status, body) = ask(address, target, path, patience).map_err(|source| GetError::Io {
        path: path.to_owned(),
        address,
        source,
    })?;
    if status == 200 {
        return Ok(body);
    }
    Err(GetError::Status {
        path: path.to_owned(),
        address,
        status,
        body: String::from_utf8_lossy(&body).into_owned(),
    })
}

fn ask(
    address: SocketAddr,
    target: &Target,
    path: &str,
    patience: Duration,
) -> io::Result<(u16, Vec<u8>)> {
    let stream = TcpStream::connect_timeout(&address, patience)?;
    stream.set_read_timeout(Some(patience))?;
    stream.set_write_timeout(Some(patience))?;
    let head = Head::new(&target.host, target.token.as_ref());
    let request = format!("GET {path} HTTP/1.1\r\n{head}connection: close\r\n\r\n");
    let input = match &target.tls {
        None => exchange(stream, &request)?,
        Some(tls) => exchange(StreamOwned::new(tls.session()?, stream), &request)?,
    };
    let response = http::parse(&input)
        .ok()
        .flatten()
        .ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, "no HTTP answer"))?;
    let end = response.head + response.length;
    Ok((response.status, input[response.head..end].to_vec()))
}

/// Sends all of it, and reads until the other end closes.
fn exchange(mut stream: impl Read + Write, request: &str) -> io::Result<Vec<u8>> {
    stream.write_all(request.as_bytes())?;
    let mut input = Vec::new();
    match stream.read_to_end(&mut input) {
        // A connection that is cut rather than closed: what was read says whether it is whole.
        Err(error) if error.kind() != io::ErrorKind::UnexpectedEof => Err(error),
        Ok(_) | Err(_) => Ok(input),
    }
}
