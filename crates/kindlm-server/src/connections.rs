//! Limits the number of open connections. At the limit, the connection that waits longest for its client is closed.

use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use hyper::body::{Body, Frame, SizeHint};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, sleep, timeout};

/// The longest time that a connection may wait for its client: for a request, for a part of its body, or until the
/// client reads a response.
const UNUSED: Duration = Duration::from_mins(2);

/// The time after which a waiting connection may be closed to make room for a new connection.
const CLOSABLE: Duration = Duration::from_secs(1);

/// The pause between two searches for a connection that can be closed.
const SEARCH: Duration = Duration::from_millis(100);

/// The open connections, and a semaphore that limits their number.
#[derive(Debug)]
pub(crate) struct Connections {
    places: Arc<Semaphore>,
    open: Mutex<Vec<Activity>>,
}

impl Connections {
    /// Creates a limit of `places` open connections.
    pub(crate) fn new(places: usize) -> Arc<Self> {
        Arc::new(Self { places: Arc::new(Semaphore::new(places)), open: Mutex::default() })
    }

    /// Waits for a free place. If no place is free, closes the connection that has waited longest for its client.
    pub(crate) async fn open(self: &Arc<Self>) -> Connection {
        let place = loop {
            if let Ok(place) = Arc::clone(&self.places).try_acquire_owned() {
                break place;
            }
            self.close_one();
            if let Ok(Ok(place)) = timeout(SEARCH, Arc::clone(&self.places).acquire_owned()).await {
                break place;
            }
        };
        let activity = Activity::default();
        self.lock().push(activity.clone());
        Connection { activity, connections: Arc::clone(self), _place: place }
    }

    fn close_one(&self) {
        let open = self.lock();
        let waiting = open.iter().filter_map(|it| Some((it.lock().waits_since?, it)));
        let longest = waiting.filter(|(since, _)| since.elapsed() >= CLOSABLE);
        if let Some((_, activity)) = longest.min_by_key(|(since, _)| *since) {
            activity.0.closed.notify_one();
        }
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Activity>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// An open connection. Its place is free when this value is dropped.
#[derive(Debug)]
pub(crate) struct Connection {
    activity: Activity,
    connections: Arc<Connections>,
    _place: OwnedSemaphorePermit,
}

impl Connection {
    pub(crate) fn activity(&self) -> Activity {
        self.activity.clone()
    }

    /// Waits until the connection must be closed: after a wait of [`UNUSED`], or when a new connection needs the place.
    pub(crate) async fn must_close(&self) {
        let unused = async {
            loop {
                let since = self.activity.lock().waits_since;
                let left = since.map_or(UNUSED, |it| UNUSED.saturating_sub(it.elapsed()));
                if left.is_zero() {
                    return;
                }
                sleep(left).await;
            }
        };
        tokio::select! {
            () = self.activity.0.closed.notified() => {}
            () = unused => {}
        }
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.connections.lock().retain(|it| !Arc::ptr_eq(&it.0, &self.activity.0));
    }
}

/// The state of a connection: its open requests, and whether it waits for its client. Clones share one state.
#[derive(Clone, Debug, Default)]
pub(crate) struct Activity(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    state: Mutex<State>,
    /// Notified when the connection must be closed.
    closed: Notify,
}

#[derive(Debug)]
struct State {
    /// The number of requests whose responses are not complete.
    requests: usize,
    /// True if the server waits for the body of a request.
    reads: bool,
    /// True if the client must read before more of a response can be written.
    writes: bool,
    /// The time since which the connection waits for its client.
    waits_since: Option<Instant>,
}

impl Default for State {
    fn default() -> Self {
        Self { requests: 0, reads: false, writes: false, waits_since: Some(Instant::now()) }
    }
}

impl Activity {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn change(&self, change: impl FnOnce(&mut State)) {
        let mut state = self.lock();
        change(&mut state);
        let waits = state.requests == 0 || state.reads || state.writes;
        state.waits_since = waits.then(|| state.waits_since.unwrap_or_else(Instant::now));
    }

    fn set_reads(&self, reads: bool) {
        self.change(|it| it.reads = reads);
    }

    /// Records whether a write must wait for the client. A write that does not wait is progress, so the waiting time
    /// starts again at 0.
    fn set_writes(&self, writes: bool) {
        self.change(|it| {
            it.writes = writes;
            if !writes {
                it.waits_since = None;
            }
        });
    }

    /// Makes the connection busy until the guard is dropped.
    pub(crate) fn begin_request(&self) -> Busy {
        self.change(|it| it.requests += 1);
        Busy(self.clone())
    }
}

/// A request whose response is not complete.
#[derive(Debug)]
pub(crate) struct Busy(Activity);

impl Drop for Busy {
    fn drop(&mut self) {
        self.0.change(|it| it.requests -= 1);
    }
}

/// The stream of a connection. It records when a write must wait for the client.
pub(crate) struct WatchedStream {
    pub(crate) stream: TcpStream,
    pub(crate) activity: Activity,
}

impl AsyncRead for WatchedStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, buffer)
    }
}

impl AsyncWrite for WatchedStream {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(cx, bytes);
        self.activity.set_writes(written.is_pending());
        written
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write_vectored(cx, parts);
        self.activity.set_writes(written.is_pending());
        written
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

/// The body of a request. It records when the server waits for the client to send more.
pub(crate) struct RequestBody<B> {
    pub(crate) body: B,
    pub(crate) activity: Activity,
}

impl<B: Body + Unpin> Body for RequestBody<B> {
    type Data = B::Data;
    type Error = B::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<B::Data>, B::Error>>> {
        let frame = Pin::new(&mut self.body).poll_frame(cx);
        self.activity.set_reads(frame.is_pending());
        frame
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

impl<B> Drop for RequestBody<B> {
    fn drop(&mut self) {
        self.activity.set_reads(false);
    }
}

/// The body of a response, which keeps its connection busy.
pub(crate) struct ResponseBody<B> {
    pub(crate) body: B,
    pub(crate) _busy: Busy,
}

impl<B: Body + Unpin> Body for ResponseBody<B> {
    type Data = B::Data;
    type Error = B::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<B::Data>, B::Error>>> {
        Pin::new(&mut self.body).poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
