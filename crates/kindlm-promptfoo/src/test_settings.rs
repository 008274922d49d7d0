//! The settings of a test, or of the default test.

use kindlm_source::{Key, Kind, Node};
use serde_json::Value;

use super::Translator;
use super::asserts::{KnownKeys, is_graded, takes_rubric};
use super::build::with;
use super::build::{list, map, number};
use super::graders::Graders;
use super::images::with_texts;
use super::vars::{Vars, merged};

/// The settings of a test, or of the default test.
///
/// A setting of a test overrides the setting of the default test. But assertions are added, and variables, metadata and
/// options are merged by key.
#[derive(Clone, Default)]
pub(super) struct TestSettings {
    pub(super) vars: Vars,
    pub(super) asserts: Vec<Node>,
    pub(super) threshold: Option<Node>,
    /// The function that computes the score of the test and decides if it passes. Without it, the threshold decides.
    pub(super) scoring: Option<Node>,
    pub(super) transform: Option<Node>,
    pub(super) transform_vars: Option<Node>,
    pub(super) prefix: String,
    pub(super) suffix: String,
    pub(super) expand: Option<bool>,
    pub(super) description: Option<String>,
    pub(super) prompts: Option<Node>,
    /// The names of the providers to use; `None` for all.
    pub(super) providers: Option<Node>,
    /// The provider that replaces all other providers.
    pub(super) provider: Option<Node>,
    /// The recorded output, if the test has one.
    pub(super) output: Option<Node>,
    pub(super) metadata: Option<Node>,
    /// The variable that stores the output for later tests.
    pub(super) stores: Option<Node>,
    /// The conversation of a scenario, for its tests that name no conversation.
    pub(super) conversation: Option<String>,
    /// The options as written, for scripts.
    pub(super) written_options: Option<Node>,
    /// True if some options are only visible to scripts.
    pub(super) has_own_options: bool,
    pub(super) graders: Graders,
    /// The prompt for grading models.
    pub(super) rubric: Option<Node>,
    /// The scores of `factuality`, by the letter of the judge's finding.
    pub(super) factuality: Option<Node>,
}

/// The keys of a test in promptfoo.
const TEST_KEYS: [&str; 11] = [
    "vars",
    "assert",
    "threshold",
    "description",
    "options",
    "prompts",
    "provider",
    "providers",
    "providerOutput",
    "metadata",
    "assertScoringFunction",
];

impl Translator<'_> {
    /// Reads the settings of a test and merges them over the defaults.
    pub(super) fn test_settings(&mut self, node: &Node, defaults: &TestSettings) -> TestSettings {
        let mut said = defaults.clone();
        if !matches!(node.kind, Kind::Mapping(_)) {
            self.error(node.span, "expected a test: an object with `vars` and `assert`", None);
            return said;
        }
        for (key, value) in node.entries() {
            match &*key.name {
                "vars" => {
                    let own = self.vars(Some(value));
                    said.vars = merged(&defaults.vars, &own);
                }
                "assert" => said.asserts.extend(self.assertions(Some(value))),
                "threshold" => said.threshold = Some(value.clone()),
                "description" => said.description = value.text().map(str::to_owned),
                "options" => self.options(value, &mut said),
                "prompts" => said.prompts = Some(value.clone()),
                "provider" => said.provider = Some(value.clone()),
                "providers" => said.providers = Some(value.clone()),
                "providerOutput" => said.output = Some(value.clone()),
                "metadata" => said.metadata = Some(merged_objects(said.metadata.as_ref(), value)),
                "assertScoringFunction" => said.scoring = Some(value.clone()),
                "author" => {}
                "storeOutputAs" => {
                    let message = "`storeOutputAs` has no effect here, as in promptfoo".to_owned();
                    self.warn(key.span, message, Some("in promptfoo it belongs into `options`"));
                }
                _ => self.ignored_key(key, "a test", &TEST_KEYS),
            }
        }
        let drops = node.get("options").and_then(|it| it.get("disableDefaultAsserts"));
        if drops.is_some_and(|it| it.to_json() == Value::Bool(true)) {
            said.asserts.drain(..defaults.asserts.len());
        }
        said
    }

    fn options(&mut self, block: &Node, said: &mut TestSettings) {
        said.written_options = Some(merged_objects(said.written_options.as_ref(), block));
        for (key, value) in block.entries() {
            let words = || value.text().unwrap_or_default().to_owned();
            match &*key.name {
                "transform" | "postprocess" => said.transform = Some(value.clone()),
                "transformVars" => said.transform_vars = Some(value.clone()),
                "prefix" => said.prefix = words(),
                "suffix" => said.suffix = words(),
                "disableVarExpansion" => {
                    said.expand = Some(value.to_json() != Value::Bool(true));
                }
                "rubricPrompt" => said.rubric = Some(with_texts(&self.permitted(value))),
                "provider" => self.graders(value, &mut said.graders),
                "factuality" => said.factuality = Some(self.factuality_scores(value)),
                // `test_settings` handles `disableDefaultAsserts`, and `history` handles `disableConversationVar`.
                // `runSerially` has no effect, because tests that depend on each other run in order anyway.
                "disableDefaultAsserts" | "disableConversationVar" | "runSerially" => {}
                "storeOutputAs" => {
                    if value.text().is_none_or(str::is_empty) {
                        self.error(value.span, "expected the name of a variable", None);
                    } else {
                        said.stores = Some(value.clone());
                    }
                }
                name if super::settings::is_setting(name) => {
                    let help = "write it into the `config` of a provider, and name that in `providers` of the test";
                    self.unsupported(key.span, &format!("`options.{name}`"), Some(help));
                }
                name => {
                    let message = format!("`options.{name}` is only seen by scripts");
                    self.warn(key.span, message, Some("they find it as `context.test.options`"));
                    said.has_own_options = true;
                }
            }
        }
    }
}

/// The assertion types that check factuality.
const FACTUALITY: [&str; 2] = ["factuality", "model-graded-factuality"];

/// The findings of `factuality`: promptfoo's name, KindLM's letter, and promptfoo's default score.
const FINDINGS: [(&str, &str, f64); 5] = [
    ("subset", "A", 1.0),
    ("superset", "B", 1.0),
    ("agree", "C", 1.0),
    ("disagree", "D", 0.0),
    ("differButFactual", "E", 1.0),
];

fn plain_of(kind: &str) -> &str {
    kind.strip_prefix("not-").unwrap_or(kind)
}

impl Translator<'_> {
    /// Translates `options.factuality` into the `scores` of the check. Reports unknown findings.
    fn factuality_scores(&mut self, block: &Node) -> Node {
        for (key, _) in block.entries() {
            if !FINDINGS.iter().any(|(name, ..)| *name == &*key.name) {
                let message = format!("there is no finding `{}`", key.name);
                let help = "the findings are subset, superset, agree, disagree, differButFactual";
                self.error(key.span, message, Some(help));
            }
        }
        let score = |(name, letter, usual): (&str, &'static str, f64)| {
            let node = block.get(name).cloned();
            (letter, node.unwrap_or_else(|| number(block.span, usual)))
        };
        map(block.span, FINDINGS.map(score))
    }
}

impl TestSettings {
    /// Adds the grading models and the grading prompt to checks without their own.
    fn graded(&self, checks: &[Node], keys: &mut KnownKeys) -> Vec<Node> {
        checks.iter().map(|it| self.graded_one(it, keys)).collect()
    }

    fn graded_one(&self, check: &Node, keys: &mut KnownKeys) -> Node {
        if let Some(parts) = check.get("assert") {
            let parts = list(parts.span, self.graded(parts.items(), keys));
            return with(check, "assert", parts);
        }
        let kind = check.get("type").and_then(Node::text).unwrap_or_default();
        let grader = match plain_of(kind) {
            plain if plain.starts_with("similar") => &self.graders.embedding,
            plain if is_graded(plain) => &self.graders.text,
            _ => return check.clone(),
        };
        let mut check = check.clone();
        if let Some(model) = grader.as_ref().filter(|_| check.get("model").is_none()) {
            check = with(&check, "model", model.clone());
        }
        // Some checks use both a grading model and embeddings.
        let embedding = self.graders.embedding.as_ref();
        let embedding = embedding.filter(|_| check.get("embeddingModel").is_none());
        if let Some(model) = embedding.filter(|_| keys.accept(kind, "embeddingModel")) {
            check = with(&check, "embeddingModel", model.clone());
        }
        check = as_in_promptfoo(&check, kind);
        let scores = self.factuality.as_ref().filter(|_| check.get("scores").is_none());
        if let Some(scores) = scores.filter(|_| FACTUALITY.contains(&plain_of(kind))) {
            check = with(&check, "scores", scores.clone());
        }
        let rubric = self.rubric.as_ref();
        let rubric = rubric.filter(|_| check.get("rubricPrompt").is_none());
        let rubric = rubric.filter(|it| takes_rubric(&check, it));
        if let Some(rubric) = rubric.filter(|_| keys.accept(kind, "rubricPrompt")) {
            check = with(&check, "rubricPrompt", rubric.clone());
        }
        // In promptfoo, a check with its own grading prompt needs no rubric.
        let is_rubric = plain_of(kind) == "llm-rubric" && check.get("rubricPrompt").is_some();
        if is_rubric && check.get("value").is_none() {
            check = with(&check, "value", super::build::text(check.span, ""));
        }
        check
    }

    /// Returns the checks with the graders of the test.
    ///
    /// If the test has a scoring function, the result is one set that contains all checks.
    pub(super) fn checks(&self, checks: &[Node], keys: &mut KnownKeys) -> Vec<Node> {
        let checks = self.graded(checks, keys);
        let Some(scoring) = &self.scoring else { return checks };
        let mut set = vec![
            ("type", super::build::text(scoring.span, "assert-set")),
            ("scoring", scoring.clone()),
            ("assert", list(scoring.span, checks)),
        ];
        if let Some(threshold) = &self.threshold {
            set.push(("threshold", threshold.clone()));
        }
        vec![map(scoring.span, set)]
    }
}

/// Returns the check with the setting that gives it promptfoo's behavior, if KindLM's default differs.
fn as_in_promptfoo(check: &Node, kind: &str) -> Node {
    const TASK: [&str; 5] =
        ["factuality", "model-graded-factuality", "model-graded-closedqa", "g-eval", "select-best"];
    let (key, value) = match plain_of(kind) {
        plain if TASK.contains(&plain) => ("input", "prompt"),
        "context-relevance" => ("units", "lines"),
        _ => return check.clone(),
    };
    if check.get(key).is_some() {
        return check.clone();
    }
    with(check, key, super::build::text(check.span, value))
}

/// Merges two objects. Entries of the second object override entries of the first object.
fn merged_objects(first: Option<&Node>, second: &Node) -> Node {
    let Some(first) = first else { return second.clone() };
    let entries: Vec<(Key, Node)> = merged(first.entries(), second.entries());
    Node { kind: Kind::Mapping(entries.into()), ..second.clone() }
}
