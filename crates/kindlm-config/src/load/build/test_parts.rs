//! The key and the digest of the parts that tests share.

use std::collections::BTreeSet;

use kindlm_engine::{Digest, Fingerprint, Until};
use kindlm_types::Channel;
use serde_json::Value;

use super::body::{SharedDigests, SubjectForm};
use super::turn::Turns;
use crate::load::resolve::{Rules, judging_of};

/// Returns the values of a test that identify the parts shared with other tests.
pub(super) fn parts_key(test: &Value) -> Value {
    const KEYS: [&str; 10] = [
        "prompt",
        "command",
        "transcript",
        "tools",
        "answerTools",
        "conversation",
        "maxTurns",
        "assertionSets",
        "workspace",
        "evidence",
    ];
    let judging = judging_of(test).cloned();
    // The workspace of `defaults` applies to agents, but not to models.
    let has_agent = test.get("agent").map(|_| Value::Bool(true));
    KEYS.iter()
        .map(|key| test.get(*key).cloned())
        .chain([judging, has_agent])
        .map(Option::unwrap_or_default)
        .collect()
}

/// Returns the digests of the shared parts of tests. They cover no variables.
pub(super) fn digests(
    subject: &SubjectForm,
    conversation: &Turns,
    tools: Option<&Value>,
    limits: (u32, bool),
    (rules, scripts): (&Rules, Option<&Value>),
    declared: &BTreeSet<Channel>,
) -> SharedDigests {
    let (whole, task) = match subject {
        SubjectForm::Prompt(opening) => {
            let parts = &opening.parts;
            let first = Digest::default().text("prompt").number(parts.len() as u64);
            let first = if opening.reads_chat { first.text("chat") } else { first };
            let whole = parts
                .iter()
                .fold(first, |digest, (role, it)| it.digest(digest.text(&format!("{role:?}"))));
            (whole, Digest::default().text("prompt"))
        }
        SubjectForm::Command(form) => {
            let task = Digest::default().text("command");
            (form.digest(task.clone()), task)
        }
        // A later run may check another transcript of the same task, so the digest of the task leaves the transcript
        // out.
        SubjectForm::Transcript(known) => {
            let task = Digest::default().text("transcript");
            (task.clone().fingerprint(known.digest), task)
        }
    };
    let [whole, task] = [whole, task].map(|digest| {
        add_task(digest, conversation, tools, limits, (rules, scripts), declared).finish()
    });
    SharedDigests { whole, task }
}

/// Adds to the digest of a task the rule that ends repeats early.
///
/// The rule changes how often each outcome occurs, so pass rates under different rules cannot be compared.
pub(super) fn with_end(task: Fingerprint, until: Option<Until>, pass_rate_min: f64) -> Fingerprint {
    let rule = match until {
        None => return task,
        Some(Until::Settled) => serde_json::json!({"settled": pass_rate_min}),
        Some(Until::Decided(it)) => {
            serde_json::json!({"decided": [it.pass(), it.fail(), it.alpha(), it.beta()]})
        }
    };
    Digest::default().fingerprint(task).value(&rule).finish()
}

/// Adds the shared parts of a test to a digest, except the subject.
fn add_task(
    mut digest: Digest,
    conversation: &Turns,
    tools: Option<&Value>,
    (max_turns, answers_tools): (u32, bool),
    (rules, scripts): (&Rules, Option<&Value>),
    declared: &BTreeSet<Channel>,
) -> Digest {
    for (turn, expect) in conversation.forms.iter().zip(&conversation.digests) {
        digest = digest.text(&turn.label).number(turn.user.is_some().into()).fingerprint(*expect);
        digest = turn.user.iter().fold(digest, |digest, form| form.digest(digest));
    }
    let null = Value::Null;
    // Without the block `scripts`, the digest is the same as in versions that had no such block.
    let digest = scripts.into_iter().fold(digest, |digest, it| digest.text("scripts").value(it));
    // Without declared evidence, the digest also stays the same as in versions that had no such key.
    let digest = declared.iter().fold(digest, |digest, it| digest.text(it.as_str()));
    digest
        .value(tools.unwrap_or(&null))
        .number(max_turns.into())
        .number(answers_tools.into())
        .value(&rules.value)
}
