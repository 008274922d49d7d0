//! The specification of a run for its report: the tests with their checks, and the judges.

use std::borrow::Cow;

use kindlm_assertions::{Check, EntryOptions};
use kindlm_types::{
    CheckInfo, InstructionsInfo, JudgeIdentity, JudgeInfo, MAX_SPECIFIED_TESTS, SuiteInfo,
    TestInfo, Verdict,
};
use serde_json::Value;

use crate::{Digest, Plan, Suite, TestCase, Unit, judge_of};

/// The maximum number of bytes of a check's configuration. A longer configuration is replaced by its digest.
const CONFIG_BYTES: usize = 1_000;

/// Adds the tests of a plan to the data for reports, and the judges of the suite with their instructions.
pub(crate) fn specify(info: &mut SuiteInfo, suite: &Suite, plan: &Plan) {
    info.tests = tests(suite, plan);
    info.judges = judges(suite);
    info.instructions = instructions(suite);
}

/// Returns the tests of a plan; none if there are more than [`MAX_SPECIFIED_TESTS`].
fn tests(suite: &Suite, plan: &Plan) -> Vec<TestInfo> {
    let of_test = || plan.units.chunk_by(|one, next| one.case == next.case);
    if of_test().take(MAX_SPECIFIED_TESTS + 1).count() > MAX_SPECIFIED_TESTS {
        return Vec::new();
    }
    of_test().filter_map(|units| test(suite.cases.get(units.first()?.case)?, units)).collect()
}

fn test(case: &TestCase, units: &[Unit]) -> Option<TestInfo> {
    let first = units.first()?;
    let repeat = units.iter().filter(|it| it.model == first.model).count();
    let mut info = TestInfo {
        name: case.name.clone(),
        digest: case.digest.map(|it| it.to_string()),
        prompt: None,
        repeat: u32::try_from(repeat).unwrap_or(u32::MAX),
        pass_rate_min: case.pass_rate_min,
        threshold: case.threshold,
        checks: Vec::new(),
    };
    // A body that cannot be created is ignored here, because its executions report the error.
    if let Ok(body) = case.body.body() {
        info.prompt = body.prompt_name.as_deref().map(str::to_owned);
        body.checks.iter().for_each(|it| add_check(&mut info.checks, it, None));
        for turn in &body.conversation {
            turn.checks.iter().for_each(|it| add_check(&mut info.checks, it, Some(&turn.label)));
        }
    }
    Some(info)
}

/// Adds a check, and the checks inside a set.
fn add_check(checks: &mut Vec<CheckInfo>, check: &Check, turn: Option<&str>) {
    let options = &check.options;
    let label = check.without_looking(Verdict::Pass).label;
    let negated = options.negate && options.label.is_none();
    let own = EntryOptions { negate: options.negate, threshold: options.threshold };
    checks.push(CheckInfo {
        assertion: check.meta.id.to_owned(),
        label: if negated { format!("Not: {label}") } else { label },
        config: check.config.as_deref().map(shortened),
        turn: turn.map(str::to_owned),
        severity: options.severity,
        class: check.meta.class,
        threshold: own.threshold.or(check.traits.threshold),
        skip: options.skip.clone(),
    });
    for part in check.traits.parts.iter().flat_map(|it| it.iter()) {
        add_check(checks, part, turn);
    }
}

/// Returns a text, or the digest of a long text.
///
/// A cut text could end with a part of a secret, and this part would not be masked.
fn shortened(text: &str) -> String {
    if text.len() <= CONFIG_BYTES {
        return text.to_owned();
    }
    format!("{} bytes with the digest {}", text.len(), Digest::default().text(text).finish())
}

/// Returns the judges of each kind of check.
fn judges(suite: &Suite) -> Vec<JudgeInfo> {
    let default = || judge_of(&suite.models, suite.defaults.judge_model.as_deref());
    let judged = suite.judged.iter().map(|it| {
        let block = &it.judging;
        let named = block.models.clone().or_else(|| Some(vec![block.model.clone()?]));
        let models =
            named.unwrap_or_else(|| default().map(|it| it.id.clone()).into_iter().collect());
        let rules = match serde_json::to_value(block) {
            Ok(Value::Object(block)) => ["temperature", "agg", "jury", "quorum"]
                .iter()
                .filter_map(|&key| Some((key, block.get(key).filter(|it| !it.is_null())?)))
                .map(|(key, value)| {
                    format!(
                        "{key}: {}",
                        value.as_str().map_or_else(|| value.to_string(), str::to_owned)
                    )
                })
                .collect(),
            _ => Vec::new(),
        };
        let known = models.iter().filter_map(|id| suite.models.iter().find(|it| it.id == *id));
        let identities = known.map(|it| JudgeIdentity {
            id: it.id.clone(),
            provider: it.provider.clone(),
            name: it.name.clone(),
        });
        JudgeInfo {
            check: it.check.to_owned(),
            identities: identities.collect(),
            models,
            samples: block.samples.unwrap_or(1),
            rules,
            instructions: it.prompts.clone(),
            calibration: it.calibration.clone(),
        }
    });
    let mut all: Vec<JudgeInfo> = Vec::new();
    for judge in judged {
        if !all.contains(&judge) {
            all.push(judge);
        }
    }
    all
}

/// Returns the instructions of all judges, without duplicates.
fn instructions(suite: &Suite) -> Vec<InstructionsInfo> {
    let mut all: Vec<InstructionsInfo> = Vec::new();
    for (digest, text) in suite.judged.iter().flat_map(|it| it.prompts.iter().zip(&it.texts)) {
        if !all.iter().any(|it| it.digest == *digest) {
            all.push(InstructionsInfo {
                digest: digest.clone(),
                text: Cow::into_owned(text.clone()),
            });
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{CaseBody, RunOptions, plan};

    fn suite(cases: usize) -> Suite {
        let case = |index| TestCase::new(format!("test {index}"), CaseBody::command("true"));
        Suite { cases: (0..cases).map(case).collect(), ..Suite::default() }
    }

    #[test]
    fn a_large_run_lists_no_tests() {
        for (cases, listed) in
            [(2, 2), (MAX_SPECIFIED_TESTS, MAX_SPECIFIED_TESTS), (MAX_SPECIFIED_TESTS + 1, 0)]
        {
            let suite = suite(cases);
            let plan = plan(&suite, &RunOptions::default()).unwrap();
            assert_eq!(tests(&suite, &plan).len(), listed, "{cases} tests");
        }
    }

    #[test]
    fn a_test_is_listed_once_with_its_repeats() {
        let mut suite = suite(1);
        suite.models = ["a", "b"].map(|id| crate::Model::new(id, "echo", id)).into();
        suite.cases = vec![TestCase { repeat: 3, ..TestCase::prompt("greets", "hi", &["a", "b"]) }];
        let plan = plan(&suite, &RunOptions::default()).unwrap();
        let tests = tests(&suite, &plan);
        assert_eq!(tests.len(), 1);
        assert_eq!((tests[0].name.as_str(), tests[0].repeat), ("greets", 3));
    }

    #[test]
    fn a_long_configuration_is_given_by_its_digest() {
        assert_eq!(shortened("{}"), "{}");
        assert!(
            shortened(&"x".repeat(CONFIG_BYTES + 1)).starts_with("1001 bytes with the digest ")
        );
    }
}
