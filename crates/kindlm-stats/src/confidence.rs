//! Confidence levels and intervals.

/// The confidence level of intervals: the share of intervals that contain the true value.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Confidence {
    level: f64,
    z: f64,
}

// Only common levels are supported. Their quantiles are constants, so no approximation of the quantile function is
// needed.
impl Confidence {
    /// The level of 90%: 90 of 100 intervals contain the true value.
    pub const P90: Self = Self { level: 0.90, z: 1.644_853_626_951_472_7 };
    /// The level of 95%: 95 of 100 intervals contain the true value.
    pub const P95: Self = Self { level: 0.95, z: 1.959_963_984_540_054 };
    /// The level of 99%: 99 of 100 intervals contain the true value.
    pub const P99: Self = Self { level: 0.99, z: 2.575_829_303_548_901 };

    /// Returns the level, between 0 and 1.
    pub fn level(self) -> f64 {
        self.level
    }

    /// Returns the two-sided quantile of the standard normal distribution.
    ///
    /// For the level 0.95, the quantile is 1.96.
    pub fn z(self) -> f64 {
        self.z
    }
}

/// A confidence interval. Both ends belong to the interval.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct Interval {
    /// The lower end of the interval.
    pub low: f64,
    /// The upper end of the interval; not below [`low`](Self::low).
    pub high: f64,
}

impl Interval {
    /// Returns the interval with these ends. The caller makes sure that `low` is not above `high`.
    pub fn new(low: f64, high: f64) -> Self {
        Self { low, high }
    }

    /// Returns the interval of `z` standard errors around a value.
    ///
    /// Both ends are limited to the range from `least` to `most`.
    pub(crate) fn around(value: f64, standard_error: f64, z: f64, least: f64, most: f64) -> Self {
        let half = z * standard_error;
        Self { low: (value - half).clamp(least, most), high: (value + half).clamp(least, most) }
    }
}
