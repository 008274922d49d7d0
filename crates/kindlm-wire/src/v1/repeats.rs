//! The repeats of a case, in version 1 of the JSON report.

use kindlm_types::{CaseResult, Decision};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The values of k for which pass@k and pass^k are reported.
const TRIES: [u64; 5] = [1, 2, 3, 5, 10];

/// The stopping rule that can end the repeats of a case early, with the decision.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct EarlyEnd {
    /// The maximum number of repeats.
    pub max: u32,
    /// The decision.
    pub decision: EarlyDecision,
    /// The test of the pass rate. Absent if the repeats end when no further repeat can change the verdict.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub test: Option<RateTest>,
}

/// The decision of repeats that may end early.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum EarlyDecision {
    /// The pass rate is high enough.
    Passed,
    /// The pass rate is too low.
    Failed,
    /// The repeats ended without a decision.
    Undecided,
}

/// A sequential test of the pass rate of a case. All numbers are from 0 to 1.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[non_exhaustive]
pub struct RateTest {
    /// The pass rate that is high enough.
    pub pass: f64,
    /// The pass rate that is too low.
    pub fail: f64,
    /// The highest probability of a wrong pass.
    pub alpha: f64,
    /// The highest probability of a wrong failure.
    pub beta: f64,
}

/// The pass rate of a case, estimated from its judged repeats.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct Reliability {
    /// The number of repeats that held.
    pub held: u64,
    /// The number of repeats that were judged.
    pub judged: u64,
    /// True if the case held in one repeat and failed in another.
    pub flaky: bool,
    /// The lower end of the 95% confidence interval of the pass rate, from 0 to 1.
    pub low: f64,
    /// The upper end of the 95% confidence interval of the pass rate, from 0 to 1.
    pub high: f64,
    /// The method of the interval.
    pub method: IntervalMethod,
    /// The estimates of pass@k and pass^k. Absent if the repeats may end early, because the estimates would then be
    /// biased.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub chances: Vec<Chances>,
}

/// The method of a confidence interval of a pass rate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum IntervalMethod {
    /// Wilson's score interval, for a fixed number of repeats.
    Wilson,
    /// The beta-binomial mixture, which is valid if the repeats may end early.
    Anytime,
}

/// The estimates of pass@k and pass^k for one k.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct Chances {
    /// The number of tries (k).
    pub tries: u64,
    /// The probability that at least one of the tries passes: pass@k.
    pub any: f64,
    /// The probability that all of the tries pass: pass^k.
    pub all: f64,
}

impl Reliability {
    /// Returns the reliability of a case; `None` with fewer than two judged repeats.
    pub(crate) fn from_case(case: &CaseResult) -> Option<Self> {
        let judged = case.judged().filter(|it| it.total() > 1)?;
        let interval = case.pass_interval()?;
        let is_fixed = case.early_end.is_none();
        let chances = |tries: u64| {
            let (any, all) = (judged.pass_at(tries).ok()?, judged.pass_all(tries).ok()?);
            Some(Chances { tries, any, all })
        };
        Some(Self {
            held: judged.passed(),
            judged: judged.total(),
            flaky: case.is_flaky(),
            low: interval.low,
            high: interval.high,
            method: if is_fixed { IntervalMethod::Wilson } else { IntervalMethod::Anytime },
            chances: TRIES.into_iter().filter(|_| is_fixed).filter_map(chances).collect(),
        })
    }
}

impl From<kindlm_types::EarlyEnd> for EarlyEnd {
    fn from(it: kindlm_types::EarlyEnd) -> Self {
        Self {
            max: it.max,
            decision: match it.decision {
                Some(Decision::Pass) => EarlyDecision::Passed,
                Some(Decision::Fail) => EarlyDecision::Failed,
                None => EarlyDecision::Undecided,
            },
            test: it.test.map(|it| RateTest {
                pass: it.pass,
                fail: it.fail,
                alpha: it.alpha,
                beta: it.beta,
            }),
        }
    }
}

impl From<EarlyEnd> for kindlm_types::EarlyEnd {
    fn from(it: EarlyEnd) -> Self {
        let test = it.test.map(|it| kindlm_types::RateTest {
            pass: it.pass,
            fail: it.fail,
            alpha: it.alpha,
            beta: it.beta,
        });
        let decision = match it.decision {
            EarlyDecision::Passed => Some(Decision::Pass),
            EarlyDecision::Failed => Some(Decision::Fail),
            EarlyDecision::Undecided => None,
        };
        Self { max: it.max, test, decision }
    }
}
