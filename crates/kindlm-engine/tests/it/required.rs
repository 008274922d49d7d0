//! Required checks: the behaviour after a required check that does not hold.

use std::sync::Arc;

use kindlm_assertions::Check;
use kindlm_engine::{ConversationTurn, RunOptions, Suite, run};
use kindlm_types::{ExecutionResult, Outcome};

use crate::support::{Fake, asks, close, edit, last_user, reply, says, suite};

fn required(check: Check) -> Check {
    let mut check = check;
    check.options.require = true;
    check
}

fn skipped(check: Check, reason: &str) -> Check {
    let mut check = check;
    check.options.skip = Some(reason.to_owned());
    check
}

fn turn(label: &str, user: &str, checks: Vec<Check>) -> ConversationTurn {
    ConversationTurn::new(label, Some(user.to_owned()), checks.into())
}

fn expecting(checks: Vec<Check>, turns: Vec<ConversationTurn>) -> Suite {
    let mut suite = suite(&["hi"]);
    edit(&mut suite.cases[0], |it| {
        it.checks = checks.into();
        it.conversation = turns;
    });
    suite
}

async fn ran(suite: &Suite, fake: &Fake) -> ExecutionResult {
    let report = run(suite, &RunOptions::default(), fake).await.unwrap();
    report.cases[0].executions[0].clone()
}

/// Returns `turn | status | label | message` for every result.
fn lines(result: &ExecutionResult) -> Vec<String> {
    let lines = result.results.iter().map(|it| {
        let turn = it.turn.as_deref().unwrap_or("-");
        let message = it.verdict.message().unwrap_or_default();
        format!("{turn} | {} | {} | {message}", it.verdict.status(), it.label)
    });
    lines.collect()
}

/// Builds a model that repeats the user's message; as a judge for [`asks`], it replies 1.
fn parrot() -> Fake {
    Fake::new(|_, prompt| {
        let judging = prompt.messages.first().is_some_and(|it| it.content == "You judge.");
        Ok(reply(if judging { "1" } else { last_user(prompt) }))
    })
}

#[tokio::test(start_paused = true)]
async fn nothing_is_judged_after_a_required_check_that_fails() {
    let fake = parrot();
    let checks = vec![says("nothing"), required(says("bye")), asks("polite?"), says("hi")];
    let result = ran(&expecting(checks, vec![]), &fake).await;
    assert_eq!(
        lines(&result),
        [
            "- | failed | Says nothing | not said",
            "- | failed | Says bye | not said",
            "- | skipped | judge | not run: the required check `Says bye` does not hold",
            "- | skipped | says | not run: the required check `Says bye` does not hold",
        ]
    );
    assert_eq!(result.outcome, Outcome::Failed);
    assert_eq!(fake.asked(), ["hi"], "no judge was asked");
}

#[tokio::test(start_paused = true)]
async fn a_required_check_that_holds_changes_nothing() {
    let fake = parrot();
    let checks = vec![required(says("hi")), asks("polite?"), required(says("h"))];
    let result = ran(&expecting(checks, vec![]), &fake).await;
    assert_eq!(result.outcome, Outcome::Passed);
    assert_eq!(result.results.len(), 3);
    assert_eq!(fake.asked(), ["hi", "polite? hi"]);
}

#[tokio::test(start_paused = true)]
async fn panic_in_a_required_check_keeps_the_conversation() {
    let fake = parrot();
    let turns = vec![
        turn("first", "one", vec![required(says("panic!"))]),
        turn("second", "two", vec![says("two")]),
    ];
    let result = ran(&expecting(vec![], turns), &fake).await;
    assert_eq!((result.outcome, result.execution.turns.len()), (Outcome::Errored, 1));
    assert!(result.error.unwrap().message().starts_with("a check panicked"));
    assert_eq!(result.judge_cost_usd, None);
    assert_eq!(fake.asked(), ["one"]);
}

#[tokio::test(start_paused = true)]
async fn a_failed_required_turn_ends_the_conversation() {
    let fake = parrot();
    let turns = vec![
        turn("first", "one", vec![asks("polite?"), required(says("one"))]),
        turn("second", "two", vec![required(says("three")), says("two")]),
        turn("third", "three", vec![says("three")]),
    ];
    let result = ran(&expecting(vec![says("three")], turns), &fake).await;
    assert_eq!(
        lines(&result),
        [
            "first | passed | polite? | ",
            "first | passed | Says one | ",
            "second | failed | Says three | not said",
            "second | skipped | says | not run: the required check `Says three` does not hold",
            "third | skipped | says | not run: the required check `second: Says three` does not hold",
            "- | skipped | says | not run: the required check `second: Says three` does not hold",
        ]
    );
    assert_eq!(result.outcome, Outcome::Failed);
    assert_eq!(fake.asked(), ["one", "polite? one", "two"]);
    // The judge was asked once, before the second turn, and its cost counts once.
    assert!(close(result.judge_usage.total_tokens.try_into().map_or(0.0, u32::into), 15.0));
}

#[tokio::test(start_paused = true)]
async fn an_errored_required_check_ends_the_conversation() {
    let fake = Fake::new(|_, prompt| {
        let judging = prompt.messages.first().is_some_and(|it| it.content == "You judge.");
        Ok(reply(if judging { "no number" } else { last_user(prompt) }))
    });
    let turns = vec![
        turn("first", "one", vec![says("zero"), required(asks("polite?"))]),
        turn("second", "two", vec![says("two")]),
    ];
    let result = ran(&expecting(vec![], turns), &fake).await;
    assert_eq!(
        lines(&result),
        [
            "first | failed | Says zero | not said",
            "first | errored | polite? | no number",
            "second | skipped | says | not run: the required check `first: polite?` could not be judged",
        ]
    );
    // The failure stays visible although the execution is errored.
    assert_eq!(result.outcome, Outcome::Errored);
    assert!(!fake.asked().contains(&"two".to_owned()));
}

#[tokio::test(start_paused = true)]
async fn a_mean_score_does_not_replace_a_required_check() {
    let mut suite = expecting(vec![says("hi"), says("h"), required(says("bye"))], vec![]);
    suite.cases[0].threshold = Some(0.5);
    assert_eq!(ran(&suite, &parrot()).await.outcome, Outcome::Failed);
    let mut suite = expecting(vec![says("hi"), says("h"), says("bye")], vec![]);
    suite.cases[0].threshold = Some(0.5);
    assert_eq!(ran(&suite, &parrot()).await.outcome, Outcome::Passed);
}

#[tokio::test(start_paused = true)]
async fn a_skipped_check_asks_no_judge_and_has_a_reason() {
    let fake = parrot();
    let checks = vec![skipped(asks("polite?"), "no judge yet"), says("hi")];
    let suite = expecting(checks, vec![]);
    let report = run(&suite, &RunOptions::default(), &fake).await.unwrap();
    let case = &report.cases[0];
    assert_eq!(
        lines(&case.executions[0]),
        ["- | skipped | judge | no judge yet", "- | passed | Says hi | "]
    );
    assert_eq!(fake.asked(), ["hi"]);
    // A skipped check is neither among the passed checks nor among the judged checks.
    assert_eq!((case.checks.probabilistic_passed, case.checks.probabilistic_total), (0, 0));
    assert!(case.scores.iter().all(|it| it.assertion != "judge"));
}

#[tokio::test(start_paused = true)]
async fn required_checks_may_be_shared_by_models() {
    let checks: Arc<[Check]> = vec![required(says("bye")), says("hi")].into();
    let mut suite = suite(&["hi"]);
    suite.cases[0].models = ["a".to_owned(), "b".to_owned()].into();
    edit(&mut suite.cases[0], |it| it.checks = checks);
    let report = run(&suite, &RunOptions::default(), &parrot()).await.unwrap();
    for case in &report.cases {
        assert_eq!(case.executions[0].results.len(), 2);
        assert_eq!(case.outcome, Outcome::Failed);
    }
}
