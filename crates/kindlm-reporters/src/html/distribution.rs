//! Histograms of latency, tokens and cost.

use kindlm_types::{Distribution, ModelTotals, Quantity, Summary, ecma};

use crate::amount::{count, duration, usd};
use crate::plain::one_line;

/// The height of the drawing, in the units of its SVG.
const HEIGHT: u64 = 40;

/// The distribution of a quantity on one model.
pub(super) struct Row {
    pub(super) quantity: &'static str,
    pub(super) model: String,
    /// The distribution as text, for readers who do not see the bars.
    pub(super) words: String,
    pub(super) bars: Vec<Bar>,
    /// The positions of the median and of the 95th percentile, in thousandths of the drawing's width.
    pub(super) marks: [u64; 2],
    pub(super) p50: String,
    pub(super) p95: String,
    pub(super) end: String,
}

/// A bar of a histogram. `x` and `width` are in thousandths of the drawing's width; `y` and `height` are in the unit of
/// [`HEIGHT`].
pub(super) struct Bar {
    pub(super) x: u64,
    pub(super) y: u64,
    pub(super) width: u64,
    pub(super) height: u64,
}

/// Returns the distributions, ordered by quantity and then by model.
pub(super) fn rows(summary: &Summary) -> Vec<Row> {
    let mut rows = Vec::new();
    for quantity in [Quantity::Latency, Quantity::Tokens, Quantity::Cost] {
        for model in &summary.models {
            let found = model.distributions.iter().find(|it| it.quantity == quantity);
            rows.extend(found.map(|it| row(model, it)));
        }
    }
    rows
}

fn row(model: &ModelTotals, it: &Distribution) -> Row {
    let (quantity, shown): (_, fn(f64) -> String) = match it.quantity {
        Quantity::Latency => ("Latency", duration),
        Quantity::Tokens => ("Tokens", |it| ecma::to_fixed(it, 0)),
        Quantity::Cost => ("Cost", usd),
    };
    let end = shown(it.end);
    let counts: Vec<String> = it.bins.iter().map(|it| count(*it)).collect();
    let place = |value: f64| scaled(value, it.end).min(996);
    Row {
        quantity,
        model: one_line(&model.model),
        words: format!(
            "Executions in {} equal ranges from 0 to {end} and above: {}",
            counts.len(),
            counts.join(", ")
        ),
        bars: bars(&it.bins),
        marks: [place(it.percentiles.p50), place(it.percentiles.p95)],
        p50: shown(it.percentiles.p50),
        p95: shown(it.percentiles.p95),
        end,
    }
}

/// Returns the bars of a histogram: one for each bin with executions. Each bar is high enough to be visible.
fn bars(bins: &[u64]) -> Vec<Bar> {
    let most = bins.iter().copied().max().unwrap_or(0).max(1);
    let start = |at: u64| 1000 * at / (bins.len().max(1) as u64);
    let bars = (0..).zip(bins).filter(|(_, it)| **it > 0).map(|(at, it)| {
        let height = (HEIGHT * it / most).max(2);
        let (x, end) = (start(at), start(at + 1));
        Bar { x, y: HEIGHT - height, width: (end - x).saturating_sub(2).max(1), height }
    });
    bars.collect()
}

/// Returns `value / most` in thousandths, limited to 0 to 1000; 0 if `most` is not positive.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "the value is limited to 0 to 1000"
)]
pub(super) fn scaled(value: f64, most: f64) -> u64 {
    if most > 0.0 { (value / most * 1000.0).clamp(0.0, 1000.0).round() as u64 } else { 0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bar_is_as_high_as_its_share_of_the_highest() {
        let found: Vec<_> =
            bars(&[0, 4, 1, 1000]).iter().map(|it| (it.x, it.y, it.height)).collect();
        assert_eq!(found, [(250, 38, 2), (500, 38, 2), (750, 0, 40)]);
    }
}
