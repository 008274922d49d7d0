//! Describes the judges of a kind of check: their names, and their agreement with people.

use kindlm_types::{JudgeCalibration, JudgeInfo, ecma};

use crate::amount::{percent, plural};

/// Returns the ids of the judges, each with its provider and the name of the model in the provider's API.
pub(crate) fn named(judges: &JudgeInfo) -> String {
    let names =
        judges.models.iter().map(|id| match judges.identities.iter().find(|it| it.id == *id) {
            Some(it) => format!("{id} ({} {})", it.provider, it.name),
            None => format!("{id} (provider and model not recorded)"),
        });
    names.collect::<Vec<_>>().join(", ")
}

/// Describes the agreement of judges with people, as `κ 0.71 (95% CI 0.55 to 0.87); 87.0% of 120 labels agree
/// (2026-10-02)`.
///
/// Without a calibration, the text is `no calibration known`.
pub(crate) fn agreement(judges: &JudgeInfo) -> String {
    let Some(it) = &judges.calibration else { return "no calibration known".to_owned() };
    let JudgeCalibration { kappa, low, high, agreement, labels, calibrated_at, alarm } = it;
    let two = |it: f64| ecma::to_fixed(it, 2);
    let kappa = match (kappa, low.zip(*high)) {
        (Some(kappa), Some((low, high))) => {
            format!("κ {} (95% CI {} to {})", two(*kappa), two(low), two(high))
        }
        (Some(kappa), None) => format!("κ {}", two(*kappa)),
        (None, _) => "κ undefined".to_owned(),
    };
    let day = calibrated_at.split('T').next().unwrap_or_default();
    let agree = format!("{}% of {} agree", percent(*agreement), plural(*labels, "label"));
    let text = format!("{kappa}; {agree} ({day})");
    match alarm {
        Some(alarm) => format!("{text}; no longer valid: {alarm}"),
        None => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn agreement_has_kappa_labels_and_doubts() {
        let known = JudgeCalibration {
            kappa: Some(0.7),
            low: Some(0.5),
            high: Some(0.9),
            agreement: 0.85,
            labels: 40,
            calibrated_at: "2026-10-02T09:30:00Z".to_owned(),
            alarm: None,
        };
        for (calibration, expected) in [
            (None, "no calibration known"),
            (
                Some(known.clone()),
                "κ 0.70 (95% CI 0.50 to 0.90); 85.0% of 40 labels agree (2026-10-02)",
            ),
            (
                Some(JudgeCalibration {
                    kappa: None,
                    labels: 1,
                    alarm: Some("the judge has changed".to_owned()),
                    ..known
                }),
                "κ undefined; 85.0% of 1 label agree (2026-10-02); no longer valid: the judge has changed",
            ),
        ] {
            let judges = JudgeInfo { calibration, ..JudgeInfo::default() };
            assert_eq!(agreement(&judges), expected);
        }
    }
}
