//! An exchange with the Live API: its turns, its tool calls, and its answer.

use std::collections::VecDeque;

use kindlm_types::{
    FinishReason, Prompt, ProviderError, ProviderErrorKind, Reply, ToolCall, Usage, UsageSum, ecma,
};
use serde_json::{Value, json};

use super::{GoogleLive, Output};
use crate::dialect::answer::{counted, non_empty};
use crate::dialect::part::{self, Malformed};
use crate::dialect::{failure, gemini};
use crate::{SocketExchange, Step};

/// The text of several rounds. A round ends at answered tool calls, or before the next turn of the user. Each round
/// starts on a new line.
#[derive(Default)]
struct Rounds {
    text: String,
    has_ended: bool,
}

impl Rounds {
    /// Adds text to the current round.
    fn push(&mut self, text: &str) {
        if text.is_empty() {
            return;
        }
        if std::mem::take(&mut self.has_ended) && !self.text.is_empty() {
            self.text.push('\n');
        }
        self.text.push_str(text);
    }
}

/// The state of an exchange.
pub(super) struct Session<'c> {
    codec: &'c GoogleLive,
    prompt: &'c Prompt,
    /// The turns of the user that are not sent yet.
    turns: VecDeque<Vec<Value>>,
    text: Rounds,
    transcript: Rounds,
    has_audio: bool,
    calls: Vec<ToolCall>,
    /// The calls as the server wrote them.
    written_calls: Vec<Value>,
    usage: UsageSum,
    /// The last token counts of the current turn.
    counts: Option<Value>,
    /// True between the responses of tools and the model's next content.
    awaits_content: bool,
}

impl<'c> Session<'c> {
    pub(super) fn new(codec: &'c GoogleLive, prompt: &'c Prompt, turns: Vec<Vec<Value>>) -> Self {
        Self {
            codec,
            prompt,
            turns: turns.into(),
            text: Rounds::default(),
            transcript: Rounds::default(),
            has_audio: false,
            calls: Vec::new(),
            written_calls: Vec::new(),
            usage: UsageSum::default(),
            counts: None,
            awaits_content: false,
        }
    }

    /// Reads the calls of a message. Without a script that answers calls, the answer ends at the calls.
    fn called(&mut self, written: &Value) -> Result<Step, ProviderError> {
        let Value::Array(written) = written else {
            return Err(malformed(Malformed::not_a("a list", "`functionCalls`", written)));
        };
        let mut calls = Vec::with_capacity(written.len());
        let before = part::calls_before(self.prompt) + gemini::functions(&self.calls);
        for (at, call) in written.iter().enumerate() {
            let made_up = format!("live_call_{}", before + at);
            let call = part::called(call, "args", &call["id"], &made_up);
            calls.push(call.map_err(malformed)?);
        }
        self.count();
        self.written_calls.extend_from_slice(written);
        if calls.is_empty() {
            return Ok(Step::WAIT);
        }
        if self.codec.answer_calls.is_some() {
            self.end_round();
            return Ok(Step::Answer(calls));
        }
        self.calls.extend(calls);
        Ok(self.done(FinishReason::ToolCalls))
    }

    /// Reads a part of the answer, and returns the next step. Before the end of a turn, the next step is to wait.
    fn content(&mut self, content: &Value) -> Result<Step, ProviderError> {
        let has_content = self.add(content)?;
        if has_content || content["generationComplete"] == true {
            self.awaits_content = false;
        }
        if content["turnComplete"] != true {
            return Ok(Step::WAIT);
        }
        self.count();
        // After tool responses, the server first reports the end of the turn that made the calls.
        if std::mem::take(&mut self.awaits_content) {
            return Ok(Step::WAIT);
        }
        if let Some(next) = self.turns.pop_front() {
            self.end_round();
            return Ok(Step::Send(next));
        }
        let finish_reason = finish(content);
        let is_cut = finish_reason != FinishReason::Stop;
        if self.answer_text().is_empty() && (self.has_audio || self.calls.is_empty()) && !is_cut {
            let why = if self.has_audio {
                "the answer is audio without a transcript"
            } else {
                "the answer has no text"
            };
            return Err(malformed(Malformed::faulty(why)));
        }
        Ok(self.done(finish_reason))
    }

    /// Adds the texts of a message to the answer. Returns true if the message has content of the model.
    fn add(&mut self, content: &Value) -> Result<bool, ProviderError> {
        let transcript = non_empty(&content["outputTranscription"]["text"]);
        self.transcript.push(transcript.unwrap_or_default());
        let parts = match &content["modelTurn"]["parts"] {
            Value::Null => &[][..],
            Value::Array(parts) => parts,
            other => return Err(malformed(Malformed::no_text(other))),
        };
        for written in parts {
            let Value::Object(members) = written else {
                let why = Malformed::not_a("an object", "a part of the answer", written);
                return Err(malformed(why));
            };
            let made_up = format!("live_code_{}", self.prompt.messages.len());
            let is_code = gemini::add_code_execution(written, &made_up, &mut self.calls);
            if is_code.map_err(malformed)? {
                continue;
            }
            if members.contains_key("text") {
                let text = part::text_at(written, "text").map_err(malformed)?;
                if written["thought"] != true {
                    self.text.push(text);
                }
            } else if let Some(kind) =
                members.keys().find(|it| !gemini::SILENT.contains(&it.as_str()))
            {
                return Err(malformed(Malformed::unsupported_part(kind)));
            }
            self.has_audio |= members.contains_key("inlineData");
        }
        Ok(!parts.is_empty() || transcript.is_some())
    }

    fn end_round(&mut self) {
        self.text.has_ended = true;
        self.transcript.has_ended = true;
    }

    /// Adds the token counts of the current turn to the usage.
    fn count(&mut self) {
        if let Some(counts) = self.counts.take() {
            self.usage.add(usage(&counts));
        }
    }

    /// Returns the text of the answer. The text of an audio answer is its transcript.
    fn answer_text(&self) -> &str {
        let (text, transcript) = (&self.text.text, &self.transcript.text);
        if transcript.is_empty() { text } else { transcript }
    }

    fn done(&mut self, finish_reason: FinishReason) -> Step {
        let text = self.answer_text().to_owned();
        let mut reply = Reply::text(text.as_str());
        if self.codec.output == Output::Object {
            let mut output = json!({
                "text": text, "toolCall": {"functionCalls": std::mem::take(&mut self.written_calls)},
            });
            if !self.transcript.text.is_empty() && !self.text.text.is_empty() {
                output["thinking"] = json!(self.text.text);
            }
            reply = Reply {
                output_json: Some(output.clone()),
                ..Reply::text(ecma::stringify(&output))
            };
        }
        let calls = std::mem::take(&mut self.calls);
        Step::Done(Box::new(Reply {
            events: gemini::events(&calls, &reply.text),
            tool_calls: calls,
            usage: self.usage.total(),
            finish_reason,
            model: self.prompt.model.clone(),
            ..reply
        }))
    }
}

impl SocketExchange for Session<'_> {
    fn receive(&mut self, message: &Value) -> Result<Step, ProviderError> {
        let error = &message["error"];
        if !error.is_null() {
            let status = error["code"].as_u64().and_then(|it| u16::try_from(it).ok());
            return Err(failure::of_body(&self.codec.reader(), status.unwrap_or(500), message));
        }
        if message["usageMetadata"].is_object() {
            self.counts = Some(message["usageMetadata"].clone());
        }
        if !message["setupComplete"].is_null() {
            return Ok(self.turns.pop_front().map_or(Step::WAIT, Step::Send));
        }
        if !message["toolCall"].is_null() {
            return self.called(&message["toolCall"]["functionCalls"]);
        }
        if !message["serverContent"].is_null() {
            return self.content(&message["serverContent"]);
        }
        // All other messages are about the session, such as `goAway`.
        Ok(Step::WAIT)
    }

    fn respond(&mut self, calls: Vec<ToolCall>) -> Vec<Value> {
        self.awaits_content = true;
        let response = |call: &ToolCall| {
            let response = match call.response.clone().unwrap_or_default() {
                object @ Value::Object(_) => object,
                other => json!({"result": other}),
            };
            json!({"id": call.id, "name": call.name, "response": response})
        };
        let responses: Vec<Value> = calls.iter().map(response).collect();
        self.calls.extend(calls);
        vec![json!({"toolResponse": {"functionResponses": responses}})]
    }
}

fn malformed(Malformed { why, kind }: Malformed) -> ProviderError {
    ProviderError::new(ProviderErrorKind::MalformedResponse, "google-live", why)
        .with_malformed(kind)
}

/// Returns the reason why the model ended its turn.
fn finish(content: &Value) -> FinishReason {
    match content["turnCompleteReason"].as_str() {
        _ if content["interrupted"] == true => FinishReason::Other("interrupted".to_owned()),
        None | Some("TURN_COMPLETE_REASON_UNSPECIFIED" | "NEED_MORE_INPUT") => FinishReason::Stop,
        Some("RESPONSE_REJECTED") => FinishReason::ContentFilter,
        Some(reason) if reason.contains("PROHIBITED") => FinishReason::ContentFilter,
        Some(reason) => FinishReason::Other(reason.to_lowercase()),
    }
}

/// Returns the token usage of a turn. The API counts the thoughts and the results of tools separately.
fn usage(usage: &Value) -> Usage {
    let count = |keys: &[&str]| keys.iter().find_map(|key| counted(&usage[*key]));
    let input = count(&["promptTokenCount"]);
    let tools = count(&["toolUsePromptTokenCount"]).unwrap_or(0);
    let response = count(&["responseTokenCount", "candidatesTokenCount"]);
    let total = count(&["totalTokenCount"]);
    let thoughts = count(&["thoughtsTokenCount"]).unwrap_or(0);
    let input = input.map(|it| it.saturating_add(tools));
    // Some answers include the thoughts in the count of the response.
    let is_within = match (input, response, total) {
        (Some(input), Some(response), Some(total)) => input.saturating_add(response) == total,
        _ => false,
    };
    let output = response.map(|it| if is_within { it } else { it.saturating_add(thoughts) });
    Usage::counted(input, output, total, count(&["cachedContentTokenCount"]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_thoughts_and_results_of_tools_once() {
        for (counts, expected) in [
            (
                json!({"promptTokenCount": 5, "responseTokenCount": 7, "totalTokenCount": 12, "thoughtsTokenCount": 3}),
                (5, 7, 12),
            ),
            (
                json!({"promptTokenCount": 5, "toolUsePromptTokenCount": 2, "responseTokenCount": 7, "thoughtsTokenCount": 3,
                    "totalTokenCount": 17}),
                (7, 10, 17),
            ),
            (json!({"promptTokenCount": 5, "candidatesTokenCount": 7}), (5, 7, 12)),
        ] {
            let found = usage(&counts);
            let found = (found.input_tokens, found.output_tokens, found.total_tokens);
            assert_eq!(found, expected, "{counts}");
        }
    }
}
