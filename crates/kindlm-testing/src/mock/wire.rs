//! A minimal HTTP/1.1 server for the mock.

use std::io;
use std::net::TcpListener;
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::dialect::{self, Dialect};
use super::head::head;
use super::reply::{Body, Ending};
use super::{Answers, MockReply, Shared};

/// A received request.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MockRequest {
    /// The method, such as `POST`.
    pub method: String,
    /// The path with its query.
    pub path: String,
    /// The headers in order, with lower-case names.
    pub headers: Vec<(String, String)>,
    /// The body.
    pub body: Vec<u8>,
}

impl MockRequest {
    /// Returns the value of the first header with this lower-case name. Returns `None` without such a header.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str())
    }

    /// Returns the body as JSON; `Null` if it is not JSON.
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_default()
    }
}

/// Accepts connections until the future is dropped.
pub(super) async fn accept(listener: TcpListener, shared: Arc<Shared>) {
    let Ok(listener) = tokio::net::TcpListener::from_std(listener) else { return };
    loop {
        if let Ok((stream, _)) = listener.accept().await {
            let shared = Arc::clone(&shared);
            tokio::spawn(async move {
                // Clients may close the connection at any time, so ignore errors.
                let _ = serve(stream, &shared).await;
            });
        }
    }
}

/// Serves the requests of one connection.
async fn serve(mut stream: TcpStream, shared: &Shared) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let mut buffer = Vec::with_capacity(4096);
    while let Some((head, length)) = read_head(&mut stream, &mut buffer).await? {
        let entered = shared.enter();
        while buffer.len() < head + length {
            if stream.read_buf(&mut buffer).await? == 0 {
                return Ok(());
            }
        }
        if entered.is_none() {
            stream.write_all(refusal().as_bytes()).await?;
            buffer.drain(..head + length);
            continue;
        }
        match &shared.answers {
            Answers::Fixed(replies, latency) => {
                let whole = replies.at(path_of(&buffer));
                if !latency.is_zero() {
                    tokio::time::sleep(*latency).await;
                }
                stream.write_all(whole).await?;
            }
            Answers::Chosen(handler) => {
                let request = parse(&buffer[..head], &buffer[head..head + length]);
                let path = request.path.clone();
                let reply = shared.reply_to(request, handler);
                shared.released().await;
                if !send(&mut stream, &path, reply).await? {
                    return Ok(());
                }
            }
        }
        buffer.drain(..head + length);
    }
    Ok(())
}

/// Reads up to the end of the headers; returns the offset and length of the body.
///
/// Returns `None` if the connection ends before the end of the headers, or if the client does not speak HTTP.
async fn read_head(
    stream: &mut TcpStream,
    buffer: &mut Vec<u8>,
) -> io::Result<Option<(usize, usize)>> {
    loop {
        if let Some(end) = buffer.windows(4).position(|it| it == b"\r\n\r\n") {
            return Ok(Some((end + 4, content_length(&buffer[..end]))));
        }
        if stream.read_buf(buffer).await? == 0 {
            return Ok(None);
        }
        if !buffer[0].is_ascii_uppercase() {
            // A client that starts with TLS gets the response of a plain-text HTTP server.
            stream.write_all(head(400, &[], Some(0), false).as_bytes()).await?;
            return Ok(None);
        }
    }
}

fn content_length(head: &[u8]) -> usize {
    let name = b"content-length:";
    head.split(|it| *it == b'\n')
        .find(|line| line.len() > name.len() && line[..name.len()].eq_ignore_ascii_case(name))
        .and_then(|line| str::from_utf8(&line[name.len()..]).ok()?.trim().parse().ok())
        .unwrap_or(0)
}

fn path_of(head: &[u8]) -> &str {
    let line = head.split(|it| *it == b'\r').next().unwrap_or_default();
    str::from_utf8(line).ok().and_then(|line| line.split(' ').nth(1)).unwrap_or("/")
}

fn parse(head: &[u8], body: &[u8]) -> MockRequest {
    let head = String::from_utf8_lossy(head);
    let mut lines = head.lines();
    let mut first = lines.next().unwrap_or_default().split(' ').map(str::to_owned);
    let headers = lines
        .filter_map(|line| line.split_once(':'))
        .map(|(name, value)| (name.to_lowercase(), value.trim().to_owned()));
    MockRequest {
        method: first.next().unwrap_or_default(),
        path: first.next().unwrap_or_default(),
        headers: headers.collect(),
        body: body.to_vec(),
    }
}

/// Sends a reply; returns true if the connection can be reused. Fails if the client closed the connection.
async fn send(stream: &mut TcpStream, path: &str, reply: MockReply) -> io::Result<bool> {
    tokio::time::sleep(reply.delay).await;
    match reply.ending {
        Ending::ResetAtOnce => return reset(stream),
        Ending::CloseAtOnce => return Ok(false),
        _ => {}
    }
    let (body, is_json) = match reply.body {
        Body::Says(text) => {
            let mut body = dialect::body(Dialect::at(path), &text);
            if let Some(name) = reply.model {
                body["model"] = name.into();
            }
            if let Some(fingerprint) = reply.fingerprint {
                body["system_fingerprint"] = fingerprint.into();
            }
            (Some(body.to_string().into_bytes()), true)
        }
        Body::Bytes(bytes) => (Some(bytes), false),
        Body::Endless => (None, true),
    };
    let head = head(reply.status, &reply.headers, body.as_ref().map(Vec::len), is_json);
    if let (Some(body), false) = (&body, reply.drip.is_zero()) {
        return drip(stream, &head, body, reply.drip).await;
    }
    if !reply.body_delay.is_zero() {
        stream.write_all(head.as_bytes()).await?;
        tokio::time::sleep(reply.body_delay).await;
        return send_body(stream, &[], body, reply.ending).await;
    }
    send_body(stream, head.as_bytes(), body, reply.ending).await
}

/// Sends the body in at most eight pieces, with a pause before each piece.
async fn drip(
    stream: &mut TcpStream,
    head: &str,
    body: &[u8],
    pause: Duration,
) -> io::Result<bool> {
    stream.write_all(head.as_bytes()).await?;
    for piece in body.chunks(body.len().div_ceil(8).max(1)) {
        tokio::time::sleep(pause).await;
        stream.write_all(piece).await?;
    }
    Ok(true)
}

async fn send_body(
    stream: &mut TcpStream,
    head: &[u8],
    body: Option<Vec<u8>>,
    ending: Ending,
) -> io::Result<bool> {
    let Some(body) = body else {
        stream.write_all(head).await?;
        return endless(stream).await;
    };
    let whole = ending == Ending::KeepAlive;
    let sent = if whole { &body[..] } else { &body[..body.len() / 2] };
    // Use a single write, so that a small response is one packet.
    stream.write_all(&[head, sent].concat()).await?;
    if whole {
        return Ok(true);
    }
    // Send the data before the connection is closed or reset.
    stream.flush().await?;
    tokio::time::sleep(Duration::from_millis(20)).await;
    if ending == Ending::ResetInBody { reset(stream) } else { Ok(false) }
}

/// Makes the stream reset the connection when it is dropped. Returns false, because the connection cannot be reused.
fn reset(stream: &TcpStream) -> io::Result<bool> {
    stream.set_zero_linger()?;
    Ok(false)
}

async fn endless(stream: &mut TcpStream) -> io::Result<bool> {
    let chunk = format!("10000\r\n{}\r\n", " ".repeat(0x10000));
    loop {
        stream.write_all(chunk.as_bytes()).await?;
    }
}

/// Returns a complete response with status 429, as providers send it for too many requests.
fn refusal() -> String {
    let body = r#"{"error":{"message":"too many requests at once","type":"requests","code":"rate_limit_exceeded"}}"#;
    head(429, &[], Some(body.len()), true) + body
}
