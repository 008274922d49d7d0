//! The provider's client: its configuration, and the client of the MCP server.

use std::time::Duration;

use kindlm_mcp::Tool;
use kindlm_transport::HttpTransport;
use kindlm_types::{Prompt, ProviderError, Reply};

use super::{Config, arguments};

/// The client of an MCP server, which calls the configured tool of that server.
#[derive(Debug)]
pub(crate) struct McpClient {
    config: Config,
    client: kindlm_mcp::McpClient,
}

impl McpClient {
    pub(crate) fn new(config: Config) -> Self {
        let client = kindlm_mcp::McpClient::new(Tool {
            server_url: config.server_url.clone(),
            name: config.tool_name.clone(),
            headers: config.headers(),
            structured: config.structured,
        });
        Self { config, client }
    }

    /// Makes one attempt to call the tool with the prompt.
    pub(crate) async fn ask(
        &self,
        transport: &HttpTransport,
        provider: &str,
        prompt: &Prompt,
        timeout: Duration,
    ) -> Result<Reply, ProviderError> {
        self.client.call(transport, provider, arguments(&self.config, prompt), timeout).await
    }
}
