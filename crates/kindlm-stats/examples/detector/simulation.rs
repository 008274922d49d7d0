//! Simulated streams of results, with and without a fall of the pass rate.
#![expect(clippy::expect_used, reason = "a panic is how a simulation fails")]

use fastrand::Rng;
use kindlm_stats::{Detector, DetectorState};

/// The alarm threshold of the evidence. Without a fall, an alarm comes after at least this number of results on
/// average.
pub(crate) const MEAN: f64 = 10_000.0;

/// The totals of many streams. `alarms` counts the streams with an alarm. `results` counts the results until the alarm
/// or the end of the stream.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Lengths {
    streams: u32,
    alarms: u32,
    results: u64,
}

impl Lengths {
    /// Returns the share of the streams with an alarm.
    pub(crate) fn share(self) -> f64 {
        f64::from(self.alarms) / f64::from(self.streams)
    }

    /// Returns the mean number of results until an alarm. A stream without an alarm counts with its length, so the mean is a
    /// lower bound.
    #[expect(clippy::cast_precision_loss, reason = "a few million results")]
    pub(crate) fn mean(self) -> f64 {
        self.results as f64 / f64::from(self.streams)
    }
}

/// The reference of a simulated stream: the results before the stream.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Reference {
    /// This number of random results with the pass rate. Each stream has its own reference.
    Drawn(u64),
    /// A million results, so that the detector's limit is nearly the pass rate. False alarms are then most frequent.
    Exact,
}

/// Returns a detector with a complete reference of this pass rate.
pub(crate) fn detector(reference: Reference, rate: f64, random: &mut Rng) -> Detector {
    let (size, passed) = match reference {
        Reference::Drawn(size) => (size, (0..size).filter(|_| random.f64() < rate).count() as u64),
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "a share of a million"
        )]
        Reference::Exact => (1_000_000, (rate * 1e6) as u64),
    };
    let state = DetectorState { size, passed, total: size, values: [0.0; 4] };
    Detector::from_state(state).expect("the counts are of a reference")
}

/// Simulates streams of at most `most` results. The results have the pass rate `after`, and the references have the
/// pass rate `before`.
pub(crate) fn simulate(
    reference: Reference,
    (before, after): (f64, f64),
    (streams, most): (u32, u64),
    random: &mut Rng,
) -> Lengths {
    let mut lengths = Lengths { streams, ..Lengths::default() };
    for _ in 0..streams {
        let mut detector = detector(reference, before, random);
        for _ in 0..most {
            lengths.results += 1;
            detector.add(random.f64() < after);
            if detector.is_alarm(MEAN) {
                lengths.alarms += 1;
                break;
            }
        }
    }
    lengths
}
