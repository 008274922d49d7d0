//! The intervals of correlations contain the true value as often as they promise.
#![expect(clippy::unwrap_used, reason = "a panic is how a test fails")]

use fastrand::Rng;
use kindlm_stats::{Confidence, Correlation};

/// The probabilities of pairs of yes and no.
///
/// `second` is the probability that the second value is yes. `beside_yes` and `beside_no` are the probabilities that the
/// first value is yes if the second value is yes or no.
#[derive(Clone, Copy, Debug)]
struct Pairs {
    second: f64,
    beside_yes: f64,
    beside_no: f64,
}

impl Pairs {
    fn correlation(self) -> f64 {
        let Self { second, beside_yes, beside_no } = self;
        let first = second * beside_yes + (1.0 - second) * beside_no;
        (second * beside_yes - first * second)
            / (first * (1.0 - first) * second * (1.0 - second)).sqrt()
    }

    fn draw(self, count: u32, random: &mut Rng) -> Correlation {
        let mut drawn = Correlation::default();
        for _ in 0..count {
            let second = random.f64() < self.second;
            let share = if second { self.beside_yes } else { self.beside_no };
            let first = random.f64() < share;
            drawn.add(f64::from(u8::from(first)), f64::from(u8::from(second)), 1).unwrap();
        }
        drawn
    }
}

#[test]
fn intervals_of_correlations_contain_the_true_value() {
    let mut random = Rng::with_seed(7);
    for (second, beside_yes, beside_no) in
        [(0.5, 0.5, 0.5), (0.5, 0.9, 0.5), (0.8, 0.95, 0.5), (0.7, 0.95, 0.05), (0.9, 0.99, 0.3)]
    {
        let pairs = Pairs { second, beside_yes, beside_no };
        for count in [30, 100, 400] {
            let (mut covered, mut all) = (0, 0);
            for _ in 0..1_000 {
                let drawn = pairs.draw(count, &mut random);
                let Some(interval) = drawn.interval(Confidence::P95) else { continue };
                all += 1;
                let truth = pairs.correlation();
                covered += u32::from((interval.low..=interval.high).contains(&truth));
            }
            let share = f64::from(covered) / f64::from(all);
            // Few pairs with a strong correlation are the worst case. Three standard errors of 1,000 series are 2 points.
            let least = if count == 30 { 0.88 } else { 0.91 };
            assert!((least..=0.985).contains(&share), "{pairs:?} {count}: {share} of {all}");
        }
    }
}
