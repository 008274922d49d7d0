//! `tool-calls`: the called tools, their arguments and their order.

mod arguments;

use std::sync::Arc;

use kindlm_schema::Schema;
use kindlm_types::{
    AssertionResult, Class, FailureCode, Problem, ResultEvidence, Severity, ToolCall, ecma,
    pointer, schema_of,
};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value};

use crate::core::behaviour::refused_literal;
use crate::core::codes::EVIDENCE_MISSING;
use crate::core::missing_evidence::{are_arguments_missing, missing_calls};
use crate::core::result_evidence::{absent_in, other, trajectory};
use crate::core::schema_file;
use crate::{
    Assertion, Build, Code, Evidence, ExpectPath, Meta, PassEvidence, Registration, Series, Setup,
    Traits,
};

const ID: &str = "tool-calls";
const MISSING: FailureCode = FailureCode::new("TOOL_CALL_MISSING");
const UNEXPECTED: FailureCode = FailureCode::new("TOOL_CALL_UNEXPECTED");
const ARGS_MISMATCH: FailureCode = FailureCode::new("TOOL_CALL_ARGS_MISMATCH");
const ARGS_SCHEMA_INVALID: FailureCode = FailureCode::new("TOOL_CALL_ARGS_SCHEMA_INVALID");
const ORDER_WRONG: FailureCode = FailureCode::new("TOOL_CALL_ORDER_WRONG");
const RESPONSE_MISMATCH: FailureCode = FailureCode::new("TOOL_RESPONSE_MISMATCH");

/// The highest number of characters of the tools' results in a failure message.
const SHOWN: usize = 200;

pub(crate) static REGISTRATION: Registration = Registration {
    meta: Meta {
        id: ID,
        path: Some(ExpectPath { pointer: "/toolCalls", list: true }),
        summary: "A tool was called (or not called) with certain arguments, at a certain position.",
        since: "0.1.0",
        class: Class::Deterministic,
        severity: Severity::Gate,
        codes: &[
            Code { code: MISSING, summary: "A required tool was not called." },
            Code { code: UNEXPECTED, summary: "A tool was called that must not be called." },
            Code {
                code: ARGS_MISMATCH,
                summary: "No call of the tool has the arguments of `argsMatch`.",
            },
            Code {
                code: ARGS_SCHEMA_INVALID,
                summary: "No call of the tool has arguments that conform to `argsSchema`.",
            },
            Code {
                code: ORDER_WRONG,
                summary: "The tool's first call is not at the position of `order`.",
            },
            Code {
                code: RESPONSE_MISMATCH,
                summary: "No result of the tool contains the text of `responseContains`.",
            },
            Code {
                code: EVIDENCE_MISSING,
                summary: "A result of the tool, its arguments, or a call of it may be missing from the evidence.",
            },
        ],
        docs: include_str!("docs.md"),
    },
    schema: schema_of::<Config>,
    build: Build::Plain(build),
};

/// The expected calls of one tool.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Config {
    /// The name of the tool.
    #[schemars(length(min = 1))]
    tool: String,
    /// True if the tool must not be called. The other keys then have no effect.
    #[serde(default)]
    should_not_call: bool,
    /// The arguments that a call of the tool must have. Objects may have more keys, but lists may not have more items.
    args_match: Option<Map<String, Value>>,
    /// A file with the JSON Schema of the arguments, relative to the config file.
    #[schemars(length(min = 1))]
    args_schema: Option<String>,
    /// The JSON Schema of the arguments itself, instead of `argsSchema`.
    args_schema_resolved: Option<Value>,
    /// The position of the tool's first call among all calls, from 0.
    order: Option<u32>,
    /// The text that a result of the tool must contain.
    response_contains: Option<String>,
}

/// The evidence names at most this many calls before the expected call.
const NAMED_BEFORE: u32 = 100;

#[derive(Debug)]
struct ToolCalls {
    tool: String,
    should_not_call: bool,
    args_match: Option<Map<String, Value>>,
    args_schema: Option<Arc<Schema>>,
    order: Option<u32>,
    response_contains: Option<String>,
}

fn build(config: &Value, setup: &Setup<'_>) -> Result<Arc<dyn Assertion>, Vec<Problem>> {
    let config =
        Config::deserialize(config).map_err(|err| vec![Problem::new("", err.to_string())])?;
    let literals = literals(config.args_match.as_ref());
    if !literals.is_empty() {
        return Err(literals);
    }
    let args_schema = match (&config.args_schema, &config.args_schema_resolved) {
        (Some(path), _) => Some(setup.schemas.load(setup.files, path, "/argsSchema")),
        (None, Some(schema)) => Some(schema_file::inline(schema, "/argsSchemaResolved")),
        (None, None) => None,
    };
    Ok(Arc::new(ToolCalls {
        args_schema: args_schema.transpose()?,
        tool: config.tool,
        should_not_call: config.should_not_call,
        args_match: config.args_match,
        order: config.order,
        response_contains: config.response_contains,
    }))
}

/// Returns a problem for each regular expression in the expected arguments.
///
/// The expected arguments are plain texts, so an expression would never match.
fn literals(args: Option<&Map<String, Value>>) -> Vec<Problem> {
    let mut problems = Vec::new();
    let mut open: Vec<(String, &Value)> = args
        .into_iter()
        .flatten()
        .map(|(key, value)| (format!("/argsMatch/{}", pointer::segment(key)), value))
        .collect();
    while let Some((at, value)) = open.pop() {
        match value {
            // A text such as `/tmp/` may be intended, so only texts with special characters are rejected.
            Value::String(text) if text.contains(|it| "^$.*+?()[]{}|\\".contains(it)) => {
                let help = "`argsMatch` supports no patterns; use the check `called-tool`: `input: { … : { $regex: … \
                    } }`";
                problems.extend(refused_literal(text, &at, true).map(|it| it.with_help(help)));
            }
            Value::Array(items) => {
                let items = items.iter().enumerate();
                open.extend(items.map(|(index, it)| (format!("{at}/{index}"), it)));
            }
            Value::Object(map) => {
                let entries = map.iter();
                open.extend(
                    entries.map(|(key, it)| (format!("{at}/{}", pointer::segment(key)), it)),
                );
            }
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
        }
    }
    problems
}

/// The calls of the checked tool.
struct Calls<'a> {
    /// The calls with known arguments.
    complete: &'a [&'a ToolCall],
    /// True if some recorded calls have unknown arguments.
    has_missing: bool,
    /// The reason why further calls may be unrecorded; `None` if all calls are recorded.
    missing: Option<&'a str>,
}

impl Calls<'_> {
    /// Returns true if all calls are recorded with their arguments.
    fn are_all(&self) -> bool {
        self.missing.is_none() && !self.has_missing
    }
}

impl Assertion for ToolCalls {
    fn traits(&self) -> Traits {
        let expects = !self.should_not_call;
        let parts: [(bool, &'static [&'static str]); 6] = [
            (!expects, &["Tool NOT called: "]),
            (expects, &["Tool called: "]),
            (expects && self.args_match.is_some(), &["Tool args: "]),
            (expects && self.args_schema.is_some(), &["Tool args schema: "]),
            (expects && self.order.is_some(), &["Tool order: "]),
            (expects && self.response_contains.is_some(), &["Tool response: "]),
        ];
        let parts = parts.into_iter().filter(|(is_used, _)| *is_used);
        let series = parts.map(|(_, labels)| Series {
            name: format!("{}{}", labels.concat(), self.tool),
            labels,
        });
        let tool = self.tool.clone();
        let of_pass = PassEvidence::new(move |evidence| {
            vec![evidence_of_pass(&evidence.execution.tool_calls, &tool, expects)]
        });
        Traits { series: series.collect(), evidence_of_pass: Some(of_pass), ..Traits::OF_RECORD }
    }

    fn evaluate(&self, evidence: &Evidence<'_>) -> Vec<AssertionResult> {
        let all = &evidence.execution.tool_calls;
        let calls: Vec<&ToolCall> = all.iter().filter(|call| call.name == self.tool).collect();
        let missing = missing_calls(evidence.execution);
        let missing = missing.as_deref();
        if let Some(why) = missing.filter(|_| calls.is_empty()) {
            return vec![self.missing_calls_result(why)];
        }
        if self.should_not_call {
            return vec![self.not_called(&calls)];
        }
        if calls.is_empty() {
            return vec![self.never_called(all)];
        }
        let mut results = vec![AssertionResult::pass(ID, format!("Tool called: {}", self.tool))];
        let is_complete = |it: &&ToolCall| !are_arguments_missing(evidence.execution, it);
        let (complete, incomplete): (Vec<_>, Vec<_>) = calls.iter().copied().partition(is_complete);
        let args = Calls { complete: &complete, has_missing: !incomplete.is_empty(), missing };
        results.extend(self.args_match.as_ref().map(|expected| self.match_args(&args, expected)));
        results.extend(self.args_schema.as_ref().map(|schema| self.hold_to_schema(&args, schema)));
        results.extend(self.order.map(|position| self.check_order(all, position, missing)));
        let contained = self.response_contains.as_ref();
        results.extend(contained.map(|text| self.check_response(&calls, text, missing)));
        results
    }
}

/// Returns the calls as evidence: the calls of the tool if it is expected, else all calls.
fn evidence_of_pass(all: &[ToolCall], tool: &str, is_expected: bool) -> ResultEvidence {
    if is_expected {
        trajectory([""; 0], names_of(all.iter().filter(|it| it.name == tool)))
    } else {
        trajectory([tool], names_of(all))
    }
}

/// Returns the names of calls, in order.
fn names_of<'a>(calls: impl IntoIterator<Item = &'a ToolCall>) -> impl Iterator<Item = &'a str> {
    calls.into_iter().map(|it| it.name.as_str())
}

impl ToolCalls {
    fn missing_calls_result(&self, why: &str) -> AssertionResult {
        let tool = &self.tool;
        let label = if self.should_not_call { "Tool NOT called" } else { "Tool called" };
        let seen = format!("no call of \"{tool}\" was recorded");
        incomplete(format!("{label}: {tool}"), &seen, why)
    }

    /// Returns the errored result for the case that no known call matches, but an unknown call may match.
    fn undecided(&self, label: String, calls: &Calls<'_>) -> AssertionResult {
        if let Some(why) = calls.missing.filter(|_| !calls.has_missing) {
            let seen = format!("no recorded call of \"{}\" has these arguments", self.tool);
            return incomplete(label, &seen, why);
        }
        let message = format!(
            "the spans lack the arguments of some calls of \"{}\": configure the instrumentation to record them \
             (`OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT=true` for OpenTelemetry's own)",
            self.tool
        );
        AssertionResult::errored(ID, label, EVIDENCE_MISSING, message)
    }

    fn not_called(&self, calls: &[&ToolCall]) -> AssertionResult {
        let count = calls.len();
        let tool = &self.tool;
        let label = format!("Tool NOT called: {tool}");
        if count == 0 {
            return AssertionResult::pass(ID, label);
        }
        let message =
            format!("Tool \"{tool}\" was called {count} time(s) but should not have been");
        AssertionResult::fail(ID, label, UNEXPECTED, message)
            .with_evidence(trajectory([""; 0], names_of(calls.iter().copied())))
    }

    fn never_called(&self, all: &[ToolCall]) -> AssertionResult {
        let tool = &self.tool;
        let names: Vec<&str> = all.iter().map(|call| call.name.as_str()).collect();
        // Without names, and for a single empty name, the text is `(none)`, as in the original KindLM.
        let called =
            Some(names.join(", ")).filter(|it| !it.is_empty()).unwrap_or("(none)".to_owned());
        let message = format!("Expected tool \"{tool}\" was never called. Called: {called}");
        AssertionResult::fail(ID, format!("Tool called: {tool}"), MISSING, message)
            .with_evidence(trajectory([tool.as_str()], names_of(all)))
    }

    fn match_args(&self, calls: &Calls<'_>, expected: &Map<String, Value>) -> AssertionResult {
        let label = format!("Tool args: {}", self.tool);
        let closest = arguments::closest(calls.complete, |it| arguments::mismatches(it, expected));
        let (call, mismatches) = match closest {
            None if !calls.complete.is_empty() => return AssertionResult::pass(ID, label),
            Some(closest) if calls.are_all() => closest,
            _ => return self.undecided(label, calls),
        };
        let message = format!("Argument mismatches: {}", mismatches.join("; "));
        AssertionResult::fail(ID, label, ARGS_MISMATCH, message)
            .with_metadata("mismatches", mismatches)
            .with_metadata("actualArgs", arguments::as_sent(call))
            .with_evidence(arguments::mismatch_evidence(call, expected))
    }

    fn hold_to_schema(&self, calls: &Calls<'_>, schema: &Schema) -> AssertionResult {
        let label = format!("Tool args schema: {}", self.tool);
        let closest = arguments::closest(calls.complete, |it| arguments::violations(it, schema));
        let (call, violations) = match closest {
            None if !calls.complete.is_empty() => return AssertionResult::pass(ID, label),
            Some(closest) if calls.are_all() => closest,
            _ => return self.undecided(label, calls),
        };
        let message = format!("Arguments do not conform to the schema: {}", violations.join("; "));
        AssertionResult::fail(ID, label, ARGS_SCHEMA_INVALID, message)
            .with_metadata("schemaErrors", violations)
            .with_metadata("actualArgs", arguments::as_sent(call))
            .with_evidence(arguments::violation_evidence(call, schema))
    }

    fn check_order(
        &self,
        all: &[ToolCall],
        position: u32,
        missing: Option<&str>,
    ) -> AssertionResult {
        let tool = &self.tool;
        let label = format!("Tool order: {tool} at position {position}");
        let found = all.iter().position(|call| call.name == *tool);
        // An unrecorded call may come before the recorded call.
        if let (Some(found), Some(why)) = (found, missing) {
            return incomplete(label, &format!("\"{tool}\" was recorded at position {found}"), why);
        }
        match found {
            Some(found) if found as u64 == u64::from(position) => AssertionResult::pass(ID, label),
            found => {
                let found = found.map_or("-1".to_owned(), |it| it.to_string());
                let message =
                    format!("Expected \"{tool}\" at position {position}, found at {found}");
                // The configuration expects only this tool at this position. The calls of other tools fill the earlier
                // positions.
                let others = names_of(all).filter(|it| it != tool);
                let expected = others.chain(std::iter::repeat("(another tool)"));
                let expected: Vec<&str> = expected
                    .take(position.min(NAMED_BEFORE) as usize)
                    .chain([tool.as_str()])
                    .collect();
                AssertionResult::fail(ID, label, ORDER_WRONG, message)
                    .with_evidence(trajectory(expected, names_of(all)))
            }
        }
    }

    fn check_response(
        &self,
        calls: &[&ToolCall],
        text: &str,
        missing: Option<&str>,
    ) -> AssertionResult {
        let tool = &self.tool;
        let label = format!("Tool response: {tool}");
        let responses: Vec<String> =
            calls.iter().filter_map(|call| call.response.as_ref()).map(ecma::text).collect();
        if responses.iter().any(|response| response.contains(text)) {
            return AssertionResult::pass(ID, label);
        }
        if responses.len() < calls.len() {
            let message = format!(
                "some results of \"{tool}\" were not recorded, and one of them may contain \"{text}\""
            );
            return AssertionResult::errored(ID, label, EVIDENCE_MISSING, message);
        }
        if let Some(why) = missing {
            let seen = format!("no recorded result of \"{tool}\" contains \"{text}\"");
            return incomplete(label, &seen, why);
        }
        let shown: String = responses.join(", ").chars().take(SHOWN).collect();
        let message = format!("No response of \"{tool}\" contains \"{text}\". Responses: {shown}");
        AssertionResult::fail(ID, label, RESPONSE_MISMATCH, message)
            .with_metadata("responses", responses)
            .with_evidence(absent_in(other(format!("the results of {tool}")), [text]))
    }
}

/// Returns the errored result of a check that needs a complete record of calls.
fn incomplete(label: String, seen: &str, why: &str) -> AssertionResult {
    AssertionResult::errored(ID, label, EVIDENCE_MISSING, format!("{seen}, but {why}"))
}
