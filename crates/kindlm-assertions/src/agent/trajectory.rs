//! The steps of an agent, in order, from the spans of its trace; without a trace, from its tool calls.

use std::borrow::Cow;
use std::sync::LazyLock;

use kindlm_types::{AssertionResult, Execution, Span, ToolCall, ecma};
use regex::Regex;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value};

use crate::core::missing_evidence::missing_calls;
use crate::core::recorded::{knows_tool_calls, missing};
use crate::shared::glob;

/// The reason why a check of steps cannot be decided if no steps are recorded.
const NO_STEPS: &str =
    "the execution has neither a trace nor tool calls: add `trace` or `tool_calls` to the record";

/// The type of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(rename = "TrajectoryStepType")]
pub(crate) enum StepType {
    /// The agent ran a command.
    Command,
    /// The agent wrote a message.
    Message,
    /// The agent reasoned.
    Reasoning,
    /// The agent searched for something.
    Search,
    /// Any other span.
    Span,
    /// The agent called a tool.
    Tool,
}

impl StepType {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Command => "command",
            Self::Message => "message",
            Self::Reasoning => "reasoning",
            Self::Search => "search",
            Self::Span => "span",
            Self::Tool => "tool",
        }
    }
}

/// One step of an agent.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Step {
    /// The type of the step.
    pub(crate) kind: StepType,
    /// The name: the tool, the command, the query, or the span's own name.
    pub(crate) name: String,
    /// The other names that a pattern can match.
    aliases: Vec<String>,
    /// The arguments of a tool or a command, as far as they are known.
    pub(crate) args: Option<Value>,
}

impl Step {
    /// Returns the label of the step, such as `tool:search`.
    pub(crate) fn label(&self) -> String {
        format!("{}:{}", self.kind.name(), self.name)
    }

    /// Returns true if one of the step's names matches a pattern.
    pub(crate) fn is_called(&self, pattern: &str) -> bool {
        glob::matches(&self.name, pattern)
            || self.aliases.iter().any(|it| glob::matches(it, pattern))
    }
}

/// Returns the labels of steps, separated by commas; `(none)` if there are none.
pub(crate) fn labels<'a>(steps: impl IntoIterator<Item = &'a Step>) -> String {
    let labels: Vec<String> = steps.into_iter().map(Step::label).collect();
    if labels.is_empty() { "(none)".to_owned() } else { labels.join(", ") }
}

/// The known steps of an execution, in the order of their start.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Steps {
    pub(crate) seen: Vec<Step>,
    /// The reason why there may be further tool calls; `None` if all tool calls are known.
    pub(crate) missing: Option<String>,
}

impl Steps {
    /// Returns the highest possible number of steps of a kind; `None` if unknown steps are possible.
    ///
    /// `seen` is the number of known steps of this kind.
    pub(crate) fn most(&self, seen: usize) -> Option<usize> {
        self.missing.is_none().then_some(seen)
    }

    /// Returns the errored result of a check that the known steps do not decide.
    pub(crate) fn undecided(&self, id: &str, label: &str) -> Vec<AssertionResult> {
        let why = self.missing.as_deref().unwrap_or_default();
        missing(id, label, &format!("the agent's steps are incomplete: {why}"))
    }
}

/// Returns the steps of an execution, or the reason why they are unknown.
///
/// The steps are unknown if neither a trace nor tool calls are recorded, or if the evidence is incomplete.
pub(crate) fn steps(execution: &Execution) -> Result<Steps, String> {
    if let Some(gap) = execution.completeness.gaps.first() {
        return Err(format!("the agent's steps are incomplete: {gap}"));
    }
    let Some(trace) = &execution.trace else {
        if !knows_tool_calls(execution) {
            return Err(NO_STEPS.to_owned());
        }
        let seen = execution.tool_calls.iter().map(called).collect();
        return Ok(Steps { seen, missing: missing_calls(execution) });
    };
    let mut spans: Vec<&Span> = trace.spans.iter().collect();
    let end = |span: &Span| span.end_time.unwrap_or(span.start_time);
    spans.sort_by(|a, b| {
        a.start_time.total_cmp(&b.start_time).then_with(|| end(a).total_cmp(&end(b)))
    });
    let seen: Vec<Step> = spans.into_iter().map(step).collect();
    // Without extracted tool calls, a single tool span shows that the instrumentation records all tool calls.
    let is_raw = execution.tool_calls.is_empty();
    let shows_tools = seen.iter().any(|it| matches!(it.kind, StepType::Tool | StepType::Command));
    let missing = missing_calls(execution).filter(|_| !(is_raw && shows_tools));
    Ok(Steps { seen, missing })
}

/// Returns the steps that are tool calls, or the reason why they are unknown.
pub(crate) fn tool_steps(execution: &Execution) -> Result<Steps, String> {
    let mut steps = steps(execution)?;
    steps.seen.retain(|it| it.kind == StepType::Tool);
    Ok(steps)
}

fn called(call: &ToolCall) -> Step {
    let args = match &call.malformed_arguments {
        Some(text) => Value::String(text.clone()),
        None if call.arguments.is_null() => Value::Object(Map::new()),
        None => call.arguments.clone(),
    };
    Step { kind: StepType::Tool, name: call.name.clone(), aliases: Vec::new(), args: Some(args) }
}

/// The attributes that can name a tool, by precedence.
const TOOL_NAMES: [&str; 11] = [
    "tool.name",
    "tool_name",
    "tool",
    "function.name",
    "function_name",
    "ai.toolCall.name",
    "gen_ai.tool.name",
    "agent.tool_name",
    "agent.tool",
    "agent.toolName",
    "codex.mcp.tool",
];

/// The attributes that can hold the arguments of a tool, by precedence.
const TOOL_ARGUMENTS: [&str; 28] = [
    "tool.args",
    "tool.arguments",
    "tool.input",
    "tool_args",
    "tool_arguments",
    "tool_input",
    "function.args",
    "function.arguments",
    "function.input",
    "function_args",
    "function_arguments",
    "ai.toolCall.args",
    "ai.toolCall.arguments",
    "ai.toolCall.input",
    "gen_ai.tool.args",
    "gen_ai.tool.arguments",
    "gen_ai.tool.input",
    "gen_ai.tool.call.args",
    "gen_ai.tool.call.arguments",
    "agent.tool.args",
    "agent.tool.arguments",
    "agent.tool.input",
    "codex.mcp.args",
    "codex.mcp.arguments",
    "codex.mcp.input",
    "args",
    "arguments",
    "input",
];

/// The tools that run commands.
const SHELLS: [&str; 3] = ["exec_command", "local_shell", "shell"];

/// Regular expressions that classify spans and their attributes by name.
struct Words {
    tool_name: Regex,
    tool: Regex,
    no_tool: Regex,
    arguments: Regex,
    no_arguments: Regex,
    command: Regex,
    no_command: Regex,
    query: Regex,
    search: Regex,
    searches: Regex,
    reasoning: Regex,
}

static WORDS: LazyLock<Result<Words, regex::Error>> = LazyLock::new(|| {
    let regex = |text: &str| Regex::new(&format!("(?i){text}"));
    Ok(Words {
        tool_name: regex("tool.?name|function.?name")?,
        tool: regex(r"(^|[._])tool($|[._])")?,
        no_tool: regex("result|output|definition")?,
        arguments: regex(r"(^|[._])(arguments|args|input)($|[._])")?,
        no_arguments: regex("result|output|error|status")?,
        command: regex("command")?,
        no_command: regex("output|result")?,
        query: regex(r"(^|[._])search[._]?query$")?,
        search: regex(r"(^|[._])(search|lookup|retriev(?:e|al))($|[._])")?,
        searches: regex(r"(^|[\s._:/-])(search|find|lookup|retriev(?:e|al))($|[\s._:/-])")?,
        reasoning: regex(r"^reasoning([_\s]|$)")?,
    })
});

/// Converts a span to a step.
fn step(span: &Span) -> Step {
    let plain = |kind, alias: &str| Step {
        kind,
        name: span.name.clone(),
        aliases: vec![alias.to_owned()],
        args: None,
    };
    let Ok(words) = &*WORDS else { return plain(StepType::Span, "") };
    let no_attributes = Map::new();
    let attributes = span.attributes.as_ref().unwrap_or(&no_attributes);
    let tool = tool_name(span, attributes, words);
    let args = tool_args(attributes, words);
    let is_shell = tool.is_some_and(|it| is_shell(it, args.as_ref()));
    let command = command(span, attributes, args.as_ref().filter(|_| is_shell), words);
    let named = |kind, name: &str, aliases: Vec<&str>, args: Option<Value>| {
        let aliases = aliases.into_iter().chain([span.name.as_str()]).map(str::to_owned).collect();
        Step { kind, name: name.to_owned(), aliases, args }
    };
    let executable =
        |command: &str| command.split_whitespace().next().unwrap_or_default().to_owned();
    match (command, tool) {
        (Some(command), Some(tool)) if is_shell => {
            named(StepType::Command, &command, vec![tool, &executable(&command)], args)
        }
        (_, Some(tool)) => named(StepType::Tool, tool, Vec::new(), args),
        (Some(command), None) => {
            named(StepType::Command, &command, vec![&executable(&command)], None)
        }
        (None, None) => {
            let item = attributes.get("codex.item.type").and_then(Value::as_str);
            let says = item == Some("agent_message")
                || span.name == "agent response"
                || span.name == "send input";
            if let Some(query) = query(span, attributes, words) {
                named(StepType::Search, &query, Vec::new(), None)
            } else if item == Some("reasoning") || words.reasoning.is_match(&span.name) {
                plain(StepType::Reasoning, "reasoning")
            } else if says {
                plain(StepType::Message, "message")
            } else {
                named(StepType::Span, &span.name, Vec::new(), None)
            }
        }
    }
}

/// Returns a trimmed text; `None` for an empty text or any other value.
fn word(value: &Value) -> Option<&str> {
    value.as_str().map(str::trim).filter(|it| !it.is_empty())
}

fn first<'a>(attributes: &'a Map<String, Value>, keys: &[&str]) -> Option<&'a str> {
    keys.iter().find_map(|key| attributes.get(*key).and_then(word))
}

fn tool_name<'a>(
    span: &'a Span,
    attributes: &'a Map<String, Value>,
    words: &Words,
) -> Option<&'a str> {
    let by_key = || {
        attributes.iter().find_map(|(key, value)| {
            // A JSON list of the tools that a model may call is not the name of a called tool.
            let name = word(value).filter(|it| !is_structured(it))?;
            let is_name = words.tool_name.is_match(key)
                || words.tool.is_match(key) && !words.no_tool.is_match(key);
            is_name.then_some(name)
        })
    };
    let of_server = || {
        let (_, name) = span.name.strip_prefix("mcp ")?.rsplit_once('/')?;
        Some(name.trim()).filter(|it| !it.is_empty())
    };
    first(attributes, &TOOL_NAMES).or_else(by_key).or_else(of_server)
}

fn is_structured(text: &str) -> bool {
    text.starts_with(['[', '{']) && serde_json::from_str::<Value>(text).is_ok()
}

fn tool_args(attributes: &Map<String, Value>, words: &Words) -> Option<Value> {
    let by_name = TOOL_ARGUMENTS.iter().find_map(|key| argument(attributes.get(*key)?));
    by_name.or_else(|| {
        attributes.iter().find_map(|(key, value)| {
            let is = !words.no_arguments.is_match(key) && words.arguments.is_match(key);
            if is { argument(value) } else { None }
        })
    })
}

/// Returns the arguments, which may be JSON in a text; `None` for `null` and a blank text.
fn argument(value: &Value) -> Option<Value> {
    match value {
        Value::Null => None,
        Value::String(text) => {
            let text = Some(text.trim()).filter(|it| !it.is_empty())?;
            Some(serde_json::from_str(text).unwrap_or_else(|_| Value::String(text.to_owned())))
        }
        value => Some(value.clone()),
    }
}

fn is_shell(tool: &str, args: Option<&Value>) -> bool {
    let tool = tool.to_lowercase();
    let has_command = || {
        let args = args.and_then(Value::as_object);
        args.is_some_and(|it| {
            ["cmd", "command", "commands"].iter().any(|key| it.contains_key(*key))
        })
    };
    SHELLS.contains(&tool.as_str()) || tool == "execute" && has_command()
}

/// Returns the command line of a step, if the step runs a command.
///
/// The command line comes from an attribute, the arguments of a shell, or the name of the span.
fn command(
    span: &Span,
    attributes: &Map<String, Value>,
    shell_args: Option<&Value>,
    words: &Words,
) -> Option<String> {
    let recorded = attributes.iter().find_map(|(key, value)| {
        let is = words.command.is_match(key) && !words.no_command.is_match(key);
        word(value).filter(|_| is)
    });
    if let Some(recorded) = recorded {
        return Some(recorded.to_owned());
    }
    let given = [("cmd", " "), ("command", " "), ("commands", "; ")]
        .iter()
        .find_map(|(key, separator)| Some((shell_args?.get(*key)?, separator)));
    if let Some((given, separator)) = given {
        let line = match given {
            Value::Array(parts) => {
                let parts = parts.iter().map(|it| crate::core::grade::text(it).trim().to_owned());
                parts.filter(|it| !it.is_empty()).collect::<Vec<_>>().join(separator)
            }
            given => word(given).unwrap_or_default().to_owned(),
        };
        if !line.is_empty() {
            return Some(line);
        }
    }
    span.name.strip_prefix("exec ").map(str::trim).filter(|it| !it.is_empty()).map(str::to_owned)
}

/// Returns the query of a search; `None` if the span is not a search or has no query.
fn query<'a>(
    span: &'a Span,
    attributes: &'a Map<String, Value>,
    words: &Words,
) -> Option<Cow<'a, str>> {
    let recorded = attributes
        .iter()
        .find_map(|(key, value)| word(value).filter(|_| words.query.is_match(key)));
    let searches = || {
        words.searches.is_match(&span.name)
            || attributes.keys().any(|key| key != "query" && words.search.is_match(key))
    };
    let plain = || attributes.get("query").and_then(word).filter(|_| searches());
    let named = || {
        let rest = span.name.strip_prefix("search ")?;
        let rest = rest.strip_prefix('"').unwrap_or(rest);
        Some(rest.strip_suffix('"').unwrap_or(rest).trim()).filter(|it| !it.is_empty())
    };
    recorded.or_else(plain).or_else(named).map(Cow::Borrowed)
}

/// Formats arguments for a report.
pub(crate) fn shown(args: &Value) -> String {
    ecma::stringify(args)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn span(name: &str, attributes: &Value) -> Span {
        Span {
            name: name.to_owned(),
            attributes: attributes.as_object().cloned(),
            ..Span::default()
        }
    }

    #[test]
    fn attributes_and_name_determine_the_step_of_a_span() {
        for (name, attributes, label) in [
            ("x", json!({"tool.name": " search "}), "tool:search"),
            ("x", json!({"my.toolName": "a"}), "tool:a"),
            ("x", json!({"gen_ai.tool.definitions": "[{\"name\": \"a\"}]"}), "span:x"),
            ("x", json!({"my.tool.result": "a"}), "span:x"),
            ("mcp server/read", json!({}), "tool:read"),
            ("exec ls -la", json!({}), "command:ls -la"),
            ("x", json!({"codex.command": "ls"}), "command:ls"),
            (
                "x",
                json!({"tool.name": "shell", "tool.args": {"cmd": ["ls", "-l"]}}),
                "command:ls -l",
            ),
            ("x", json!({"tool.name": "shell"}), "tool:shell"),
            (
                "x",
                json!({"tool.name": "execute", "args": "{\"commands\":[\"a\",\"b\"]}"}),
                "command:a; b",
            ),
            ("x", json!({"web.search.query": "cats"}), "search:cats"),
            ("web search", json!({"query": "cats"}), "search:cats"),
            ("db", json!({"query": "select 1"}), "span:db"),
            ("search \"cats\"", json!({}), "search:cats"),
            ("Reasoning step", json!({}), "reasoning:Reasoning step"),
            ("agent response", json!({}), "message:agent response"),
            ("x", json!({}), "span:x"),
        ] {
            assert_eq!(step(&span(name, &attributes)).label(), label, "{name} {attributes}");
        }
    }

    #[test]
    fn a_command_is_found_under_its_program_and_its_tool() {
        let step =
            step(&span("x", &json!({"tool.name": "shell", "tool.args": {"cmd": "git push"}})));
        for (pattern, expected) in
            [("git push", true), ("git", true), ("shell", true), ("x", true), ("push", false)]
        {
            assert_eq!(step.is_called(pattern), expected, "{pattern}");
        }
    }

    #[test]
    fn arguments_are_read_from_text_and_from_values() {
        let words = WORDS.as_ref().unwrap();
        for (attributes, expected) in [
            (json!({"tool.arguments": "{\"q\":1}"}), Some(json!({"q": 1}))),
            (json!({"tool.arguments": "plain"}), Some(json!("plain"))),
            (json!({"tool.arguments": " "}), None),
            (json!({"my.input.value": 3}), Some(json!(3))),
            (json!({"input.error": 3}), None),
        ] {
            let read = tool_args(attributes.as_object().unwrap(), words);
            assert_eq!(read, expected, "{attributes}");
        }
    }

    #[test]
    fn without_a_trace_the_tool_calls_are_the_steps() {
        let mut execution = Execution::default();
        assert_eq!(steps(&execution), Err(NO_STEPS.to_owned()));
        execution.requests = 1;
        assert_eq!(steps(&execution), Ok(Steps { seen: Vec::new(), missing: None }));
        execution.tool_calls = vec![ToolCall { name: "a".to_owned(), ..ToolCall::default() }];
        assert_eq!(labels(&steps(&execution).unwrap().seen), "tool:a");
    }
}
