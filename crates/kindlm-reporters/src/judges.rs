//! The judges of a kind of check, by name.

use kindlm_types::JudgeInfo;

/// Returns the ids of the judges, each with its provider and the vendor's name of the model.
pub(crate) fn named(judges: &JudgeInfo) -> String {
    let names =
        judges.models.iter().map(|id| match judges.identities.iter().find(|it| it.id == *id) {
            Some(it) => format!("{id} ({} {})", it.provider, it.name),
            None => format!("{id} (provider and model not recorded)"),
        });
    names.collect::<Vec<_>>().join(", ")
}
