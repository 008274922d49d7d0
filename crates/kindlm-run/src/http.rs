//! The connections of the HTTP servers: the receiver of traces and `kindlm view`.

use std::convert::Infallible;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::TcpListener;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

/// The maximum number of open connections.
const MAX_CONNECTIONS: usize = 64;

/// The time limit for receiving the headers of a request. Receiving the body has the same time limit.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

/// Serves requests until the future is dropped, which aborts open requests.
pub(crate) async fn serve<Answer>(
    listener: &TcpListener,
    answer: impl Fn(Request<Incoming>) -> Answer + Clone + Send + 'static,
) -> Infallible
where
    Answer: Future<Output = Response<Full<Bytes>>> + Send + 'static,
{
    let places = Arc::new(Semaphore::new(MAX_CONNECTIONS));
    let mut connections = JoinSet::new();
    loop {
        let Ok(place) = Arc::clone(&places).acquire_owned().await else {
            std::future::pending().await
        };
        while connections.try_join_next().is_some() {}
        let Ok((stream, _)) = listener.accept().await else {
            // The process probably has too many open files, so wait until some are closed.
            tokio::time::sleep(Duration::from_millis(50)).await;
            continue;
        };
        let answer = answer.clone();
        connections.spawn(async move {
            let service = service_fn(move |request| {
                let response = answer(request);
                async move { Ok::<_, Infallible>(response.await) }
            });
            let mut http = hyper::server::conn::http1::Builder::new();
            http.timer(TokioTimer::new()).header_read_timeout(PATIENCE);
            // An error means that the client has closed the connection or violated the protocol. Data that arrived
            // before the error is kept.
            let _ = http.serve_connection(TokioIo::new(stream), service).await;
            drop(place);
        });
    }
}
