//! Masks secrets in everything that is shown or stored, even if a model or a command repeats a secret.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::Arc;

use kindlm_engine::{Comparison, Suite};
use kindlm_template::{environment, is_template};
use kindlm_types::{
    AssertionResult, CaseResult, CheckedText, Completeness, Event, Execution, ExecutionError,
    ExecutionResult, FinishReason, InputOption, InputRequest, JudgeVote, Judging, Message,
    Mismatch, Report, ResultEvidence, SuiteInfo, ToolCall, Trace, Turn, Verdict, Workspace,
};
use serde_json::{Map, Value};

use crate::World;

/// The secret values that are masked in all outputs.
#[derive(Clone, Default)]
pub struct Secrets(kindlm_redact::Secrets);

impl Secrets {
    /// Collects the secret values of a run.
    ///
    /// The values are:
    ///
    /// - environment variables that a provider's configuration names;
    /// - environment variables with secret-like names;
    /// - passwords in URLs that are values of environment variables;
    /// - values that `world` learns later.
    ///
    /// Commands and agents get the whole environment, so an output may contain any of these values.
    pub fn new(world: &World, providers: &Map<String, Value>) -> Self {
        let mut named: BTreeSet<&str> = providers.values().flat_map(secret_variables).collect();
        let known = world.variables.iter().map(String::as_str);
        named.extend(known.filter(|it| kindlm_redact::is_secret_variable(it)));
        let mut secrets =
            kindlm_redact::Secrets::new(named.into_iter().filter_map(|it| world.var(it)));
        for address in world.variables.iter().filter_map(|it| world.var(it)) {
            secrets.add_password_of(&address);
        }
        Self(secrets.with_learned(&world.learned))
    }

    /// Returns the masking rules, for code that does not depend on this crate.
    pub(crate) fn rules(&self) -> &kindlm_redact::Secrets {
        &self.0
    }

    /// Masks secrets in the names and tags of a suite, before the run.
    ///
    /// Results are found by name, so the names must not change later.
    pub(crate) fn redact_names(&self, suite: &mut Suite) {
        self.text(&mut suite.info.project);
        self.text(&mut suite.info.name);
        let mut masked = HashMap::new();
        let mut names: HashSet<String> = suite.cases.iter().map(|it| it.name.clone()).collect();
        for case in &mut suite.cases {
            if case.tags.iter().any(|it| self.0.redact(it).is_some()) {
                let mut tags = case.tags.to_vec();
                for tag in &mut tags {
                    self.text(tag);
                }
                case.tags = tags.into();
            }
            let Some(name) = self.0.redact(&case.name) else { continue };
            // Two masked names may be equal, so add a number to the second name.
            let numbered = (2..).map(|number| format!("{name} ({number})"));
            let mut unique = std::iter::once(name.clone()).chain(numbered);
            let Some(unique) = unique.find(|it| names.insert(it.clone())) else { continue };
            masked.insert(std::mem::replace(&mut case.name, unique.clone()), unique);
        }
        for case in &mut suite.cases {
            if let Some(Comparison::Case(name) | Comparison::Named(name)) = &mut case.compared {
                let other = masked.get(&**name).cloned().or_else(|| self.0.redact(name));
                *name = other.map_or_else(|| Arc::clone(name), Arc::from);
            }
        }
    }

    /// Masks secrets in all texts of models, commands, checks, gates and warnings in a report.
    ///
    /// The names of cases and models stay unchanged, because results are found by name.
    pub(crate) fn redact(&self, report: &mut Report) {
        report.cases.iter_mut().for_each(|it| self.case(it));
        self.redact_summary(report);
    }

    /// Masks secrets in a report, but not in its cases.
    pub(crate) fn redact_summary<Cases>(&self, report: &mut Report<Cases>) {
        report.gates.iter_mut().for_each(|it| self.text(&mut it.message));
        report.skipped.iter_mut().for_each(|it| self.text(&mut it.reason));
        report.warnings.iter_mut().for_each(|it| self.text(it));
        let SuiteInfo { tests, instructions, .. } = &mut report.suite;
        for check in tests.iter_mut().flat_map(|it| &mut it.checks) {
            self.text(&mut check.label);
            self.texts(&mut check.skip);
            self.texts(&mut check.config);
        }
        for it in instructions {
            self.text(&mut it.text);
        }
    }

    fn case(&self, case: &mut CaseResult) {
        case.scores.iter_mut().for_each(|it| self.text(&mut it.label));
        case.executions.iter_mut().for_each(|it| self.redact_execution(it));
    }

    /// Masks secrets in one execution, in its results and in its error.
    pub(crate) fn redact_execution(&self, result: &mut ExecutionResult) {
        if self.evidence(&mut result.execution) {
            forget_spans(&mut result.results);
        }
        self.redact_results(&mut result.results);
        match &mut result.error {
            Some(ExecutionError::Provider(err)) => self.text(&mut err.message),
            Some(
                ExecutionError::NotRun { reason: message } | ExecutionError::Internal { message },
            ) => {
                self.text(message);
            }
            None => {}
        }
    }

    /// Masks secrets in the results of checks.
    pub(crate) fn redact_results(&self, results: &mut [AssertionResult]) {
        for result in results {
            self.text(&mut result.label);
            match &mut result.verdict {
                Verdict::Pass => {}
                Verdict::Fail { message, .. }
                | Verdict::Errored { message, .. }
                | Verdict::Skipped { reason: message } => self.text(message),
            }
            self.texts(&mut result.reasoning);
            self.redact_results(&mut result.components);
            result.named_scores.iter_mut().for_each(|it| self.text(&mut it.name));
            self.map(&mut result.metadata);
            result.evidence.iter_mut().for_each(|it| self.result_evidence(it));
            if let Some(judging) = &mut result.judging {
                self.judging(judging);
            }
        }
    }

    fn result_evidence(&self, evidence: &mut ResultEvidence) {
        let mismatch = |it: &mut Mismatch| {
            self.text(&mut it.pointer);
            self.text(&mut it.expected);
            self.texts(&mut it.actual);
        };
        match evidence {
            ResultEvidence::Diff { expected, actual, .. } => {
                self.text(expected);
                self.text(actual);
            }
            ResultEvidence::Matches { spans, .. } => {
                for span in spans {
                    self.text(&mut span.what);
                }
            }
            ResultEvidence::Absent { expected, .. } => {
                for it in expected {
                    self.text(it);
                }
            }
            ResultEvidence::Schema { errors } => errors.iter_mut().for_each(mismatch),
            ResultEvidence::ToolCall { tool, call_id, mismatches } => {
                self.text(tool);
                self.texts(call_id);
                mismatches.iter_mut().for_each(mismatch);
            }
            ResultEvidence::Trajectory { expected, actual } => {
                expected.iter_mut().chain(actual).for_each(|it| self.text(it));
            }
            ResultEvidence::Command { stdout, stderr, .. } => {
                self.text(stdout);
                self.text(stderr);
            }
            ResultEvidence::Tests { failed, .. } => {
                for test in failed {
                    self.text(&mut test.name);
                    self.texts(&mut test.message);
                }
            }
            ResultEvidence::Reason { text } => self.text(text),
            // A measure has only numbers and the names that assertions define.
            _ => {}
        }
    }

    fn judging(&self, judging: &mut Judging) {
        for text in [&mut judging.model, &mut judging.answered, &mut judging.fingerprint] {
            self.texts(text);
        }
        if let Some(settings) = &mut judging.settings {
            self.map(settings);
        }
        for vote in judging.panel.iter_mut().flat_map(|it| &mut it.votes) {
            let JudgeVote { judge, answered_model, system_fingerprint, reasoning, .. } = vote;
            for text in [judge, answered_model, system_fingerprint, reasoning] {
                self.texts(text);
            }
        }
    }

    /// Masks secrets in the record of an execution. Returns true if the output had a secret.
    fn evidence(&self, execution: &mut Execution) -> bool {
        execution.input.iter_mut().for_each(|it| self.message(it));
        let is_output_masked = self.0.redact_text(&mut execution.output);
        self.value_if_any(&mut execution.output_json);
        execution.tool_calls.iter_mut().for_each(|it| self.call(it));
        let Completeness { unread, gaps, unsupported, .. } = &mut execution.completeness;
        self.texts(unread);
        let kinds = unsupported.iter_mut().map(|it| &mut it.kind);
        for text in gaps.iter_mut().chain(kinds) {
            self.text(text);
        }
        for Turn { user, text, unread, output_json, .. } in &mut execution.turns {
            self.texts(user);
            self.text(text);
            self.texts(unread);
            self.value_if_any(output_json);
        }
        if let Some(FinishReason::Other(word)) = &mut execution.finish_reason {
            self.text(word);
        }
        if let Some(command) = &mut execution.command {
            self.text(&mut command.stderr);
        }
        self.map(&mut execution.vars);
        self.map(&mut execution.test_metadata);
        self.map(&mut execution.metadata);
        self.value_if_any(&mut execution.provider_response);
        execution.recorded_events.iter_mut().for_each(|it| self.event(it));
        if let Some(trace) = &mut execution.trace {
            self.trace(trace);
        }
        if let Some(workspace) = &mut execution.workspace {
            self.workspace(workspace);
        }
        is_output_masked
    }

    fn event(&self, event: &mut Event) {
        match event {
            Event::Message { role: _, text } | Event::Thinking { text } => self.text(text),
            Event::ActionCalled { call_id, name, tool: _, input } => {
                self.text(call_id);
                self.text(name);
                self.value(input);
            }
            Event::ActionResult { call_id, output, status: _ }
            | Event::SubagentCompleted { call_id, output, status: _ } => {
                self.text(call_id);
                self.value_if_any(output);
            }
            Event::SubagentCalled { call_id, name, remote_url } => {
                self.text(call_id);
                self.text(name);
                self.texts(remote_url);
            }
            Event::SkillLoaded { skill, call_id } => {
                self.text(skill);
                self.texts(call_id);
            }
            Event::InputRequested { request } => {
                let InputRequest { id, prompt, action, input, options } = request;
                for text in [id, prompt, action] {
                    self.texts(text);
                }
                self.value_if_any(input);
                for InputOption { id, label } in options {
                    self.text(id);
                    self.texts(label);
                }
            }
            Event::Compaction { reason } => self.texts(reason),
            Event::Error { message } => self.text(message),
            Event::Usage { .. } => {}
        }
    }

    fn workspace(&self, workspace: &mut Workspace) {
        let Workspace { isolation: _, changes, ignored: _, files, commands, tests, kept: _ } =
            workspace;
        for change in changes {
            self.text(&mut change.path);
            for text in [&mut change.text, &mut change.patch, &mut change.link] {
                self.texts(text);
            }
        }
        for file in files {
            self.texts(&mut file.text);
            self.texts(&mut file.problem);
        }
        for command in commands.iter_mut().chain(tests.iter_mut().map(|it| &mut it.command)) {
            self.text(&mut command.stdout);
            self.text(&mut command.stderr);
            self.texts(&mut command.problem);
        }
        for tests in tests {
            self.texts(&mut tests.problem);
            for test in &mut tests.tests {
                self.text(&mut test.name);
                self.texts(&mut test.message);
            }
        }
    }

    fn trace(&self, trace: &mut Trace) {
        if let Some(map) = &mut trace.metadata {
            self.map(map);
        }
        for span in &mut trace.spans {
            self.text(&mut span.name);
            self.texts(&mut span.status_message);
            if let Some(map) = &mut span.attributes {
                self.map(map);
            }
        }
    }

    fn message(&self, message: &mut Message) {
        self.text(&mut message.content);
        for part in &mut message.parts {
            part.for_each_recorded_text(&mut |text| self.text(text));
        }
        message.tool_calls.iter_mut().for_each(|it| self.call(it));
    }

    fn call(&self, call: &mut ToolCall) {
        self.text(&mut call.id);
        self.text(&mut call.name);
        self.value(&mut call.arguments);
        self.texts(&mut call.malformed_arguments);
        if let Some(value) = &mut call.response {
            self.value(value);
        }
    }

    fn value_if_any(&self, value: &mut Option<Value>) {
        if let Some(value) = value {
            self.value(value);
        }
    }

    fn texts(&self, text: &mut Option<String>) {
        if let Some(text) = text {
            self.text(text);
        }
    }

    /// Masks secrets in all strings of a JSON value.
    pub fn redact_value(&self, value: &mut Value) {
        self.value(value);
    }

    fn value(&self, value: &mut Value) {
        self.0.redact_value(value);
    }

    /// Masks secrets in the keys and values of an object.
    pub(crate) fn map(&self, map: &mut Map<String, Value>) {
        self.0.redact_map(map);
    }

    /// Masks secrets in a text.
    pub fn redact_text(&self, text: &mut String) {
        self.text(text);
    }

    fn text(&self, text: &mut String) {
        self.0.redact_text(text);
    }
}

/// Removes the evidence of matches in the output, because masking has moved the text after a secret.
fn forget_spans(results: &mut [AssertionResult]) {
    for result in results {
        result
            .evidence
            .retain(|it| !matches!(it, ResultEvidence::Matches { of: CheckedText::Output, .. }));
        forget_spans(&mut result.components);
    }
}

/// Returns the environment variables in a provider's configuration.
///
/// The variables are named by `apiKeyEnv`, by texts that begin with `env:` or `Bearer env:`, and by templates with
/// `{{env.NAME}}`.
pub(crate) fn variables(config: &Value) -> BTreeSet<&str> {
    let mut found = secret_variables(config);
    found.extend(address(config));
    found
}

/// Returns the variables that every request needs: `apiKeyEnv`, and headers with `env:`.
pub(crate) fn keys_of(config: &Value) -> BTreeSet<&str> {
    let key = config.get("apiKeyEnv").and_then(Value::as_str);
    let headers = config.get("headers").and_then(Value::as_object).into_iter().flatten();
    let headers = headers.filter_map(|(_, it)| variable_of(it.as_str()?));
    key.into_iter().chain(headers).collect()
}

/// Returns the variable that a text names as `env:NAME` or `Bearer env:NAME`; `None` for other texts.
fn variable_of(text: &str) -> Option<&str> {
    text.strip_prefix("Bearer ").unwrap_or(text).strip_prefix("env:").map(str::trim)
}

/// Returns the environment variables in a configuration, except addresses.
///
/// An address is a variable at the start of a `url`. It holds the address of the server, which error messages must
/// show.
fn secret_variables(config: &Value) -> BTreeSet<&str> {
    let mut found = BTreeSet::new();
    match config {
        Value::Object(map) => {
            found.extend(map.get("apiKeyEnv").and_then(Value::as_str));
            for (key, value) in map {
                let mut own = secret_variables(value);
                if key == "url" {
                    own.retain(|it| Some(*it) != address(config));
                }
                found.extend(own);
            }
        }
        Value::Array(items) => found.extend(items.iter().flat_map(secret_variables)),
        Value::String(text) => {
            found.extend(variable_of(text));
            if is_template(text) {
                found.extend(environment(text));
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
    found.remove("");
    found
}

/// Returns the variable at the start of `url`.
///
/// Returns `None` if the URL begins with other text.
fn address(config: &Value) -> Option<&str> {
    let text = config.get("url")?.as_str()?;
    let begins = text.strip_prefix("{{")?.trim_start().starts_with("env.");
    begins.then(|| environment(text).next()).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn finds_the_variables_wherever_a_provider_names_them() {
        let config = json!({
            "apiKeyEnv": "KEY",
            "headers": {"authorization": "env: TOKEN", "x": "plain", "y": "env:", "z": "Bearer env:GATE"},
            "nested": [{"apiKeyEnv": "OTHER"}],
        });
        let found: Vec<_> = variables(&config).into_iter().collect();
        assert_eq!(found, ["GATE", "KEY", "OTHER", "TOKEN"]);
        let config = json!({
            "url": "{{ env.BASE }}/chat?k={{env.K}}", "headers": {"a": "Bearer {{ env.T }}", "b": "env.NO"},
        });
        assert_eq!(variables(&config).into_iter().collect::<Vec<_>>(), ["BASE", "K", "T"]);
        assert_eq!(secret_variables(&config).into_iter().collect::<Vec<_>>(), ["K", "T"]);
    }

    #[test]
    fn metadata_and_reasons_of_missing_evidence_are_masked() {
        const KEY: &str = "sk-live-1234567890abcdef";
        let mut world = World::new("/", Arc::new(|_| Some(KEY.to_owned())));
        world.variables = vec!["API_KEY".to_owned()];
        let reason = || format!("its `status` is `{KEY}`");
        let mut execution = Execution {
            completeness: Completeness {
                unread: Some(reason()),
                gaps: vec![reason()],
                ..Completeness::default()
            },
            test_metadata: Map::from_iter([("owner".to_owned(), KEY.into())]),
            turns: vec![Turn { unread: Some(reason()), ..Turn::default() }],
            ..Execution::default()
        };
        Secrets::new(&world, &Map::new()).evidence(&mut execution);
        assert!(!format!("{execution:?}").contains(KEY), "{execution:?}");
        assert_eq!(execution.completeness.gaps, ["its `status` is `[redacted]`"]);
    }
}
