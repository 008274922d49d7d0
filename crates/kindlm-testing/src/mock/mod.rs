//! A mock model API that answers and fails like a real API.
//!
//! [`MockServer`] listens on 127.0.0.1 in a separate thread, so that synchronous tests can use it too.
//!
//! The server answers in the dialect of the request path. [Pushed](MockServer::push) replies are used first, one for
//! each request, in order.
//!
//! The mock has its own implementation of HTTP/1.1. Server libraries cannot produce the important faults, such as a
//! reset before the headers or an incomplete body.

mod dialect;
mod gzip;
mod head;
mod reply;
pub mod scripted;
mod wire;

use std::collections::VecDeque;
use std::fmt;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use tokio::sync::{oneshot, watch};

use dialect::FixedReplies;
pub use dialect::{Dialect, body as dialect_body};
pub use reply::MockReply;
pub use wire::MockRequest;

/// A function that chooses the reply if no pushed reply is left.
type Handler = Box<dyn Fn(&MockRequest) -> MockReply + Send + Sync>;

/// A mock model API on 127.0.0.1. It stops on drop.
#[derive(Debug)]
pub struct MockServer {
    address: SocketAddr,
    shared: Arc<Shared>,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl MockServer {
    /// Starts a server that answers every request with `ok`.
    pub fn start() -> io::Result<Self> {
        Self::answering(|_| MockReply::text("ok"))
    }

    /// Starts a server with the replies of `handler`; pushed replies are used first.
    pub fn answering(
        handler: impl Fn(&MockRequest) -> MockReply + Send + Sync + 'static,
    ) -> io::Result<Self> {
        Self::launch(Answers::Chosen(Box::new(handler)))
    }

    /// Starts a server for benchmarks, with a fixed reply after `latency`.
    ///
    /// The server counts requests, but neither records nor parses them.
    ///
    /// So [`push`](Self::push) and [`hold`](Self::hold) have no effect, and [`requests`](Self::requests) returns an
    /// empty list.
    pub fn for_bench(latency: Duration) -> io::Result<Self> {
        Self::launch(Answers::Fixed(FixedReplies::new(), latency))
    }

    fn launch(answers: Answers) -> io::Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        listener.set_nonblocking(true)?;
        let address = listener.local_addr()?;
        let shared = Arc::new(Shared::new(answers));
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let (stop, stopped) = oneshot::channel();
        let for_thread = Arc::clone(&shared);
        let thread =
            std::thread::Builder::new().name("mock-server".to_owned()).spawn(move || {
                runtime.block_on(async {
                    tokio::select! {
                        () = wire::accept(listener, for_thread) => {}
                        _ = stopped => {}
                    }
                });
            })?;
        Ok(Self { address, shared, stop: Some(stop), thread: Some(thread) })
    }

    /// Returns the address of the server.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Returns the address as `http://127.0.0.1:PORT`.
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Adds a reply to the queue. Each request takes the first reply of the queue.
    pub fn push(&self, reply: MockReply) {
        lock(&self.shared.script).push_back(reply);
    }

    /// Adds replies to the queue.
    pub fn push_all(&self, replies: impl IntoIterator<Item = MockReply>) {
        lock(&self.shared.script).extend(replies);
    }

    /// Returns the recorded requests, in order of arrival, without refused requests.
    pub fn requests(&self) -> Vec<MockRequest> {
        lock(&self.shared.requests).clone()
    }

    /// Returns the number of received requests, including refused requests.
    pub fn count(&self) -> usize {
        self.shared.count.load(Ordering::SeqCst)
    }

    /// Refuses requests with status 429 while `most` other requests are in flight.
    ///
    /// The server refuses at once, and uses no pushed reply. A refused request is counted, but not recorded.
    pub fn allow_in_flight(&self, most: usize) {
        self.shared.capacity.store(most, Ordering::SeqCst);
    }

    /// Holds all replies until [`release`](Self::release) is called, so that a test controls the order of events.
    ///
    /// Benchmark servers do not hold replies.
    pub fn hold(&self) {
        self.shared.held.send_replace(true);
    }

    /// Sends the held replies.
    pub fn release(&self) {
        self.shared.held.send_replace(false);
    }

    /// Returns the number of requests that were refused because of the limit of
    /// [`allow_in_flight`](Self::allow_in_flight).
    pub fn refused(&self) -> usize {
        self.shared.refused.load(Ordering::SeqCst)
    }

    /// Returns the maximum number of requests that were in flight at the same time.
    pub fn peak_in_flight(&self) -> usize {
        self.shared.peak.load(Ordering::SeqCst)
    }
}

impl Drop for MockServer {
    fn drop(&mut self) {
        if let Some(stop) = self.stop.take() {
            let _ = stop.send(());
        }
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Returns a local address where no server listens.
pub fn closed_address() -> io::Result<SocketAddr> {
    let socket = tokio::net::TcpSocket::new_v4()?;
    socket.bind(SocketAddr::from(([127, 0, 0, 1], 0)))?;
    let address = socket.local_addr()?;
    // Keep the socket bound, so that no other test gets its port.
    std::mem::forget(socket);
    Ok(address)
}

/// The source of the server's replies.
enum Answers {
    Chosen(Handler),
    Fixed(FixedReplies, Duration),
}

/// The state that connections and the test share.
struct Shared {
    answers: Answers,
    script: Mutex<VecDeque<MockReply>>,
    requests: Mutex<Vec<MockRequest>>,
    count: AtomicUsize,
    in_flight: AtomicUsize,
    peak: AtomicUsize,
    capacity: AtomicUsize,
    refused: AtomicUsize,
    held: watch::Sender<bool>,
}

impl Shared {
    fn new(answers: Answers) -> Self {
        Self {
            answers,
            script: Mutex::default(),
            requests: Mutex::default(),
            count: AtomicUsize::new(0),
            in_flight: AtomicUsize::new(0),
            peak: AtomicUsize::new(0),
            capacity: AtomicUsize::new(usize::MAX),
            refused: AtomicUsize::new(0),
            held: watch::Sender::new(false),
        }
    }

    /// Waits while replies are held.
    async fn released(&self) {
        // The sender exists as long as `self`, so waiting does not fail.
        let _ = self.held.subscribe().wait_for(|held| !held).await;
    }

    /// Counts a request as in flight until the returned guard is dropped.
    ///
    /// Returns `None` if the limit of requests in flight is reached.
    fn enter(&self) -> Option<InFlight<'_>> {
        self.count.fetch_add(1, Ordering::SeqCst);
        let before = self.in_flight.fetch_add(1, Ordering::SeqCst);
        let entered = InFlight(self);
        if before >= self.capacity.load(Ordering::SeqCst) {
            self.refused.fetch_add(1, Ordering::SeqCst);
            return None;
        }
        self.peak.fetch_max(before + 1, Ordering::SeqCst);
        Some(entered)
    }

    /// Records a request and returns its reply.
    fn reply_to(&self, request: MockRequest, handler: &Handler) -> MockReply {
        let pushed = lock(&self.script).pop_front();
        let reply = pushed.unwrap_or_else(|| handler(&request)).marked(&request.body);
        lock(&self.requests).push(request);
        reply
    }
}

impl fmt::Debug for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shared").field("count", &self.count).finish_non_exhaustive()
    }
}

/// The guard of a request in flight. When the guard is dropped, the request no longer counts as in flight.
struct InFlight<'a>(&'a Shared);

impl Drop for InFlight<'_> {
    fn drop(&mut self) {
        self.0.in_flight.fetch_sub(1, Ordering::SeqCst);
    }
}

/// Locks a mutex, even if another thread panicked while it held the lock.
///
/// A second panic would hide the message of the first panic.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::TcpStream;

    use super::*;

    /// Sends requests over one connection, and returns all responses.
    fn exchange(address: SocketAddr, paths: &[&str]) -> String {
        let mut stream = TcpStream::connect(address).unwrap();
        for path in paths {
            write!(stream, "POST {path} HTTP/1.1\r\nContent-Length: 2\r\nX-A: b\r\n\r\n{{}}")
                .unwrap();
        }
        stream.shutdown(std::net::Shutdown::Write).unwrap();
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer);
        String::from_utf8_lossy(&answer).into_owned()
    }

    #[test]
    fn a_held_reply_comes_when_it_is_released() {
        let server = MockServer::start().unwrap();
        server.hold();
        let mut stream = TcpStream::connect(server.address()).unwrap();
        stream.write_all(b"GET / HTTP/1.1\r\nConnection: close\r\n\r\n").unwrap();
        while server.count() == 0 {
            std::thread::yield_now();
        }
        stream.set_nonblocking(true).unwrap();
        let held = stream.read(&mut [0; 1]).unwrap_err();
        assert_eq!(held.kind(), std::io::ErrorKind::WouldBlock);
        stream.set_nonblocking(false).unwrap();
        server.release();
        assert_eq!(stream.read(&mut [0; 1]).unwrap(), 1);
    }

    #[test]
    fn answers_in_order_and_records_requests() {
        let server = MockServer::start().unwrap();
        server.push_all([MockReply::error(503, "busy"), MockReply::text("hello")]);
        let answer =
            exchange(server.address(), &["/v1/messages?x", "/v1/messages", "/v1/chat/completions"]);
        let statuses: Vec<&str> = answer.split("HTTP/1.1 ").skip(1).map(|it| &it[..3]).collect();
        assert_eq!(statuses, ["503", "200", "200"]);
        assert!(answer.contains(r#""content":[{"type":"text","text":"hello"}]"#), "{answer}");
        assert!(answer.contains(r#""content":"ok""#), "{answer}");
        let requests = server.requests();
        assert_eq!((server.count(), requests.len(), server.peak_in_flight()), (3, 3, 1));
        assert_eq!(
            (requests[0].path.as_str(), requests[0].header("x-a")),
            ("/v1/messages?x", Some("b"))
        );
        assert_eq!(requests[0].json(), serde_json::json!({}));
    }

    #[test]
    fn bench_servers_answer_in_the_dialect_of_the_path() {
        let server = MockServer::for_bench(Duration::ZERO).unwrap();
        for (path, has) in [
            ("/v1/chat/completions", "choices"),
            ("/v1/embeddings", "embedding"),
            ("/v1/messages", "stop_reason"),
            ("/v1beta/models/m:generateContent", "candidates"),
            ("/v2/chat", "finish_reason"),
            ("/api/chat", "done_reason"),
        ] {
            let answer = exchange(server.address(), &[path]);
            assert!(answer.contains(has), "{path}: {answer}");
        }
        assert_eq!((server.count(), server.requests().len()), (6, 0));
    }

    #[test]
    fn faults_break_the_connection() {
        let server = MockServer::start().unwrap();
        server.push_all([
            MockReply::reset(),
            MockReply::hang_up(),
            MockReply::text("ok").close_in_body(),
        ]);
        assert_eq!(exchange(server.address(), &["/"]), "");
        assert_eq!(exchange(server.address(), &["/"]), "");
        let half = exchange(server.address(), &["/"]);
        assert!(half.contains("content-length") && !half.contains("total_tokens"), "{half}");
    }

    #[test]
    fn requests_above_the_limit_are_refused() {
        let slow = |_: &MockRequest| MockReply::text("ok").after(Duration::from_millis(300));
        let server = MockServer::answering(slow).unwrap();
        server.allow_in_flight(2);
        let address = server.address();
        let asking: Vec<_> =
            (0..5).map(|_| std::thread::spawn(move || exchange(address, &["/"]))).collect();
        let answers: Vec<String> = asking.into_iter().map(|it| it.join().unwrap()).collect();
        let refused = answers.iter().filter(|it| it.starts_with("HTTP/1.1 429")).count();
        assert_eq!((refused, server.refused(), server.count()), (3, 3, 5), "{answers:?}");
        assert_eq!((server.peak_in_flight(), server.requests().len()), (2, 2));
        assert!(exchange(address, &["/"]).starts_with("HTTP/1.1 200"));
    }

    #[test]
    fn a_dripping_body_is_complete() {
        let server = MockServer::start().unwrap();
        server.push(MockReply::text("hello").dripping(Duration::from_millis(2)));
        let answer = exchange(server.address(), &["/"]);
        assert!(answer.contains("hello") && answer.ends_with('}'), "{answer}");
    }

    #[test]
    fn stops_when_it_is_dropped() {
        let address = MockServer::start().unwrap().address();
        assert!(TcpStream::connect(address).is_err());
        assert!(TcpStream::connect(closed_address().unwrap()).is_err());
    }
}
