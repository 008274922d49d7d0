//! A program as a model.

use std::path::Path;
use std::time::Duration;

use kindlm_agents::{error_of, protocol};
use kindlm_process::{Guard, capture, last_line};
use kindlm_types::{
    Channel, CommandOutput, CommandSpec, Event, FinishReason, Prompt, ProviderError,
    ProviderErrorKind, Reply, ToolCall, ecma,
};

use super::{Config, Input};
use crate::dialect::prompt::{message_json, prompt_text};

/// Runs the program once for a prompt, and returns the reply from its output.
///
/// Fails if the prompt cannot be passed to the program, or if the program cannot be run to its end. Also fails for an
/// exit code other than 0, and for unreadable output.
pub(crate) async fn ask(
    config: &Config,
    (folder, guard): (&Path, &Guard),
    provider: &str,
    prompt: &Prompt,
    timeout: Duration,
) -> Result<Reply, ProviderError> {
    let failed =
        |message: String| ProviderError::new(ProviderErrorKind::Command, provider, message);
    let unwritable = |err| failed(format!("the prompt cannot be written as JSON: {err}"));
    let (line, input) = match config.input {
        Input::Stdin => {
            // The sample number only matters to the response store.
            let mut input = serde_json::to_value(&Prompt { sample: 0, ..prompt.clone() });
            if let Ok(input) = &mut input {
                input["messages"] = prompt.messages.iter().map(message_json).collect();
            }
            let input = input.and_then(|it| serde_json::to_vec(&it));
            (config.command.clone(), Some(input.map_err(unwritable)?))
        }
        Input::Argument => {
            let text = prompt_text(prompt);
            if text.contains('\0') {
                let message = "the prompt has a NUL character, which no argument can have";
                return Err(failed(message.to_owned()));
            }
            // Within single quotes, a shell interprets no character except the single quote.
            let quoted = text.replace('\'', r"'\''");
            let context = serde_json::json!({"vars": prompt.vars}).to_string();
            let context = context.replace('\'', r"'\''");
            (format!("{} '{quoted}' '{{}}' '{context}'", config.command), None)
        }
    };
    let ran = capture(&line, folder, timeout, input, guard)
        .await
        .map_err(|failure| error_of(failure, provider, CommandSpec::RAISE))?;
    if ran.exit_code != Some(0) {
        let how = match ran.exit_code {
            Some(code) => format!("the command ended with exit code {code}"),
            None => "the command was ended by a signal".to_owned(),
        };
        let why = last_line(&ran.stderr).map_or_else(String::new, |line| format!(": `{line}`"));
        return Err(failed(format!("{how}{why}")));
    }
    let read = protocol::parse(&ran.stdout);
    if let Some(lost) = CommandOutput::lost(&read.unreadable) {
        return Err(failed(lost));
    }
    if !read.coverage.includes(Channel::Messages) {
        let message = "a line of stdout begins like the protocol and cannot be read, so its content is unknown";
        return Err(failed(message.to_owned()));
    }
    let text = match &read.output_json {
        Some(json) if read.text.is_empty() => ecma::text(json),
        _ => read.text,
    };
    // Empty output is not evidence of an empty answer: the program may have written its answer to another place.
    let coverage = if text.is_empty() && read.tool_calls.is_empty() {
        read.coverage.without(Channel::Messages)
    } else {
        read.coverage
    };
    let (usage, cost_usd) = Event::usage(&read.events);
    let is_open = |it: &ToolCall| it.response.is_none();
    let finish_reason = if read.tool_calls.iter().any(is_open) {
        FinishReason::ToolCalls
    } else {
        FinishReason::Stop
    };
    Ok(Reply {
        tool_calls: read.tool_calls,
        events: read.events,
        coverage,
        finish_reason,
        output_json: read.output_json,
        usage: usage.unwrap_or_default(),
        cost_usd,
        model: prompt.model.clone(),
        latency_ms: ran.latency_ms,
        ..Reply::text(text)
    })
}
