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
        let mut tool = Tool::new(&config.server_url, &config.tool_name);
        tool.headers.clone_from(&config.headers);
        tool.structured = config.structured;
        Self { config, client: kindlm_mcp::McpClient::new(tool) }
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
