//! The blocks of the document that do not depend on other blocks.

use std::time::Duration;

use kindlm_assertions::ScriptsBlock;
use kindlm_assertions::pattern::Pattern;
use kindlm_engine::derived::{Derivation, Formula};
use kindlm_engine::{Compliance, Defaults, IgnoredMutants, PatternError, gates};
use kindlm_providers::Kind;
use kindlm_source::{Code, Node, Piece};
use kindlm_types::{ComplianceInfo, MemberPart, Problem, SuiteInfo, pointer};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::{Resolved, TEMPLATES};
use crate::load::check::Checked;
use crate::load::{inline, object, repeat, text};
use crate::written::{
    ComplianceBlock, DefaultsBlock, DerivedEntry, MutateBlock, RiskLevel, SuiteBlock, TraceBlock,
    UploadBlock,
};

impl Resolved<'_> {
    /// Reads the blocks that do not depend on other blocks.
    pub(in crate::load) fn blocks(&mut self, piece: Piece<'_>, checked: &Checked) {
        let document = &checked.document;
        self.suite_block(piece, checked);
        self.providers(piece, checked);
        self.agents(piece, checked);
        self.gates(piece);
        if let Some(block) = self.block::<DefaultsBlock>(piece, checked, "defaults") {
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
            let at = "/defaults/repeat";
            self.default_until = repeat::until(&mut self.sink, piece, at, block.repeat);
            self.defaults = block;
        }
        if let Some(block) = self.block::<ComplianceBlock>(piece, checked, "compliance") {
            self.suite.compliance = Some(compliance(block));
        }
        self.scripts(piece, checked);
        self.derived_metrics(piece, checked);
        self.reports(piece, checked);
        self.extensions(piece, checked);
        self.mutate(piece, checked);
        self.later(piece, checked);
    }

    /// Reads a block. Returns `None` if it is absent or has errors.
    fn block<T: DeserializeOwned>(
        &mut self,
        piece: Piece<'_>,
        checked: &Checked,
        key: &str,
    ) -> Option<T> {
        let value = checked.document.get(key)?;
        if checked.is_faulty(&format!("/{key}")) {
            return None;
        }
        self.sink.parse_value(piece, &format!("/{key}"), value.clone())
    }

    /// Reads the permissions of scripts, and the checks of `assertionTemplates`.
    fn scripts(&mut self, piece: Piece<'_>, checked: &Checked) {
        if let Some(block) = self.block::<ScriptsBlock>(piece, checked, "scripts") {
            self.sink.report(piece, "/scripts", block.problems());
            self.sink.report(piece, "/scripts", block.unreadable_folders(self.around.files));
            self.setup.scripts = self.setup.scripts.with(&block);
        }
        let permitted = &self.setup.scripts.permissions.env;
        let known = permitted.iter().map(|it| (it.clone(), (self.around.env)(it).into()));
        self.setup.env = known.collect();
        let templates = object(&checked.document, TEMPLATES);
        self.setup.assertion_templates = templates.cloned().unwrap_or_default();
        self.suite.scripts = self.setup.scripts.clone();
        self.suite.assertion_templates = self.setup.assertion_templates.clone();
    }

    /// Reads the formulas of metrics that reports compute from named scores.
    fn derived_metrics(&mut self, piece: Piece<'_>, checked: &Checked) {
        let key = "derivedMetrics";
        let entries: Option<Vec<DerivedEntry>> = self.block(piece, checked, key);
        for (index, entry) in entries.into_iter().flatten().enumerate() {
            if let Err(err) = Formula::parse(&entry.value) {
                let at = format!("/{key}/{index}/value");
                let problem = Problem::new("", format!("the formula cannot be read: {err}"));
                let help = "a formula has names of scores, numbers, `+ - * / % ^`, comparisons, `a ? b : c` and functions such as `max(a, b)`";
                self.sink.report(piece, &at, vec![problem.with_help(help)]);
                continue;
            }
            let derivation = Derivation::new(entry.name, entry.value);
            self.suite.derived_metrics.push(derivation);
        }
    }

    /// Reads the paths of reports. An unknown reporter is an error, unless the caller lists no reporters.
    fn reports(&mut self, piece: Piece<'_>, checked: &Checked) {
        if checked.is_faulty("/reports") {
            return;
        }
        for (reporter, path) in object(&checked.document, "reports").into_iter().flatten() {
            let is_known = self.around.reporters.is_empty()
                || self.around.reporters.contains(&reporter.as_str());
            if !is_known {
                let known = self.around.reporters.iter().copied();
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

    fn suite_block(&mut self, piece: Piece<'_>, checked: &Checked) {
        let block: Option<SuiteBlock> = self.block(piece, checked, "suite");
        let Some(block) = block else { return };
        self.suite.info = SuiteInfo {
            project: text(&checked.document, "project").unwrap_or_default().to_owned(),
            name: block.name,
            description: block.description,
            tags: block.tags,
            config_path: Some(piece.source.name().to_owned()),
            ..SuiteInfo::default()
        };
    }

    fn providers(&mut self, piece: Piece<'_>, checked: &Checked) {
        if let Some(config) = self.around.inline {
            let known = self.around.known_providers;
            let usable =
                config.providers.iter().filter(|(key, it)| inline::may_use(known, key, it));
            self.suite.providers = usable.map(|(key, it)| (key.clone(), it.clone())).collect();
            return;
        }
        for (key, config) in object(&checked.document, "providers").into_iter().flatten() {
            let Some((registration, own)) =
                kindlm_providers::configured(self.around.known_providers, key, config)
            else {
                continue;
            };
            let at = format!("/providers/{}", pointer::segment(key));
            // Store a provider with errors too. Otherwise each model that refers to it would cause a second error.
            self.suite.providers.insert(key.clone(), config.clone());
            if checked.is_faulty(&at) {
                continue;
            }
            let problems = match registration.kind {
                Kind::Http(read) => read(&own).err(),
                Kind::Socket(read) => read(&own).err(),
                Kind::Special(read) => read(&own).err(),
            };
            self.sink.report(piece, &at, problems.unwrap_or_default());
            for (name, problem) in
                kindlm_providers::named_vars(self.around.known_providers, key, config)
            {
                let mut diagnostic = piece.problem(problem.under(&at));
                if self.around.is_translated {
                    diagnostic = diagnostic.into_warning();
                }
                self.wanted.push((name, diagnostic));
            }
        }
    }

    fn gates(&mut self, piece: Piece<'_>) {
        let value = piece.root.get("gates").map_or_else(|| json!({}), Node::to_json);
        let Value::Object(block) = value else { return };
        let (gates, problems) = gates::compile_with(self.around.gate_registry, &block);
        self.suite.gates = gates;
        for problem in problems {
            let code = match problem.place {
                MemberPart::Key => Code::UNKNOWN_KEY,
                MemberPart::Value => Code::INVALID_VALUE,
            };
            let mut diagnostic = piece.problem(problem.under("/gates"));
            diagnostic.code = code;
            if code == Code::UNKNOWN_KEY {
                diagnostic = diagnostic.with_label("unknown here");
            }
            self.sink.push(diagnostic);
        }
    }

    /// Reads the mutants that mutation scores leave out.
    fn mutate(&mut self, piece: Piece<'_>, checked: &Checked) {
        let Some(block) = self.block::<MutateBlock>(piece, checked, "mutate") else { return };
        for (index, entry) in block.ignore.into_iter().enumerate() {
            let tests: Result<_, PatternError> = entry.test.as_deref().map(str::parse).transpose();
            match tests {
                Ok(tests) => {
                    let ignored = IgnoredMutants::new(entry.operator, tests);
                    self.suite.ignored_mutants.push(ignored);
                }
                Err(err) => {
                    let at = format!("/mutate/ignore/{index}/test");
                    self.sink.report(piece, "", vec![Problem::new(at, err.to_string())]);
                }
            }
        }
    }

    /// Reads the settings of `trace`, and checks `upload`, which has no effect yet.
    fn later(&mut self, piece: Piece<'_>, checked: &Checked) {
        if let Some(trace) = self.block::<TraceBlock>(piece, checked, "trace") {
            let trace = trace.settings();
            let pattern = trace.filter.name_pattern.as_deref();
            if let Some(Err(err)) = pattern.map(Pattern::compile) {
                self.sink.report(piece, "", vec![err.problem("/trace/spanFilter/namePattern")]);
            }
            self.suite.trace = trace;
        }
        if let Some(upload) = self.block::<UploadBlock>(piece, checked, "upload") {
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
            provider: metadata.provider,
            deployer: metadata.deployer,
            intended_purpose: metadata.intended_purpose,
            data_governance_notes: metadata.data_governance_notes,
        },
    }
}
