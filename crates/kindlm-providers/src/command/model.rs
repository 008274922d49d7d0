//! A program as a model.

use std::path::Path;
use std::time::Duration;

use kindlm_types::{FinishReason, Prompt, ProviderError, ProviderErrorKind, Reply};

use super::process::{capture, last_line};
use super::{Config, protocol};

/// Asks the program once.
pub(crate) async fn ask(
    config: &Config,
    folder: &Path,
    provider: &str,
    prompt: &Prompt,
    timeout: Duration,
) -> Result<Reply, ProviderError> {
    let failed =
        |message: String| ProviderError::new(ProviderErrorKind::Command, provider, message);
    // Which sample it is concerns the response store alone.
    let input = serde_json::to_vec(&Prompt { sample: 0, ..prompt.clone() })
        .map_err(|err| failed(format!("the prompt cannot be written as JSON: {err}")))?;
    let ran = capture(&config.command, folder, timeout, Some(input))
        .await
        .map_err(|failure| failure.into_error(provider))?;
    if ran.exit_code != Some(0) {
        let how = match ran.exit_code {
            Some(code) => format!("the command ended with exit code {code}"),
            None => "the command was ended by a signal".to_owned(),
        };
        let why = last_line(&ran.stderr).map_or_else(String::new, |line| format!(": `{line}`"));
        return Err(failed(format!("{how}{why}")));
    }
    let read = protocol::parse(&ran.stdout);
    let text = match read.output_json {
        Some(json) if read.text.trim().is_empty() => json.to_string(),
        _ => read.text,
    };
    let finish_reason =
        if read.tool_calls.is_empty() { FinishReason::Stop } else { FinishReason::ToolCalls };
    Ok(Reply {
        tool_calls: read.tool_calls,
        finish_reason,
        model: prompt.model.clone(),
        latency_ms: ran.latency_ms,
        ..Reply::text(text)
    })
}
