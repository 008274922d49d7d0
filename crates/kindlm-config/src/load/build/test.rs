//! Tests, from a list or from datasets.

use std::sync::Arc;
use std::time::Duration;

use kindlm_assertions::Transform;
use kindlm_engine::{
    CaseKind, Comparison, Digest, Fingerprint, HISTORY, SimulatedTool, TestCase, Until,
};
use kindlm_source::{Code, Diagnostic, Key, Kind, Node, Piece, meant_key};
use kindlm_types::{CallForm, MemberPart, SourcePlace, pointer};
use serde_json::{Map, Value};

use super::Builder;
use super::body::{More, Part, Row, SubjectForm, TestParts, simulated};
use super::dataset::entry;
use super::parts::Parts;
use super::test_parts::{digests, parts_key, with_end};
use super::turn::Turns;
use crate::load::repeat::until;
use crate::load::resolve::Prompts;
use crate::schema::SHAPES;
use crate::written::{RepeatEntry, TestEntry, Tool, Transforms};

impl Builder<'_> {
    pub(super) fn tests(&mut self, piece: Piece<'_>, prompts: &Prompts) {
        let Some(tests) = piece.root.get("tests") else { return };
        if let Some(text) = tests.text() {
            self.dataset(piece, "/tests", text, prompts);
            return;
        }
        for (index, item) in tests.items().iter().enumerate() {
            let at = format!("/tests/{index}");
            if self.base.sink.is_full {
                let diagnostic = piece.error(
                    Code::INVALID_VALUE,
                    &at,
                    MemberPart::Value,
                    "too many problems: the tests from here on are not checked",
                );
                self.base.sink.errors.push(diagnostic);
                return;
            }
            match (item.text(), item.get("dataset")) {
                (Some(text), _) => self.dataset(piece, &at, text, prompts),
                (None, Some(file)) => self.described_dataset(piece, &at, item, file, prompts),
                (None, None) => self.test(piece, &at, item, prompts),
            }
        }
    }

    /// Reads one test. `at` is its pointer within the piece.
    pub(super) fn test(&mut self, piece: Piece<'_>, at: &str, node: &Node, prompts: &Prompts) {
        if let Some(prompt) = node.get("prompts").filter(|_| node.get("prompt").is_some()) {
            let message = "a test has either a `prompt` or `prompts`, not both".to_owned();
            let diagnostic =
                Diagnostic::error(Code::INVALID_VALUE, message, piece.source, prompt.span);
            self.base.sink.push(diagnostic.with_help("remove one of the two"));
            return;
        }
        if self.has_two_values(piece, at, node) {
            return;
        }
        let each = with_each_combination(node);
        let each = if each.is_empty() { with_each_prompt(node) } else { each };
        if !each.is_empty() {
            for it in &each {
                self.test(piece, at, it, prompts);
            }
            return;
        }
        let value = with_history(node.to_json());
        let mut problems = SHAPES.test.problems(&value);
        for problem in problems.iter_mut().filter(|it| it.pointer == "/assert") {
            // In promptfoo, `assert` stands directly in the test, so this mistake is common.
            problem.help =
                Some("checks stand below `expect`: `expect: { assert: [ … ] }`".to_owned());
        }
        let is_broken = !problems.is_empty();
        let is_misspelt = problems.iter().filter_map(meant_key).any(|(parent, meant)| {
            parent.is_empty() && ["prompt", "command", "agent", "transcript"].contains(&&*meant)
        });
        self.base.sink.report(piece, at, problems);
        if !is_misspelt {
            self.check_subject(piece, at, &value, prompts);
        }
        if !value.is_object() {
            return;
        }
        self.check_name(piece, at, &value);
        self.check_models(piece, at, &value);
        self.check_agents(piece, at, &value);
        let parts = self.parts(piece, at, node, &value, prompts);
        if is_broken {
            return;
        }
        if value.get("matrix").is_some() {
            let message = format!("the `matrix` has more than {MOST} combinations");
            let at = format!("{at}/matrix");
            let diagnostic = piece.error(Code::INVALID_VALUE, &at, MemberPart::Value, message);
            self.base.sink.push(diagnostic.with_help("give fewer values"));
            return;
        }
        self.check_tools(piece, at, &value);
        self.check_called(piece, at, &value);
        self.note_unstreamed(piece, at, &value);
        let mut key = parts_key(&value);
        let turns = value.get("conversation").and_then(Value::as_array).into_iter().flatten();
        if turns.filter_map(|it| it.get("expect")).any(|it| self.base.setup.has_templates(it)) {
            key = Value::Array(vec![key, value.get("vars").cloned().unwrap_or_default()]);
        }
        let tools = value.get("tools").cloned();
        let Some(entry) = self.base.sink.parse_value::<TestEntry>(piece, at, value) else { return };
        self.check_effect(piece, at, &entry);
        let case = self.case((piece, at), entry, parts, &key, tools);
        if case.is_none() && self.base.sink.errors.is_empty() {
            // Without an error, the suite would run without this test, and could pass.
            let message = "this test cannot be built, and no problem with it was found";
            let diagnostic = piece
                .error(Code::INVALID_VALUE, at, MemberPart::Value, message)
                .with_help("this is a bug in KindLM: please report it with the test");
            self.base.sink.push(diagnostic);
        }
        self.cases.extend(case);
    }

    /// Reports the variables that are both in `vars` and in `matrix`. Returns true if there are any.
    fn has_two_values(&mut self, piece: Piece<'_>, at: &str, node: &Node) -> bool {
        let entries = |key: &str| node.get(key).map_or(&[][..], Node::entries);
        let fixed = entries("vars");
        let is_fixed = |key: &Key| fixed.iter().any(|(it, _)| it.name == key.name);
        let mut found = false;
        for (key, _) in entries("matrix").iter().filter(|(key, _)| is_fixed(key)) {
            let message = format!("`{}` is in `vars` and in `matrix`", key.name);
            let at = format!("{at}/matrix/{}", pointer::segment(&key.name));
            let diagnostic = piece.error(Code::INVALID_VALUE, &at, MemberPart::Key, message);
            self.base.sink.push(diagnostic.with_help("remove one of the two"));
            found = true;
        }
        found
    }

    /// Builds a test case, or returns `None` if its subject or a transform has errors, which are reported.
    ///
    /// `key` identifies the parts that the test shares with other tests.
    fn case(
        &mut self,
        (piece, at): (Piece<'_>, &str),
        entry: TestEntry,
        parts: Parts<'_>,
        key: &Value,
        tools: Option<Value>,
    ) -> Option<TestCase> {
        let transforms = self.transforms(piece, at, &entry.transform)?;
        let subject = parts.subject?;
        let (kind, models) = self.run_on(&subject, &entry);
        self.note_models((piece, at), &entry, (&subject, &models), parts.asks_judge);
        let compared =
            self.compared(piece, at, &entry.name, entry.compare, parts.compares, &models);
        let history = (entry.history.as_deref(), entry.store_output_as.as_deref());
        let depends = self.is_linked(piece, at, history, compared.is_some(), &parts.conversation);
        let (repeat, until) = self.repeats(piece, at, entry.repeat, kind, depends);
        let compiler = Arc::clone(&self.pool.compiler);
        let limits = (entry.max_turns, entry.answer_tools);
        let scripts = self.base.setup.scripts.deciding();
        let declared = entry.evidence.map(|it| it.complete).unwrap_or_default();
        let shared = self.pool.test_parts(key.to_string(), |is_kept| TestParts {
            compiler,
            digests: digests(
                &subject,
                &parts.conversation,
                tools.as_ref(),
                limits,
                (&parts.rules, scripts.as_ref()),
                &declared,
            ),
            declared,
            subject,
            tools: tools_part(tools.filter(|_| !is_kept), entry.tools),
            conversation: parts.conversation.forms,
            max_turns: limits.0,
            answers_tools: limits.1,
            workspace: parts.workspace.as_ref().map(|it| Arc::clone(&it.spec)),
            prompt_checks: Arc::clone(&parts.rules.checks),
        });
        let vars = Value::Object(entry.vars);
        let of_prompt = parts.prompt.and_then(|it| it.threshold);
        let threshold = entry.threshold.or(of_prompt).or(self.base.defaults.threshold);
        let scripts: Vec<&str> = entry.transform.all().into_iter().map(|(_, it)| it).collect();
        let more = More::boxed(entry.metadata, entry.output, entry.options);
        let decides = Deciding {
            vars: &vars,
            expect: parts.expect,
            rule_files: &parts.rules.files,
            threshold,
            scripts: &scripts,
            calls_as_output: entry.calls_as_output,
            compared: compared.as_ref(),
            history: history.into(),
            more: more.as_deref(),
        };
        let pass_rate_min = entry.pass_rate_min.unwrap_or(self.base.defaults.pass_rate_min);
        let (whole, task) = self.digests(&shared, &decides, (until, pass_rate_min));
        Some(TestCase {
            name: entry.name,
            kind,
            models,
            repeat,
            until,
            threshold,
            history: history.0.map(|it| self.pool.text(it)),
            stores: history.1.map(|it| self.pool.text(it)),
            compared,
            calls_as_output: entry.calls_as_output,
            transforms,
            pass_rate_min,
            tags: self.pool.list(&entry.tags),
            skip: entry.skip.reason().map(|why| self.pool.text(why)),
            timeout: entry.timeout_ms.map(Duration::from_millis),
            digest: Some(whole),
            task_digest: Some(task),
            cluster: entry.cluster.as_deref().map(|it| self.pool.text(it)),
            source: Some(self.place_of_test(piece, at)),
            check_places: parts.places,
            body: Arc::new(Row {
                shared,
                vars: stored(&vars),
                more,
                checks: parts.checks,
                expect: parts.written,
            }),
        })
    }

    /// Returns true if the test depends on other tests: by a comparison or a history. Reports problems of `history` and
    /// `storeOutputAs`.
    fn is_linked(
        &mut self,
        piece: Piece<'_>,
        at: &str,
        (history, stores): (Option<&str>, Option<&str>),
        is_compared: bool,
        turns: &Turns,
    ) -> bool {
        let has_history = history.is_some();
        if is_compared && has_history {
            let at = format!("{at}/history");
            let message = "a test whose outputs are compared cannot have a `history`";
            let diagnostic = piece.error(Code::INVALID_VALUE, &at, MemberPart::Key, message);
            let help = "compare the outputs in a test of its own, or remove `history`";
            self.base.sink.push(diagnostic.with_help(help));
        }
        if has_history && !turns.forms.is_empty() {
            let at = format!("{at}/history");
            let message = "a test with a `conversation` cannot have a `history`";
            let diagnostic = piece.error(Code::INVALID_VALUE, &at, MemberPart::Key, message);
            let help = "write the conversation as tests with one `history`, or remove `history`";
            self.base.sink.push(diagnostic.with_help(help));
        }
        if stores.is_some() && !has_history {
            let message = "`storeOutputAs` does nothing in a test without a `history`";
            self.base.sink.no_effect(piece, &format!("{at}/storeOutputAs"), message);
        }
        is_compared || has_history
    }

    /// Returns the digests of a test: of the whole test, and without its subject (prompt, command or transcript).
    fn digests(
        &self,
        shared: &TestParts,
        decides: &Deciding<'_>,
        (until, pass_rate_min): (Option<Until>, f64),
    ) -> (Fingerprint, Fingerprint) {
        let command_files = self.command_files(&shared.subject, decides.vars);
        let whole = self.digest(shared.digests.whole, decides, command_files);
        let task = self.digest(shared.digests.task, decides, None);
        let [whole, task] = [(whole, false), (task, true)]
            .map(|(it, is_task)| self.with_media(it, &shared.subject, decides.vars, is_task));
        (whole, with_end(task, until, pass_rate_min))
    }

    /// Returns the digest of a test, from the digest of the parts that it shares with other tests.
    ///
    /// The digest covers the files of rules, and the files that the command names.
    fn digest(
        &self,
        shared: Fingerprint,
        decides: &Deciding<'_>,
        command_files: Option<Fingerprint>,
    ) -> Fingerprint {
        let digest =
            Digest::default().fingerprint(shared).value(decides.vars).fingerprint(decides.expect);
        let files = decides.rule_files.iter().copied().chain(command_files);
        let digest = files.fold(digest, Digest::fingerprint);
        let digest = self.with_rules(digest, decides.threshold, decides.scripts);
        // Without `callsAsOutput`, the digest is the same as in versions that did not have this key.
        let digest = match decides.calls_as_output {
            Some(form) => digest.text(&format!("calls as output: {form:?}")),
            None => digest,
        };
        let digest = match decides.compared {
            Some(Comparison::Named(group)) => digest.text(group),
            _ => digest,
        };
        let digest = match decides.history {
            [None, None] => digest,
            history => digest.text(&format!("history: {history:?}")),
        };
        decides.more.iter().fold(digest, |digest, it| it.digest(digest)).finish()
    }

    /// Returns the place of a test. To save memory, the places in one file share the name of the file.
    fn place_of_test(&mut self, piece: Piece<'_>, at: &str) -> SourcePlace {
        let place = piece.place(at, MemberPart::Value);
        SourcePlace::new(self.pool.text(&place.file), place.line, place.column)
    }

    /// Returns the number of repeats of a test, and the rule that ends them early. The rule is `None` if no repeats are
    /// left out.
    fn repeats(
        &mut self,
        piece: Piece<'_>,
        at: &str,
        own: Option<RepeatEntry>,
        kind: CaseKind,
        depends: bool,
    ) -> (u32, Option<Until>) {
        let until = match own {
            // Repeats of a transcript would all have the same result.
            None if kind == CaseKind::Transcript => return (1, None),
            None => self.base.default_until,
            Some(own) => until(&mut self.base.sink, piece, &format!("{at}/repeat"), own),
        };
        let repeat = own.unwrap_or(self.base.defaults.repeat).max();
        if until.is_some() && depends {
            let message =
                format!("all {repeat} repeats are carried out, because the test depends on others");
            let at = if own.is_some() { format!("{at}/repeat") } else { at.to_owned() };
            let diagnostic = piece.error(Code::NO_EFFECT, &at, MemberPart::Key, message).with_help(
                "repeats of tests with `compare` or `history` do not end early; write `repeat` as a number",
            );
            self.base.sink.push(diagnostic.into_warning());
            return (repeat, None);
        }
        (repeat, until)
    }

    /// Returns the digest of the files that the command of a test names.
    ///
    /// Returns `None` for other tests, and if the command names no file.
    fn command_files(&self, subject: &SubjectForm, vars: &Value) -> Option<Fingerprint> {
        let SubjectForm::Command(form) = subject else { return None };
        // A missing variable is reported where the command is checked.
        let line = form.fill(vars.as_object()?).ok()?;
        self.base.around.referred.of_command(&line)
    }

    /// Compiles the scripts that transform the output for checks.
    ///
    /// Returns `None` after an error, which is reported.
    fn transforms(
        &mut self,
        piece: Piece<'_>,
        at: &str,
        written: &Transforms,
    ) -> Option<Arc<[Arc<Transform>]>> {
        let mut transforms = Vec::new();
        for (pointer, script) in written.all() {
            match Transform::new(script, &self.base.setup) {
                Ok(transform) => transforms.push(Arc::new(transform)),
                Err(problem) => {
                    self.base.sink.push(piece.problem(problem.under(&format!("{at}{pointer}"))));
                    return None;
                }
            }
        }
        Some(transforms.into())
    }

    /// Adds the threshold and the transform scripts, if the test has any, to the digest.
    fn with_rules(&self, digest: Digest, threshold: Option<f64>, transforms: &[&str]) -> Digest {
        if threshold.is_none() && transforms.is_empty() {
            return digest;
        }
        // A single script is a string, so that its digest is the same as in versions without lists.
        let transform = match transforms {
            [] => Value::Null,
            [only] => Value::from(*only),
            several => several.iter().copied().collect(),
        };
        let decides = serde_json::json!({"threshold": threshold, "transform": transform});
        digest.fingerprint(self.base.digest_with_files(&decides))
    }

    /// Returns the kind of a test and the models or agents that it runs on.
    fn run_on(&mut self, subject: &SubjectForm, entry: &TestEntry) -> (CaseKind, Arc<[String]>) {
        let models = match (subject, &entry.agent, &entry.models) {
            (SubjectForm::Command(_), ..) => return (CaseKind::Command, Arc::default()),
            (SubjectForm::Transcript(_), ..) => return (CaseKind::Transcript, Arc::default()),
            (SubjectForm::Prompt(_), Some(agents), _) => self.pool.list(&unique(agents.names())),
            (SubjectForm::Prompt(_), None, Some(models)) => self.pool.list(&unique(models.clone())),
            (SubjectForm::Prompt(_), None, None) => self.pool.list(&self.base.listed),
        };
        (CaseKind::Prompt, models)
    }
}

/// The values of a test that its digests cover, besides the shared parts.
struct Deciding<'a> {
    vars: &'a Value,
    /// The digest of the checks and of the workspace.
    expect: Fingerprint,
    /// The digests of the files of rules.
    rule_files: &'a [Fingerprint],
    threshold: Option<f64>,
    /// The scripts that transform the output.
    scripts: &'a [&'a str],
    calls_as_output: Option<CallForm>,
    compared: Option<&'a Comparison>,
    /// The name of the history, and the name of the variable that stores the output.
    history: [Option<&'a str>; 2],
    more: Option<&'a More>,
}

/// Returns the tools of a test: as JSON if `written` is set, else converted to the types of the engine.
fn tools_part(written: Option<Value>, tools: Vec<Tool>) -> Part<[SimulatedTool]> {
    match written {
        Some(written) => Part::Written(written.to_string().into()),
        None => Part::Ready(simulated(tools)),
    }
}

/// Returns one test for each item of `prompts`.
///
/// The result is empty without `prompts`, without a test name, or if an item is not a name.
fn with_each_prompt(test: &Node) -> Vec<Node> {
    let prompts = test.get("prompts").map_or(&[][..], Node::items);
    let name = test.get("name").and_then(|it| Some((it.span, it.text()?)));
    let Some((span, name)) = name else { return Vec::new() };
    if !prompts.iter().all(|it| it.text().is_some_and(|it| !it.is_empty())) {
        return Vec::new();
    }
    let one = |prompt: &Node| {
        let name = format!("{name} · {}", prompt.text().unwrap_or_default());
        let kept = |(key, _): &&(Key, Node)| !matches!(&*key.name, "name" | "prompts");
        let mut entries: Vec<(Key, Node)> = test.entries().iter().filter(kept).cloned().collect();
        entries.push(entry("name", span, Kind::Text(name.as_str().into())));
        entries.push(entry("prompt", prompt.span, prompt.kind.clone()));
        Node { kind: Kind::Mapping(entries.into()), ..test.clone() }
    };
    prompts.iter().map(one).collect()
}

/// The highest number of combinations of one `matrix`.
const MOST: usize = 100_000;

/// Returns one test for each combination of the values of `matrix`, in the order of the lists. The last list changes
/// fastest.
///
/// The result is empty without a valid `matrix`, or if the test has no name.
fn with_each_combination(test: &Node) -> Vec<Node> {
    let matrix = test.get("matrix").map_or(&[][..], Node::entries);
    let name = test.get("name").and_then(|it| Some((it.span, it.text()?)));
    let Some((span, name)) = name.filter(|_| !matrix.is_empty()) else { return Vec::new() };
    let mut all: Vec<Vec<(Key, Node)>> = vec![Vec::new()];
    for (key, values) in matrix {
        if all.len().saturating_mul(values.items().len()) > MOST {
            return Vec::new();
        }
        let with = |vars: Vec<(Key, Node)>| {
            values.items().iter().map(move |it| {
                vars.iter().cloned().chain([(key.clone(), it.clone())]).collect::<Vec<_>>()
            })
        };
        all = all.into_iter().flat_map(with).collect();
    }
    let vars = test.get("vars");
    let one = |(index, own): (usize, Vec<(Key, Node)>)| {
        let name = format!("{name}, variant {}", index + 1);
        let fixed = vars.map_or(&[][..], Node::entries).iter().cloned();
        let all: Vec<(Key, Node)> = fixed.chain(own).collect();
        let kept = |(key, _): &&(Key, Node)| !matches!(&*key.name, "name" | "matrix" | "vars");
        let mut entries: Vec<(Key, Node)> = test.entries().iter().filter(kept).cloned().collect();
        entries.push(entry("name", span, Kind::Text(name.as_str().into())));
        entries.push(entry("vars", vars.map_or(span, |it| it.span), Kind::Mapping(all.into())));
        Node { kind: Kind::Mapping(entries.into()), ..test.clone() }
    };
    all.into_iter().enumerate().map(one).collect()
}

/// Adds the variable [`HISTORY`] to a test with a `history`, as an empty list. The runner fills the list with the
/// earlier exchanges.
fn with_history(mut test: Value) -> Value {
    if test.get("history").is_some_and(Value::is_string)
        && let Some(entries) = test.as_object_mut()
        && let Some(vars) =
            entries.entry("vars").or_insert_with(|| Map::new().into()).as_object_mut()
    {
        vars.entry(HISTORY).or_insert_with(|| Value::Array(Vec::new()));
    }
    test
}

/// Returns the variables as JSON; empty without variables.
fn stored(vars: &Value) -> Box<str> {
    if vars.as_object().is_none_or(Map::is_empty) {
        return Box::default();
    }
    vars.to_string().into()
}

/// Removes duplicate ids and keeps the order.
fn unique(ids: Vec<String>) -> Vec<String> {
    let mut kept: Vec<String> = Vec::with_capacity(ids.len());
    for id in ids {
        if !kept.contains(&id) {
            kept.push(id);
        }
    }
    kept
}
