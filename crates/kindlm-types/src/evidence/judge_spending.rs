//! The number, tokens and cost of each judge's answers.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The answers, tokens and money of one judge.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct JudgeSpending {
    /// The judge's id in the suite.
    pub judge: String,
    /// The number of answers that were requested. Answers from the response store do not count.
    pub answers: u64,
    /// The tokens of these answers and their requests.
    pub tokens: u64,
    /// The known cost of these answers in US dollars.
    pub known_usd: f64,
    /// The number of answers of unknown cost.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub unknown: u64,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_zero(number: &u64) -> bool {
    *number == 0
}

impl JudgeSpending {
    /// Adds this spending to the entry of the same judge in `all`. A missing entry is appended.
    pub fn add_to(self, all: &mut Vec<Self>) {
        match all.iter_mut().find(|it| it.judge == self.judge) {
            Some(known) => {
                known.answers += self.answers;
                known.tokens += self.tokens;
                known.known_usd += self.known_usd;
                known.unknown += self.unknown;
            }
            None => all.push(self),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spending_is_added_by_judge() {
        let of = |judge: &str, known_usd, unknown| JudgeSpending {
            judge: judge.to_owned(),
            answers: 1,
            tokens: 100,
            known_usd,
            unknown,
        };
        let mut all = Vec::new();
        for it in [of("b", 0.5, 0), of("a", 0.25, 0), of("b", 0.0, 1)] {
            it.add_to(&mut all);
        }
        let both = JudgeSpending { answers: 2, tokens: 200, ..of("b", 0.5, 1) };
        assert_eq!(all, [both, of("a", 0.25, 0)]);
    }
}
