//! A client that calls one tool of an MCP server. The first call opens a session. Later calls reuse the session while
//! it is open.
//!
//! This code is a separate crate so that the profile `dist` can compile the MCP SDK for size. The profile sets an
//! optimization level for each crate, and generic code of the SDK gets the level of the crate that calls it.
//!
//! ```
//! use kindlm_mcp::{McpClient, Tool};
//!
//! let client = McpClient::new(Tool::new("http://localhost:8000/mcp", "search"));
//! assert!(format!("{client:?}").contains("search"));
//! ```

use std::collections::HashMap;
use std::error::Error;
use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use kindlm_transport::{
    Fault, HeaderValue, HttpTransport, address, causes, is_worth_it, resolve, wait_of,
};
use kindlm_types::{ProviderError, ProviderErrorKind as Kind, Reply};
use reqwest::header::HeaderMap;
use rmcp::model::{
    CallToolRequestParams, CallToolResult, ClientCapabilities, ClientConfig, ContentBlock,
    ErrorCode, ErrorData, Implementation, ResourceContents,
};
use rmcp::service::{ClientInitializeError, RunningService, ServiceError};
use rmcp::transport::StreamableHttpClientTransport;
use rmcp::transport::streamable_http_client::{
    StreamableHttpClientTransportConfig, StreamableHttpError,
};
use rmcp::{RoleClient, ServiceExt as _};
use serde_json::{Map, Value};
use tokio::sync::Mutex;

type Session = RunningService<RoleClient, ClientConfig>;

/// A tool of an MCP server.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Tool {
    /// The address of the server's MCP endpoint.
    pub server_url: String,
    /// The name of the tool.
    pub name: String,
    /// The names and values of the headers of every request. If a value names an environment variable, each call reads
    /// the variable again.
    pub headers: Vec<(String, HeaderValue)>,
    /// True to use the structured content of the result instead of its text. Without structured content, the text is
    /// used.
    pub structured: bool,
}

impl Tool {
    /// Creates a tool without headers, whose result is a text.
    pub fn new(server_url: impl Into<String>, name: impl Into<String>) -> Self {
        Self {
            server_url: server_url.into(),
            name: name.into(),
            headers: Vec::new(),
            structured: false,
        }
    }
}

/// A client that calls one tool of an MCP server.
pub struct McpClient {
    tool: Tool,
    session: Mutex<Option<Arc<Session>>>,
}

impl fmt::Debug for McpClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("McpClient").field("tool", &self.tool.name).finish_non_exhaustive()
    }
}

impl McpClient {
    /// Creates the client. Nothing is sent before the first call.
    pub fn new(tool: Tool) -> Self {
        Self { tool, session: Mutex::default() }
    }

    /// Opens or reuses the session, and calls the tool once, without retries.
    ///
    /// Fails if a header or the address is invalid, or if the server is unreachable, reports an error or exceeds the
    /// timeout. Also fails if the result has unsupported content, or only media.
    ///
    /// The future is boxed so that its code is compiled in this crate, not in the crate that polls it.
    pub fn call<'a>(
        &'a self,
        transport: &'a HttpTransport,
        provider: &'a str,
        arguments: Map<String, Value>,
        timeout: Duration,
    ) -> Pin<Box<dyn Future<Output = Result<Reply, ProviderError>> + Send + 'a>> {
        Box::pin(self.attempt(transport, provider, arguments, timeout))
    }

    async fn attempt(
        &self,
        transport: &HttpTransport,
        provider: &str,
        arguments: Map<String, Value>,
        timeout: Duration,
    ) -> Result<Reply, ProviderError> {
        let (headers, secrets) = resolve(provider, &self.tool.headers, &*transport.options().env)?;
        let url = address(provider, "serverUrl", &self.tool.server_url)?;
        let fault = Fault::new(provider, "serverUrl", &url);
        let client = transport.client(provider)?;
        let limit = usize::try_from(transport.options().max_body).unwrap_or(usize::MAX);
        let asking = async {
            let session = self.join(client, &headers, limit, &fault).await?;
            let started = Instant::now();
            let call = CallToolRequestParams::new(self.tool.name.clone()).with_arguments(arguments);
            let result = session.call_tool(call).await.map_err(|err| of_service(&fault, &err));
            Ok((result?, started.elapsed().as_secs_f64() * 1000.0))
        };
        let asked = tokio::time::timeout(timeout, asking).await;
        let asked = asked.unwrap_or_else(|_| Err(fault.timeout(timeout)));
        if asked.as_ref().is_err_and(|err| matches!(err.kind, Kind::Timeout | Kind::Connection)) {
            // Discard the session, so that the next attempt opens a new one.
            *self.session.lock().await = None;
        }
        let read =
            asked.and_then(|(result, latency_ms)| self.read_result(&fault, result, latency_ms));
        read.map_err(|err| secrets.redact(err))
    }

    /// Returns the open session. If no session is open, opens one.
    async fn join(
        &self,
        client: &reqwest::Client,
        headers: &HeaderMap,
        limit: usize,
        fault: &Fault<'_>,
    ) -> Result<Arc<Session>, ProviderError> {
        let mut open = self.session.lock().await;
        if let Some(session) = open.as_ref().filter(|it| !it.is_closed()) {
            return Ok(Arc::clone(session));
        }
        let headers: HashMap<_, _> =
            headers.iter().map(|(name, value)| (name.clone(), value.clone())).collect();
        let config = StreamableHttpClientTransportConfig::with_uri(self.tool.server_url.as_str())
            .custom_headers(headers)
            .max_concurrent_requests(usize::from(u16::MAX))
            .max_sse_event_size(limit)
            .reinit_on_expired_session(true);
        let transport = StreamableHttpClientTransport::with_client(client.clone(), config);
        let about_us = ClientConfig::new(
            ClientCapabilities::default(),
            Implementation::new("kindlm", env!("CARGO_PKG_VERSION")),
        );
        let session = about_us.serve(transport).await.map_err(|err| of_start(fault, &err))?;
        let session = Arc::new(session);
        *open = Some(Arc::clone(&session));
        Ok(session)
    }

    fn read_result(
        &self,
        fault: &Fault<'_>,
        result: CallToolResult,
        latency_ms: f64,
    ) -> Result<Reply, ProviderError> {
        let (texts, media) = parts_of(&result.content).map_err(|why| {
            let message = format!("the result of tool `{}` {why}", self.tool.name);
            fault.error(Kind::MalformedResponse, message)
        })?;
        let text = texts.join("\n");
        if result.is_error == Some(true) {
            let message = format!("tool `{}` reported an error: {text}", self.tool.name);
            return Err(fault.error(Kind::Server, message));
        }
        if texts.is_empty() && media > 0 && result.structured_content.is_none() {
            let tool = &self.tool.name;
            let message = format!("the result of tool `{tool}` holds media and no text");
            return Err(fault.error(Kind::MalformedResponse, message));
        }
        let structured = result.structured_content.map(|it| it.to_string());
        let text = match structured {
            Some(structured) if self.tool.structured || text.is_empty() => structured,
            _ => text,
        };
        Ok(Reply { model: "mcp".to_owned(), latency_ms, ..Reply::text(text) })
    }
}

/// Returns the texts of a tool result, and the number of its images, sounds and binary files.
///
/// The texts include embedded text resources and the addresses of resource links.
///
/// Fails for an unsupported type of content. The error is a predicate for the subject "the result of the tool".
fn parts_of(content: &[ContentBlock]) -> Result<(Vec<&str>, usize), &'static str> {
    let (mut texts, mut media) = (Vec::new(), 0);
    for block in content {
        match block {
            ContentBlock::Text(text) => texts.push(text.text.as_str()),
            ContentBlock::Resource(embedded) => match &embedded.resource {
                ResourceContents::TextResourceContents { text, .. } => texts.push(text),
                ResourceContents::BlobResourceContents { .. } => media += 1,
                _ => return Err("has a resource of an unsupported type"),
            },
            ContentBlock::ResourceLink(link) => texts.push(&link.uri),
            ContentBlock::Image(_) | ContentBlock::Audio(_) => media += 1,
            _ => return Err("has a block of an unsupported type"),
        }
    }
    Ok((texts, media))
}

/// Returns the error for a session that could not be opened.
fn of_start(fault: &Fault<'_>, err: &ClientInitializeError) -> ProviderError {
    match err {
        ClientInitializeError::TransportError { error, .. } => of_transport(fault, error),
        ClientInitializeError::JsonRpcError(data) => of_server(fault, data),
        ClientInitializeError::ConnectionClosed(_) => {
            broken(fault, "the server ended the handshake")
        }
        other => fault.error(
            Kind::MalformedResponse,
            format!("the MCP handshake failed; is `serverUrl` an MCP endpoint? ({other})"),
        ),
    }
}

/// Returns the error for a tool call that got no result.
fn of_service(fault: &Fault<'_>, err: &ServiceError) -> ProviderError {
    match err {
        ServiceError::McpError(data) => of_server(fault, data),
        ServiceError::TransportSend(error) => of_transport(fault, error),
        ServiceError::TransportClosed => broken(fault, "the session was closed"),
        other => fault.error(Kind::MalformedResponse, other.to_string()),
    }
}

/// Returns the error for a JSON-RPC error that the server reported.
fn of_server(fault: &Fault<'_>, data: &ErrorData) -> ProviderError {
    let kind = match data.code {
        ErrorCode::INVALID_PARAMS
        | ErrorCode::INVALID_REQUEST
        | ErrorCode::METHOD_NOT_FOUND
        | ErrorCode::RESOURCE_NOT_FOUND => Kind::InvalidRequest,
        _ => Kind::Server,
    };
    fault.error(kind, format!("{} (JSON-RPC error {})", data.message, data.code.0))
}

fn broken(fault: &Fault<'_>, how: &str) -> ProviderError {
    fault.error(Kind::Connection, format!("the MCP connection broke: {how}")).retryable()
}

/// Returns the error for a request that could not be sent, or whose response could not be read.
fn of_transport(fault: &Fault<'_>, err: &(dyn Error + 'static)) -> ProviderError {
    let known =
        causes(Some(err)).find_map(|it| it.downcast_ref::<StreamableHttpError<reqwest::Error>>());
    match known {
        Some(StreamableHttpError::Client(err)) => match err.status() {
            Some(status) => of_status(fault, status.as_u16(), "", None),
            None => fault.connection(err),
        },
        Some(StreamableHttpError::HttpStatus(err)) => {
            of_status(fault, err.status, "", err.retry_after.as_deref())
        }
        Some(StreamableHttpError::AuthRequired(_)) => of_status(fault, 401, "", None),
        Some(StreamableHttpError::InsufficientScope(_)) => of_status(fault, 403, "", None),
        Some(StreamableHttpError::UnexpectedServerResponse(text)) => match status_in(text) {
            Some((status, body)) => of_status(fault, status, body, None),
            None => fault.error(Kind::MalformedResponse, text.to_string()),
        },
        Some(
            StreamableHttpError::UnexpectedContentType(_) | StreamableHttpError::Deserialize(_),
        ) => fault.error(
            Kind::MalformedResponse,
            "the answer is not MCP; is `serverUrl` an MCP endpoint?".to_owned(),
        ),
        Some(err @ StreamableHttpError::ResponseBodyTooLarge { .. }) => {
            fault.error(Kind::MalformedResponse, err.to_string())
        }
        Some(err) => broken(fault, &err.to_string()),
        None => broken(fault, "the transport failed"),
    }
}

/// Returns the status and the body from an error message of the MCP crate. An example is `HTTP 404 Not Found: no such
/// page`. Returns `None` for any other message.
fn status_in(text: &str) -> Option<(u16, &str)> {
    let rest = text.strip_prefix("HTTP ")?;
    let status = rest.get(..3)?.parse().ok()?;
    Some((status, rest.split_once(": ").map_or("", |(_, body)| body)))
}

fn of_status(
    fault: &Fault<'_>,
    status: u16,
    body: &str,
    retry_after: Option<&str>,
) -> ProviderError {
    let kind = match status {
        401 | 403 => Kind::Auth,
        408 => Kind::Timeout,
        429 => Kind::RateLimited,
        503 | 529 => Kind::Overloaded,
        500..=599 => Kind::Server,
        _ => Kind::InvalidRequest,
    };
    let body: String = body.trim().chars().take(300).collect();
    let detail = if body.is_empty() { String::new() } else { format!(": {body}") };
    let mut err =
        fault.error(kind, format!("the MCP server answered with HTTP status {status}{detail}"));
    err.status = Some(status);
    err.retry_after = retry_after.and_then(|it| wait_of(it, None));
    err.retryable = is_worth_it(&err);
    err
}
