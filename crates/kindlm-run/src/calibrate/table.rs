//! Renders a calibration as text, for people.

use std::fmt::Write as _;

use kindlm_reporters::one_line;
use kindlm_stats::{Confusion, Interval, Tally, Undefined};
use kindlm_store::OwnNoise;
use kindlm_types::ecma;

use super::findings::{CONFIDENCE, FEW};
use super::{Correction, Findings, JudgeOutcome};

/// The maximum number of disagreements, and of errors, that are shown.
const SHOWN: usize = 5;

/// Returns the text of a calibration, in lines of about `width` columns.
pub(super) fn as_table(
    judge: &str,
    check: &str,
    labels: Option<(&str, &Findings)>,
    corrections: &[Correction],
    width: usize,
) -> String {
    let mut text = String::new();
    line(&mut text, "Judge", &format!("{} for `{check}`", one_line(judge)));
    if let Some((file, findings)) = labels {
        summary(&mut text, file, findings);
        matrix(&mut text, &findings.confusion);
        threshold(&mut text, findings);
        groups(&mut text, findings, width);
        disagreements(&mut text, file, findings, width);
        errors(&mut text, file, findings, width);
    }
    for it in corrections {
        correction(&mut text, it);
    }
    text
}

pub(super) fn line(text: &mut String, name: &str, value: &str) {
    let _ = writeln!(text, "{name:<18}{value}");
}

fn summary(text: &mut String, file: &str, findings: &Findings) {
    let Findings { confusion, errored, .. } = findings;
    let mut said = format!("{}: {} labelled", one_line(file), findings.labelled());
    let (_, unlabelled) = findings.unlabelled();
    if unlabelled > 0 {
        let _ = write!(said, ", {unlabelled} not");
    }
    if *errored > 0 {
        let _ = write!(said, "; {errored} could not be judged, and are not counted below");
    }
    line(text, "Labels", &said);
    line(text, "Agreement", &rate(confusion.agreement()));
    line(text, "Base rate", &format!("{}: outputs that people pass", rate(confusion.base_rate())));
    line(text, "Cohen's κ", &kappa(confusion, findings.interval));
    if let Some(noise) = findings.own_noise {
        line(text, "Own noise", &own_noise(noise));
    }
    if let Some(weighted) = &findings.weighted {
        let said = weighted.map_or_else(|why| why.to_string(), two);
        line(text, "Weighted κ", &format!("{said}, of the scores, with linear weights"));
    }
    line(
        text,
        "Passes seen",
        &format!("{}: the judge passes outputs that people pass", rate(confusion.sensitivity())),
    );
    line(
        text,
        "Failures seen",
        &format!("{}: the judge fails outputs that people fail", rate(confusion.specificity())),
    );
    if confusion.total() > 0 && confusion.total() < FEW {
        line(
            text,
            "",
            &format!("{} labels are few: use {FEW} to 200 for useful intervals", confusion.total()),
        );
    }
}

fn matrix(text: &mut String, confusion: &Confusion) {
    let Confusion { both_pass, only_human, only_judge, both_fail } = confusion;
    let _ = writeln!(text, "\n{:18}{:>12}{:>14}", "", "judge: pass", "judge: fail");
    let _ = writeln!(
        text,
        "{:18}{both_pass:>12}{only_human:>14}   too strict: {only_human}",
        "people: pass"
    );
    let _ = writeln!(
        text,
        "{:18}{only_judge:>12}{both_fail:>14}   too lenient: {only_judge}",
        "people: fail"
    );
}

fn threshold(text: &mut String, findings: &Findings) {
    let Some(best) = &findings.best else { return };
    text.push('\n');
    match best {
        Err(why) => line(text, "Best threshold", &format!("none: {why}")),
        Ok(best) => {
            let now = findings.confusion.kappa(CONFIDENCE).map_or(f64::NAN, |it| it.value);
            let mut said = format!("{}: κ {}", ecma::number(best.threshold), two(best.kappa));
            if let Some(held_out) = best.held_out_kappa {
                let _ = write!(said, " ({} on outputs that it was not chosen on)", two(held_out));
            }
            if now.is_finite() && best.kappa > now + 0.005 {
                let _ = write!(said, ", and {} as the check is now", two(now));
            }
            line(text, "Best threshold", &said);
        }
    }
}

fn groups(text: &mut String, findings: &Findings, width: usize) {
    if findings.groups.is_empty() {
        return;
    }
    let room = width.saturating_sub(48).clamp(20, 60);
    let _ = writeln!(
        text,
        "\n{:room$}{:>6}{:>12}{:>8}{:>18}",
        "About", "n", "agreement", "κ", "95% interval"
    );
    for (about, confusion) in &findings.groups {
        let agreement =
            confusion.agreement().map_or_else(|_| "none".to_owned(), |it| percent(it.rate()));
        let kappa =
            confusion.kappa(CONFIDENCE).map_or_else(|_| "none".to_owned(), |it| two(it.value));
        let interval = confusion.kappa_interval(CONFIDENCE);
        let interval = interval.map_or_else(
            |_| "none".to_owned(),
            |it| format!("{} to {}", two(it.low), two(it.high)),
        );
        let about = cut(about, room - 2);
        let n = confusion.total();
        let _ = writeln!(text, "{about:room$}{n:>6}{agreement:>12}{kappa:>8}{interval:>18}");
    }
}

fn disagreements(text: &mut String, file: &str, findings: &Findings, width: usize) {
    let all = findings.disagreements().count();
    if all == 0 {
        return;
    }
    let _ = writeln!(text, "\nDisagreements ({all})");
    for (sample, passed) in findings.disagreements().take(SHOWN) {
        let JudgeOutcome::Decided { score, reasoning, .. } = &sample.judge else { continue };
        let (human, judge) = if passed { ("pass", "fail") } else { ("fail", "pass") };
        let score = score.filter(|it| *it > 0.0 && *it < 1.0).map(|it| format!(" {}", two(it)));
        let head = format!(
            "  {}:{}  people {human}, judge {judge}{}: {}",
            one_line(file),
            sample.line,
            score.unwrap_or_default(),
            one_line(&sample.about),
        );
        let _ = writeln!(text, "{}", cut(head.trim_end_matches(": "), width));
        let _ =
            writeln!(text, "{}", cut(&format!("    output  {}", one_line(&sample.output)), width));
        if let Some(reasoning) = reasoning.as_deref().filter(|it| !it.is_empty()) {
            let _ =
                writeln!(text, "{}", cut(&format!("    judge   {}", one_line(reasoning)), width));
        }
    }
    if all > SHOWN {
        let _ = writeln!(text, "  and {} more: `--json` has all of them", all - SHOWN);
    }
}

fn errors(text: &mut String, file: &str, findings: &Findings, width: usize) {
    let errored = findings.samples.iter().filter_map(|it| match &it.judge {
        JudgeOutcome::Errored { message, .. } => Some((it.line, message)),
        JudgeOutcome::Decided { .. } => None,
    });
    let errored: Vec<(u64, &String)> = errored.collect();
    if errored.is_empty() {
        return;
    }
    let _ = writeln!(text, "\nNot judged ({})", errored.len());
    for (at, message) in errored.iter().take(SHOWN) {
        let said = format!("  {}:{at}  {}", one_line(file), one_line(message));
        let _ = writeln!(text, "{}", cut(&said, width));
    }
    if errored.len() > SHOWN {
        let _ = writeln!(text, "  and {} more", errored.len() - SHOWN);
    }
}

fn correction(text: &mut String, it: &Correction) {
    let _ = writeln!(text, "\nPass rate of `{}` in {}", it.check, one_line(&it.of));
    line(text, "  as judged", &rate(Ok(it.observed)));
    let by_errors = it.by_errors.map_or_else(
        |why| format!("none: {why}"),
        |it| format!("{}, {}", percent(it.rate), interval(it.interval)),
    );
    line(text, "  Rogan-Gladen", &format!("{by_errors}: by the judge's two error rates"));
    let by_predictions = it.by_predictions.map_or_else(
        |why| format!("none: {why}"),
        |it| format!("{}, {}", percent(it.mean), interval(it.interval)),
    );
    line(
        text,
        "  with labels",
        &format!("{by_predictions}: prediction-powered, of labels and judge"),
    );
}

fn kappa(confusion: &Confusion, interval: Result<Interval, Undefined>) -> String {
    let kappa = match confusion.kappa(CONFIDENCE) {
        Ok(kappa) => kappa,
        Err(why) => return format!("none: {why}"),
    };
    let said = match interval {
        Ok(it) => interval_of(it, two),
        Err(why) => format!("without an interval: {why}"),
    };
    format!("{}, {said} (0 is chance, 1 is perfect)", two(kappa.value))
}

/// Returns the text about the judge's disagreement with itself: the number of outputs with two different verdicts, and
/// the upper confidence limit of their share.
fn own_noise(noise: OwnNoise) -> String {
    match noise.upper() {
        Ok(high) => format!(
            "{} of {} differ when asked again, at most {}",
            noise.different,
            noise.asked,
            percent(high)
        ),
        Err(why) => format!("none: {why}"),
    }
}

fn rate(tally: Result<Tally, Undefined>) -> String {
    match tally {
        Ok(tally) => format!(
            "{} of {} ({}), {}",
            tally.passed(),
            tally.total(),
            percent(tally.rate()),
            interval(tally.wilson(CONFIDENCE)),
        ),
        Err(why) => format!("none: {why}"),
    }
}

fn interval(it: Interval) -> String {
    interval_of(it, percent)
}

fn interval_of(it: Interval, shown: fn(f64) -> String) -> String {
    format!("95% interval {} to {}", shown(it.low), shown(it.high))
}

pub(super) fn percent(share: f64) -> String {
    format!("{}%", ecma::to_fixed(share * 100.0, 1))
}

fn two(number: f64) -> String {
    ecma::to_fixed(number, 2)
}

/// Cuts a text to at most `room` characters; a cut text ends with an ellipsis.
fn cut(text: &str, room: usize) -> String {
    if text.chars().count() <= room {
        return text.to_owned();
    }
    let kept: String = text.chars().take(room.saturating_sub(1)).collect();
    format!("{}…", kept.trim_end())
}
