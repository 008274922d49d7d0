//! Properties that hold for all counts.

use kindlm_stats::{
    Confidence, Confusion, Difference, Drift, Interval, Labelled, PairedTest, Tally, Tuning,
    Undefined, Unlabelled, benjamini_hochberg, best_threshold, kappa_interval_of_sets,
    prediction_powered, prediction_powered_rate, rogan_gladen,
};
use proptest::prelude::*;

const P95: Confidence = Confidence::P95;

prop_compose! {
    fn any_confusion()(
        both_pass in 0_u64..200, only_human in 0_u64..200, only_judge in 0_u64..200, both_fail in 0_u64..200,
    ) -> Confusion {
        Confusion { both_pass, only_human, only_judge, both_fail }
    }
}

fn within(interval: Interval, least: f64, value: f64, most: f64) -> bool {
    least <= interval.low
        && interval.low <= value
        && value <= interval.high
        && interval.high <= most
}

proptest! {
    #[test]
    fn wilson_holds_the_share_and_narrows(passed in 0_u64..500, more in 0_u64..500) {
        let total = passed + more;
        prop_assume!(total > 0);
        let tally = Tally::new(passed, total).unwrap();
        let interval = tally.wilson(P95);
        prop_assert!(within(interval, 0.0, tally.rate(), 1.0), "{:?}", interval);
        let wide = tally.wilson(Confidence::P99);
        prop_assert!(wide.low <= interval.low && interval.high <= wide.high);
        let mirror = Tally::new(more, total).unwrap().wilson(P95);
        prop_assert!((mirror.low - (1.0 - interval.high)).abs() < 1e-12);
    }

    #[test]
    fn intervals_for_few_outputs_are_in_range(outputs in prop::collection::vec(any_confusion(), 2..6)) {
        let all = outputs.iter().fold(Confusion::default(), |sum, it| sum.plus(*it));
        if let Ok(it) = all.kappa_interval(P95) {
            prop_assert!(-1.0 <= it.low && it.low < it.high && it.high <= 1.0, "{:?}", it);
            let sets = kappa_interval_of_sets(&outputs, P95).unwrap();
            prop_assert!(-1.0 <= sets.low && sets.low < sets.high && sets.high <= 1.0, "{:?}", sets);
            let observed = Tally::new(all.judge_passed(), all.total()).unwrap();
            let rate = prediction_powered_rate(&all, observed, P95).unwrap();
            let textbook = Labelled::of_answers(&all).unwrap();
            let textbook = prediction_powered(&textbook, &observed.into(), Tuning::Power, P95).unwrap();
            prop_assert!(within(rate.interval, 0.0, rate.mean, 1.0), "{:?}", rate);
            prop_assert_eq!(rate.mean.to_bits(), textbook.mean.to_bits());
        }
    }

    #[test]
    fn more_different_answers_are_more_evidence_of_drift(
        noise in 0.001_f64..0.999, total in 1_u64..100, differ in 0_u64..100,
    ) {
        let evidence = |differ: u64| {
            let mut drift = Drift::new(noise).unwrap();
            drift.add(Tally::new(differ, total).unwrap());
            drift.evidence()
        };
        let differ = differ % total;
        prop_assert!(evidence(differ) <= evidence(differ + 1));
        prop_assert!(evidence(0) < 1.0 && evidence(total).is_finite());
    }

    #[test]
    fn kappa_is_in_range_or_has_an_error(confusion in any_confusion()) {
        match confusion.kappa(P95) {
            Ok(kappa) => {
                prop_assert!((-1.0..=1.0).contains(&kappa.value));
                prop_assert!(kappa.standard_error.is_finite());
                if let Some(interval) = kappa.interval.interval() {
                    prop_assert!(within(interval, -1.0, kappa.value, 1.0), "{:?}", kappa);
                }
                // Kappa is unchanged if the raters are swapped, or if pass and fail are swapped.
                let swapped = Confusion {
                    only_human: confusion.only_judge, only_judge: confusion.only_human, ..confusion
                };
                let mirrored = Confusion {
                    both_pass: confusion.both_fail, both_fail: confusion.both_pass, ..swapped
                };
                for other in [swapped, mirrored] {
                    let other = other.kappa(P95).unwrap();
                    prop_assert!((other.value - kappa.value).abs() < 1e-9);
                    prop_assert!((other.standard_error - kappa.standard_error).abs() < 1e-9);
                }
            }
            Err(why) => prop_assert!(matches!(why, Undefined::Empty | Undefined::OneAnswer)),
        }
    }

    #[test]
    fn corrected_rates_are_rates(
        judged in any_confusion(), passed in 0_u64..1000, more in 0_u64..1000,
    ) {
        prop_assume!(passed + more > 0);
        let observed = Tally::new(passed, passed + more).unwrap();
        match rogan_gladen(observed, &judged, P95) {
            Ok(corrected) => prop_assert!(within(corrected.interval, 0.0, corrected.rate, 1.0)),
            Err(why) => {
                prop_assert!(matches!(
                    why, Undefined::Empty | Undefined::OneClass | Undefined::NoBetterThanChance
                ));
            }
        }
        prop_assume!(judged.total() > 0);
        let labelled = Labelled::of_answers(&judged).unwrap();
        let unlabelled = Unlabelled::from(observed);
        let [tuned, full, none] = [Tuning::Power, Tuning::Fixed(1.0), Tuning::Fixed(0.0)]
            .map(|tuning| prediction_powered(&labelled, &unlabelled, tuning, P95).unwrap());
        for estimate in [tuned, full, none] {
            prop_assert!(within(estimate.interval, 0.0, estimate.mean, 1.0));
            prop_assert!((0.0..=1.0).contains(&estimate.lambda));
        }
    }

    #[test]
    fn a_judge_that_never_errs_needs_no_correction(
        passes in 1_u64..300, fails in 1_u64..300, passed in 0_u64..1000, more in 1_u64..1000,
    ) {
        let judged = Confusion { both_pass: passes, both_fail: fails, ..Confusion::default() };
        let observed = Tally::new(passed, passed + more).unwrap();
        let corrected = rogan_gladen(observed, &judged, P95).unwrap();
        prop_assert!((corrected.rate - observed.rate()).abs() < 1e-12);
    }

    #[test]
    fn no_threshold_is_better_than_the_best(
        scored in prop::collection::vec(((0_u8..=10).prop_map(|it| f64::from(it) / 10.0), any::<bool>()), 1..60),
        other in (0_u8..=10).prop_map(|it| f64::from(it) / 10.0),
    ) {
        let at = |threshold: f64| {
            Confusion::from_pairs(scored.iter().map(|(score, human)| (*human, *score >= threshold)))
        };
        match best_threshold(&scored) {
            Ok(best) => {
                prop_assert_eq!(at(best.threshold), best.confusion);
                let kappa = at(other).kappa(P95).map_or(-1.0, |it| it.value);
                prop_assert!(kappa <= best.kappa + 1e-12);
            }
            Err(why) => prop_assert_eq!(why, Undefined::OneClass),
        }
    }
}

/// Simulates 2000 studies with a known true value.
///
/// Counts the intervals that contain this value.
#[test]
fn intervals_cover_the_truth_at_their_level() {
    const STUDIES: u32 = 2000;
    for (truth, sensitivity, specificity) in [(0.7, 0.9, 0.8), (0.9, 0.95, 0.6), (0.5, 0.85, 0.85)]
    {
        let (mut by_errors, mut by_predictions, mut missing) = (0, 0, 0);
        let mut random = fastrand::Rng::with_seed(7);
        for _ in 0..STUDIES {
            let mut draw = || {
                let human = random.f64() < truth;
                (human, random.f64() < if human { sensitivity } else { 1.0 - specificity })
            };
            let judged = Confusion::from_pairs((0..150).map(|_| draw()));
            let passed = (0..1000).filter(|_| draw().1).count() as u64;
            let observed = Tally::new(passed, 1000).unwrap();
            match rogan_gladen(observed, &judged, P95) {
                Ok(it) => {
                    by_errors += u32::from(it.interval.low <= truth && truth <= it.interval.high);
                }
                Err(_) => missing += 1,
            }
            let labelled = Labelled::of_answers(&judged).unwrap();
            let it = prediction_powered(&labelled, &observed.into(), Tuning::Power, P95).unwrap();
            by_predictions += u32::from(it.interval.low <= truth && truth <= it.interval.high);
        }
        let share = |count: u32| f64::from(count) / f64::from(STUDIES - missing);
        assert!((0.93..=0.985).contains(&share(by_errors)), "Rogan-Gladen: {}", share(by_errors));
        let powered = f64::from(by_predictions) / f64::from(STUDIES);
        assert!((0.92..=0.98).contains(&powered), "prediction-powered: {powered}");
    }
}

proptest! {
    #[test]
    fn a_comparison_does_not_depend_on_the_order(
        cases in prop::collection::vec((0_u64..=4, 0_u64..=4, 0_u8..6), 1..40),
        seed in any::<u64>(),
    ) {
        let keys: Vec<String> = cases.iter().map(|it| it.2.to_string()).collect();
        let mut differences: Vec<Difference<'_>> = cases
            .iter()
            .zip(&keys)
            .map(|(it, cluster)| Difference::new(cluster, Tally::new(it.0, 4).unwrap(), Tally::new(it.1, 4).unwrap()))
            .collect();
        let test = PairedTest::new(0.05, Confidence::P95, seed);
        let paired = test.compare(&differences).unwrap();
        prop_assert!(paired.p_value > 0.0 && paired.p_value <= 1.0);
        prop_assert!(paired.interval.low <= paired.mean && paired.mean <= paired.interval.high);
        prop_assert!(paired.detectable.is_none_or(|it| it > 0.0 && it < 1.0));
        differences.reverse();
        let reversed = test.compare(&differences).unwrap();
        prop_assert!((reversed.mean - paired.mean).abs() < 1e-9);
        prop_assert!((reversed.p_value - paired.p_value).abs() < 1e-9);
    }

    #[test]
    fn adjusted_p_values_are_not_smaller(p_values in prop::collection::vec(0.0_f64..=1.0, 0..30)) {
        let adjusted = benjamini_hochberg(&p_values);
        prop_assert!(adjusted.iter().zip(&p_values).all(|(new, old)| new + 1e-12 >= *old && *new <= 1.0));
    }
}
