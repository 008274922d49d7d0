//! Cohen's kappa, which measures the agreement of a judge with people.

use crate::{Confidence, Confusion, Interval, Undefined, float};

/// Cohen's kappa: 1 is perfect agreement, and 0 is agreement by chance.
///
/// A value below 0 is worse than chance.
///
/// Kappa depends on the base rate. If nearly everything passes, two raters who agree on 9 of 10 outputs may have a
/// kappa of 0.44. So show kappa together with [`Confusion::base_rate`] and the number of outputs.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct Kappa {
    /// The value, from -1 to 1.
    pub value: f64,
    /// The share of outputs with equal answers of both raters, from 0 to 1.
    pub agreement: f64,
    /// The expected agreement by chance, from 0 to below 1.
    pub chance: f64,
    /// The large-sample standard error.
    pub standard_error: f64,
    /// The confidence interval of the true value, with its method.
    pub interval: KappaInterval,
}

/// An interval for kappa, by the method that produced it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum KappaInterval {
    /// The interval of `z` standard errors around the value.
    LargeSample(Interval),
    /// The interval if both raters always agree.
    ///
    /// The standard error is then 0 even for few outputs. So this is Wilson's interval for the agreement, with the
    /// chance agreement fixed at its observed value.
    Perfect(Interval),
    /// The interval if both raters always disagree.
    ///
    /// The standard error can then be 0 even for few outputs. So this too is Wilson's interval for the agreement,
    /// with the chance agreement fixed at its observed value.
    Opposed(Interval),
    /// No interval, because one rater gave the same answer for all outputs. Kappa is 0 then.
    Constant,
}

impl KappaInterval {
    /// Returns the interval; `None` for [`Self::Constant`].
    pub fn interval(self) -> Option<Interval> {
        match self {
            Self::LargeSample(interval) | Self::Perfect(interval) | Self::Opposed(interval) => {
                Some(interval)
            }
            Self::Constant => None,
        }
    }
}

impl Confusion {
    /// Returns Cohen's kappa: `(agreement - chance) / (1 - chance)`.
    ///
    /// The formula is from Cohen (1960), *Educ. Psychol. Meas.* 20:37. The standard error is from Fleiss, Cohen &
    /// Everitt (1969), *Psychol. Bull.* 72:323.
    ///
    /// The interval is valid for large samples; [`kappa_interval`](Self::kappa_interval) is valid for few outputs too.
    ///
    /// Fails without outputs, or if both raters gave the same single answer to all outputs ([`Undefined::OneAnswer`]).
    pub fn kappa(&self, confidence: Confidence) -> Result<Kappa, Undefined> {
        let agreement = self.agreement()?.rate();
        // Compare counts, because `1 - chance` may not round to exactly 0.
        if self.both_pass == self.total() || self.both_fail == self.total() {
            return Err(Undefined::OneAnswer);
        }
        let human = self.share(self.human_passed());
        let judge = self.share(self.judge_passed());
        let chance = human * judge + (1.0 - human) * (1.0 - judge);
        let is_constant = [self.human_passed(), self.judge_passed()]
            .iter()
            .any(|&passed| passed == 0 || passed == self.total());
        let value = if is_constant {
            0.0
        } else {
            ((agreement - chance) / (1.0 - chance)).clamp(-1.0, 1.0)
        };
        let standard_error = self.kappa_error(value, chance, human, judge);
        let interval = if is_constant {
            KappaInterval::Constant
        } else if self.agrees_always() || self.agrees_never() {
            let beyond = |it: f64| ((it - chance) / (1.0 - chance)).clamp(-1.0, 1.0);
            let wilson = self.agreement()?.wilson(confidence);
            let interval = Interval { low: beyond(wilson.low), high: beyond(wilson.high) };
            if self.agrees_always() {
                KappaInterval::Perfect(interval)
            } else {
                KappaInterval::Opposed(interval)
            }
        } else {
            let z = confidence.z();
            KappaInterval::LargeSample(Interval::around(value, standard_error, z, -1.0, 1.0))
        };
        Ok(Kappa { value, agreement, chance, standard_error, interval })
    }

    fn agrees_always(&self) -> bool {
        self.only_human == 0 && self.only_judge == 0
    }

    fn agrees_never(&self) -> bool {
        self.both_pass == 0 && self.both_fail == 0
    }

    /// Returns the large-sample standard error of a kappa.
    fn kappa_error(&self, kappa: f64, chance: f64, human: f64, judge: f64) -> f64 {
        let far = 1.0 - kappa;
        // Cells on the diagonal: the share, and the sum of both raters' marginal shares of the answer.
        let agreed = [
            (self.share(self.both_pass), human + judge),
            (self.share(self.both_fail), 2.0 - human - judge),
        ];
        let agreed: f64 = agreed
            .iter()
            .map(|(share, margins)| {
                let part = 1.0 - margins * far;
                share * part * part
            })
            .sum();
        // Cells off the diagonal: the share of the cell, and a sum of two marginal shares. One is the judge's share of
        // the person's answer, the other is the person's share of the judge's answer.
        let apart = [
            (self.share(self.only_human), judge + (1.0 - human)),
            (self.share(self.only_judge), (1.0 - judge) + human),
        ];
        let apart: f64 = apart.iter().map(|(share, margins)| share * margins * margins).sum();
        let correction = kappa - chance * far;
        let variance = agreed + far * far * apart - correction * correction;
        let n = float(self.total());
        // Rounding may give a value below 0.
        (variance.max(0.0) / n).sqrt() / (1.0 - chance)
    }
}
