//! `assertions`: the minimum pass rate of single assertions.

use kindlm_types::{AssertionResult, PROMPT_ASSERTION, Verdict, prompt_assertion_id};

use super::named::{self, Counts, PerName, Subject};
use super::{Meta, Options, Registration, Threshold};

pub(crate) static REGISTRATION: Registration = Registration {
    meta: Meta {
        id: "assertions",
        summary: "The lowest pass rate of single assertions, by id or label.",
        since: "0.1.0",
        threshold: Threshold::Names,
        default: None,
        docs: include_str!("docs.md"),
    },
    options: Some(Options {
        are_recorded: true,
        schema: named::schema,
        build: |object| named::build(&PER_NAME, object),
    }),
    build: |threshold| named::nameless(REGISTRATION.meta.id, threshold),
};

static PER_NAME: PerName = PerName {
    id: "assertions",
    noun: "Assertion",
    missing: "no result passed or failed, so the gate cannot hold",
    subject: |name| Subject::Assertion(name),
    count: |case, name| {
        let mut counts = Counts::default();
        let results = case.executions.iter().flat_map(|it| &it.results);
        results.for_each(|it| count(it, name, &mut counts));
        counts
    },
};

/// Counts a result, and the results inside a set, if their name is `name`.
fn count(result: &AssertionResult, name: &str, counts: &mut Counts) {
    result.parts().iter().for_each(|it| count(it, name, counts));
    if !is_named(result, name) {
        return;
    }
    match result.verdict {
        Verdict::Pass => {
            counts.passed += 1;
            counts.judged += 1;
        }
        Verdict::Fail { .. } => counts.judged += 1,
        Verdict::Errored { .. } => counts.errored += 1,
        Verdict::Skipped { .. } => {}
    }
}

fn is_named(result: &AssertionResult, name: &str) -> bool {
    let is_rule = || result.assertion == PROMPT_ASSERTION && prompt_assertion_id(result) == name;
    // The aggregate score is not a check.
    result.is_check() && (result.written_id() == name || result.label == name || is_rule())
}
