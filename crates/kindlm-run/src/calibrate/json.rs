//! Renders a calibration as one JSON object, for programs.

use kindlm_engine::Model;
use kindlm_stats::{Confusion, Interval, Tally, Undefined};
use kindlm_store::OwnNoise;
use kindlm_types::Usage;
use serde_json::{Map, Value, json};

use super::findings::CONFIDENCE;
use super::{Correction, Findings, JudgeOutcome};
use crate::judge_setup::Panel;

/// The name of the interval method in the JSON object, if each output has one labelled verdict.
const ONE_MORE: &str = "one more output in each cell";

/// The name of the interval method in the JSON object, if an output has several labelled verdicts.
const JACKKNIFE: &str = "jackknife over outputs";

/// The judge, the inputs, the time and the cost of a calibration.
#[derive(Clone, Debug)]
pub(super) struct About {
    /// The judge, as JSON.
    pub(super) judge: Value,
    /// The id of the check.
    pub(super) check: String,
    /// The digests of the judge's instructions.
    pub(super) prompts: Vec<String>,
    /// The name of the file of labels.
    pub(super) labels: String,
    /// The digest of the file's content.
    pub(super) labels_digest: String,
    /// The start of the calibration, in RFC 3339.
    pub(super) calibrated_at: String,
    /// The cost in US dollars; `None` if a price is unknown.
    pub(super) cost_usd: Option<f64>,
    /// The tokens that the judge used.
    pub(super) usage: Usage,
}

/// Returns the models and settings of the judge, as JSON.
pub(super) fn judge(panel: &Panel<'_>) -> Value {
    let model = |it: &&Model| json!({"id": it.id, "provider": it.provider, "model": it.name});
    let models: Vec<Value> = panel.models.iter().map(model).collect();
    let mut judge = match models.as_slice() {
        [only] => only.clone(),
        _ => json!({ "models": models }),
    };
    merge(&mut judge, Value::Object(panel.stored().settings));
    judge
}

/// Returns the whole calibration as JSON.
///
/// A statistic that is undefined becomes an object whose `undefined` names the reason.
pub(super) fn as_json(
    about: Option<&About>,
    findings: Option<&Findings>,
    corrections: &[Correction],
) -> Value {
    let mut all = Map::new();
    if let Some(about) = about {
        all.insert("judge".to_owned(), about.judge.clone());
        all.insert("check".to_owned(), about.check.as_str().into());
        all.insert("prompts".to_owned(), about.prompts.clone().into());
        let labels = json!({"file": about.labels, "digest": about.labels_digest});
        all.insert("labels".to_owned(), labels);
        all.insert("calibratedAt".to_owned(), about.calibrated_at.as_str().into());
        all.insert("kindlmVersion".to_owned(), env!("CARGO_PKG_VERSION").into());
        all.insert("costUsd".to_owned(), about.cost_usd.into());
        all.insert("tokens".to_owned(), about.usage.total_tokens.into());
    }
    if let Some(findings) = findings {
        add_findings(&mut all, findings);
    }
    let corrected = corrections.iter().map(correction).collect();
    all.insert("corrected".to_owned(), Value::Array(corrected));
    Value::Object(all)
}

fn add_findings(all: &mut Map<String, Value>, findings: &Findings) {
    let Findings { confusion, .. } = findings;
    all.insert("labelled".to_owned(), findings.labelled().into());
    all.insert("errored".to_owned(), findings.errored.into());
    all.insert("unlabelled".to_owned(), findings.unlabelled().1.into());
    let method = if findings.has_sets { JACKKNIFE } else { ONE_MORE };
    if let Value::Object(numbers) = numbers(confusion, findings.interval, method) {
        all.extend(numbers);
    }
    all.insert("ownNoise".to_owned(), own_noise(findings.own_noise));
    let groups = findings.groups.iter().map(|(about, confusion)| {
        let mut group = json!({ "about": about });
        merge(&mut group, numbers(confusion, confusion.kappa_interval(CONFIDENCE), ONE_MORE));
        group
    });
    all.insert("groups".to_owned(), groups.collect());
    let best = findings.best.as_ref().map(|best| match best {
        Ok(best) => json!({
            "threshold": best.threshold, "kappa": best.kappa, "heldOutKappa": best.held_out_kappa,
            "confusion": counts(&best.confusion),
        }),
        Err(why) => undefined(*why),
    });
    all.insert("bestThreshold".to_owned(), best.unwrap_or(Value::Null));
    let weighted = findings.weighted.map(|it| it.map_or_else(undefined, Value::from));
    all.insert("weightedKappa".to_owned(), weighted.unwrap_or(Value::Null));
    let samples = findings.samples.iter().map(|sample| {
        let mut row = json!({ "line": sample.line, "about": sample.about, "human": sample.human });
        merge(&mut row, match &sample.judge {
            JudgeOutcome::Decided { pass, score, reasoning } => {
                json!({ "judge": if *pass { "pass" } else { "fail" }, "score": score, "reasoning": reasoning })
            }
            JudgeOutcome::Errored { message, .. } => json!({ "judge": "errored", "message": message }),
        });
        row
    });
    all.insert("samples".to_owned(), samples.collect());
}

fn merge(into: &mut Value, from: Value) {
    if let (Value::Object(into), Value::Object(from)) = (into, from) {
        into.extend(from);
    }
}

fn counts(confusion: &Confusion) -> Value {
    let Confusion { both_pass, only_human, only_judge, both_fail } = confusion;
    json!({ "bothPass": both_pass, "onlyHuman": only_human, "onlyJudge": only_judge, "bothFail": both_fail })
}

fn numbers(confusion: &Confusion, interval: Result<Interval, Undefined>, method: &str) -> Value {
    json!({
        "confusion": counts(confusion),
        "agreement": rate(confusion.agreement()),
        "baseRate": rate(confusion.base_rate()),
        "sensitivity": rate(confusion.sensitivity()),
        "specificity": rate(confusion.specificity()),
        "kappa": kappa(confusion, interval, method),
    })
}

fn kappa(confusion: &Confusion, interval: Result<Interval, Undefined>, method: &str) -> Value {
    let kappa = match confusion.kappa(CONFIDENCE) {
        Ok(kappa) => kappa,
        Err(why) => return undefined(why),
    };
    let method = interval.map_or_else(|why| format!("none: {why}"), |_| method.to_owned());
    let interval = interval.ok();
    json!({
        "value": kappa.value, "standardError": kappa.standard_error, "chance": kappa.chance,
        "low": interval.map(|it| it.low), "high": interval.map(|it| it.high), "interval": method,
    })
}

fn rate(tally: Result<Tally, Undefined>) -> Value {
    match tally {
        Ok(tally) => {
            let interval = tally.wilson(CONFIDENCE);
            json!({
                "value": tally.rate(), "count": tally.passed(), "total": tally.total(),
                "low": interval.low, "high": interval.high,
            })
        }
        Err(why) => undefined(why),
    }
}

fn correction(it: &Correction) -> Value {
    let by_errors = match &it.by_errors {
        Ok(it) => {
            json!({ "value": it.rate, "low": it.interval.low, "high": it.interval.high, "uncut": it.uncut })
        }
        Err(why) => undefined(*why),
    };
    let by_predictions = match &it.by_predictions {
        Ok(it) => {
            json!({ "value": it.mean, "low": it.interval.low, "high": it.interval.high, "lambda": it.lambda })
        }
        Err(why) => undefined(*why),
    };
    json!({
        "of": it.of, "check": it.check, "observed": rate(Ok(it.observed)),
        "roganGladen": by_errors, "predictionPowered": by_predictions,
    })
}

/// Returns the judge's disagreement with itself as JSON: the counts, and the upper confidence limit of the share of
/// different answers. Returns `null` if the judge was asked only once.
pub(super) fn own_noise(noise: Option<OwnNoise>) -> Value {
    let Some(noise) = noise else { return Value::Null };
    match noise.upper() {
        Ok(high) => json!({ "different": noise.different, "asked": noise.asked, "high": high }),
        Err(why) => undefined(why),
    }
}

fn undefined(why: Undefined) -> Value {
    json!({ "undefined": why.to_string() })
}
