//! The listener and its connections.

use std::future::Future;
use std::net::SocketAddr;
use std::pin::pin;
use std::time::Duration;

use axum::Router;
use hyper::Request;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::{Service as _, service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

use crate::connections::{Connection, Connections, RequestBody, ResponseBody, WatchedStream};

/// The maximum number of open connections.
const MAX_CONNECTIONS: usize = 512;

/// The time limit for the head of a request, and for the pause between two requests.
const HEAD: Duration = Duration::from_secs(30);

/// The reason why the server does not listen.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ListenError {
    /// Other machines could use the server without a token.
    #[error(
        "`--listen {0}` is not an address of this machine only, and the server has no token; \
        use `127.0.0.1:<port>` or `[::1]:<port>`, or run `kindlm-server token create` first"
    )]
    NotLoopback(SocketAddr),
    /// The operating system refuses the address.
    #[error("cannot listen on {0}: {1}")]
    Io(SocketAddr, #[source] std::io::Error),
}

/// Listens on an address. Port 0 is any free port.
///
/// # Errors
///
/// Fails if other machines can reach the address and the server has no token, or if the address is not free.
pub async fn listen(address: SocketAddr, has_tokens: bool) -> Result<TcpListener, ListenError> {
    if !has_tokens && !address.ip().is_loopback() {
        return Err(ListenError::NotLoopback(address));
    }
    TcpListener::bind(address).await.map_err(|err| ListenError::Io(address, err))
}

/// Serves the routes until `stop` is ready. Then all open connections end, even those with unfinished requests.
pub async fn serve(listener: &TcpListener, router: Router, stop: impl Future<Output = ()>) {
    let places = Connections::new(MAX_CONNECTIONS);
    let mut connections = JoinSet::new();
    let mut stop = pin!(stop);
    loop {
        while connections.try_join_next().is_some() {}
        let accepted = async {
            let accepted = listener.accept().await;
            (accepted, places.open().await)
        };
        let (accepted, connection) = tokio::select! {
            () = &mut stop => return,
            accepted = accepted => accepted,
        };
        let Ok((stream, _)) = accepted else {
            // The process probably has too many open files, so wait until some are closed.
            tokio::time::sleep(Duration::from_millis(50)).await;
            continue;
        };
        connections.spawn(serve_connection(stream, connection, router.clone()));
    }
}

/// Serves the requests of a connection until the client or the server closes the connection.
async fn serve_connection(stream: TcpStream, connection: Connection, router: Router) {
    let activity = connection.activity();
    let stream = WatchedStream { stream, activity: activity.clone() };
    let service = TowerToHyperService::new(router);
    let service = service_fn(move |request: Request<Incoming>| {
        let busy = activity.begin_request();
        let activity = activity.clone();
        let response = service.call(request.map(|body| RequestBody { body, activity }));
        async move { response.await.map(|it| it.map(|body| ResponseBody { body, _busy: busy })) }
    });
    let mut http = http1::Builder::new();
    http.timer(TokioTimer::new()).header_read_timeout(HEAD);
    tokio::select! {
        // An error means that the client has closed the connection or violated the protocol.
        _ = http.serve_connection(TokioIo::new(stream), service) => {}
        () = connection.must_close() => {}
    }
}
