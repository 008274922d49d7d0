//! The part of the page after the cases: the facts of the run.

use askama::Template;
use kindlm_types::{AnyReport, Cost, JudgeInfo, JudgeSpending, ModelInfo, SuiteTotals, Summary};

use super::distribution;
use super::overview::started;
use crate::amount::{cost, count, duration, judge_cost, plural, reported};
use crate::plain::{head, one_line};

/// The part of the page after the last case.
#[derive(Template)]
#[template(path = "html/end.html")]
pub(super) struct End<'a> {
    /// The comparison as JSON; empty without a comparison.
    compared: &'a str,
    facts: Vec<(&'static str, String)>,
    distributions: Vec<distribution::Row>,
    models: Vec<Requested>,
    judges: Vec<Judges>,
    judge_costs: Vec<JudgeCost>,
    inputs: Vec<Input>,
    made_by: String,
}

/// The judges of a kind of check.
struct Judges {
    check: String,
    models: String,
    samples: u32,
    rules: String,
    /// The agreement with people.
    agreement: String,
}

/// The answers, tokens and cost of a judge.
struct JudgeCost {
    judge: String,
    answers: String,
    tokens: String,
    cost: String,
}

/// A model as it was requested.
struct Requested {
    id: String,
    provider: String,
    name: String,
    params: String,
}

/// A prompt or a set of prompt assertions.
struct Input {
    name: String,
    kind: &'static str,
    digest: String,
    details: String,
}

impl<'a> End<'a> {
    pub(super) fn new(report: &AnyReport<'_>, summary: &Summary, compared: &'a str) -> Self {
        let run = &report.run;
        let mut made_by = format!("Made by KindLM {}", run.version);
        if !run.platform.is_empty() {
            made_by = format!("{made_by} on {}", run.platform);
        }
        let models = report.models.iter().map(|it| Requested {
            id: one_line(&it.id),
            provider: one_line(&it.provider),
            name: one_line(&it.name),
            params: params(it),
        });
        Self {
            compared,
            facts: facts(report, &summary.totals),
            distributions: distribution::rows(summary),
            models: models.collect(),
            judges: report.suite.judges.iter().map(judges).collect(),
            judge_costs: summary.judges.iter().map(judge_cost_of).collect(),
            inputs: inputs(report),
            made_by: one_line(made_by.trim_end()) + ".",
        }
    }
}

fn judge_cost_of(it: &JudgeSpending) -> JudgeCost {
    let unknown = u32::try_from(it.unknown).unwrap_or(u32::MAX);
    JudgeCost {
        judge: one_line(&it.judge),
        answers: count(it.answers),
        tokens: reported(it.tokens).map_or_else(|| "not reported".to_owned(), count),
        cost: cost(Cost { known_usd: it.known_usd, unknown }),
    }
}

fn judges(it: &JudgeInfo) -> Judges {
    Judges {
        check: one_line(&it.check),
        models: one_line(&crate::judges::named(it)),
        samples: it.samples,
        rules: one_line(&it.rules.join("; ")),
        agreement: one_line(&crate::judges::agreement(it)),
    }
}

fn facts(report: &AnyReport<'_>, totals: &SuiteTotals) -> Vec<(&'static str, String)> {
    let (run, suite) = (&report.run, &report.suite);
    let shard = report.shard.as_ref().map(|it| format!("{} of {}", it.index, it.count));
    let took = if run.duration_ms > 0.0 { duration(run.duration_ms) } else { String::new() };
    let facts = [
        ("Run", run.id.clone()),
        ("Started", started(report)),
        ("Took", took),
        (
            "Cost of the models",
            if totals.executions > 0 { cost(totals.cost) } else { String::new() },
        ),
        ("Cost of the judges", judge_cost(totals).unwrap_or_default()),
        ("Commit", run.git_commit.clone().unwrap_or_default()),
        ("Config", suite.config_path.clone().unwrap_or_default()),
        ("SHA-256 of the config", suite.config_sha256.clone().unwrap_or_default()),
        ("SHA-256 of the suite", suite.suite_digest.clone().unwrap_or_default()),
        ("Tags of the suite", suite.tags.join(", ")),
        ("Shard", shard.unwrap_or_default()),
        ("KindLM", run.version.clone()),
        ("Platform", run.platform.clone()),
    ];
    let known = facts.into_iter().filter(|(_, value)| !value.is_empty());
    known.map(|(name, value)| (name, one_line(&value))).collect()
}

fn params(model: &ModelInfo) -> String {
    let json = serde_json::to_value(&model.params).unwrap_or_default();
    let set = json.as_object().into_iter().flatten().filter(|(_, value)| !value.is_null());
    let text: Vec<String> = set.map(|(key, value)| format!("{key} {value}")).collect();
    one_line(head(&text.join(", "), 400))
}

fn inputs(report: &AnyReport<'_>) -> Vec<Input> {
    let prompts = report.suite.prompts.iter().map(|it| Input {
        name: one_line(&it.name),
        kind: "prompt",
        digest: one_line(&it.digest),
        details: one_line(&it.assertion_sets.join(", ")),
    });
    let sets = report.suite.assertion_sets.iter().map(|it| {
        let mut details = vec![plural(it.assertions, "rule")];
        details.extend(it.version.as_ref().map(|it| format!("version {it}")));
        details.extend(it.file.clone());
        Input {
            name: one_line(&it.name),
            kind: "set of rules",
            digest: one_line(&it.digest),
            details: one_line(&details.join(" · ")),
        }
    });
    prompts.chain(sets).collect()
}
