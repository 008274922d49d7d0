//! The tools that OpenAI has itself, each of which has items of its own.

use kindlm_types::{ActionStatus, Problem, ToolCall, exit_code};
use serde_json::{Map, Value};

use super::Reading;
use super::parts::{result, text, told};

/// A tool of OpenAI's own, as its items have it.
pub(super) struct Own {
    /// The type of the item that calls it. Without its end it is the tool's name.
    item: &'static str,
    /// What it is called with.
    arguments: Arguments,
    /// Who runs it.
    by: By,
}

/// Where the arguments of a call are.
enum Arguments {
    /// At this key.
    At(&'static str),
    /// Those of these keys that there are.
    These(&'static [&'static str]),
}

/// Who runs a tool.
enum By {
    /// OpenAI: the item has come to its end. What the tool gave is at this key, if it is told at all.
    Server(Option<&'static str>),
    /// The program that asks the model: another item has the result.
    Client,
}

use Arguments::{At, These};
use By::{Client, Server};

/// What it gives is for the user to see, and an answer by itself.
const PICTURE: &str = "image_generation_call";

const ALL: [Own; 8] = [
    Own { item: "web_search_call", arguments: At("action"), by: Server(None) },
    Own { item: "file_search_call", arguments: These(&["queries"]), by: Server(Some("results")) },
    Own { item: "code_interpreter_call", arguments: These(&["code"]), by: Server(Some("outputs")) },
    // What it gave is a picture.
    Own { item: PICTURE, arguments: These(&["revised_prompt"]), by: Server(None) },
    Own { item: "computer_call", arguments: These(&["action", "actions"]), by: Client },
    Own { item: "local_shell_call", arguments: At("action"), by: Client },
    Own { item: "shell_call", arguments: At("action"), by: Client },
    Own { item: "apply_patch_call", arguments: At("operation"), by: Client },
];

impl Own {
    /// The tool that items of this type call.
    pub(super) fn of(item: &str) -> Option<&'static Self> {
        ALL.iter().find(|it| it.item == item)
    }

    /// Reads a call of it, and its end where the item has that.
    pub(super) fn call(
        &self,
        item: &Value,
        at: &str,
        reading: &mut Reading,
    ) -> Result<(), Problem> {
        let key = match self.by {
            Server(_) => "id",
            Client => "call_id",
        };
        let id = text(item, key, at)?;
        let name = self.item.trim_end_matches("_call").to_owned();
        let arguments = self.arguments.of(item);
        reading.call(ToolCall { id: id.to_owned(), name, arguments, ..ToolCall::default() });
        let Server(output) = self.by else { return Ok(()) };
        let status = match item.get("status").and_then(Value::as_str) {
            None | Some("completed") => ActionStatus::Completed,
            Some("failed") => ActionStatus::Failed,
            // It is under way, or was cut.
            Some(_) => return Ok(()),
        };
        let output = output.and_then(|it| told(item, it)).cloned();
        reading.answered(id, output, status, &format!("{at}/{key}"))?;
        if self.item == PICTURE {
            reading.shows_a_picture();
        }
        Ok(())
    }
}

impl Arguments {
    fn of(&self, item: &Value) -> Value {
        match self {
            At(key) => item.get(*key).cloned().unwrap_or_default(),
            These(keys) => {
                let found =
                    keys.iter().filter_map(|it| Some(((*it).to_owned(), told(item, it)?.clone())));
                Value::Object(found.collect::<Map<_, _>>())
            }
        }
    }
}

/// What a tool gave that somebody else than OpenAI has run, and whether it failed: by the state of the item, or by the
/// exit code of a command.
pub(super) fn output(item: &Value, failed: bool) -> (Option<Value>, bool) {
    let output = match told(item, "output") {
        Some(Value::String(text)) => Some(result(text.clone())),
        // The screen of a computer.
        Some(Value::Object(_)) => None,
        other => other.cloned(),
    };
    let commands = output.as_ref().and_then(Value::as_array).into_iter().flatten();
    let timed_out = |it: &Value| it.pointer("/outcome/type").is_some_and(|it| it == "timeout");
    let failed = failed
        || commands.into_iter().any(timed_out)
        || output.as_ref().and_then(exit_code).is_some_and(|it| it != 0);
    (output, failed)
}
