//! Confidence levels and intervals.

/// The probability that an interval made this way contains the true value.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Confidence {
    level: f64,
    z: f64,
}

// The levels that people use, with their quantiles to the last digit of a double; no others are needed, and so no
// approximation of the quantile function.
impl Confidence {
    /// 90 of 100 intervals hold the true value.
    pub const P90: Self = Self { level: 0.90, z: 1.644_853_626_951_472_7 };
    /// 95 of 100 intervals hold the true value.
    pub const P95: Self = Self { level: 0.95, z: 1.959_963_984_540_054 };
    /// 99 of 100 intervals hold the true value.
    pub const P99: Self = Self { level: 0.99, z: 2.575_829_303_548_901 };

    /// The level, above 0 and below 1.
    pub fn level(self) -> f64 {
        self.level
    }

    /// The quantile of the standard normal distribution that leaves half of the rest on each side: 1.96 for 0.95.
    pub fn z(self) -> f64 {
        self.z
    }
}

/// From where to where a value probably lies.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Interval {
    /// The lower end.
    pub low: f64,
    /// The upper end; not below [`low`](Self::low).
    pub high: f64,
}

impl Interval {
    /// `z` standard errors on each side of a value, cut to a range.
    pub(crate) fn around(value: f64, standard_error: f64, z: f64, least: f64, most: f64) -> Self {
        let half = z * standard_error;
        Self { low: (value - half).clamp(least, most), high: (value + half).clamp(least, most) }
    }
}
