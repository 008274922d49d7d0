//! Evaluates recorded outputs, one record at a time: [`evaluate`].

mod basis;
mod cache;
mod caller;
mod input;
mod judge;
mod kept;
mod line;
mod misplaced_check;
mod notes;
mod readable;
mod run;
pub mod service;
mod stream;
mod summary;

use std::borrow::Cow;
use std::collections::HashSet;
use std::io::{self, Write};
use std::path::Path;

use kindlm_assertions::{Check, CheckOutcome, Evidence, Setup, check_outcomes};
use kindlm_engine::{Control, ObserveResults};
use kindlm_types::{Answers, AssertionResult, Execution, ExitStatus, Outcome, SuiteInfo, Verdict};
use kindlm_wire::evaluate::{EvaluatedResult, Evaluation, LineError};
use serde_json::value::RawValue;
use serde_json::{Map, Value};

use crate::Failure;
use crate::secrets::Secrets;
use basis::{Basis, render_rules};
use cache::{Cache, Compiled, CompiledRules, Made};
use caller::Caller;
use judge::{Asking, NoJudge, NotJudged, count_scripts};
use kept::Kept;
use line::{Line, Malformed};
use notes::Notes;
pub use run::{EvaluateConfig, Records, evaluate};
use summary::Totals;

/// The name of the base folder in error messages about a config.
///
/// Error messages about records use [`BASE_FOLDER`] instead.
const CONFIG_FOLDER: &str = "the folder of the config file";
const BASE_FOLDER: &str = "the base folder (`--base`)";

const WEIGHTLESS: &str = "`threshold` has no effect: every check has the weight 0";

/// The evaluator of records, for any number of threads.
struct Evaluator<'a> {
    setup: Setup<'a>,
    asking: Asking<'a>,
    echo: bool,
    cache: Cache,
    notes: Notes,
    totals: Totals,
    secrets: Secrets,
    /// The data that a result depends on; `None` if the results cannot be resumed.
    basis: Option<Basis<'a>>,
    control: Control,
    /// The mean score that a record without a `threshold` needs to pass; `None` for no such score.
    threshold: Option<f64>,
    /// The maximum number of scripts of a record; `None` for no limit.
    max_scripts: Option<usize>,
    names_outcomes: bool,
}

/// The results of the checks of a record.
struct JudgedChecks {
    results: Vec<AssertionResult>,
    /// The number of results of each check.
    counts: Vec<usize>,
    /// True if a required check failed.
    fails_required: bool,
    cost: JudgeCost,
}

/// An evaluated record.
struct JudgedRecord {
    evaluation: Evaluation,
    results: Vec<AssertionResult>,
    /// The outcome of each check and rule; empty without [`with_outcomes`](Evaluator::with_outcomes).
    outcomes: Vec<CheckOutcome>,
    cost: JudgeCost,
}

/// The cost of the judges of a record.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct JudgeCost {
    /// The known part of the cost, in US dollars.
    pub known_usd: f64,
    /// True if the cost of at least one answer is unknown.
    pub is_unknown: bool,
}

impl<'a> Evaluator<'a> {
    /// Creates an evaluator that compiles `expect` blocks with `setup`.
    pub(super) fn new(setup: Setup<'a>, asking: Asking<'a>, echo: bool) -> Self {
        let (cache, notes, secrets) = (Cache::default(), Notes::default(), Secrets::default());
        let totals = Totals::default();
        let (basis, control, threshold) = (None, Control::default(), None);
        let max_scripts = None;
        let names_outcomes = false;
        Self {
            setup,
            asking,
            echo,
            cache,
            notes,
            totals,
            secrets,
            basis,
            control,
            threshold,
            max_scripts,
            names_outcomes,
        }
    }

    /// Limits the number of scripts of a record.
    #[must_use]
    pub(super) fn with_max_scripts(self, max_scripts: Option<usize>) -> Self {
        Self { max_scripts, ..self }
    }

    /// Makes each result contain a digest of the data that it depends on.
    #[must_use]
    pub(super) fn with_basis(mut self, basis: Option<Basis<'a>>) -> Self {
        self.basis = basis;
        self
    }

    /// Makes `control` stop the evaluation: no further record is started after a stop.
    #[must_use]
    pub(super) fn with_control(mut self, control: Control) -> Self {
        self.control = control;
        self
    }

    /// Makes the evaluator mask these secrets in the results.
    #[must_use]
    pub(super) fn with_secrets(mut self, secrets: Secrets) -> Self {
        self.secrets = secrets;
        self
    }

    /// Sets the mean score that a record without a `threshold` needs to pass.
    #[must_use]
    pub(super) fn with_threshold(self, threshold: Option<f64>) -> Self {
        Self { threshold, ..self }
    }

    /// Makes each judged record contain the outcomes of its checks, under names that are the same for all records.
    #[must_use]
    pub(super) fn with_outcomes(self) -> Self {
        Self { setup: self.setup.with_written_labels(), names_outcomes: true, ..self }
    }

    /// Returns true if a record may wait for a judge model.
    pub(super) fn may_wait(&self) -> bool {
        self.asking.has_judge()
    }

    /// Returns true if at least one line was counted.
    pub(super) fn has_looked(&self) -> bool {
        !self.totals.is_empty()
    }

    /// Returns the warnings about the records so far.
    pub(super) fn warnings(&self) -> Vec<String> {
        let ended = self.asking.exhausted().map(|why| {
            format!("{why}; later judge checks are errored: `--output` with `--resume` and a higher `--budget-usd` \
                repeats only those")
        });
        self.notes.warnings().into_iter().chain(ended).collect()
    }

    /// Evaluates one record and writes one line, even for a malformed record.
    ///
    /// `number` is the record's line, from 1.
    ///
    /// # Errors
    ///
    /// Fails, and writes nothing, if a check needs a judge model and no judge model is configured.
    pub(super) fn record(
        &self,
        json: &[u8],
        number: u64,
        out: &mut Vec<u8>,
    ) -> Result<ExitStatus, NoJudge> {
        match self.evaluate(json, number) {
            Ok(evaluated) => {
                let (evaluation, status) = evaluated?;
                write(out, &evaluation);
                Ok(status)
            }
            Err(malformed) => Ok(self.refuse(malformed, number, out)),
        }
    }

    /// Copies the earlier result of a record.
    ///
    /// Returns `None` if:
    ///
    /// - the result is errored;
    /// - the record is malformed;
    /// - the record, its id, its rules or its judges have changed.
    fn keep(&self, json: &[u8], kept: &[u8], number: u64, out: &mut Vec<u8>) -> Option<ExitStatus> {
        let evaluation = kept::answered(kept)?;
        let line = Line::parse(json).ok()?;
        if self.shown(line.id.clone()) != evaluation.id {
            self.notes.other_id();
            return None;
        }
        let compiled = self.checks_of(&line);
        if evaluation.digest != self.digest(json, &line, &compiled.rendered) {
            self.notes.changed();
            return None;
        }
        self.notes.kept();
        self.totals.observe(number, &evaluation, &summary::results_of(&evaluation));
        out.extend_from_slice(kept);
        Some(status(evaluation.outcome, || summary::failed_by_provider(&evaluation.results)))
    }

    /// Counts the earlier result of a record, without comparing it with the record.
    fn take_over(&self, kept: &[u8], number: u64) -> ExitStatus {
        let Some(evaluation) = kept::result(kept) else {
            self.totals.malformed();
            return ExitStatus::InvalidInput;
        };
        self.notes.kept();
        self.totals.observe(number, &evaluation, &summary::results_of(&evaluation));
        status(evaluation.outcome, || summary::failed_by_provider(&evaluation.results))
    }

    /// Copies the earlier results that are left after the last record.
    fn keep_rest(&self, mut rest: Kept, output: &mut dyn Write) -> io::Result<()> {
        // After a stop, some records were not read, so the results may belong to these records.
        let is_stopped = self.control.reason().is_some();
        while let Some(line) = rest.next_line() {
            output.write_all(&line)?;
            if !is_stopped {
                self.notes.without_record();
            }
        }
        output.flush()
    }

    /// Returns a record's id with secrets masked; `None` without an id.
    fn shown(&self, id: Option<Value>) -> Option<Value> {
        let mut id = id?;
        self.secrets.redact_value(&mut id);
        Some(id)
    }

    /// Writes the error of a malformed record, and counts the record.
    fn refuse(&self, malformed: Malformed, line: u64, out: &mut Vec<u8>) -> ExitStatus {
        self.totals.malformed();
        let Malformed { id, mut error } = malformed;
        self.secrets.redact_text(&mut error);
        write(out, &LineError::new(self.shown(id), error, line));
        ExitStatus::InvalidInput
    }

    /// Writes the summary of all records so far. `suite` holds the names of the suite and the agent.
    pub(super) fn write_summary(
        &self,
        path: &Path,
        suite: Option<&SuiteInfo>,
    ) -> Result<(), Failure> {
        let agent = suite.map(|it| it.project.clone());
        let stopped = self.asking.exhausted().map(str::to_owned);
        self.totals.write(path, agent, suite.map(|it| it.name.clone()), stopped)
    }

    fn evaluate(
        &self,
        json: &[u8],
        number: u64,
    ) -> Result<Result<(Evaluation, ExitStatus), NoJudge>, Malformed> {
        let caller = Caller::default();
        // The default caller does not leave, and this evaluator has no limit of scripts, so the reason is `NoJudge`.
        let Ok(JudgedRecord { evaluation, results, .. }) =
            self.judged(json, number, None, &caller)?
        else {
            return Ok(Err(NoJudge));
        };
        self.totals.observe(number, &evaluation, &results);
        let by_provider = || results.iter().any(AssertionResult::failed_by_provider);
        let status = status(evaluation.outcome, by_provider);
        Ok(Ok((evaluation, status)))
    }

    /// Evaluates one record. The totals do not count it.
    ///
    /// `observe` receives the results of each check as soon as they are known. It receives nothing if no check of the
    /// record asks a question or is required.
    fn judged(
        &self,
        json: &[u8],
        number: u64,
        observe: Option<&(dyn Fn(EvaluatedResult) + Sync)>,
        caller: &Caller,
    ) -> Result<Result<JudgedRecord, NotJudged>, Malformed> {
        let mut line = Line::parse(json)?;
        self.notes.keys(&line.others);
        let meant = |key: &str| self.notes.meant(key);
        if let Some(error) = misplaced_check::misplaced_check(&line, json, meant, &self.setup) {
            return Err(Malformed { id: line.id, error });
        }
        if let Some(error) = line.lacks_input() {
            return Err(Malformed { id: line.id, error });
        }
        let compiled = self.checks_of(&line);
        let digest = self.digest(json, &line, &compiled.rendered);
        let checks = match &compiled.checks {
            Ok(checks) if !checks.is_empty() && !line.has_evidence() => {
                let error = "the record has no `agent_output`".to_owned();
                return Err(Malformed { id: line.id, error });
            }
            Ok(checks) if line.threshold.is_some() && is_weightless(checks) => {
                return Err(Malformed { id: line.id, error: WEIGHTLESS.to_owned() });
            }
            Ok(checks) => checks,
            Err(error) => return Err(Malformed { id: line.id, error: error.clone() }),
        };
        let execution = line.execution();
        let baseline = line.baseline.as_deref();
        let JudgedChecks { mut results, counts, fails_required, cost } =
            match self.results(checks, &execution, baseline, observe, caller) {
                Ok(results) => results,
                Err(NotJudged::TooManyScripts { count, most }) => {
                    let error = too_many_scripts(count, most, "send several records");
                    return Err(Malformed { id: line.id, error });
                }
                Err(why) => return Ok(Err(why)),
            };
        let mut outcomes = Vec::new();
        if self.names_outcomes {
            outcomes =
                check_outcomes(checks, &results, &counts, |name| self.secrets.redact_text(name));
        }
        self.secrets.redact_results(&mut results);
        let applies = |it: &AssertionResult| !matches!(it.verdict, Verdict::Skipped { .. });
        if !results.iter().any(applies) {
            self.notes.unchecked(number, self.shown(line.id.clone()).as_ref());
        }
        let threshold = line.threshold.or(self.threshold);
        let mut evaluation =
            Evaluation::new(self.shown(line.id.take()), &results, threshold, fails_required);
        evaluation.digest = digest;
        if self.echo {
            let mut extra = line::extra(json).unwrap_or_default();
            self.secrets.map(&mut extra);
            evaluation.input = Some(extra);
        }
        Ok(Ok(JudgedRecord { evaluation, results, outcomes, cost }))
    }

    /// Compiles the checks of a record. Errors that may depend on the variables of a record are not reported.
    fn compiles(&self, json: &[u8]) -> Result<(), Malformed> {
        let line = Line::parse(json)?;
        let meant = |key: &str| self.notes.meant(key);
        let misplaced = misplaced_check::misplaced_check(&line, json, meant, &self.setup);
        let [expect, assertions] = rules(&line);
        let Made { compiled, by_variables } = self.compile(expect, assertions, line.vars());
        let error = match compiled.checks {
            _ if misplaced.is_some() => misplaced,
            Err(error) => (!by_variables).then_some(error),
            Ok(checks) if checks.is_empty() => Some("there are no checks".to_owned()),
            Ok(checks) if line.threshold.is_some() && is_weightless(&checks) => {
                Some(WEIGHTLESS.to_owned())
            }
            Ok(checks) => self.max_scripts.and_then(|most| {
                // Some checks ask no question about an empty output, so use another output to count the scripts.
                let execution = Execution { output: "x".to_owned(), ..Execution::default() };
                let count = count_scripts(&checks, &execution, None);
                (count > most).then(|| too_many_scripts(count, most, "split the set"))
            }),
        };
        error.map_or(Ok(()), |error| Err(Malformed { id: None, error }))
    }

    fn checks_of(&self, line: &Line<'_>) -> Compiled {
        let [expect, assertions] = rules(line);
        self.cache.get(
            expect,
            assertions,
            || serde_json::to_string(line.vars()).unwrap_or_default(),
            || self.compile(expect, assertions, line.vars()),
        )
    }

    /// Returns the digest of the data that a record's result depends on.
    ///
    /// Returns `None` if results cannot be resumed.
    ///
    /// `rendered` is the rendered text of the record's compiled rules.
    fn digest(&self, json: &[u8], line: &Line<'_>, rendered: &str) -> Option<String> {
        Some(self.basis.as_ref()?.digest(json, rules(line), rendered))
    }

    /// Returns the number of results and of reused results, as text.
    pub(super) fn counts(&self) -> String {
        self.totals.describe(self.notes.count_kept())
    }

    /// Evaluates the checks of a record.
    ///
    /// The judges are only used if a check asks a question, or is required.
    fn results(
        &self,
        checks: &[Check],
        execution: &Execution,
        baseline: Option<&str>,
        observe: Option<&(dyn Fn(EvaluatedResult) + Sync)>,
        caller: &Caller,
    ) -> Result<JudgedChecks, NotJudged> {
        let answers = Answers::default();
        let evidence = Evidence { execution, answers: &answers, baseline, comparison: None };
        let goes_far = |it: &Check| it.options.require || !it.questions(&evidence).is_empty();
        if checks.iter().any(goes_far) {
            if let Some(most) = self.max_scripts {
                let count = count_scripts(checks, execution, baseline);
                if count > most {
                    return Err(NotJudged::TooManyScripts { count, most });
                }
            }
            let shown = observe.map(|observe| {
                move |results: &[AssertionResult]| {
                    let mut results = results.to_vec();
                    self.secrets.redact_results(&mut results);
                    results.iter().map(EvaluatedResult::from).for_each(observe);
                }
            });
            let shown = shown.as_ref().map(|it| it as ObserveResults<'_>);
            let judged = self.asking.judge(checks, execution, baseline, shown, caller)?;
            let fails_required = judged.halt.is_some_and(|it| it.failed);
            let (known_usd, is_unknown) = (judged.known_cost_usd, judged.cost_usd.is_none());
            let cost = JudgeCost { known_usd, is_unknown };
            let (results, counts) = (judged.results, judged.result_counts);
            return Ok(JudgedChecks { results, counts, fails_required, cost });
        }
        let mut results = Vec::with_capacity(checks.len());
        let mut counts = Vec::with_capacity(checks.len());
        for check in checks {
            if caller.has_left() {
                return Err(NotJudged::CallerLeft { asks_judges: false });
            }
            let found = check.evaluate(&evidence);
            counts.push(found.len());
            results.extend(found);
        }
        let cost = JudgeCost::default();
        Ok(JudgedChecks { results, counts, fails_required: false, cost })
    }

    /// Compiles the checks of a record. Prompt assertions come first.
    fn compile(
        &self,
        expect: Option<&str>,
        assertions: Option<&str>,
        vars: &Map<String, Value>,
    ) -> Made {
        let mut by_variables = false;
        let checks = self.checks(expect, assertions, vars, &mut by_variables);
        let mut rendered = String::new();
        if by_variables && self.basis.is_some() {
            rendered = render_rules([expect, assertions], &self.setup, vars);
        }
        Made { compiled: CompiledRules { checks, rendered }, by_variables }
    }

    fn checks(
        &self,
        expect: Option<&str>,
        assertions: Option<&str>,
        vars: &Map<String, Value>,
        by_variables: &mut bool,
    ) -> Result<Vec<Check>, String> {
        let mut expected = Vec::new();
        let mut entry = serde_json::json!({});
        let mut block = Value::Null;
        if let Some(expect) = expect {
            block = serde_json::from_str(expect).map_err(|err| err.to_string())?;
            *by_variables = self.setup.has_templates(&block);
            expected = compiled(&block, &self.setup, vars, |it| format!("/expect{it}"))?;
            // The judge settings of the record's `expect` also apply to its prompt assertions.
            if let Some(judging) = block.get("judging") {
                entry["judging"] = judging.clone();
            }
        }
        let mut checks = Vec::new();
        if let Some(assertions) = assertions {
            let mut list: Value =
                serde_json::from_str(assertions).map_err(|err| err.to_string())?;
            if vars.is_empty() {
                literal(&mut list);
            }
            if list.as_array().is_none_or(|it| !it.is_empty()) {
                entry["assert"] =
                    serde_json::json!([{"type": "prompt-assertion", "assertions": list}]);
                *by_variables |= self.setup.has_templates(&entry);
                checks.extend(compiled(&entry, &self.setup, vars, |it| {
                    it.strip_prefix("/assert/0").unwrap_or(it).to_owned()
                })?);
            }
        }
        if let Some(id) = duplicate_rule([&entry, &block]) {
            return Err(format!(
                "duplicate rule `{id}` in `assertions` and `expect`: give one of the two another id, because results \
                 are identified by it"
            ));
        }
        checks.append(&mut expected);
        Ok(checks)
    }
}

/// Escapes template syntax in the instructions and criteria of rules, so that braces are plain text.
fn literal(rules: &mut Value) {
    let escape = |text: &mut String| {
        let mut escaped = String::with_capacity(text.len());
        let mut rest = text.as_str();
        while let Some(at) = rest.find('{') {
            let (before, brace) = rest.split_at(at);
            escaped.push_str(before);
            let opens = ["{{", "{%", "{#"].into_iter().find(|it| brace.starts_with(it));
            match opens {
                Some(it) => escaped.extend(["{{ '", it, "' }}"]),
                None => escaped.push('{'),
            }
            rest = &brace[opens.map_or(1, str::len)..];
        }
        escaped.push_str(rest);
        *text = escaped;
    };
    for rule in rules.as_array_mut().into_iter().flatten() {
        if let Some(Value::String(text)) = rule.get_mut("instruction") {
            escape(text);
        }
        let criteria = rule.get_mut("criteria").and_then(Value::as_array_mut);
        for criterion in criteria.into_iter().flatten() {
            if let Value::String(text) = criterion {
                escape(text);
            }
        }
    }
}

fn too_many_scripts(count: usize, most: usize, help: &str) -> String {
    format!("the checks have {count} scripts, and a record has at most {most}; {help}")
}

/// Returns true if there are checks and all have weight 0.
fn is_weightless(checks: &[Check]) -> bool {
    !checks.is_empty() && !checks.iter().any(Check::weighs)
}

/// Returns the first duplicate rule id in these blocks; `None` if all rule ids differ.
fn duplicate_rule(blocks: [&Value; 2]) -> Option<&str> {
    let mut ids = Vec::new();
    for block in blocks {
        rule_ids(block, &mut ids);
    }
    let mut seen = HashSet::new();
    ids.into_iter().find(|it| !seen.insert(*it))
}

/// Adds the ids of the rules in the list form of a block to `found`.
///
/// Nested sets are included.
fn rule_ids<'v>(block: &'v Value, found: &mut Vec<&'v str>) {
    for entry in block.get("assert").and_then(Value::as_array).into_iter().flatten() {
        let rules = entry.get("assertions").and_then(Value::as_array).into_iter().flatten();
        found.extend(rules.filter_map(|it| it.get("id")?.as_str()));
        rule_ids(entry, found);
    }
}

/// Returns the JSON texts of a record's rules: `expect`, then `assertions`; `None` for a missing key.
fn rules<'a>(line: &Line<'a>) -> [Option<&'a str>; 2] {
    [line.expect, line.assertions].map(|it| it.map(RawValue::get))
}

fn compiled(
    block: &Value,
    setup: &Setup<'_>,
    vars: &Map<String, Value>,
    place: impl Fn(&str) -> String,
) -> Result<Vec<Check>, String> {
    let (checks, problems) = kindlm_assertions::compile_with(block, setup, vars);
    if problems.is_empty() {
        return Ok(checks);
    }
    let said = problems.iter().map(|it| {
        let help = it.help.as_ref().map(|help| format!("; {help}")).unwrap_or_default();
        format!("`{}`: {}{help}", place(&it.pointer), it.message)
    });
    // A record has no config file, so error messages name the base folder instead.
    Err(said.collect::<Vec<_>>().join("\n").replace(CONFIG_FOLDER, BASE_FOLDER))
}

/// Returns the failure of an input that holds only white space.
fn no_record() -> Failure {
    Failure::input("there is no record to evaluate")
        .with_help("pipe one in, or name a file: `kindlm evaluate record.json`")
}

fn write(out: &mut Vec<u8>, value: &impl serde::Serialize) {
    // All map keys are strings, so the serialization cannot fail. The fallback is still one valid line, with an error.
    let json =
        serde_json::to_string(value).unwrap_or_else(|err| format!("{{\"error\":\"{err}\"}}"));
    out.extend_from_slice(without_separators(&json).as_bytes());
    out.push(b'\n');
}

/// Escapes Unicode line separators.
///
/// Some readers, such as Python's `splitlines`, would split the line at a separator.
fn without_separators(json: &str) -> Cow<'_, str> {
    const SEPARATORS: [(char, &str); 3] =
        [('\u{85}', "\\u0085"), ('\u{2028}', "\\u2028"), ('\u{2029}', "\\u2029")];
    let mut json = Cow::Borrowed(json);
    for (separator, escaped) in SEPARATORS {
        if json.contains(separator) {
            json = Cow::Owned(json.replace(separator, escaped));
        }
    }
    json
}

/// Returns the exit status of one outcome. `by_provider` returns true if a provider failed.
fn status(outcome: Outcome, by_provider: impl FnOnce() -> bool) -> ExitStatus {
    match outcome {
        Outcome::Passed | Outcome::Scored | Outcome::Skipped => ExitStatus::Success,
        Outcome::Errored if by_provider() => ExitStatus::ProviderError,
        Outcome::Failed | Outcome::Errored => ExitStatus::GatesFailed,
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use super::*;
    use crate::World;

    #[test]
    fn ids_are_masked_in_results_and_warnings() {
        const KEY: &str = "sk-live-1234567890abcdef";
        let folder = tempfile::tempdir().unwrap();
        let env = |name: &str| (name == "API_KEY").then(|| KEY.to_owned());
        let mut world = World::new(folder.path(), Arc::new(env));
        world.variables = vec!["API_KEY".to_owned()];
        let notices = Arc::new(Mutex::new(String::new()));
        let seen = Arc::clone(&notices);
        world.notices = Arc::new(move |text| seen.lock().unwrap().push_str(text));
        for id in [serde_json::json!(KEY), serde_json::json!({"of": [KEY]})] {
            let record = serde_json::json!({"id": id, "agent_output": "a"}).to_string();
            let records = Records::Stream(Box::new(io::Cursor::new(record.into_bytes())));
            let mut results = Vec::new();
            let config = EvaluateConfig { jsonl: true, ..EvaluateConfig::default() };
            let outcome = evaluate(&world, None, &config, records, &mut results);
            assert!(outcome.is_ok(), "{outcome:?}");
            let results = String::from_utf8(results).unwrap();
            let shown = format!("{results}{}", notices.lock().unwrap());
            assert!(shown.contains("nothing was checked in line 1 (id "), "{shown}");
            assert!(!shown.contains(KEY), "{shown}");
        }
    }

    #[test]
    fn a_result_is_one_line_for_every_reader() {
        let value = serde_json::json!({"said": "a\u{2028}b\u{2029}c\u{85}d\ne"});
        let mut out = Vec::new();
        write(&mut out, &value);
        let line = String::from_utf8(out).unwrap();
        assert_eq!(line, "{\"said\":\"a\\u2028b\\u2029c\\u0085d\\ne\"}\n");
        assert_eq!(serde_json::from_str::<serde_json::Value>(&line).unwrap(), value);
    }
}
