//! Splits the body of a request into lines, with bounded memory.

use std::time::Duration;

use axum::Error;
use axum::body::Bytes;
use futures_util::{Stream, StreamExt as _};

/// The maximum length of a line, in bytes: 8 MiB.
pub(super) const LONGEST: usize = 8 << 20;

/// The time limit for the next part of the body. After it, the request counts as interrupted.
const IDLE: Duration = Duration::from_secs(30);

/// One line of the body.
pub(super) struct Line {
    /// The number of the line, from 1.
    pub(super) number: u64,
    /// The line without its end; `None` if it is longer than [`LONGEST`].
    pub(super) text: Option<Vec<u8>>,
}

/// The reason why the body ended early, as text.
pub(super) struct Interrupted(pub(super) String);

/// The lines of a body. Blank lines are skipped, but count in [`Line::number`].
pub(super) struct Lines<Body> {
    body: Body,
    /// The part of the body that was received last and is not yet read.
    chunk: Bytes,
    /// The start of the current line, from earlier parts.
    start: Vec<u8>,
    is_too_long: bool,
    number: u64,
    has_ended: bool,
}

impl<Body: Stream<Item = Result<Bytes, Error>> + Unpin> Lines<Body> {
    pub(super) fn new(body: Body) -> Self {
        let (chunk, start) = (Bytes::new(), Vec::new());
        Self { body, chunk, start, is_too_long: false, number: 0, has_ended: false }
    }

    /// Returns the next line; `None` after the last line. Fails if the request is interrupted.
    pub(super) async fn next(&mut self) -> Option<Result<Line, Interrupted>> {
        loop {
            if let Some(end) = self.chunk.iter().position(|it| *it == b'\n') {
                let line = self.chunk.split_to(end + 1);
                self.add(&line[..end]);
            } else {
                let part = std::mem::take(&mut self.chunk);
                self.add(&part);
                match self.receive().await {
                    Ok(Some(chunk)) => {
                        self.chunk = chunk;
                        continue;
                    }
                    Ok(None) if self.start.is_empty() && !self.is_too_long => return None,
                    Ok(None) => {}
                    Err(why) => return Some(Err(why)),
                }
            }
            self.number += 1;
            let text = std::mem::take(&mut self.start);
            let is_too_long = std::mem::take(&mut self.is_too_long);
            if is_too_long || !text.trim_ascii().is_empty() {
                let text = (!is_too_long).then_some(text);
                return Some(Ok(Line { number: self.number, text }));
            }
        }
    }

    fn add(&mut self, part: &[u8]) {
        if self.is_too_long || self.start.len() + part.len() > LONGEST {
            self.is_too_long = true;
            self.start = Vec::new();
        } else {
            self.start.extend_from_slice(part);
        }
    }

    /// Returns the next part of the body; `None` at its end. Fails if the client disconnects, or sends nothing for
    /// [`IDLE`].
    async fn receive(&mut self) -> Result<Option<Bytes>, Interrupted> {
        if self.has_ended {
            return Ok(None);
        }
        let received = tokio::time::timeout(IDLE, self.body.next()).await;
        self.has_ended = !matches!(received, Ok(Some(Ok(_))));
        match received {
            Ok(Some(Ok(chunk))) => Ok(Some(chunk)),
            Ok(None) => Ok(None),
            Ok(Some(Err(err))) => Err(Interrupted(format!("cannot read the request: {err}"))),
            Err(_) => {
                let why = format!("the request had no further data for {} s", IDLE.as_secs());
                Err(Interrupted(why))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn lines(parts: &[&'static [u8]]) -> Vec<(u64, Option<usize>)> {
        let parts: Vec<Result<Bytes, Error>> =
            parts.iter().map(|it| Ok(Bytes::from_static(it))).collect();
        let mut lines = Lines::new(futures_util::stream::iter(parts));
        let mut found = Vec::new();
        while let Some(Ok(Line { number, text })) = lines.next().await {
            found.push((number, text.map(|it| it.len())));
        }
        found
    }

    #[tokio::test]
    async fn lines_do_not_depend_on_the_parts_of_the_body() {
        let expected = [(1, Some(2)), (3, Some(3)), (4, Some(1))];
        assert_eq!(lines(&[b"ab\n\ncde\nf"]).await, expected);
        assert_eq!(lines(&[b"a", b"b\n", b"\ncd", b"e", b"", b"\nf\n"]).await, expected);
        assert_eq!(lines(&[]).await, []);
        assert_eq!(lines(&[b"\n \n"]).await, []);
    }

    #[tokio::test]
    async fn line_that_is_too_long_does_not_hide_the_next_one() {
        static LARGE: [u8; LONGEST] = [b'x'; LONGEST];
        assert_eq!(lines(&[&LARGE, b"\na"]).await, [(1, Some(LONGEST)), (2, Some(1))]);
        assert_eq!(lines(&[&LARGE, b"y", b"y\na"]).await, [(1, None), (2, Some(1))]);
        assert_eq!(lines(&[&LARGE, b"y"]).await, [(1, None)]);
    }
}
