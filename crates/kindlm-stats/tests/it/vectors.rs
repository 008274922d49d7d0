//! Tests with published numbers, and with results of scipy, statsmodels, scikit-learn and ppi-python.

use kindlm_stats::{
    Confidence, Confusion, Drift, Interval, KappaInterval, Labelled, Tally, Tuning, Undefined,
    Unlabelled, Weights, best_threshold, kappa_interval_of_sets, prediction_powered,
    rogan_gladen_rate, weighted_kappa,
};

const P95: Confidence = Confidence::P95;

#[track_caller]
fn near(actual: f64, expected: f64) {
    assert!((actual - expected).abs() < 6e-7, "{actual} is not {expected}");
}

#[track_caller]
fn spans(actual: Interval, low: f64, high: f64) {
    near(actual.low, low);
    near(actual.high, high);
}

fn table(both_pass: u64, only_human: u64, only_judge: u64, both_fail: u64) -> Confusion {
    Confusion { both_pass, only_human, only_judge, both_fail }
}

#[test]
fn wilson_intervals_agree_with_newcombe() {
    for (passed, total, low, high) in [
        (81, 263, 0.255_289, 0.366_210),
        (15, 148, 0.062_386, 0.160_487),
        (0, 20, 0.0, 0.161_125),
        (1, 29, 0.006_113, 0.171_755),
        (8, 10, 0.490_162, 0.943_318),
        (10, 10, 0.722_467, 1.0),
        (5, 5, 0.565_518, 1.0),
        (95, 100, 0.888_250, 0.978_456),
    ] {
        spans(Tally::new(passed, total).unwrap().wilson(P95), low, high);
    }
}

#[test]
fn so_many_passes_without_a_failure_are_needed_for_a_rate() {
    let low = |n| Tally::new(n, n).unwrap().wilson(P95).low;
    assert!(low(34) < 0.90 && low(35) >= 0.90);
    assert!(low(72) < 0.95 && low(73) >= 0.95);
    let values =
        [(0.0, Some(1)), (0.9, Some(35)), (0.95, Some(73)), (0.99, Some(381)), (1.0, None)];
    for (rate, needed) in values {
        assert_eq!(Tally::needed_passes(rate, P95), needed, "{rate}");
    }
}

#[test]
fn kappa_is_cohens() {
    for (confusion, kappa) in [
        (table(20, 5, 10, 15), 0.40),
        (table(45, 15, 25, 15), 0.130_435),
        (table(25, 35, 5, 35), 0.259_259),
        // With the same agreement of 0.9, kappa depends on the base rate.
        (table(47, 3, 7, 43), 0.8),
        (table(85, 5, 5, 5), 0.444_444),
        // If one rater always gives the same answer, kappa is 0 although the agreement is 0.95.
        (table(95, 0, 5, 0), 0.0),
        (table(0, 0, 5, 95), 0.0),
    ] {
        near(confusion.kappa(P95).unwrap().value, kappa);
    }
    let kappa = table(20, 5, 10, 15).kappa(P95).unwrap();
    near(kappa.standard_error, 0.126_996);
    near(kappa.agreement, 0.7);
    near(kappa.chance, 0.5);
    let KappaInterval::LargeSample(interval) = kappa.interval else { panic!("{kappa:?}") };
    spans(interval, 0.151_092, 0.648_908);
}

#[test]
fn undefined_kappas_and_intervals_are_reported() {
    for confusion in [table(10, 0, 0, 0), table(0, 0, 0, 10)] {
        assert_eq!(confusion.kappa(P95), Err(Undefined::OneAnswer));
    }
    assert_eq!(table(0, 0, 0, 0).kappa(P95), Err(Undefined::Empty));
    // One rater always gives the same answer.
    for confusion in [table(95, 0, 5, 0), table(95, 5, 0, 0), table(0, 5, 0, 95)] {
        let kappa = confusion.kappa(P95).unwrap();
        assert_eq!((kappa.value.to_bits(), kappa.interval), (0, KappaInterval::Constant));
    }
    // No disagreement in ten outputs does not prove perfect agreement.
    let kappa = table(5, 0, 0, 5).kappa(P95).unwrap();
    near(kappa.value, 1.0);
    near(kappa.standard_error, 0.0);
    let KappaInterval::Perfect(interval) = kappa.interval else { panic!("{kappa:?}") };
    spans(interval, 2.0 * 0.722_467 - 1.0, 1.0);
    // No agreement in ten outputs does not prove perfect disagreement either.
    let kappa = table(0, 5, 5, 0).kappa(P95).unwrap();
    near(kappa.value, -1.0);
    let KappaInterval::Opposed(interval) = kappa.interval else { panic!("{kappa:?}") };
    spans(interval, -1.0, 1.0 - 2.0 * 0.722_467);
}

#[test]
fn weighted_kappa_is_that_of_scikit_learn() {
    let first = [1.0, 2.0, 3.0, 4.0, 5.0, 3.0, 2.0, 4.0];
    let second = [1.0, 2.0, 4.0, 4.0, 5.0, 3.0, 1.0, 5.0];
    let pairs: Vec<(f64, f64)> = first.into_iter().zip(second).collect();
    for (weights, expected) in
        [(Weights::Equal, 0.538_462), (Weights::Linear, 0.764_706), (Weights::Quadratic, 0.903_226)]
    {
        near(weighted_kappa(&pairs, weights).unwrap(), expected);
    }
    assert_eq!(weighted_kappa(&[], Weights::Equal), Err(Undefined::Empty));
    assert_eq!(weighted_kappa(&[(1.0, 1.0)], Weights::Linear), Err(Undefined::OneAnswer));
    assert_eq!(weighted_kappa(&[(f64::NAN, 1.0)], Weights::Linear), Err(Undefined::OutOfRange));
    let huge = [(1e200, -1e200), (0.0, 1.0)];
    assert_eq!(weighted_kappa(&huge, Weights::Quadratic), Err(Undefined::OutOfRange));
}

#[test]
fn rogan_gladen_corrects_for_both_errors() {
    near(rogan_gladen_rate(0.7, 0.9, 0.8).unwrap(), 0.714_286);
    near(rogan_gladen_rate(0.1, 0.9, 0.8).unwrap(), -0.142_857);
    for (sensitivity, specificity) in [(0.5, 0.5), (0.2, 0.7), (1.0, 0.0)] {
        let corrected = rogan_gladen_rate(0.7, sensitivity, specificity);
        assert_eq!(corrected, Err(Undefined::NoBetterThanChance));
    }
    assert_eq!(rogan_gladen_rate(f64::NAN, 0.9, 0.8), Err(Undefined::OutOfRange));
}

#[test]
fn prediction_powered_means_agree_with_ppi_python() {
    let human = [1, 1, 0, 1, 0, 1, 1, 0, 1, 1];
    let judge = [1, 1, 1, 1, 0, 1, 1, 1, 1, 0];
    let scores: Vec<f64> = (0..100).map(|at| f64::from(u8::from(at < 70))).collect();
    let pairs: Vec<(f64, f64)> =
        human.iter().zip(&judge).map(|(&y, &f)| (f64::from(y), f64::from(f))).collect();
    let answers = human.iter().zip(&judge).map(|(&y, &f)| (y == 1, f == 1));
    // Scores and counts of answers give the same result.
    let confusion = Confusion::from_pairs(answers);
    for (labelled, unlabelled) in [
        (Labelled::from_pairs(&pairs).unwrap(), Unlabelled::from_scores(&scores).unwrap()),
        (Labelled::of_answers(&confusion).unwrap(), Tally::new(70, 100).unwrap().into()),
    ] {
        let plain = prediction_powered(&labelled, &unlabelled, Tuning::Fixed(1.0), P95).unwrap();
        near(plain.mean, 0.6);
        spans(plain.interval, 0.254_357, 0.945_643);
        let tuned = prediction_powered(&labelled, &unlabelled, Tuning::Power, P95).unwrap();
        near(tuned.mean, 0.682_532);
        spans(tuned.interval, 0.404_280, 0.960_784);
        let silent = prediction_powered(&labelled, &unlabelled, Tuning::Fixed(0.0), P95).unwrap();
        near(silent.mean, 0.7);
    }
}

#[test]
fn the_best_threshold_is_where_kappa_is_highest() {
    let scored = [
        (0.9, true),
        (0.8, true),
        (0.8, false),
        (0.7, true),
        (0.4, false),
        (0.3, true),
        (0.1, false),
    ];
    let best = best_threshold(&scored).unwrap();
    assert_eq!(best.threshold.to_bits(), 0.7_f64.to_bits());
    assert_eq!(best.confusion, table(3, 1, 1, 2));
    near(best.kappa, best.confusion.kappa(P95).unwrap().value);
    assert_eq!(best.held_out_kappa, None, "too few outputs");
    assert_eq!(best_threshold(&[(0.4, true), (0.9, true)]), Err(Undefined::OneClass));
    assert_eq!(best_threshold(&[(0.4, false)]), Err(Undefined::OneClass));
    assert_eq!(best_threshold(&[(f64::NAN, true)]), Err(Undefined::OutOfRange));
    assert_eq!(best_threshold(&[]), Err(Undefined::Empty));
    // A judge that separates the outputs also does so on outputs on which the threshold was not chosen.
    let clear: Vec<(f64, bool)> = (0..40).map(|at| (f64::from(at) / 40.0, at >= 20)).collect();
    let best = best_threshold(&clear).unwrap();
    near(best.threshold, 0.5);
    near(best.kappa, 1.0);
    assert!(best.held_out_kappa.is_some_and(|it| it > 0.9));
}

#[test]
fn kappa_intervals_for_few_outputs_agree_with_numpy() {
    for (confusion, low, high) in [
        (table(20, 5, 10, 15), 0.126_906, 0.613_835),
        (table(1, 0, 0, 1), -0.421_057, 1.0),
        (table(50, 0, 0, 50), 0.908_749, 1.0),
        (table(85, 5, 5, 5), 0.168_068, 0.701_497),
    ] {
        spans(confusion.kappa_interval(P95).unwrap(), low, high);
    }
    for (confusion, why) in [
        (table(0, 0, 0, 0), Undefined::Empty),
        (table(9, 0, 0, 0), Undefined::OneAnswer),
        (table(95, 0, 5, 0), Undefined::Constant),
        (table(5, 5, 0, 0), Undefined::Constant),
    ] {
        assert_eq!(confusion.kappa_interval(P95), Err(why));
        assert_eq!(kappa_interval_of_sets(&[confusion, table(0, 0, 0, 0)], P95), Err(why));
    }
}

#[test]
fn jackknife_intervals_agree_with_numpy() {
    // The standard error of independent verdicts is larger than the standard error of the jackknife.
    let even = [
        table(3, 1, 0, 0),
        table(2, 0, 1, 1),
        table(0, 0, 1, 3),
        table(4, 0, 0, 0),
        table(1, 1, 0, 2),
    ];
    spans(kappa_interval_of_sets(&even, P95).unwrap(), -0.126_348, 0.829_926);
    // The judge agrees with people on all rules of an output, or on none.
    let uneven = [[table(4, 0, 0, 0); 3], [table(0, 0, 0, 4); 3], [table(0, 2, 2, 0); 3]].concat();
    spans(kappa_interval_of_sets(&uneven[..5], P95).unwrap(), 0.154_824, 0.976_267);
    spans(kappa_interval_of_sets(&uneven, P95).unwrap(), -0.458_922, 0.805_817);
    assert_eq!(kappa_interval_of_sets(&even[1..2], P95), Err(Undefined::OneOutput));
}

#[test]
fn evidence_of_drift_agrees_with_numpy() {
    let mut drift = Drift::new(0.05).unwrap();
    near(drift.evidence(), 1.0);
    for (differ, total, evidence) in [(1, 20, 0.641_848), (4, 20, 3.141_768), (9, 50, 385.796_245)]
    {
        drift.add(Tally::new(differ, total).unwrap());
        near(drift.evidence(), evidence);
        assert_eq!(drift.is_alarm(), evidence >= Drift::ALARM);
    }
    let mut after_quiet_watches = Drift::new(0.05).unwrap();
    (0..50).for_each(|_| after_quiet_watches.add(Tally::new(0, 50).unwrap()));
    assert!(after_quiet_watches.evidence() < 0.1);
    after_quiet_watches.add(Tally::new(25, 50).unwrap());
    assert!(after_quiet_watches.is_alarm());
    for noise in [0.0, 1.0, -0.1, f64::NAN] {
        assert_eq!(Drift::new(noise), Err(Undefined::OutOfRange));
    }
}
