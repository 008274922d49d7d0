//! `trajectory:tool-args-match`: the agent called a tool with certain arguments.

use std::borrow::Cow;
use std::sync::Arc;

use kindlm_types::{AssertionResult, Class, Problem, ResultEvidence, Severity, schema_of};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value};

use crate::agent::named::{Matcher, Pattern, Types};
use crate::agent::trajectory::{Step, labels, shown, tool_steps};
use crate::core::codes::{ASSERTION_FAILED, EVIDENCE_MISSING};
use crate::core::config::parse_config;
use crate::core::grade::Grade;
use crate::core::recorded::missing;
use crate::core::result_evidence::{call, differences, trajectory};
use crate::shared::compare::{contains, equal};
use crate::shared::glob;
use crate::{Assertion, Build, Code, EntryOptions, Evidence, Meta, Registration, Setup, Traits};

/// The reason why the arguments of a call are unknown.
const NO_ARGUMENTS: &str = "the spans lack the arguments of a call of the tool: configure the instrumentation to \
    record them (`OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT=true` for OpenTelemetry's own)";

const ID: &str = "trajectory:tool-args-match";

pub(crate) static REGISTRATION: Registration = Registration {
    meta: Meta {
        id: ID,
        path: None,
        summary: "The agent called a tool with certain arguments.",
        since: "0.1.0",
        class: Class::Deterministic,
        severity: Severity::Gate,
        codes: &[
            Code {
                code: ASSERTION_FAILED,
                summary: "No call has the arguments; with `not-` one has.",
            },
            Code {
                code: EVIDENCE_MISSING,
                summary: "Neither a trace nor tool calls were recorded, or some calls or arguments are missing and no call matches.",
            },
        ],
        docs: include_str!("docs.md"),
    },
    schema: schema_of::<Config>,
    build: Build::EntryOptions(build),
};

/// The arguments that a tool must be called with.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Config {
    /// The tool and its arguments.
    value: Call,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "TrajectoryCall")]
struct Call {
    /// The name of the tool, which may also be a pattern.
    #[serde(default)]
    name: Option<String>,
    /// A pattern for the tool's name: `*` is any text, `?` is one character. Case does not matter.
    #[serde(default)]
    pattern: Option<String>,
    /// The type of the step. Only `tool` is possible here.
    #[serde(default, rename = "type")]
    types: Option<Types>,
    /// The expected arguments. `arguments` is another name for this key.
    #[serde(default)]
    args: Option<Value>,
    /// Another name of `args`.
    #[serde(default)]
    arguments: Option<Value>,
    /// The rule for further arguments of a call; `partial` by default.
    #[serde(default)]
    mode: Mode,
    /// Arguments that a call may have in addition, if they have these values.
    #[serde(default)]
    defaults: Map<String, Value>,
    /// The names of ignored arguments, which may contain `*` and `?`.
    #[serde(default)]
    ignore: Option<Ignored>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(rename = "TrajectoryArgsMode")]
enum Mode {
    /// A call may have further arguments.
    #[default]
    Partial,
    /// A call may have no further arguments.
    Exact,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(untagged)]
#[schemars(rename = "TrajectoryIgnoredArgs")]
enum Ignored {
    /// A single name.
    One(#[schemars(length(min = 1))] String),
    /// Several names.
    Several(Vec<String>),
}

#[derive(Debug)]
struct ToolArgsMatch {
    wanted: Pattern,
    args: Value,
    mode: Mode,
    defaults: Map<String, Value>,
    ignore: Vec<String>,
    negate: bool,
}

fn build(
    config: &Value,
    own: EntryOptions,
    _setup: &Setup<'_>,
) -> Result<Arc<dyn Assertion>, Vec<Problem>> {
    let Config { value: call } = parse_config(config)?;
    let Call { name, pattern, types, args, arguments, mode, defaults, ignore } = call;
    let wanted = Pattern::new(&Matcher { name, pattern, types }, "/value")?;
    let Some(args) = args.or(arguments) else {
        let problem = Problem::new("/value", "`args` is required");
        return Err(vec![problem.with_help("`args`: the arguments that a call must have")]);
    };
    let ignore = match ignore {
        None => Vec::new(),
        Some(Ignored::One(one)) => vec![one],
        Some(Ignored::Several(several)) => several,
    };
    if let Some(index) = ignore.iter().position(|it| it.trim().is_empty()) {
        let problem =
            Problem::new(format!("/value/ignore/{index}"), "the name of an argument is empty");
        return Err(vec![problem.with_help("remove it, or name an argument")]);
    }
    Ok(Arc::new(ToolArgsMatch { wanted, args, mode, defaults, ignore, negate: own.negate }))
}

/// The remaining arguments, and the names of the removed arguments.
type Stripped<'a> = (Cow<'a, Value>, Vec<&'a str>);

/// Returns an object without the entries that `out` selects, and the keys of these entries.
///
/// Any other value is returned unchanged.
fn strip(value: &Value, out: impl Fn(&str, &Value) -> bool) -> Stripped<'_> {
    let Value::Object(map) = value else { return (Cow::Borrowed(value), Vec::new()) };
    let (gone, left): (Vec<_>, Vec<_>) = map.iter().partition(|(key, value)| out(key, value));
    let left = left.into_iter().map(|(key, value)| (key.clone(), value.clone())).collect();
    (Cow::Owned(Value::Object(left)), gone.into_iter().map(|(key, _)| key.as_str()).collect())
}

impl ToolArgsMatch {
    fn is_ignored(&self, key: &str) -> bool {
        self.ignore.iter().any(|it| it == key || it.contains(['*', '?']) && glob::matches(key, it))
    }

    fn is_default(&self, key: &str, value: &Value) -> bool {
        // An expected argument is compared, even if it has its default value.
        self.args.get(key).is_none() && self.defaults.get(key).is_some_and(|it| equal(it, value))
    }

    fn matches(&self, actual: &Value) -> bool {
        let actual = strip(actual, |key, it| self.is_ignored(key) || self.is_default(key, it)).0;
        let wanted = strip(&self.args, |key, _| self.is_ignored(key)).0;
        match self.mode {
            Mode::Partial => contains(&actual, &wanted),
            Mode::Exact => equal(&actual, &wanted),
        }
    }

    /// Describes the ignored arguments of a matching call.
    fn left_out(&self, args: &Value) -> String {
        let ignored = strip(args, |key, _| self.is_ignored(key)).1;
        let defaults = strip(args, |key, it| !self.is_ignored(key) && self.is_default(key, it)).1;
        let mut text = String::new();
        for (what, names) in [("argument(s)", ignored), ("default argument(s)", defaults)] {
            if !names.is_empty() {
                text = format!("{text}. Ignored {what}: {}", names.join(", "));
            }
        }
        text
    }

    /// Returns true if only a call with unknown arguments may match.
    fn depends_on_missing(&self, steps: &[Step]) -> bool {
        let mut called = steps.iter().filter(|it| self.wanted.matches(it));
        let told = called.clone().filter_map(|it| it.args.as_ref());
        !told.into_iter().any(|it| self.matches(it)) && called.any(|it| it.args.is_none())
    }

    /// Returns true if a call matches, and the grade.
    fn grade(&self, steps: &[Step]) -> (bool, Grade) {
        let name = &self.wanted.pattern;
        let mode = match self.mode {
            Mode::Partial => "partial",
            Mode::Exact => "exact",
        };
        let called: Vec<&Step> = steps.iter().filter(|it| self.wanted.matches(it)).collect();
        let with_args = called.iter().filter_map(|step| Some((*step, step.args.as_ref()?)));
        let found = with_args.clone().find(|(_, args)| self.matches(args));
        let observed: Vec<String> = with_args.map(|(_, args)| shown(args)).collect();
        let observed = if observed.is_empty() { "(none)".to_owned() } else { observed.join(", ") };
        let reason = match (found, self.negate) {
            (Some((step, args)), false) => format!(
                "Tool \"{name}\" matched expected arguments ({mode}) on {}. Args: {}{}",
                step.label(),
                shown(args),
                self.left_out(args),
            ),
            (Some((step, args)), true) => format!(
                "Forbidden argument match for tool \"{name}\" was observed on {}. Args: {}",
                step.label(),
                shown(args),
            ),
            (None, true) if called.is_empty() => format!(
                "Forbidden argument match for tool \"{name}\" was not observed because no tool call matched it"
            ),
            (None, true) => format!(
                "Forbidden argument match for tool \"{name}\" was not observed. Observed args: {observed}"
            ),
            (None, false) if called.is_empty() => {
                format!("No tool call matched \"{name}\". Actual tools: {}", labels(steps))
            }
            (None, false) => format!(
                "No call to tool \"{name}\" matched expected arguments ({mode}): {}. Observed args: {observed}",
                shown(&self.args),
            ),
        };
        (found.is_some(), Grade::with(found.is_some() != self.negate, reason))
    }
}

impl ToolArgsMatch {
    /// Returns the differences between the expected arguments and those of the first call with known arguments.
    ///
    /// Without such a call, or with `not-`, the evidence is the names of all steps.
    fn evidence(&self, steps: &[Step]) -> ResultEvidence {
        let mut called = steps.iter().filter(|it| self.wanted.matches(it));
        let first = called.find_map(|it| Some((it, it.args.as_ref()?)));
        let Some((step, args)) = first.filter(|_| !self.negate) else {
            let expected = (!self.negate).then_some(self.wanted.pattern.as_str());
            return trajectory(expected, steps.iter().map(|it| it.name.as_str()));
        };
        let actual = strip(args, |key, it| self.is_ignored(key) || self.is_default(key, it)).0;
        let wanted = strip(&self.args, |key, _| self.is_ignored(key)).0;
        let mismatches = differences(&wanted, &actual, self.mode == Mode::Exact);
        call(&step.name, "", mismatches)
    }
}

impl Assertion for ToolArgsMatch {
    fn traits(&self) -> Traits {
        Traits::OF_RECORD
    }

    fn evaluate(&self, evidence: &Evidence<'_>) -> Vec<AssertionResult> {
        let label = format!("Arguments of {}", self.wanted.pattern);
        let steps = match tool_steps(evidence.execution) {
            Ok(steps) => steps,
            Err(why) => return missing(ID, &label, &why),
        };
        if self.depends_on_missing(&steps.seen) {
            return missing(ID, &label, NO_ARGUMENTS);
        }
        let (was_seen, grade) = self.grade(&steps.seen);
        if steps.missing.is_some() && !was_seen {
            return steps.undecided(ID, &label);
        }
        vec![grade.result(ID, &label).with_failure_evidence(|| [self.evidence(&steps.seen)])]
    }
}
