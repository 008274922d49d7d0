//! What tests may have in common, and what tells that from what others have.

use std::collections::BTreeSet;

use kindlm_engine::{Digest, Fingerprint};
use kindlm_types::Channel;
use serde_json::Value;

use super::body::SubjectForm;
use super::turn::Turns;
use crate::load::resolve::{Rules, judging_of};

/// What a test has in common with others that may share a kit.
pub(super) fn kit_key(test: &Value) -> Value {
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
    // A workspace of `defaults` is one for agents, and none for models.
    let has_agent = test.get("agent").map(|_| Value::Bool(true));
    KEYS.iter()
        .map(|key| test.get(*key).cloned())
        .chain([judging, has_agent])
        .map(Option::unwrap_or_default)
        .collect()
}

/// Tells whether something has changed that is not in the variables or in what must hold at the end.
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
    // A suite that says nothing of scripts counts as it did before they did.
    let digest = scripts.into_iter().fold(digest, |digest, it| digest.text("scripts").value(it));
    // The same for a suite that declares no evidence.
    let digest = declared.iter().fold(digest, |digest, it| digest.text(it.as_str()));
    digest
        .value(tools.unwrap_or(&null))
        .number(max_turns.into())
        .number(answers_tools.into())
        .value(&rules.value)
        .finish()
}
