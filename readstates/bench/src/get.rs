//! A plain GET on a connection of its own: for what is asked seldom and not measured.

use std::{
    io::{self, Read as _, Write as _},
    net::{SocketAddr, TcpStream},
    time::Duration,
};

use crate::http;

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
    host: &str,
    path: &str,
    patience: Duration,
) -> Result<Vec<u8>, GetError> {
    let (status, body) = ask(address, host, path, patience).map_err(|source| GetError::Io {
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
    host: &str,
    path: &str,
    patience: Duration,
) -> io::Result<(u16, Vec<u8>)> {
    let mut stream = TcpStream::connect_timeout(&address, patience)?;
    stream.set_read_timeout(Some(patience))?;
    stream.set_write_timeout(Some(patience))?;
    write!(
        stream,
        "GET {path} HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\n\r\n"
    )?;
    let mut input = Vec::new();
    stream.read_to_end(&mut input)?;
    let response = http::parse(&input)
        .ok()
        .flatten()
        .ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, "no HTTP answer"))?;
    let end = response.head + response.length;
    Ok((response.status, input[response.head..end].to_vec()))
}
