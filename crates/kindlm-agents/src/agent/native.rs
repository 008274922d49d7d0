//! The adapter for KindLM's protocol. The first line is `hello`; each turn is any number of lines and a `result`.

use kindlm_types::{Channel, Event, Usage};
use serde::Deserialize;
use serde_json::{Map, Value};

use super::{Dialect, PROTOCOL_VERSION, Reported, Step, object, quoted};
use crate::protocol::{Declaration, channels};

/// The reader of KindLM's protocol.
#[derive(Debug, Default)]
pub(crate) struct Native {
    greeted: bool,
    unnamed: u64,
}

/// The first line: `hello`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Hello {
    version: u64,
    #[serde(default)]
    name: Option<String>,
    #[serde(default)]
    complete: Option<Value>,
}

/// The last line of a turn: `result`.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Done {
    #[serde(default)]
    text: Option<String>,
    #[serde(default, deserialize_with = "present")]
    data: Option<Value>,
    #[serde(default)]
    status: Status,
    #[serde(default)]
    error: Option<String>,
    #[serde(default)]
    usage: Option<Usage>,
    #[serde(default)]
    cost_usd: Option<f64>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Status {
    #[default]
    Completed,
    Failed,
}

/// The line of an agent that cannot continue: `error`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Broken {
    message: String,
}

fn present<'de, D: serde::Deserializer<'de>>(input: D) -> Result<Option<Value>, D::Error> {
    Value::deserialize(input).map(Some)
}

impl Dialect for Native {
    fn read_line(&mut self, line: &str, reported: &mut Reported) -> Result<Step, String> {
        const STRAY: &str = "stdout is for the protocol alone: write logs to stderr";
        let mut line_object = object(line).map_err(|why| format!("{why}; {STRAY}"))?;
        let word = line_object.remove("kindlm");
        let Some(word) = word.as_ref().and_then(Value::as_str) else {
            return Err(format!("it has no `kindlm`: {}; {STRAY}", quoted(line)));
        };
        if !self.greeted && word != "hello" && word != "error" {
            return Err(format!(
                "the first line must be `{{\"kindlm\":\"hello\",\"version\":{PROTOCOL_VERSION}}}`, and not {}",
                quoted(line)
            ));
        }
        match word {
            "hello" => self.hello(line_object, reported),
            "result" => result(line_object, reported),
            "error" => {
                let Broken { message } = fields(line_object, "error")?;
                Ok(Step::Failed(message))
            }
            _ => self.declaration((line, word), line_object, reported),
        }
    }
}

impl Native {
    fn hello(&mut self, line: Map<String, Value>, reported: &mut Reported) -> Result<Step, String> {
        let Hello { version, name, complete } = fields(line, "hello")?;
        if version != PROTOCOL_VERSION {
            return Err(format!(
                "it uses version {version} of the protocol, and this KindLM uses {PROTOCOL_VERSION}"
            ));
        }
        if std::mem::replace(&mut self.greeted, true) {
            return Err("it sent a second `hello`".to_owned());
        }
        if let Some(complete) = complete {
            reported.declare(channels(complete)?);
        }
        reported.metadata.extend(name.map(|it| ("name".to_owned(), Value::String(it))));
        Ok(Step::Ready)
    }

    fn declaration(
        &mut self,
        (line, word): (&str, &str),
        keys: Map<String, Value>,
        reported: &mut Reported,
    ) -> Result<Step, String> {
        match Declaration::from_keyword(word, keys) {
            Some(Declaration::ToolCall(mut call)) => {
                let id = call.take_id().unwrap_or_else(|| {
                    self.unnamed += 1;
                    format!("call_{}", self.unnamed)
                });
                let call = call.with_id(id);
                Event::of_call(&call).for_each(|event| reported.push(event));
                reported.declared.push(call);
            }
            Some(Declaration::OutputJson(data)) => reported.output_json = data,
            Some(Declaration::Event(event)) => reported.push(event),
            Some(Declaration::Evidence(channels)) => reported.declare(channels),
            Some(Declaration::Unreadable(why)) => return Err(why),
            None => {
                const WORDS: [&str; 7] =
                    ["hello", "event", "tool_call", "output_json", "evidence", "result", "error"];
                return Err(if WORDS.contains(&word) {
                    format!("it cannot be read as `{word}`: {}", quoted(line))
                } else {
                    let help = kindlm_types::suggest(word, "words of the protocol", WORDS);
                    format!("`{word}` is not a word of the protocol: {help}")
                });
            }
        }
        Ok(Step::More)
    }
}

fn result(line: Map<String, Value>, reported: &mut Reported) -> Result<Step, String> {
    let Done { text, data, status, error, usage, cost_usd } = fields(line, "result")?;
    if matches!(status, Status::Failed) || error.is_some() {
        let message = error.unwrap_or_else(|| "the agent reported a failure".to_owned());
        reported.push(Event::Error { message });
    }
    let is_answered = text.is_some();
    if let Some(text) = text {
        reported.answer(&text);
    }
    // By the protocol, the `text` or the last message is the whole answer. If both are missing, the messages are
    // incomplete, unless the agent has declared its complete evidence.
    if is_answered || Event::last_words(&reported.events).is_some() {
        reported.has_answered = true;
    } else if !reported.says_itself {
        reported.incomplete.insert(Channel::Messages);
    }
    if usage.is_some() || cost_usd.is_some() {
        if cost_usd.is_some_and(|it| it < 0.0) {
            return Err("`costUsd` is negative".to_owned());
        }
        let usage = usage.unwrap_or_default();
        reported.push(Event::Usage { usage, cost_usd });
    }
    reported.output_json = data.or(reported.output_json.take());
    Ok(Step::Done)
}

fn fields<T: serde::de::DeserializeOwned>(
    line: Map<String, Value>,
    word: &str,
) -> Result<T, String> {
    serde_json::from_value(Value::Object(line))
        .map_err(|err| format!("it cannot be read as `{word}`: {err}"))
}
