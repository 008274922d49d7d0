//! Answers the requests of the page: checks each request, and serves the data of each path.

use std::sync::Arc;

use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::header::{HOST, HeaderMap, HeaderValue, ORIGIN};
use hyper::{Method, Request, Response, StatusCode};
use kindlm_reporters::{HtmlShell, html_shell, html_without_runs};
use sha2::{Digest as _, Sha256};
use url::form_urlencoded;

use super::library::{LazyLibrary, NotServed};

/// The header with the token.
const TOKEN: &str = "x-kindlm-token";

/// The server: the runs, the port and the token.
pub(super) struct Server {
    library: LazyLibrary,
    port: u16,
    token: String,
}

/// The body of a response with its type.
struct Body {
    content_type: &'static str,
    is_gzip: bool,
    bytes: Vec<u8>,
}

impl Body {
    fn new(content_type: &'static str, bytes: impl Into<Vec<u8>>) -> Self {
        Self { content_type, is_gzip: false, bytes: bytes.into() }
    }

    fn gzip(bytes: &[u8]) -> Self {
        Self { is_gzip: true, ..Self::new("application/json", bytes) }
    }

    fn json(value: &impl serde::Serialize) -> Result<Self, NotServed> {
        let bytes = serde_json::to_vec(value).map_err(|err| NotServed::Failed(err.to_string()))?;
        Ok(Self::new("application/json", bytes))
    }
}

/// The parameters of a request.
#[derive(Default)]
struct Parameters {
    run: String,
    base: String,
    case: String,
    model: String,
}

impl Parameters {
    fn parse(query: &str) -> Self {
        let mut all = Self::default();
        for (name, value) in form_urlencoded::parse(query.as_bytes()) {
            match &*name {
                "run" => all.run = value.into_owned(),
                "base" => all.base = value.into_owned(),
                "case" => all.case = value.into_owned(),
                "model" => all.model = value.into_owned(),
                _ => {}
            }
        }
        all
    }
}

impl Server {
    pub(super) fn new(library: LazyLibrary, port: u16, token: String) -> Self {
        Self { library, port, token }
    }

    /// Returns the URL of the page. Browsers do not send the fragment with the token to servers.
    pub(super) fn url(&self) -> String {
        format!("http://127.0.0.1:{}/#token={}", self.port, self.token)
    }

    /// Answers a request. Reports are read in another thread, so that an interrupt is not delayed.
    pub(super) async fn answer(
        self: Arc<Self>,
        request: Request<Incoming>,
    ) -> Response<Full<Bytes>> {
        let (parts, _) = request.into_parts();
        let answered = tokio::task::spawn_blocking(move || {
            let is_head = parts.method == Method::HEAD;
            let answer = self.check(&parts.method, &parts.headers).and_then(|()| {
                let query = Parameters::parse(parts.uri.query().unwrap_or_default());
                match parts.uri.path() {
                    "/" => self.start().map(Answer::Page),
                    path => self.data(path, &parts.headers, &query).map(Answer::Data),
                }
            });
            respond(answer, is_head)
        });
        answered.await.unwrap_or_else(|_| {
            respond(Err((StatusCode::INTERNAL_SERVER_ERROR, "the answer failed".to_owned())), false)
        })
    }

    /// Refuses requests from other pages, and requests that do more than read.
    ///
    /// A request from a page of another site has that site in `Origin`. If another site lets its name resolve to
    /// 127.0.0.1 (DNS rebinding), `Host` has that name.
    fn check(&self, method: &Method, headers: &HeaderMap) -> Result<(), (StatusCode, String)> {
        let own = [format!("127.0.0.1:{}", self.port), format!("localhost:{}", self.port)];
        let host = headers.get(HOST).map(HeaderValue::as_bytes);
        if !own.iter().any(|it| host == Some(it.as_bytes())) {
            return Err((StatusCode::FORBIDDEN, "the host is not this server".to_owned()));
        }
        let is_own = |origin: &[u8]| {
            own.iter().any(|it| origin.strip_prefix(b"http://") == Some(it.as_bytes()))
        };
        if headers.get_all(ORIGIN).iter().any(|it| !is_own(it.as_bytes())) {
            return Err((StatusCode::FORBIDDEN, "the origin is not this server".to_owned()));
        }
        if method != Method::GET && method != Method::HEAD {
            return Err((StatusCode::METHOD_NOT_ALLOWED, "this server only reads".to_owned()));
        }
        Ok(())
    }

    /// Returns the page without data.
    fn start(&self) -> Result<HtmlShell, (StatusCode, String)> {
        match self.library.get() {
            Ok(Some(_)) => Ok(html_shell()),
            Ok(None) => Ok(html_without_runs()),
            Err(err) => Err(err.status()),
        }
    }

    fn check_token(&self, headers: &HeaderMap) -> Result<(), (StatusCode, String)> {
        let Some(given) = headers.get(TOKEN) else {
            let why = format!("the header `{TOKEN}` is missing");
            return Err((StatusCode::UNAUTHORIZED, why));
        };
        // Compare digests, so that the response time does not show how much of the token is right (timing attack).
        if Sha256::digest(given.as_bytes()) == Sha256::digest(&self.token) {
            return Ok(());
        }
        Err((StatusCode::FORBIDDEN, "the token is wrong".to_owned()))
    }

    fn data(
        &self,
        path: &str,
        headers: &HeaderMap,
        query: &Parameters,
    ) -> Result<Body, (StatusCode, String)> {
        self.check_token(headers)?;
        let found = match path.strip_prefix("/wire/") {
            Some(name) => self.wire(name, query),
            None => Err(NotServed::Absent("there is no such page".to_owned())),
        };
        found.map_err(NotServed::status)
    }

    fn wire(&self, name: &str, query: &Parameters) -> Result<Body, NotServed> {
        let Parameters { run, base, case, model } = query;
        let library = self.library.get()?;
        let library = library.ok_or_else(|| {
            NotServed::Absent("there is no run yet: run `kindlm test`".to_owned())
        })?;
        if name == "heads" {
            return Body::json(&library.heads());
        }
        let shown = library.open(run)?;
        match name {
            "page" => {
                Ok(Body::new("text/html; charset=utf-8", shown.served(library)?.page.clone()))
            }
            "head" => Body::json(shown.head()),
            "index" => Ok(Body::gzip(&shown.served(library)?.index)),
            "compare" => Body::json(&library.compare(base, &shown)?),
            "difference" => Body::json(&library.difference(base, &shown, case, model)?),
            "history" => Body::json(&library.history(case, model)),
            _ => {
                let number = name.strip_prefix("chunk/").and_then(|it| it.parse::<usize>().ok());
                let chunk = match number {
                    Some(number) => shown.served(library)?.chunks.get(number),
                    None => None,
                };
                chunk
                    .map(|it| Body::gzip(it))
                    .ok_or_else(|| NotServed::Absent("there is no such part of the run".to_owned()))
            }
        }
    }
}

/// The answer to a request.
enum Answer {
    /// The page without data.
    Page(HtmlShell),
    /// Data of a run.
    Data(Body),
}

impl NotServed {
    fn status(self) -> (StatusCode, String) {
        match self {
            Self::Absent(why) => (StatusCode::NOT_FOUND, why),
            Self::Failed(why) => (StatusCode::INTERNAL_SERVER_ERROR, why),
        }
    }
}

/// Makes the response; with `is_head`, without a body.
fn respond(answer: Result<Answer, (StatusCode, String)>, is_head: bool) -> Response<Full<Bytes>> {
    let mut policy = "default-src 'none'; frame-ancestors 'none'".to_owned();
    let (status, body) = match answer {
        Ok(Answer::Data(body)) => (StatusCode::OK, body),
        Ok(Answer::Page(shell)) => {
            policy = shell.policy;
            (StatusCode::OK, Body::new("text/html; charset=utf-8", shell.html))
        }
        Err((status, why)) => (status, Body::new("text/plain; charset=utf-8", why)),
    };
    let mut response = Response::builder()
        .status(status)
        .header("content-type", body.content_type)
        .header("content-security-policy", policy)
        .header("cache-control", "no-store")
        .header("x-content-type-options", "nosniff")
        .header("referrer-policy", "no-referrer")
        .header("cross-origin-resource-policy", "same-origin")
        .header("cross-origin-opener-policy", "same-origin");
    if body.is_gzip {
        response = response.header("content-encoding", "gzip");
    }
    if status == StatusCode::METHOD_NOT_ALLOWED {
        response = response.header("allow", "GET, HEAD");
    }
    let bytes = if is_head { Vec::new() } else { body.bytes };
    response.body(Full::from(bytes)).unwrap_or_default()
}
