//! Formats the result of a search for the commit or change that made a case fail, for a terminal.

use kindlm_types::ecma;
use kindlm_wire::bisect::{Answer, Bisection, Candidate, CandidateKind, Step, StepVerdict};

use crate::amount::{count, percent, plural};
use crate::plain::{head, one_line};

/// The maximum number of candidates that are listed.
const LISTED: usize = 30;
/// The maximum number of lines of a change that are shown.
const LINES: usize = 10;
/// The number of characters of a commit's id that are shown.
const SHOWN: usize = 8;

/// Returns the result as text for a terminal, with the steps of the search if `shows_steps` is true.
pub fn bisect_text(report: &Bisection, shows_steps: bool) -> String {
    let Bisection { case, model, candidates, kind, .. } = report;
    let what = match kind {
        CandidateKind::Commits => "commit",
        CandidateKind::Changes => "change",
    };
    let all = plural(candidates.len() as u64, what);
    let mut text = String::new();
    add_line(&mut text, &format!("{case} · {model}: {all}"));
    if *kind == CandidateKind::Changes {
        for (at, it) in candidates.iter().enumerate().take(LISTED) {
            add_line(&mut text, &format!("  {} {}", at + 1, bisect_candidate(it)));
        }
    }
    text.push('\n');
    if shows_steps {
        for it in &report.steps {
            add_line(&mut text, &bisect_step(it));
        }
        text.push('\n');
    }
    add_answer(&mut text, report);
    add_line(&mut text, &effort(report));
    text
}

/// Returns a step in one line, such as `bad      4f2a1c9e shorten the prompt: 0 of 3 passed`.
pub fn bisect_step(step: &Step) -> String {
    let word = match step.verdict {
        StepVerdict::Good => "good",
        StepVerdict::Bad => "bad",
        StepVerdict::Skipped => "skipped",
        StepVerdict::Stopped => "stopped",
    };
    let mut details = Vec::new();
    if step.judged > 0 {
        details.push(format!("{} of {} passed", count(step.passed), count(step.judged)));
    }
    details.extend(step.reason.clone());
    if step.reused {
        details.push("the same as an earlier step, nothing sent".to_owned());
    }
    one_line(&format!("{word:7}  {}: {}", step.tried, details.join("; ")))
}

/// Returns a candidate in one line: the commit with its subject, or the change.
pub fn bisect_candidate(it: &Candidate) -> String {
    let Candidate { id, subject, removed, added } = it;
    if let Some(subject) = subject {
        return one_line(&format!("{} {subject}", head(id, SHOWN)));
    }
    let side = |lines: &[String]| match lines {
        [] => "nothing".to_owned(),
        [only] => format!("`{only}`"),
        several => plural(several.len() as u64, "line"),
    };
    one_line(&format!("{id}: {} → {}", side(removed), side(added)))
}

fn add_line(text: &mut String, line: &str) {
    text.push_str(&one_line(line));
    text.push('\n');
}

fn add_answer(text: &mut String, report: &Bisection) {
    let is_commit = report.kind == CandidateKind::Commits;
    let chosen = |indices: &[usize]| {
        let chosen = indices.iter().filter_map(|it| report.candidates.get(*it));
        chosen.cloned().collect::<Vec<Candidate>>()
    };
    match &report.answer {
        Answer::Found { candidates } => {
            let title = match (is_commit, candidates.len()) {
                (true, _) => "the case fails since this commit:",
                (false, 1) => "the case fails because of this change:",
                (false, _) => "the case fails because of these changes together:",
            };
            add_line(text, title);
            add_candidates(text, &chosen(candidates));
            let error = error(report.error_bound);
            add_line(
                text,
                &format!("probability that this is wrong: at most {error}%, if {}", rates(report)),
            );
        }
        Answer::Among { candidates, reason } => {
            let title = if is_commit {
                "the case fails since one of these commits"
            } else {
                "the case fails because of some of these changes"
            };
            add_line(text, &format!("{title} ({reason}):"));
            add_candidates(text, &chosen(candidates));
        }
        Answer::NotReproduced { reason } => {
            add_line(text, &format!("nothing was searched: {reason}"));
            add_line(text, &format!("the search needs that {}", rates(report)));
            add_line(text, "`--pass` and `--fail` set these rates");
        }
    }
}

fn rates(report: &Bisection) -> String {
    let (pass, fail) = (percent(report.test.pass), percent(report.test.fail));
    format!("each try passes in {pass}% of repeats or more (good), or in {fail}% or less (bad)")
}

fn add_candidates(text: &mut String, candidates: &[Candidate]) {
    for it in candidates.iter().take(LISTED) {
        if it.subject.is_some() {
            add_line(text, &format!("  {}", bisect_candidate(it)));
            continue;
        }
        add_line(text, &format!("  {}", it.id));
        for (sign, lines) in [('-', &it.removed), ('+', &it.added)] {
            for line in lines.iter().take(LINES) {
                add_line(text, &format!("  {sign} {line}"));
            }
            let more = lines.len().saturating_sub(LINES);
            if more > 0 {
                add_line(text, &format!("  {sign} … {}", plural(more as u64, "more line")));
            }
        }
    }
    let more = candidates.len().saturating_sub(LISTED);
    if more > 0 {
        add_line(text, &format!("  and {} more", count(more as u64)));
    }
}

/// Formats a probability in percent, rounded up to one decimal.
fn error(bound: f64) -> String {
    ecma::to_fixed((bound * 1_000.0 - 1e-6).ceil().max(0.0) / 10.0, 1)
}

fn effort(report: &Bisection) -> String {
    let steps = plural(report.steps.len() as u64, "step");
    format!("{steps}, {}", plural(report.executions, "execution"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn error_rates_are_rounded_up() {
        for (bound, expected) in [(0.05, "5.0"), (0.0501, "5.1"), (0.0, "0.0"), (1.0, "100.0")] {
            assert_eq!(error(bound), expected);
        }
    }
}
