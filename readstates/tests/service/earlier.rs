//! Members of earlier releases, as far as frames go that they do not know.

use std::net::SocketAddr;

use readstates_api::{Problem, ProblemType};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpListener,
    task::JoinSet,
};

/// Refuses each request as malformed, once it has read a frame that begins with `magic` and ends with the number 7 in
/// eight bytes.
pub async fn refuses_frames(address: SocketAddr, magic: &'static [u8; 4]) -> JoinSet<()> {
    let detail = "the frame does not start with RSB1";
    let problem = Problem::new(ProblemType::MalformedBody, detail);
    let body = serde_json::to_string(&problem).unwrap();
    let answer = format!(
        "HTTP/1.1 400 x\r\ncontent-type: application/problem+json\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    );
    let listener = TcpListener::bind(address).await.unwrap();
    let mut task = JoinSet::new();
    task.spawn(async move {
        while let Ok((mut socket, _)) = listener.accept().await {
            let mut frame = Vec::new();
            while !frame.ends_with(&7_u64.to_le_bytes()) {
                assert!(socket.read_buf(&mut frame).await.unwrap() > 0);
            }
            assert!(frame.windows(4).any(|bytes| bytes == magic));
            socket.write_all(answer.as_bytes()).await.unwrap();
        }
    });
    task
}
