//! Rules that end repeats early: from the config file to the engine, with their problems.

use kindlm_engine::Until;
use kindlm_source::{Code, Piece};
use kindlm_stats::{Decision, Sprt};
use kindlm_types::MemberPart;

use super::sink::Sink;
use crate::written::{EarlyEntry, RepeatEntry, UntilEntry};

/// The highest acceptable share of undecided cases, from 0 to 1, if the true pass rate of all cases is `pass` or
/// `fail`.
const UNDECIDED: f64 = 0.1;

/// The highest `max` that the schema allows, and that the help suggests.
const LIMIT: u32 = 10_000;

/// Returns the rule of a `repeat` at this pointer; `None` for a fixed number, or after an error.
pub(super) fn until(
    sink: &mut Sink,
    piece: Piece<'_>,
    at: &str,
    entry: RepeatEntry,
) -> Option<Until> {
    let RepeatEntry::Early(early) = entry else { return None };
    match early.until {
        UntilEntry::Settled => {
            for (key, value) in [
                ("pass", early.pass),
                ("fail", early.fail),
                ("alpha", early.alpha),
                ("beta", early.beta),
            ] {
                if value.is_some() {
                    let message = format!("`{key}` has no effect with `until: settled`");
                    sink.push(
                        piece
                            .error(
                                Code::NO_EFFECT,
                                &format!("{at}/{key}"),
                                MemberPart::Key,
                                message,
                            )
                            .with_help("write `until: decided`, or remove the key"),
                    );
                }
            }
            Some(Until::Settled)
        }
        UntilEntry::Decided => decided(sink, piece, at, early).map(Until::Decided),
    }
}

fn decided(sink: &mut Sink, piece: Piece<'_>, at: &str, early: EarlyEntry) -> Option<Sprt> {
    let (pass, fail) = (early.pass.unwrap_or(0.95), early.fail.unwrap_or(0.8));
    let (alpha, beta) = (early.alpha.unwrap_or(0.05), early.beta.unwrap_or(0.05));
    let Ok(test) = Sprt::new(fail, pass, alpha, beta) else {
        // The schema checks the range of each number, so only the order of `fail` and `pass` can be wrong.
        let message = format!("`fail` ({fail}) must be below `pass` ({pass})");
        let key = if early.fail.is_some() { "fail" } else { "pass" };
        let help = "a case passes at the rate `pass`, fails at the rate `fail`, and may do either in between";
        let at = format!("{at}/{key}");
        sink.push(
            piece.error(Code::INVALID_VALUE, &at, MemberPart::Value, message).with_help(help),
        );
        return None;
    };
    let at = format!("{at}/max");
    let max = early.max;
    if test.decide(max.into(), 0) != Some(Decision::Pass) {
        let message = format!(
            "{max} repeats cannot show that a case passes: even {max} passes decide nothing"
        );
        let diagnostic = piece.error(Code::INVALID_VALUE, &at, MemberPart::Value, message);
        sink.push(diagnostic.with_help(advice(&test, max)));
        return None;
    }
    let undecided = |rate| (test.characteristics(rate, max).undecided, rate);
    let (share, rate) = [undecided(fail), undecided(pass)]
        .into_iter()
        .fold((0.0, pass), |worst, it| if it.0 > worst.0 { it } else { worst });
    if share > UNDECIDED {
        let message = format!(
            "with {max} repeats, {} of the cases with a true pass rate of {} stay undecided",
            percent(share),
            percent(rate)
        );
        let diagnostic = piece.error(Code::NO_EFFECT, &at, MemberPart::Value, message);
        sink.push(diagnostic.with_help(advice(&test, max)).into_warning());
    }
    Some(test)
}

/// Returns help for a `max` that is too small.
///
/// The help has a larger `max` for the same rates and, if possible, a lower `fail` for the same `max`.
fn advice(test: &Sprt, max: u32) -> String {
    let enough = match test.smallest_max(UNDECIDED, LIMIT) {
        Some(enough) => format!("`max: {enough}` leaves at most 10% undecided"),
        None => "move `pass` and `fail` apart".to_owned(),
    };
    let fits = |fail: f64| {
        let wider = Sprt::new(fail, test.pass(), test.alpha(), test.beta()).ok()?;
        let share = |rate| wider.characteristics(rate, max).undecided;
        let worst = share(wider.fail()).max(share(wider.pass()));
        let can_pass = wider.decide(max.into(), 0) == Some(Decision::Pass);
        (can_pass && worst <= UNDECIDED).then(|| {
            format!("{enough}; `fail: {fail}` with `max: {max}` leaves {}", percent(worst))
        })
    };
    // Rates that people write: 0.95, 0.9, and so on.
    let lower = (1..20_u32).rev().map(|it| f64::from(it) / 20.0).filter(|it| *it < test.fail());
    lower.into_iter().find_map(fits).unwrap_or(enough)
}

/// Formats a share, from 0 to 1, in percent: with one decimal below 10%, and without decimals from 10%.
fn percent(share: f64) -> String {
    let digits = u8::from(share < 0.1);
    let text = kindlm_types::ecma::to_fixed(share * 100.0, digits);
    format!("{}%", text.strip_suffix(".0").unwrap_or(&text))
}
