//! Sets of prompt assertions, and the rules that prompts and tests take from sets.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use kindlm_assertions::Check;
use kindlm_engine::{Digest, Fingerprint};
use kindlm_source::{Code, Node, Piece};
use kindlm_template::is_template;
use kindlm_types::{AssertionSetInfo, MemberPart, Problem, ProblemKind, pointer, suggest};
use serde_json::{Map, Value, json};

use super::Resolved;
use crate::load::{FILE, text};
use crate::schema::SHAPES;
use crate::written::AssertionSetEntry;

/// The key of references to sets in prompts and tests.
const KEY: &str = "assertionSets";

/// All sets by name. `None` stands for a set with errors.
#[derive(Debug, Default)]
pub(in crate::load) struct Sets {
    names: Vec<String>,
    by_name: HashMap<String, Option<Vec<Value>>>,
    /// The names of the sets that prompts or tests refer to.
    used: HashSet<String>,
    /// Compiled lists of rules, by their JSON.
    compiled: HashMap<String, Arc<Rules>>,
    /// For each rule id, the `instruction` and `criteria` of the first rule with this id, and the name of its set or
    /// prompt.
    said: HashMap<String, (Value, String)>,
}

/// Rules that a judge checks in one request.
///
/// They are the rules of a prompt, of the prompt's sets, and of a test's sets.
#[derive(Debug, Default)]
pub(in crate::load) struct Rules {
    /// The rules as JSON; null without rules.
    pub(in crate::load) value: Value,
    pub(in crate::load) checks: Arc<[Check]>,
    /// The digests of the files that the rules name.
    pub(in crate::load) files: Arc<[Fingerprint]>,
}

impl Rules {
    pub(in crate::load) fn list(&self) -> &[Value] {
        self.value.as_array().map_or(&[], Vec::as_slice)
    }
}

impl Resolved<'_> {
    pub(in crate::load) fn assertion_sets(&mut self, piece: Piece<'_>) {
        for (key, node) in piece.root.get(KEY).map_or(&[][..], Node::entries) {
            let at = format!("/{KEY}/{}", pointer::segment(&key.name));
            let rules = match node.text() {
                Some(text) => self.set_file(piece, &at, &key.name, text),
                None => self.set(piece, &at, &key.name, node, None),
            };
            self.sets.names.push(key.name.to_string());
            self.sets.by_name.insert(key.name.to_string(), rules);
        }
    }

    /// Warns of sets that no prompt and no test uses. Reports nothing if the suite has errors.
    pub(in crate::load) fn report_unused_sets(&mut self, piece: Piece<'_>) {
        if !self.sink.errors.is_empty() {
            return;
        }
        let names = self.sets.names.iter().filter(|it| !self.sets.used.contains(*it));
        for name in names.cloned().collect::<Vec<_>>() {
            let message = format!("no prompt and no test refers to the assertion set `{name}`");
            let at = format!("/{KEY}/{}", pointer::segment(&name));
            let diagnostic = piece
                .error(Code::NO_EFFECT, &at, MemberPart::Key, message)
                .with_help(format!("add `assertionSets: [{name}]` to a prompt or a test"))
                .into_warning();
            self.sink.push(diagnostic);
        }
    }

    /// Reads a set from the file that a `file://` text names. Returns `None` after an error.
    fn set_file(
        &mut self,
        piece: Piece<'_>,
        at: &str,
        name: &str,
        text: &str,
    ) -> Option<Vec<Value>> {
        let Some(path) = text.strip_prefix(FILE).filter(|it| !it.is_empty()) else {
            let message = "expected a list of rules, or `file://` and the path of a file with one";
            let diagnostic =
                piece.error(Code::INVALID_VALUE, at, MemberPart::Value, message).with_help(
                    "write `file://sets/tone.yaml`, relative to the folder of the config file",
                );
            self.sink.push(diagnostic);
            return None;
        };
        let (source, root) = self.tree_of(piece, at, path)?;
        let inside = Piece::new(&source, &root, "");
        self.set(inside, "", name, &root, Some(path))
    }

    /// Reads a set: a list of rules, or a mapping with a list under `assertions`.
    ///
    /// Returns `None` after an error, which is reported.
    fn set(
        &mut self,
        piece: Piece<'_>,
        at: &str,
        name: &str,
        node: &Node,
        file: Option<&str>,
    ) -> Option<Vec<Value>> {
        let written = node.to_json();
        let (value, inside) = match written {
            Value::Array(_) => (json!({"assertions": written}), ""),
            other => (other, "/assertions"),
        };
        let mut problems = SHAPES.set.problems(&value);
        let is_broken = !problems.is_empty();
        for problem in &mut problems {
            if inside.is_empty() {
                problem.pointer = problem.pointer.replacen("/assertions", "", 1);
            }
        }
        self.sink.report(piece, at, problems);
        if is_broken {
            return None;
        }
        let entry: AssertionSetEntry = self.sink.parse_value(piece, at, value)?;
        let before = self.sink.errors.len();
        self.rule_checks(piece, &format!("{at}{inside}"), &entry.assertions, 0);
        self.note_conditions(piece, &format!("{at}{inside}"), &entry.assertions);
        self.note_ids(piece, &format!("{at}{inside}"), name, &entry.assertions);
        let info = AssertionSetInfo {
            name: name.to_owned(),
            version: entry.version,
            file: file.map(str::to_owned),
            ..set_info(&entry.assertions)
        };
        self.suite.info.assertion_sets.push(info);
        (self.sink.errors.len() == before).then_some(entry.assertions)
    }

    /// Warns if another list has a different rule with the same id, because reports identify rules by id.
    ///
    /// `of` is the name of the set or prompt that contains the list.
    pub(in crate::load) fn note_ids(
        &mut self,
        piece: Piece<'_>,
        at: &str,
        of: &str,
        rules: &[Value],
    ) {
        for (index, rule) in rules.iter().enumerate() {
            let Some(id) = text(rule, "id") else { continue };
            let said = json!([rule.get("instruction"), rule.get("criteria")]);
            let Some((before, first)) = self.sets.said.get(id) else {
                self.sets.said.insert(id.to_owned(), (said, of.to_owned()));
                continue;
            };
            if *before == said || first == of {
                continue;
            }
            let message = format!("the rule `{id}` differs from that in `{first}`");
            let diagnostic = piece.error(
                Code::DUPLICATE,
                &format!("{at}/{index}/id"),
                MemberPart::Value,
                message,
            );
            self.sink.push(
                diagnostic
                    .with_help("give one of the two another id: a report identifies rules by id")
                    .into_warning(),
            );
        }
    }

    /// Compiles the check that judges these rules.
    ///
    /// Problems are reported at `at`, the pointer of the list. Problems of the first `reported` rules are omitted,
    /// because they are already reported at another list.
    pub(in crate::load) fn rule_checks(
        &mut self,
        piece: Piece<'_>,
        at: &str,
        rules: &[Value],
        reported: usize,
    ) -> Vec<Check> {
        if rules.is_empty() {
            return Vec::new();
        }
        let (checks, mut problems) = self.compile_rules(rules, None, &Map::new());
        // Missing variables depend on the test, so each test reports its own.
        problems.retain(|problem| {
            !is_missing(problem) && rule_of(problem).is_none_or(|index| index >= reported)
        });
        self.sink.report(piece, at, problems);
        // All rules are one check, so the place of this check is the whole list.
        let list = checks.iter().cloned().map(|it| Check { at: String::new(), ..it });
        self.note_judged(piece, at, &list.collect::<Vec<_>>());
        checks
    }

    /// Adds the rules of the sets that the entry at `at` refers to. Reports unknown sets, and different rules with the
    /// same id.
    ///
    /// Equal rules with the same id count once.
    pub(in crate::load) fn with_sets(
        &mut self,
        piece: Piece<'_>,
        at: &str,
        entry: &Value,
        base: &Arc<Rules>,
    ) -> Arc<Rules> {
        let names = entry.get(KEY).and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
        if names.is_empty() {
            return Arc::clone(base);
        }
        let mut rules = base.list().to_vec();
        for (index, name) in names.iter().enumerate() {
            let Some(name) = name.as_str().filter(|it| !it.is_empty()) else { continue };
            let at = format!("{at}/{KEY}/{index}");
            self.sets.used.insert(name.to_owned());
            let Some(set) = self.sets.by_name.get(name) else {
                let known = self.sets.names.iter().map(String::as_str);
                let help = suggest(name, "assertion sets", known);
                let message = format!("there is no assertion set `{name}`");
                let diagnostic =
                    piece.error(Code::UNKNOWN_REFERENCE, &at, MemberPart::Value, message);
                self.sink.push(diagnostic.with_help(help));
                continue;
            };
            let mut taken = Vec::new();
            for rule in set.iter().flatten() {
                match rules.iter().find(|it| it.get("id") == rule.get("id")) {
                    None => rules.push(rule.clone()),
                    Some(same) if same == rule => {}
                    Some(_) => taken.push(text(rule, "id").unwrap_or_default().to_owned()),
                }
            }
            for id in taken {
                let message = format!("the set `{name}` has another assertion with the id `{id}`");
                let diagnostic = piece.error(Code::DUPLICATE, &at, MemberPart::Value, message);
                self.sink.push(
                    diagnostic
                        .with_help("give one of the two another id: all are judged in one call"),
                );
            }
        }
        let value = Value::Array(rules);
        let key = value.to_string();
        if let Some(known) = self.sets.compiled.get(&key) {
            return Arc::clone(known);
        }
        let rules = Rules { value, ..Rules::default() };
        let checks = self.rule_checks(piece, at, rules.list(), base.list().len()).into();
        let files = self.files_named(&rules.value).into();
        let rules = Arc::new(Rules { checks, files, ..rules });
        self.sets.compiled.insert(key, Arc::clone(&rules));
        rules
    }

    /// Returns the rules with the judge settings of a test (`expect.judging`).
    pub(in crate::load) fn judged_as(&mut self, test: &Value, rules: Arc<Rules>) -> Arc<Rules> {
        let Some(judging) = judging_of(test).filter(|_| !rules.checks.is_empty()) else {
            return rules;
        };
        let key = format!("{judging} {}", rules.value);
        if let Some(known) = self.sets.compiled.get(&key) {
            return Arc::clone(known);
        }
        let (checks, problems) = self.compile_rules(rules.list(), Some(judging), &Map::new());
        if problems.iter().any(|it| !is_missing(it)) {
            // `judging` has errors, which are reported when the whole `expect` block is compiled.
            return rules;
        }
        let (value, files) = (rules.value.clone(), Arc::clone(&rules.files));
        let judged = Arc::new(Rules { value, checks: checks.into(), files });
        self.sets.compiled.insert(key, Arc::clone(&judged));
        judged
    }

    /// Compiles the check that judges these rules, and returns it with the problems.
    ///
    /// Pointers of problems are relative to the list, except the pointers of problems in `judging`.
    fn compile_rules(
        &self,
        rules: &[Value],
        judging: Option<&Value>,
        vars: &Map<String, Value>,
    ) -> (Vec<Check>, Vec<Problem>) {
        // The compiler accepts rules only inside an entry of `assert`. The path of this entry is removed from the
        // pointers of problems below.
        let mut block = json!({"assert": [{"type": "prompt-assertion", "assertions": rules}]});
        if let Some(judging) = judging {
            block["judging"] = judging.clone();
        }
        let (checks, mut problems) = kindlm_assertions::compile_with(&block, &self.setup, vars);
        for problem in &mut problems {
            problem.pointer = problem.pointer.replacen("/assert/0/assertions", "", 1);
        }
        (checks, problems)
    }

    /// Reports variables that the rules of a prompt or set use, but that a test does not have.
    ///
    /// `at` is the pointer of the test.
    pub(in crate::load) fn check_named(
        &mut self,
        piece: Piece<'_>,
        at: &str,
        rules: &Rules,
        vars: &Map<String, Value>,
    ) {
        if !is_template(&rules.value.to_string()) {
            return;
        }
        let (_, problems) = self.compile_rules(rules.list(), None, vars);
        for mut problem in problems {
            if !is_missing(&problem) {
                continue;
            }
            let rule = rule_of(&problem).and_then(|index| rules.list().get(index));
            let id = rule.and_then(|it| text(it, "id")).unwrap_or_default();
            problem.message = format!("in the rule `{id}`, {}", problem.message);
            problem.pointer = format!("{at}/name");
            self.report_check(piece, problem);
        }
    }
}

/// Returns the judge settings of a test for the rules of its prompt; `None` without such settings.
pub(in crate::load) fn judging_of(test: &Value) -> Option<&Value> {
    test.pointer("/expect/judging")
}

/// Returns the number of rules and their digest, for reports.
pub(in crate::load) fn set_info(rules: &[Value]) -> AssertionSetInfo {
    let digest = rules.iter().fold(Digest::default(), Digest::value).finish();
    AssertionSetInfo {
        digest: digest.to_string(),
        assertions: rules.len() as u64,
        ..AssertionSetInfo::default()
    }
}

/// Returns the index of the rule that a problem points to; `None` if it points to no rule.
fn rule_of(problem: &Problem) -> Option<usize> {
    problem.pointer.split('/').nth(1)?.parse().ok()
}

/// Returns true if a problem is a missing variable.
fn is_missing(problem: &Problem) -> bool {
    matches!(problem.kind, ProblemKind::MissingVariable { .. })
}
