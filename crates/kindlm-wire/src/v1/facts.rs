//! The typed facts that version 1 stores in the `metadata` of a result.
//!
//! There are two kinds: the facts about a judgement ([`Judging`]), and the rule of a set ([`SetRule`]).

use std::borrow::Cow;

use kindlm_types::{ASSERT_SET, AssertionResult, Class, Judging, SetRule};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// The key of the rule of a set.
const SET: &str = "assertionSet";
/// The type of a negated set.
const NOT_ASSERT_SET: &str = "not-assert-set";
/// The only deterministic check whose results can have data of a judge: the mark of a tie.
const MAX_SCORE: &str = "max-score";

/// The rule of a set as JSON.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Set {
    #[serde(rename = "type")]
    kind: String,
    #[serde(default)]
    assertion_count: usize,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    threshold: Option<f64>,
}

/// Returns the metadata of a result, including its typed facts.
pub(crate) fn metadata(result: &AssertionResult) -> Cow<'_, Map<String, Value>> {
    if result.judging.is_none() && result.set.is_none() {
        return Cow::Borrowed(&result.metadata);
    }
    let mut metadata = result.metadata.clone();
    if let Some(Ok(Value::Object(facts))) = result.judging.as_ref().map(serde_json::to_value) {
        metadata.extend(facts);
    }
    if let Some(set) = &result.set {
        let kind = if set.is_negated { NOT_ASSERT_SET } else { ASSERT_SET }.to_owned();
        let set = Set { kind, assertion_count: set.checks, threshold: set.threshold };
        metadata.extend(serde_json::to_value(set).ok().map(|it| (SET.to_owned(), it)));
    }
    Cow::Owned(metadata)
}

/// Removes the facts about a judgement from metadata and returns them; `None` without valid facts.
///
/// Only checks that a model judges, and `max-score`, have such facts. Other checks keep their metadata unchanged,
/// because a user's script may return any metadata. Invalid facts stay in the metadata.
pub(crate) fn take_judging(
    assertion: &str,
    class: Class,
    metadata: &mut Map<String, Value>,
) -> Option<Box<Judging>> {
    if class != Class::Probabilistic && assertion != MAX_SCORE {
        return None;
    }
    let found = Judging::KEYS.iter().filter_map(|key| metadata.get_key_value(*key));
    let found: Map<String, Value> = found.map(|(key, it)| (key.clone(), it.clone())).collect();
    if found.is_empty() {
        return None;
    }
    let judging = Judging::deserialize(Value::Object(found)).ok()?;
    metadata.retain(|key, _| !Judging::KEYS.contains(&key.as_str()));
    Some(Box::new(judging))
}

/// Removes the rule of a set from metadata and returns it.
///
/// Returns `None` if the result is not a set. `components` is the number of the set's parts, which is used if the rule
/// is missing or invalid.
pub(crate) fn take_set(
    assertion: &str,
    components: usize,
    metadata: &mut Map<String, Value>,
) -> Option<SetRule> {
    if assertion != ASSERT_SET {
        return None;
    }
    let set = metadata.get(SET).and_then(|it| Set::deserialize(it).ok());
    let Some(set) = set else {
        return Some(SetRule { checks: components, ..SetRule::default() });
    };
    metadata.shift_remove(SET);
    let is_negated = set.kind == NOT_ASSERT_SET;
    Some(SetRule { is_negated, checks: set.assertion_count, threshold: set.threshold })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn scripts_cannot_pose_as_judges() {
        let written = || json!({"judgeModel": "gpt", "tie": true, "own": 1});
        let map = |it: Value| it.as_object().cloned().unwrap();
        for (assertion, class, is_taken) in [
            ("judge", Class::Probabilistic, true),
            ("max-score", Class::Deterministic, true),
            ("javascript", Class::Deterministic, false),
        ] {
            let mut metadata = map(written());
            let judging = take_judging(assertion, class, &mut metadata);
            assert_eq!(judging.is_some(), is_taken, "{assertion}");
            let left = if is_taken { json!({"own": 1}) } else { written() };
            assert_eq!(Value::Object(metadata), left, "{assertion}");
            if let Some(judging) = judging {
                assert_eq!((judging.model.as_deref(), judging.tie), (Some("gpt"), true));
                let mut result = AssertionResult::pass(assertion, "label");
                result.judging = Some(judging);
                let told = metadata_of(&result);
                assert_eq!(told, map(json!({"judgeModel": "gpt", "tie": true})));
            }
        }
    }

    #[test]
    fn unreadable_facts_stay_in_the_metadata() {
        let written = json!({"panel": {"votes": "none"}, "judgeModel": "gpt"});
        let mut metadata = written.as_object().cloned().unwrap();
        assert_eq!(take_judging("judge", Class::Probabilistic, &mut metadata), None);
        assert_eq!(Value::Object(metadata), written);
    }

    #[test]
    fn the_rule_of_a_set_is_read_back() {
        for set in [
            SetRule { is_negated: true, checks: 2, threshold: None },
            SetRule { is_negated: false, checks: 3, threshold: Some(0.5) },
        ] {
            let mut result = AssertionResult::pass(ASSERT_SET, "Set");
            result.set = Some(set.clone());
            let mut metadata = metadata_of(&result);
            assert_eq!(take_set("javascript", 0, &mut metadata), None);
            assert_eq!(take_set(ASSERT_SET, 0, &mut metadata), Some(set));
            assert!(metadata.is_empty());
        }
        let unknown = take_set(ASSERT_SET, 4, &mut Map::new());
        assert_eq!(unknown.map(|it| it.checks), Some(4));
    }

    #[test]
    fn only_its_own_field_lets_a_comparison_decide() {
        let result = AssertionResult::pass("javascript", "x").with_metadata("decidesScore", true);
        for (result, decides) in [(result.clone(), false), (result.deciding_score(), true)] {
            let json = serde_json::to_string(&crate::v1::AssertionResult::from(&result)).unwrap();
            let wire: crate::v1::AssertionResult = serde_json::from_str(&json).unwrap();
            let read = AssertionResult::try_from(wire).unwrap();
            assert_eq!((read.decides_score, &read), (decides, &result), "{json}");
        }
    }

    fn metadata_of(result: &AssertionResult) -> Map<String, Value> {
        metadata(result).into_owned()
    }
}
