//! The facts about a judgement by a model.
//!
//! The facts name the requested model, the model that answered, and the way in which several votes were combined.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// The facts about a judgement by a model.
///
/// In JSON, these facts are in the `metadata` of a result. The keys are the field names in camel case, except for
/// `model` (`judgeModel`), `answered` (`answeredModel`) and `settings` (`judging`).
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
#[non_exhaustive]
pub struct Judging {
    /// The id of the model that judged; `None` if several votes were combined.
    #[serde(rename = "judgeModel", skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// The name of the model that answered, as the provider reported it, if it differs from the requested name.
    #[serde(rename = "answeredModel", skip_serializing_if = "Option::is_none")]
    pub answered: Option<String>,
    /// The provider's identifier for the configuration of the model that answered; `None` if the provider reported
    /// none.
    #[serde(rename = "systemFingerprint", skip_serializing_if = "Option::is_none")]
    pub fingerprint: Option<String>,
    /// The number of requests to the judge; `None` if the judge was asked at most once.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub asked: Option<u32>,
    /// The digest of the judge's instructions; `None` if it was not recorded.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub prompt_digest: Option<String>,
    /// The digest of the criterion; `None` if the check has no criterion.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub criterion: Option<String>,
    /// True if the judgement is a tie: outputs are equal or have equal scores, or the verdict depends on their order.
    #[serde(skip_serializing_if = "is_false")]
    pub tie: bool,
    /// True if judgements differ: some votes pass and others fail.
    #[serde(skip_serializing_if = "is_false")]
    pub borderline: bool,
    /// The votes, if the judge was asked several times or there are several judges.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub panel: Option<JudgePanel>,
    /// The judges and their options as in the suite.
    ///
    /// Absent for a single judge that is asked once.
    #[serde(rename = "judging", skip_serializing_if = "Option::is_none")]
    pub settings: Option<Map<String, Value>>,
}

/// The votes of a judge panel.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct JudgePanel {
    /// Every vote, juror by juror.
    pub votes: Vec<JudgeVote>,
    /// The share of valid votes that equal the combined verdict, from 0 to 1.
    ///
    /// `None` if there is no combined verdict.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agreement: Option<f64>,
    /// The highest score minus the lowest one; `None` without scores.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub spread: Option<f64>,
    /// True if some votes pass and others fail.
    #[serde(default)]
    pub borderline: bool,
}

/// One vote of a judge panel.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct JudgeVote {
    /// The id of the model that was asked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub judge: Option<String>,
    /// The name of the model that answered, as the provider reported it, if it differs from the requested name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answered_model: Option<String>,
    /// The provider's identifier for the configuration of the model that answered; `None` if the provider reported
    /// none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub system_fingerprint: Option<String>,
    /// The index of the sample, from 0, if a judge was asked several times.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sample: Option<u32>,
    /// The status of the vote.
    pub status: VoteStatus,
    /// The score; `None` if the vote has no score.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub score: Option<f64>,
    /// The judge's reason, or the error message of an errored vote; `None` if the judge gave no reason.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reasoning: Option<String>,
}

/// The status of a vote.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum VoteStatus {
    /// The judge finds that the expectation holds.
    Passed,
    /// The judge finds that the expectation does not hold.
    Failed,
    /// The vote cannot be counted.
    #[default]
    Errored,
    /// The check does not apply.
    Skipped,
}

impl Judging {
    /// The keys of these facts in the `metadata` of a result.
    pub const KEYS: [&str; 10] = [
        "judgeModel",
        "answeredModel",
        "systemFingerprint",
        "asked",
        "promptDigest",
        "criterion",
        "tie",
        "borderline",
        "panel",
        "judging",
    ];
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "the form that serde asks for")]
fn is_false(it: &bool) -> bool {
    !*it
}
