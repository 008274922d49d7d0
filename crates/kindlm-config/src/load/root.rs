//! The blocks of the document that stand alone.

use std::time::Duration;

use kindlm_assertions::ScriptsBlock;
use kindlm_assertions::pattern::Pattern;
use kindlm_engine::derived::{Derivation, Formula};
use kindlm_engine::{Compliance, Defaults, gates};
use kindlm_providers::{Kind, Providers, TYPE};
use kindlm_schema::Shape;
use kindlm_source::{Code, Kind as Yaml, Node, Piece, without_echoes};
use kindlm_types::{ComplianceInfo, Place, Problem, SuiteInfo, pointer, suggest};
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};

use super::Loader;
use crate::schema::SHAPES;
use crate::written::{
    ComplianceBlock, DefaultsBlock, DerivedEntry, RiskLevel, SuiteBlock, TraceBlock, UploadBlock,
};

/// Most unknown keys of the document that are reported.
const UNKNOWN: usize = 50;

/// The parts that are checked item by item, later.
const OPEN: [&str; 4] = ["models", "prompts", "tests", "gates"];

impl Loader<'_> {
    /// Reads the blocks that stand alone; `false` if this is no document at all.
    pub(super) fn root(&mut self, piece: Piece<'_>) -> bool {
        if matches!(piece.root.kind, Yaml::Null) && piece.source.slice(piece.root.span).is_empty() {
            let diagnostic = piece
                .error(Code::INVALID_VALUE, "", Place::Value, "the file is empty")
                .with_help("`kindlm init` writes a file to start from");
            self.sink.push(diagnostic);
            return false;
        }
        let mut document = outline(piece.root);
        // With agents there may be nobody else to test, and nothing else to say; transcripts and commands ask no model.
        let asks_nobody =
            |it: &Node| ["transcript", "command"].iter().any(|key| it.get(key).is_some());
        let tests = piece.root.get("tests").map_or(&[][..], Node::items);
        let mut lent = lend(&mut document, tests.iter().any(asks_nobody));
        if self.only_models {
            lent.extend(lend_suite(&mut document));
        }
        let known = self.known_providers;
        let typed = take_typed(known, &mut document);
        let mut problems = SHAPES.root.problems(&document);
        problems.extend(typed.iter().flat_map(|(name, it)| typed_problems(known, name, it)));
        put_back(&mut document, typed);
        take_back(&mut document, &lent);
        let faulty: Vec<String> = problems.iter().map(|it| it.pointer.clone()).collect();
        for mut problem in without_echoes(problems) {
            if problem.pointer == "/kindlm" {
                "the version of the format must be the number 1".clone_into(&mut problem.message);
                let quoted = document.get("kindlm").is_some_and(Value::is_string);
                let how = if quoted { ", without quotes" } else { "" };
                problem.help = Some(format!("write `kindlm: 1`{how}"));
            }
            if problem.pointer.is_empty() && !document.is_object() {
                problem.help = Some(
                    "a file begins with `kindlm: 1`, and has `project`, `suite` and `tests`; `kindlm init` writes one"
                        .to_owned(),
                );
            }
            // A list or mapping of the right type can only be wrong in that nothing is in it.
            let part = problem.pointer.trim_start_matches('/').to_owned();
            let is_empty = |it: &Value| match it {
                Value::Array(items) => items.is_empty(),
                Value::Object(map) => map.is_empty(),
                _ => false,
            };
            if OPEN.contains(&part.as_str()) && document.get(&part).is_some_and(is_empty) {
                problem.message = format!("`{part}` {}", problem.message);
            }
            self.sink.push(piece.problem(problem));
        }
        if !document.is_object() {
            return false;
        }
        self.suite_block(piece, &document, &faulty);
        self.providers(piece, &document, &faulty);
        self.agents(piece, &document, &faulty);
        self.gates(piece);
        if let Some(block) = self.block::<DefaultsBlock>(piece, &document, "defaults", &faulty) {
            self.suite.defaults = Defaults {
                concurrency: block.concurrency as usize,
                timeout: Duration::from_millis(block.timeout_ms),
                judge_model: None,
                threshold: block.threshold,
            };
            if let Some(written) = document.get("defaults") {
                self.check_zero_limits(piece, "/defaults", written, "tests without their own");
            }
            let at = "/defaults/workspace";
            if let (Some(workspace), Some(written)) =
                (block.workspace.clone(), document.pointer(at))
            {
                self.default_workspace = self.make_workspace(piece, at, workspace, written);
            }
            self.defaults = block;
        }
        if let Some(block) = self.block::<ComplianceBlock>(piece, &document, "compliance", &faulty)
        {
            self.suite.compliance = Some(compliance(block));
        }
        self.scripts(piece, &document, &faulty);
        self.derived_metrics(piece, &document, &faulty);
        self.reports(piece, &document, &faulty);
        self.later(piece, &document, &faulty);
        true
    }

    /// Reads a block if it is there and nothing is wrong with it.
    fn block<T: DeserializeOwned>(
        &mut self,
        piece: Piece<'_>,
        document: &Value,
        key: &str,
        faulty: &[String],
    ) -> Option<T> {
        let value = document.get(key)?;
        if is_faulty(faulty, &format!("/{key}")) {
            return None;
        }
        self.sink.read(piece, &format!("/{key}"), value.clone())
    }

    /// What scripts may do, and the checks that may be referred to.
    fn scripts(&mut self, piece: Piece<'_>, document: &Value, faulty: &[String]) {
        if let Some(block) = self.block::<ScriptsBlock>(piece, document, "scripts", faulty) {
            self.sink.report(piece, "/scripts", block.problems());
            self.sink.report(piece, "/scripts", block.unreadable_folders(self.files));
            self.setup.scripts = self.setup.scripts.with(&block);
        }
        let permitted = &self.setup.scripts.permissions.env;
        let known = permitted.iter().map(|it| (it.clone(), (self.env)(it).into()));
        self.setup.env = known.collect();
        let templates = super::object(document, super::templates::KEY);
        self.setup.assertion_templates = templates.cloned().unwrap_or_default();
        self.suite.scripts = self.setup.scripts.clone();
        self.suite.assertion_templates = self.setup.assertion_templates.clone();
    }

    /// Numbers that reports make out of named scores.
    fn derived_metrics(&mut self, piece: Piece<'_>, document: &Value, faulty: &[String]) {
        let key = "derivedMetrics";
        let entries: Option<Vec<DerivedEntry>> = self.block(piece, document, key, faulty);
        for (index, entry) in entries.into_iter().flatten().enumerate() {
            if let Err(err) = Formula::parse(&entry.value) {
                let at = format!("/{key}/{index}/value");
                let problem = Problem::new("", format!("the formula cannot be read: {err}"));
                let help = "a formula has names of scores, numbers, `+ - * / % ^`, comparisons, `a ? b : c` and functions such as `max(a, b)`";
                self.sink.report(piece, &at, vec![problem.with_help(help)]);
                continue;
            }
            let derivation = Derivation { name: entry.name, formula: entry.value };
            self.suite.derived_metrics.push(derivation);
        }
    }

    /// Where reports are written; that the reporters exist is checked where they are known.
    fn reports(&mut self, piece: Piece<'_>, document: &Value, faulty: &[String]) {
        if is_faulty(faulty, "/reports") {
            return;
        }
        for (reporter, path) in super::object(document, "reports").into_iter().flatten() {
            let is_known = self.reporters.is_empty() || self.reporters.contains(&reporter.as_str());
            if !is_known {
                let known = self.reporters.iter().copied();
                let problem = Problem::unknown_key(
                    format!("/reports/{}", pointer::segment(reporter)),
                    reporter,
                    known,
                );
                self.sink.report(piece, "", vec![problem]);
            } else if let Some(path) = path.as_str() {
                self.suite.reports.push((reporter.clone(), path.to_owned()));
            }
        }
    }

    fn suite_block(&mut self, piece: Piece<'_>, document: &Value, faulty: &[String]) {
        let block: Option<SuiteBlock> = self.block(piece, document, "suite", faulty);
        let Some(block) = block else { return };
        self.suite.info = SuiteInfo {
            project: super::text(document, "project").unwrap_or_default().to_owned(),
            name: block.name,
            description: block.description,
            tags: block.tags,
            config_path: Some(piece.source.name().to_owned()),
            ..SuiteInfo::default()
        };
    }

    fn providers(&mut self, piece: Piece<'_>, document: &Value, faulty: &[String]) {
        for (key, config) in super::object(document, "providers").into_iter().flatten() {
            let Some((registration, own)) =
                kindlm_providers::configured(self.known_providers, key, config)
            else {
                continue;
            };
            let at = format!("/providers/{}", pointer::segment(key));
            // A broken provider is still one that models may refer to.
            self.suite.providers.insert(key.clone(), config.clone());
            if is_faulty(faulty, &at) {
                continue;
            }
            let problems = match registration.kind {
                Kind::Http(read) => read(&own).err(),
                Kind::Special(read) => read(&own).err(),
            };
            self.sink.report(piece, &at, problems.unwrap_or_default());
            for (name, problem) in kindlm_providers::named_vars(self.known_providers, key, config) {
                let mut diagnostic = piece.problem(problem.under(&at));
                if self.is_translated {
                    diagnostic = diagnostic.into_warning();
                }
                self.wanted.push((name, diagnostic));
            }
        }
    }

    fn gates(&mut self, piece: Piece<'_>) {
        let value = piece.root.get("gates").map_or_else(|| json!({}), Node::to_json);
        let Value::Object(block) = value else { return };
        let (gates, problems) = gates::compile_with(self.gate_registry, &block);
        self.suite.gates = gates;
        for problem in problems {
            let code = match problem.place {
                Place::Key => Code::UNKNOWN_KEY,
                Place::Value => Code::INVALID_VALUE,
            };
            let mut diagnostic = piece.problem(problem.under("/gates"));
            diagnostic.code = code;
            if code == Code::UNKNOWN_KEY {
                diagnostic = diagnostic.with_label("not known here");
            }
            self.sink.push(diagnostic);
        }
    }

    /// How traces are received and read, and the block whose feature does not exist yet.
    fn later(&mut self, piece: Piece<'_>, document: &Value, faulty: &[String]) {
        if let Some(trace) = self.block::<TraceBlock>(piece, document, "trace", faulty) {
            let trace = trace.settings();
            let pattern = trace.filter.name_pattern.as_deref();
            if let Some(Err(err)) = pattern.map(Pattern::compile) {
                self.sink.report(piece, "", vec![err.problem("/trace/spanFilter/namePattern")]);
            }
            self.suite.trace = trace;
        }
        if let Some(upload) = self.block::<UploadBlock>(piece, document, "upload", faulty) {
            let patterns = upload.redact_patterns.iter().enumerate();
            let problems: Vec<Problem> = patterns
                .filter_map(|(index, pattern)| {
                    let err = Pattern::compile(pattern).err()?;
                    Some(err.problem(format!("/upload/redactPatterns/{index}")))
                })
                .collect();
            self.sink.report(piece, "", problems);
            let message = "`upload` does nothing: uploading is not part of the product yet";
            self.sink.no_effect(piece, "/upload", message);
        }
    }
}

/// The document with the parts that are checked item by item cut to whether they are empty.
fn outline(root: &Node) -> Value {
    if !matches!(root.kind, Yaml::Mapping(_)) {
        return match root.kind {
            Yaml::List(_) => json!([]),
            _ => root.to_json(),
        };
    }
    let properties = SHAPES.root.schema().get("properties");
    let is_known = |key: &str| properties.is_some_and(|it| it.get(key).is_some());
    let mut unknown = 0;
    let mut map = Map::new();
    for (key, node) in root.entries() {
        let value = if OPEN.contains(&&*key.name) {
            match &node.kind {
                Yaml::List(items) if !items.is_empty() => json!([0]),
                Yaml::Mapping(entries) if !entries.is_empty() => json!({"_": 0}),
                Yaml::List(_) => json!([]),
                Yaml::Mapping(_) => json!({}),
                _ => node.to_json(),
            }
        } else if is_known(&key.name) {
            node.to_json()
        } else {
            unknown += 1;
            if unknown > UNKNOWN {
                continue;
            }
            Value::Null
        };
        map.insert(key.name.to_string(), value);
    }
    Value::Object(map)
}

/// Puts in what a suite of agents, or of tests that ask no model, may do without; gives back what that was.
fn lend(document: &mut Value, asks_nobody: bool) -> Vec<&'static str> {
    let Value::Object(map) = document else { return Vec::new() };
    if !asks_nobody && map.get("agents").is_none_or(Value::is_null) {
        return Vec::new();
    }
    put_in(map, [("models", json!([0])), ("prompts", json!({"_": 0}))])
}

/// Puts in what a file that only names models may do without; gives back what that was.
fn lend_suite(document: &mut Value) -> Vec<&'static str> {
    let Value::Object(map) = document else { return Vec::new() };
    let (suite, tests) = (json!({"name": "models"}), json!([0]));
    let wanted = [("project", json!("models")), ("suite", suite), ("tests", tests)];
    let mut lent = put_in(map, wanted);
    lent.extend(put_in(map, [("prompts", json!({"_": 0}))]));
    lent
}

/// Puts in the keys that are not there; gives back which these were.
fn put_in<const N: usize>(
    map: &mut Map<String, Value>,
    wanted: [(&'static str, Value); N],
) -> Vec<&'static str> {
    let missing = wanted.into_iter().filter(|(key, _)| !map.contains_key(*key)).collect::<Vec<_>>();
    missing
        .into_iter()
        .map(|(key, value)| {
            map.insert(key.to_owned(), value);
            key
        })
        .collect()
}

fn take_back(document: &mut Value, lent: &[&str]) {
    if let Value::Object(map) = document {
        for key in lent {
            map.shift_remove(*key);
        }
    }
}

/// True if something at or below a pointer is wrong.
pub(super) fn is_faulty(faulty: &[String], at: &str) -> bool {
    faulty
        .iter()
        .filter_map(|it| it.strip_prefix(at))
        .any(|it| it.is_empty() || it.starts_with('/'))
}

fn compliance(block: ComplianceBlock) -> Compliance {
    let metadata = block.metadata;
    Compliance {
        enabled: block.enabled,
        output_dir: block.output_dir,
        info: ComplianceInfo {
            framework: block.framework.as_str().to_owned(),
            system_name: metadata.system_name,
            system_version: metadata.system_version,
            risk_level: metadata.risk_level.map(RiskLevel::as_str).map(str::to_owned),
            operator: metadata.operator,
            intended_purpose: metadata.intended_purpose,
            data_governance_notes: metadata.data_governance_notes,
        },
    }
}

/// Takes out the providers that the shape does not know: those that say what they are by `type`, and those of the caller.
fn take_typed(known: &Providers, document: &mut Value) -> Vec<(String, Value)> {
    let Some(Value::Object(providers)) = document.get_mut("providers") else { return Vec::new() };
    let is_typed = |name: &str, config: &Value| {
        config.get(TYPE).is_some()
            || kindlm_providers::find(name).is_none() && known.find(name).is_some()
    };
    let names: Vec<String> = providers
        .iter()
        .filter(|(name, it)| is_typed(name, it))
        .map(|(name, _)| name.clone())
        .collect();
    let typed: Vec<(String, Value)> = names
        .into_iter()
        .filter_map(|name| providers.shift_remove(&name).map(|config| (name, config)))
        .collect();
    if providers.is_empty()
        && !typed.is_empty()
        && let Value::Object(map) = document
    {
        map.shift_remove("providers");
    }
    typed
}

fn put_back(document: &mut Value, typed: Vec<(String, Value)>) {
    if typed.is_empty() {
        return;
    }
    if let Value::Object(map) = document
        && let Value::Object(providers) = map.entry("providers").or_insert_with(|| json!({}))
    {
        providers.extend(typed);
    }
}

/// What is wrong with the shape of a provider that says what it is.
fn typed_problems(known: &Providers, name: &str, config: &Value) -> Vec<Problem> {
    let at = format!("/providers/{}", pointer::segment(name));
    let Some((registration, own)) = kindlm_providers::configured(known, name, config) else {
        let at = format!("{at}/{TYPE}");
        let ids = known.ids();
        let problem = match config.get(TYPE).and_then(Value::as_str) {
            Some(kind) => Problem::new(at, format!("there is no provider `{kind}`"))
                .with_help(suggest(kind, "providers", ids)),
            None => Problem::new(at, "expected the name of a provider".to_owned())
                .with_help(suggest("", "providers", ids)),
        };
        return vec![problem];
    };
    let problems = Shape::generate(registration.schema).problems(&own);
    problems.into_iter().map(|it| it.under(&at)).collect()
}
