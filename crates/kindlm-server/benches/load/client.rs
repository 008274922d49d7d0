//! A client that takes little processor time: HTTP/1.1 with one request at a time on an open connection.

use std::io::{self, Read as _, Write as _};
use std::net::TcpStream;

/// An open connection.
pub(crate) struct Connection {
    stream: TcpStream,
    buffer: Vec<u8>,
}

/// A response.
pub(crate) struct Reply {
    pub(crate) status: u16,
    pub(crate) body: String,
}

/// Returns the bytes of a request. `first` is the method and the path.
pub(crate) fn request(first: &str, head: &[&str], body: &[u8]) -> Vec<u8> {
    let mut text =
        format!("{first} HTTP/1.1\r\nhost: localhost\r\ncontent-length: {}\r\n", body.len());
    for line in head.iter().chain(&[""]) {
        text += line;
        text += "\r\n";
    }
    [text.as_bytes(), body].concat()
}

impl Connection {
    pub(crate) fn open(address: &str) -> io::Result<Self> {
        let stream = TcpStream::connect(address)?;
        stream.set_nodelay(true)?;
        Ok(Self { stream, buffer: Vec::new() })
    }

    /// Sends a request, and waits for the response, which must have the header `content-length`.
    pub(crate) fn send(&mut self, request: &[u8]) -> io::Result<Reply> {
        self.stream.write_all(request)?;
        self.buffer.clear();
        let end = self.receive(|buffer| buffer.windows(4).position(|it| it == b"\r\n\r\n"))?;
        let head = String::from_utf8_lossy(&self.buffer[..end]).to_lowercase();
        let status = head.split(' ').nth(1).and_then(|it| it.parse().ok());
        let length = head.lines().find_map(|it| it.strip_prefix("content-length:"));
        let length = length.and_then(|it| it.trim().parse::<usize>().ok());
        let (Some(status), Some(length)) = (status, length) else {
            return Err(io::Error::other(format!("unexpected response: {head}")));
        };
        let all = end + 4 + length;
        self.receive(|buffer| (buffer.len() >= all).then_some(all))?;
        let body = String::from_utf8_lossy(&self.buffer[end + 4..all]).into_owned();
        Ok(Reply { status, body })
    }

    /// Receives bytes until `found` returns a number.
    fn receive(&mut self, found: impl Fn(&[u8]) -> Option<usize>) -> io::Result<usize> {
        loop {
            if let Some(number) = found(&self.buffer) {
                return Ok(number);
            }
            let mut part = [0; 16 << 10];
            match self.stream.read(&mut part)? {
                0 => return Err(io::ErrorKind::UnexpectedEof.into()),
                count => self.buffer.extend_from_slice(&part[..count]),
            }
        }
    }
}
