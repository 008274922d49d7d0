//! OpenAI's built-in tools, which have their own item types.

use kindlm_types::{ActionStatus, Problem, ToolCall, exit_code};
use serde_json::{Map, Value};

use super::Reading;
use super::parts::{result, text, value_at};

/// A built-in tool of OpenAI.
pub(super) struct BuiltInTool {
    /// The type of the item that calls the tool: the tool's name followed by `_call`.
    item: &'static str,
    /// The location of the arguments in the item.
    arguments: Arguments,
    /// The side that runs the tool.
    by: By,
}

/// The location of the arguments of a call.
enum Arguments {
    /// The value at this key.
    At(&'static str),
    /// An object with the existing keys of this list.
    These(&'static [&'static str]),
}

/// The side that runs a tool.
enum By {
    /// OpenAI runs the tool. The item of the call also records the end of the call. The output is at this key; `None`
    /// if the item has no output.
    Server(Option<&'static str>),
    /// The client runs the tool. Another item holds the result.
    Client,
}

use Arguments::{At, These};
use By::{Client, Server};

/// The type of image calls. An image is shown to the user, so it is a complete answer.
const PICTURE: &str = "image_generation_call";

const ALL: [BuiltInTool; 8] = [
    BuiltInTool { item: "web_search_call", arguments: At("action"), by: Server(None) },
    BuiltInTool {
        item: "file_search_call",
        arguments: These(&["queries"]),
        by: Server(Some("results")),
    },
    BuiltInTool {
        item: "code_interpreter_call",
        arguments: These(&["code"]),
        by: Server(Some("outputs")),
    },
    // The result is an image, which is not text.
    BuiltInTool { item: PICTURE, arguments: These(&["revised_prompt"]), by: Server(None) },
    BuiltInTool { item: "computer_call", arguments: These(&["action", "actions"]), by: Client },
    BuiltInTool { item: "local_shell_call", arguments: At("action"), by: Client },
    BuiltInTool { item: "shell_call", arguments: At("action"), by: Client },
    BuiltInTool { item: "apply_patch_call", arguments: At("operation"), by: Client },
];

impl BuiltInTool {
    /// Returns the tool that items of this type call; `None` if the type is unknown.
    pub(super) fn for_item(item: &str) -> Option<&'static Self> {
        ALL.iter().find(|it| it.item == item)
    }

    /// Reads a call, and its end if the item includes the end.
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
        let arguments = self.arguments.read_from(item);
        reading.call(ToolCall { id: id.to_owned(), name, arguments, ..ToolCall::default() });
        let Server(output) = self.by else { return Ok(()) };
        let status = match item.get("status").and_then(Value::as_str) {
            None | Some("completed") => ActionStatus::Completed,
            Some("failed") => ActionStatus::Failed,
            // The call is in progress, or was cut.
            Some(_) => return Ok(()),
        };
        let output = output.and_then(|it| value_at(item, it)).cloned();
        reading.answered(id, output, status, &format!("{at}/{key}"))?;
        if self.item == PICTURE {
            reading.shows_a_picture();
        }
        Ok(())
    }
}

impl Arguments {
    fn read_from(&self, item: &Value) -> Value {
        match self {
            At(key) => item.get(*key).cloned().unwrap_or_default(),
            These(keys) => {
                let found = keys
                    .iter()
                    .filter_map(|it| Some(((*it).to_owned(), value_at(item, it)?.clone())));
                Value::Object(found.collect::<Map<_, _>>())
            }
        }
    }
}

/// Returns the output of a tool that the client ran, and true if the tool failed. The status of the item, a timeout or
/// an exit code shows the failure.
pub(super) fn output(item: &Value, failed: bool) -> (Option<Value>, bool) {
    let output = match value_at(item, "output") {
        Some(Value::String(text)) => Some(result(text.clone())),
        // An object is a screenshot, which is not text.
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
