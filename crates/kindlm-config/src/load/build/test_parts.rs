//! The key and the digest of the parts that tests share.

use std::collections::BTreeSet;

use kindlm_engine::{Digest, Fingerprint};
use kindlm_types::Channel;
use serde_json::Value;

use super::body::SubjectForm;
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

/// Returns the digest of the shared parts of tests.
///
/// The digest covers the subject, turns, tools, limits, declared evidence, rules and the block `scripts`, but no
/// variables.
pub(super) fn digest(
    subject: &SubjectForm,
    conversation: &Turns,
    tools: Option<&Value>,
    (max_turns, answers_tools): (u32, bool),
    (rules, scripts): (&Rules, Option<&Value>),
    declared: &BTreeSet<Channel>,
) -> Fingerprint {
    let mut digest = match subject {
        SubjectForm::Prompt(opening) => {
            let parts = &opening.parts;
            let first = Digest::default().text("prompt").number(parts.len() as u64);
            parts
                .iter()
                .fold(first, |digest, (role, form)| form.digest(digest.text(&format!("{role:?}"))))
        }
        SubjectForm::Command(form) => form.digest(Digest::default().text("command")),
        SubjectForm::Transcript(known) => {
            Digest::default().text("transcript").fingerprint(known.digest)
        }
    };
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
        .finish()
}
