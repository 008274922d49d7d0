//! MCP tests against a real server.

use std::borrow::Cow;
use std::net::SocketAddr;
use std::time::Duration;

use kindlm_testing::mock::{MockReply, closed_address};
use kindlm_types::{Models, ProviderErrorKind as Kind, Unlimited};
use rmcp::ErrorData;
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, ContentBlock, InitializeResult,
    Resource, ResourceContents, ServerCapabilities,
};
use rmcp::service::{RequestContext, RoleServer};
use rmcp::transport::streamable_http_server::session::local::LocalSessionManager;
use rmcp::transport::{StreamableHttpServerConfig, StreamableHttpService};

use super::*;

/// A server with one tool for each tested behaviour.
struct Tools;

impl rmcp::ServerHandler for Tools {
    fn get_info(&self) -> InitializeResult {
        InitializeResult::new(ServerCapabilities::builder().enable_tools().build())
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let arguments = Value::Object(request.arguments.unwrap_or_default());
        let text = |text: &str| ContentBlock::text(text);
        let result = match &*request.name {
            "arguments" => CallToolResult::success(vec![text(&arguments.to_string())]),
            "two" => CallToolResult::success(vec![text("first"), text("second")]),
            "resources" => CallToolResult::success(vec![
                text("Your order:"),
                ContentBlock::resource(ResourceContents::text("shipped", "order://1")),
                ContentBlock::resource_link(Resource::new("order://2", "order")),
                ContentBlock::image("AAAA", "image/png"),
            ]),
            "picture" => CallToolResult::success(vec![ContentBlock::image("AAAA", "image/png")]),
            "nothing" => CallToolResult::success(Vec::new()),
            "structured" => {
                let mut result = CallToolResult::structured(json!({"answer": 42}));
                result.content = vec![text("the answer is 42")];
                result
            }
            "only structured" => {
                let mut result = CallToolResult::structured(json!({"answer": 42}));
                result.content = Vec::new();
                result
            }
            "error" => CallToolResult::error(vec![text("no such order")]),
            "broken" => return Err(ErrorData::internal_error("the tool crashed", None)),
            "header" => {
                let parts = context.extensions.get::<axum::http::request::Parts>();
                let header =
                    parts.and_then(|it| it.headers.get("x-token")).map(|it| it.to_str().unwrap());
                CallToolResult::success(vec![text(header.unwrap_or("none"))])
            }
            "slow" => {
                tokio::time::sleep(LONG).await;
                CallToolResult::success(Vec::new())
            }
            name => {
                let message: Cow<'static, str> = format!("unknown tool `{name}`").into();
                return Err(ErrorData::invalid_params(message, None));
            }
        };
        Ok(CallToolResponse::Complete(result))
    }
}

/// Starts the server, which answers with event streams or with plain JSON.
async fn serve(json_response: bool) -> SocketAddr {
    let mut config = StreamableHttpServerConfig::default();
    config.json_response = json_response;
    config.legacy_session_mode = !json_response;
    let service =
        StreamableHttpService::new(|| Ok(Tools), Arc::new(LocalSessionManager::default()), config);
    let app = axum::Router::new().route_service("/mcp", service);
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move { axum::serve(listener, app).await });
    address
}

fn config(address: SocketAddr, tool: &str) -> Value {
    json!({"mcp": {"serverUrl": format!("http://{address}/mcp"), "toolName": tool}})
}

async fn ask(config: Value) -> Result<kindlm_types::Reply, ProviderError> {
    client(config).complete("mcp", &prompt("hi"), LONG, &Unlimited).await
}

#[tokio::test]
async fn results_become_answers() {
    for json_response in [false, true] {
        let address = serve(json_response).await;
        for (tool, text) in [
            ("two", "first\nsecond"),
            ("resources", "Your order:\nshipped\norder://2"),
            ("nothing", ""),
            ("structured", "the answer is 42"),
            ("only structured", r#"{"answer":42}"#),
            (
                "arguments",
                r#"{"messages":[{"role":"user","content":"hi"}],"model":"m-1","params":{}}"#,
            ),
            ("header", "none"),
        ] {
            let reply = ask(config(address, tool)).await.unwrap();
            assert_eq!((reply.text.as_str(), reply.attempts), (text, 1), "{tool}");
            assert!(reply.latency_ms > 0.0);
        }
        let mut structured = config(address, "structured");
        structured["mcp"]["structured"] = json!(true);
        assert_eq!(ask(structured).await.unwrap().text, r#"{"answer":42}"#);
    }
}

#[tokio::test]
async fn arguments_are_filled_in_and_headers_are_sent() {
    let address = serve(false).await;
    let mut asking = config(address, "arguments");
    asking["mcp"]["arguments"] = json!({
        "question": "{{input}}", "about": "model {{ model }}, {{params}}", "all": ["{{messages}}"],
        "n": 1, "empty": "{{system}}", "open": "{{input"
    });
    let reply = ask(asking).await.unwrap();
    let sent: Value = serde_json::from_str(&reply.text).unwrap();
    assert_eq!(
        sent,
        json!({
            "question": "hi", "about": "model m-1, {}", "all": [[{"role": "user", "content": "hi"}]],
            "n": 1, "empty": "", "open": "{{input"
        })
    );
    let mut with_header = config(address, "header");
    with_header["mcp"]["headers"] = json!({"X-Token": "env:TOKEN"});
    assert_eq!(ask(with_header.clone()).await.unwrap().text, KEY);
    with_header["mcp"]["headers"] = json!({"X-Token": "Bearer env:TOKEN"});
    assert_eq!(ask(with_header.clone()).await.unwrap().text, format!("Bearer {KEY}"));
    with_header["mcp"]["headers"] = json!({"X-Token": "env:NOT_SET"});
    let err = ask(with_header).await.unwrap_err();
    assert_eq!((err.kind, err.attempts), (Kind::Auth, 0));
}

#[tokio::test]
async fn errors_of_tools_are_provider_errors() {
    let address = serve(false).await;
    for (tool, kind, says) in [
        ("error", Kind::Server, "tool `error` reported an error: no such order"),
        ("broken", Kind::Server, "the tool crashed"),
        (
            "picture",
            Kind::MalformedResponse,
            "the result of tool `picture` holds media and no text",
        ),
        ("unheard-of", Kind::InvalidRequest, "unknown tool `unheard-of`"),
    ] {
        let err = ask(config(address, tool)).await.unwrap_err();
        assert_eq!((err.kind, err.attempts), (kind, 1), "{err}");
        assert!(err.message.contains(says), "{err}");
    }
}

#[tokio::test]
async fn a_slow_tool_is_given_up() {
    let address = serve(false).await;
    let client = client(config(address, "slow"));
    let err = client
        .complete("mcp", &prompt("hi"), Duration::from_millis(200), &Unlimited)
        .await
        .unwrap_err();
    assert_eq!((err.kind, err.attempts), (Kind::Timeout, 3), "{err}");
}

#[tokio::test]
async fn a_server_that_speaks_no_mcp_is_recognized() {
    for (reply, kind, attempts) in [
        (MockReply::html(), Kind::MalformedResponse, 1),
        (MockReply::json(&json!({"hello": 1})), Kind::MalformedResponse, 1),
        (MockReply::error(401, "no"), Kind::Auth, 1),
        (MockReply::error(401, "no").with_header("www-authenticate", "Bearer"), Kind::Auth, 1),
        (MockReply::error(404, "no"), Kind::InvalidRequest, 1),
        (MockReply::error(429, "no").with_header("retry-after", "0"), Kind::RateLimited, 3),
        (MockReply::error(503, "no"), Kind::Overloaded, 3),
        (MockReply::redirect(307, "http://example.invalid/mcp"), Kind::InvalidRequest, 1),
        (MockReply::reset(), Kind::Connection, 3),
    ] {
        let answer = reply.clone();
        let server = MockServer::answering(move |_| answer.clone()).unwrap();
        let err = ask(config(server.address(), "two")).await.unwrap_err();
        assert_eq!((err.kind, err.attempts), (kind, attempts), "{reply:?}: {err}");
    }
    let closed = closed_address().unwrap();
    let err = ask(config(closed, "two")).await.unwrap_err();
    assert_eq!((err.kind, err.attempts), (Kind::Connection, 3));
    assert!(err.message.contains(&format!("`{closed}` refused")), "{err}");
    assert!(
        err.message.ends_with("check that the server runs and that `serverUrl` is right"),
        "{err}"
    );
}

#[tokio::test]
async fn one_session_serves_many_requests() {
    let address = serve(false).await;
    let client = Arc::new(client(config(address, "arguments")));
    let asking = (0..32).map(|index| {
        let client = Arc::clone(&client);
        tokio::spawn(async move {
            client.complete("mcp", &prompt(&format!("n{index}.")), LONG, &Unlimited).await
        })
    });
    for (index, it) in asking.collect::<Vec<_>>().into_iter().enumerate() {
        assert!(it.await.unwrap().unwrap().text.contains(&format!("n{index}.")));
    }
}

#[test]
fn a_session_of_a_runtime_that_is_gone_is_replaced() {
    let runtime = || tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let server =
        tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let client = client(config(server.block_on(serve(false)), "two"));
    for _ in 0..2 {
        let reply =
            runtime().block_on(client.complete("mcp", &prompt("hi"), LONG, &Unlimited)).unwrap();
        assert_eq!(reply.text, "first\nsecond");
    }
}
