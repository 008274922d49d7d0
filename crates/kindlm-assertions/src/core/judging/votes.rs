//! The combination of several judgements: of one judge asked several times, and of several judges.

use kindlm_types::ask::JurorSample;
use kindlm_types::{
    AssertionResult, FailureCode, JudgePanel, JudgeVote, Score, Verdict, VoteStatus,
};

use super::PARSE_ERROR;

/// The rules that combine votes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum VoteRule {
    /// The median of the scores, compared with the check's own threshold. If the check derives no verdict from a score
    /// alone, the majority of the votes decides.
    Median,
    /// The mean of the scores, compared like the median with the check's own threshold.
    Mean,
    /// The verdict of more than half of the votes.
    Majority,
    /// A pass if all votes pass.
    All,
}

/// The rule for votes of one kind: samples or jurors.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ballot {
    pub(super) how: VoteRule,
    /// The lowest number of readable votes.
    pub(super) quorum: usize,
    /// The name of the votes, for error messages.
    pub(super) who: &'static str,
}

/// A metadata key about a single vote. Combined results do not have this key.
const OF_ONE_VOTE: &str = "driftByOrder";

/// The rule by which a check turns a score into a verdict.
type Decide<'a> = &'a dyn Fn(Score) -> Option<Verdict>;

/// The results of one sample of one juror.
type Vote = (JurorSample, Vec<AssertionResult>);

/// Combines all results: first the samples of each juror, then the jurors.
///
/// A check may have several results; results with the same label belong together. A result that is not in more than
/// half of the votes is left out. An example is the result for an id that a judge made up.
pub(super) fn combine(
    jurors: Vec<Vec<Vote>>,
    by_juror: &Ballot,
    by_jury: &Ballot,
    decide: Decide<'_>,
) -> Vec<AssertionResult> {
    let vote_count: usize = jurors.iter().map(Vec::len).sum();
    if vote_count == 1 {
        return jurors.into_iter().flatten().flat_map(|(_, results)| results).collect();
    }
    let mut names: Vec<(String, usize)> = Vec::new();
    for (_, results) in jurors.iter().flatten() {
        let mut own: Vec<(String, usize)> = Vec::new();
        for result in results {
            let nth = own.iter().filter(|(label, _)| *label == result.label).count();
            own.push((result.label.clone(), nth));
        }
        names.extend(own.into_iter().filter(|it| !names.contains(it)).collect::<Vec<_>>());
    }
    let about = |name: &(String, usize)| {
        let of = |(juror, results): &Vote| {
            let mut same = results.iter().filter(|it| it.label == name.0);
            same.nth(name.1).map(|it| (juror.clone(), it.clone()))
        };
        let found: Vec<Vec<(JurorSample, AssertionResult)>> =
            jurors.iter().map(|votes| votes.iter().filter_map(of).collect()).collect();
        let matching: usize = found.iter().map(Vec::len).sum();
        let asked: Vec<usize> = jurors.iter().map(Vec::len).collect();
        (matching * 2 > vote_count).then(|| one(&found, &asked, by_juror, by_jury, decide))
    };
    names.iter().filter_map(about).collect()
}

/// Combines the votes about one result. `asked` is the number of samples of each juror.
fn one(
    jurors: &[Vec<(JurorSample, AssertionResult)>],
    asked: &[usize],
    by_juror: &Ballot,
    by_jury: &Ballot,
    decide: Decide<'_>,
) -> AssertionResult {
    let several_samples = jurors.iter().any(|it| it.len() > 1);
    let verdicts: Vec<AssertionResult> = jurors
        .iter()
        .zip(asked)
        .filter(|(votes, _)| !votes.is_empty())
        .map(|(votes, asked)| {
            let votes: Vec<&AssertionResult> = votes.iter().map(|(_, it)| it).collect();
            fold(&votes, *asked, by_juror, decide)
        })
        .collect();
    let votes: Vec<&AssertionResult> = verdicts.iter().collect();
    let result = if jurors.len() > 1 {
        fold(&votes, jurors.len(), by_jury, decide)
    } else {
        fold_one(&votes)
    };
    let all: Vec<&AssertionResult> = jurors.iter().flatten().map(|(_, it)| it).collect();
    let panel = panel(jurors, &all, if jurors.len() > 1 { &votes } else { &all }, &result);
    let is_split = panel.borderline;
    let mut result = result;
    let judging = result.judging_mut();
    judging.panel = Some(panel);
    if jurors.len() > 1 || several_samples {
        // The votes name their judges. The combined verdict comes from several requests, so it names no judge.
        judging.model = None;
        judging.answered = None;
        judging.fingerprint = None;
    }
    if is_split {
        judging.borderline = true;
        if let Verdict::Fail { message, .. } = &mut result.verdict {
            let passed = all.iter().filter(|it| it.verdict == Verdict::Pass).count();
            let note = format!(" (borderline: {passed} of {} votes pass)", all.len());
            message.push_str(&note);
        }
    }
    result
}

fn fold_one(votes: &[&AssertionResult]) -> AssertionResult {
    let without_votes = || {
        let message = "no vote of a judge was recorded";
        AssertionResult::errored("judge", "judge", FailureCode::INTERNAL_ERROR, message)
    };
    votes.first().map_or_else(without_votes, |it| (*it).clone())
}

/// Combines several results of the same check.
///
/// `asked` is the number of requested votes. There are fewer `votes` than `asked` if some votes lack this result.
fn fold(
    votes: &[&AssertionResult],
    asked: usize,
    ballot: &Ballot,
    decide: Decide<'_>,
) -> AssertionResult {
    if votes.len() == 1 && asked == 1 && ballot.quorum <= 1 {
        return fold_one(votes);
    }
    let readable: Vec<&AssertionResult> =
        votes.iter().copied().filter(|it| is_readable(it)).collect();
    let fails = |it: &&&AssertionResult| matches!(it.verdict, Verdict::Fail { .. });
    // If all votes must pass, a single failure decides, however many votes are unreadable.
    let is_settled = ballot.how == VoteRule::All && readable.iter().any(|it| fails(&it));
    if readable.len() < ballot.quorum && !is_settled {
        return uncounted(votes, asked, readable.len(), ballot);
    }
    let passes = readable.iter().filter(|it| it.verdict == Verdict::Pass).count();
    let majority = passes * 2 > readable.len();
    let scores: Vec<f64> = readable.iter().filter_map(|it| it.score).map(Score::get).collect();
    let (score, verdict) = match ballot.how {
        VoteRule::Median => measured(median(&scores), decide),
        VoteRule::Mean => measured(mean(&scores), decide),
        VoteRule::Majority | VoteRule::All => (None, None),
    };
    let pass = match (&verdict, ballot.how) {
        (Some(verdict), _) => *verdict == Verdict::Pass,
        (None, VoteRule::All) => passes == readable.len(),
        (None, _) => majority,
    };
    let side: Vec<&AssertionResult> =
        readable.iter().copied().filter(|it| (it.verdict == Verdict::Pass) == pass).collect();
    let side_scores: Vec<f64> = side.iter().filter_map(|it| it.score).map(Score::get).collect();
    let score = score.or_else(|| match ballot.how {
        VoteRule::All => scores.iter().copied().reduce(f64::min),
        _ => median(&side_scores),
    });
    // The result starts as a copy of one vote. This vote has the combined verdict, and the score that is nearest to the
    // combined score.
    //
    // If a median or mean gives a verdict that no vote has, all readable votes are candidates.
    let speakers = if side.is_empty() { &readable } else { &side };
    let distance = |it: &AssertionResult| match (it.score, score) {
        (Some(own), Some(score)) => (own.get() - score).abs(),
        _ => 0.0,
    };
    let speaker = speakers.iter().copied().min_by(|a, b| distance(a).total_cmp(&distance(b)));
    let Some(speaker) = speaker else { return uncounted(votes, asked, 0, ballot) };
    let mut result = speaker.clone();
    result.metadata.shift_remove(OF_ONE_VOTE);
    let ties = readable.iter().filter(|it| it.judging.as_ref().is_some_and(|it| it.tie)).count();
    let judging = result.judging_mut();
    judging.asked = None;
    judging.borderline = false;
    // If more than half of the readable votes are ties, the combined result is a tie.
    judging.tie = ties * 2 > readable.len();
    result.score = score.and_then(|it| Score::new(it).ok()).or(result.score);
    if let Some(verdict) = verdict {
        result.verdict = verdict;
    }
    result
}

fn is_readable(result: &AssertionResult) -> bool {
    matches!(result.verdict, Verdict::Pass | Verdict::Fail { .. })
}

fn measured(score: Option<f64>, decide: Decide<'_>) -> (Option<f64>, Option<Verdict>) {
    let verdict = score.and_then(|it| Score::new(it).ok()).and_then(decide);
    (score, verdict)
}

/// Returns the result for too few readable votes: a copy of an errored vote, else of a skipped vote.
///
/// If all votes are readable, but too few of them have this result, the result is errored.
fn uncounted(
    votes: &[&AssertionResult],
    asked: usize,
    readable: usize,
    ballot: &Ballot,
) -> AssertionResult {
    let counted = format!(
        "{readable} of {asked} {} could be counted, and {} are needed",
        ballot.who, ballot.quorum
    );
    let errored = votes.iter().find(|it| matches!(it.verdict, Verdict::Errored { .. }));
    if let Some(errored) = errored {
        let mut result = (*errored).clone();
        if let Verdict::Errored { message, .. } = &mut result.verdict {
            *message = format!("{counted}: {message}");
        }
        return result;
    }
    let skipped = votes.iter().find(|it| !is_readable(it));
    let Some(vote) = skipped.or(votes.first()) else { return fold_one(votes) };
    let mut result = (*vote).clone();
    if is_readable(&result) {
        // The other votes are readable but lack this result, so a single vote must not decide.
        let message = format!("{counted}: the other answers of the judges lack this result");
        result.verdict = Verdict::Errored { code: PARSE_ERROR, message };
        result.score = None;
        result.reasoning = None;
    }
    result
}

/// Returns the data about the votes: each vote, the spread of scores, the agreement, and whether the votes differ.
fn panel(
    jurors: &[Vec<(JurorSample, AssertionResult)>],
    all: &[&AssertionResult],
    counted: &[&AssertionResult],
    result: &AssertionResult,
) -> JudgePanel {
    let several = jurors.iter().any(|it| it.len() > 1);
    let votes = jurors.iter().flatten().map(|(juror, vote)| {
        let judging = vote.judging.as_deref();
        let mut summary = JudgeVote::default();
        summary.judge = judging.and_then(|it| it.model.clone()).or_else(|| juror.model.clone());
        summary.answered_model = judging.and_then(|it| it.answered.clone());
        summary.system_fingerprint = judging.and_then(|it| it.fingerprint.clone());
        summary.sample = several.then_some(juror.sample);
        summary.status = status(&vote.verdict);
        summary.score = vote.score.map(Score::get);
        let words = vote.reasoning.as_deref().or_else(|| vote.verdict.message());
        summary.reasoning = words.map(str::to_owned);
        summary
    });
    let mut panel = JudgePanel::default();
    panel.votes = votes.collect();
    let readable: Vec<&&AssertionResult> = counted.iter().filter(|it| is_readable(it)).collect();
    let same = readable.iter().filter(|it| it.verdict.held() == result.verdict.held()).count();
    if is_readable(result) && !readable.is_empty() {
        panel.agreement = Some(share(same, readable.len()));
    }
    let scores: Vec<f64> = all.iter().filter_map(|it| it.score).map(Score::get).collect();
    let least = scores.iter().copied().reduce(f64::min);
    let most = scores.iter().copied().reduce(f64::max);
    panel.spread = least.zip(most).map(|(least, most)| most - least);
    let held = |wanted: bool| all.iter().any(|it| is_readable(it) && it.verdict.held() == wanted);
    panel.borderline = held(true) && held(false);
    panel
}

fn status(verdict: &Verdict) -> VoteStatus {
    match verdict {
        Verdict::Pass => VoteStatus::Passed,
        Verdict::Fail { .. } => VoteStatus::Failed,
        Verdict::Errored { .. } => VoteStatus::Errored,
        Verdict::Skipped { .. } => VoteStatus::Skipped,
    }
}

/// Returns a share of votes. The number of votes always fits into a `u32`.
fn share(part: usize, all: usize) -> f64 {
    let count = |it: usize| u32::try_from(it).map_or(f64::INFINITY, f64::from);
    count(part) / count(all)
}

/// Returns the mean; `None` for an empty list.
fn mean(scores: &[f64]) -> Option<f64> {
    /// The mean is rounded to a multiple of 1 / `EXACT`.
    ///
    /// In floating point, the mean of 0.7, 0.8 and 0.9 is slightly below 0.8. `judge` compares scores with its limit
    /// exactly, so an unrounded mean would miss the limit 0.8.
    const EXACT: f64 = 1e12;
    let count = u32::try_from(scores.len()).ok().filter(|it| *it > 0)?;
    Some((scores.iter().sum::<f64>() / f64::from(count) * EXACT).round() / EXACT)
}

/// Returns the median; `None` for an empty list.
///
/// For an even number of scores, the median is the mean of the two middle scores.
fn median(scores: &[f64]) -> Option<f64> {
    let mut sorted = scores.to_vec();
    sorted.sort_by(f64::total_cmp);
    let middle = sorted.len() / 2;
    if sorted.len() % 2 == 1 {
        return sorted.get(middle).copied();
    }
    mean(sorted.get(middle.checked_sub(1)?..=middle)?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn vote(score: f64) -> AssertionResult {
        AssertionResult::new("judge", "j", decide(Score::new(score).unwrap()).unwrap())
            .with_score(Score::new(score).unwrap())
    }

    #[expect(clippy::unnecessary_wraps, reason = "checks may have no threshold to decide by")]
    fn decide(score: Score) -> Option<Verdict> {
        Some(if score.get() >= 0.7 {
            Verdict::Pass
        } else {
            Verdict::Fail { code: FailureCode::new("LOW"), message: "low".to_owned() }
        })
    }

    fn lost() -> AssertionResult {
        AssertionResult::errored("judge", "j", FailureCode::new("LOST"), "lost")
    }

    fn shown(result: &AssertionResult) -> String {
        let score = result.score.map(|it| format!(" {it}")).unwrap_or_default();
        let message = result.verdict.message().map(|it| format!(" {it}")).unwrap_or_default();
        format!("{}{score}{message}", result.verdict.status())
    }

    #[test]
    fn means_of_decimal_scores_are_exact() {
        for (scores, expected) in [
            (vec![0.7, 0.8, 0.9], 0.8),
            (vec![0.6, 0.7, 0.8], 0.7),
            (vec![1.0, 0.4, 0.7], 0.7),
            (vec![1.0, 1.0], 1.0),
        ] {
            assert_eq!(mean(&scores), Some(expected), "{scores:?}");
        }
    }

    #[test]
    fn single_vote_details_are_not_in_combined_results() {
        let tie = || {
            let mut tie = vote(0.9).with_metadata("reasoning", "why");
            tie.judging_mut().tie = true;
            tie
        };
        let ballot = Ballot { how: VoteRule::Median, quorum: 2, who: "jurors" };
        let (first, second, third) = (tie(), vote(0.9), vote(0.9));
        let result = fold(&[&first, &second, &third], 3, &ballot, &decide);
        assert_eq!(result.metadata.keys().collect::<Vec<_>>(), ["reasoning"]);
        assert!(!result.judging.unwrap().tie);
        let alone = Ballot { quorum: 1, ..ballot };
        assert!(fold(&[&first], 1, &alone, &decide).judging.unwrap().tie);
    }

    #[test]
    fn votes_become_one() {
        let few = "errored 1 of 3 jurors could be counted, and 2 are needed: lost";
        for (how, quorum, votes, expected) in [
            (VoteRule::Median, 2, vec![vote(0.2), vote(0.9), vote(0.8)], "passed 0.8"),
            (VoteRule::Median, 2, vec![vote(0.6), vote(0.9), lost()], "passed 0.75"),
            (VoteRule::Median, 2, vec![vote(0.2), vote(0.9), lost()], "failed 0.55 low"),
            (VoteRule::Mean, 2, vec![vote(0.1), vote(0.8), vote(0.9)], "failed 0.6 low"),
            (VoteRule::Majority, 2, vec![vote(0.1), vote(0.75), vote(1.0)], "passed 0.875"),
            (VoteRule::Majority, 2, vec![vote(0.1), vote(0.8), lost()], "failed 0.1 low"),
            (VoteRule::All, 2, vec![vote(0.7), vote(0.8), lost()], "passed 0.7"),
            (
                VoteRule::All,
                3,
                vec![vote(0.7), vote(0.8), lost()],
                "errored 2 of 3 jurors could be counted, and 3 are needed: lost",
            ),
            (VoteRule::All, 3, vec![vote(0.1), lost(), lost()], "failed 0.1 low"),
            (VoteRule::Majority, 2, vec![vote(0.9), lost(), lost()], few),
            (VoteRule::Median, 2, vec![lost(), vote(0.9), lost()], few),
        ] {
            let ballot = Ballot { how, quorum, who: "jurors" };
            let votes: Vec<&AssertionResult> = votes.iter().collect();
            assert_eq!(shown(&fold(&votes, votes.len(), &ballot, &decide)), expected, "{how:?}");
        }
    }

    #[test]
    fn a_result_that_only_a_minority_has_is_left_out() {
        let made_up = AssertionResult::errored("judge", "made up", FailureCode::new("ODD"), "odd");
        let juror = |sample| JurorSample { sample, samples: 3, ..JurorSample::default() };
        let votes = vec![vec![
            (juror(0), vec![vote(1.0), made_up]),
            (juror(1), vec![vote(0.9)]),
            (juror(2), vec![vote(0.0)]),
        ]];
        let ballot = Ballot { how: VoteRule::Median, quorum: 2, who: "samples" };
        let results = combine(votes, &ballot, &ballot, &decide);
        assert_eq!(results.iter().map(shown).collect::<Vec<_>>(), ["passed 0.9"]);
        let panel = results[0].judging.as_ref().unwrap().panel.as_ref().unwrap();
        assert_eq!((panel.spread, panel.borderline, panel.votes.len()), (Some(1.0), true, 3));
        assert!((panel.agreement.unwrap() - 2.0 / 3.0).abs() < 1e-12);
    }

    #[test]
    fn a_result_in_too_few_votes_for_the_quorum_is_errored() {
        let juror = |sample| JurorSample { sample, samples: 3, ..JurorSample::default() };
        let other = |score| AssertionResult { label: "k".to_owned(), ..vote(score) };
        // The result `k` is in two of three samples, and all three are needed.
        let votes = vec![vec![
            (juror(0), vec![vote(0.9), other(0.9)]),
            (juror(1), vec![vote(0.9), other(0.9)]),
            (juror(2), vec![vote(0.9)]),
        ]];
        let samples = Ballot { how: VoteRule::Median, quorum: 3, who: "samples" };
        let results = combine(votes, &samples, &samples, &decide);
        let few =
            "could be counted, and 3 are needed: the other answers of the judges lack this result";
        let expected = ["passed 0.9".to_owned(), format!("errored 2 of 3 samples {few}")];
        assert_eq!(results.iter().map(shown).collect::<Vec<_>>(), expected);

        // Only one of two jurors has the result in its samples, and both jurors are needed.
        let votes = vec![
            vec![(juror(0), vec![other(0.9)]), (juror(1), vec![other(0.9)])],
            vec![(juror(0), vec![])],
        ];
        let samples = Ballot { how: VoteRule::Median, quorum: 1, who: "samples" };
        let jurors = Ballot { how: VoteRule::All, quorum: 2, who: "jurors" };
        let results = combine(votes, &samples, &jurors, &decide);
        let few =
            "could be counted, and 2 are needed: the other answers of the judges lack this result";
        assert_eq!(shown(&results[0]), format!("errored 1 of 2 jurors {few}"));
    }

    proptest! {
        #[test]
        fn votes_that_agree_are_that_verdict(
            scores in proptest::collection::vec(0.7..=1.0f64, 1..6),
            how in proptest::sample::select(vec![VoteRule::Median, VoteRule::Mean, VoteRule::Majority, VoteRule::All]),
        ) {
            let votes: Vec<AssertionResult> = scores.iter().map(|it| vote(*it)).collect();
            let ballot = Ballot { how, quorum: votes.len(), who: "jurors" };
            let result = fold(&votes.iter().collect::<Vec<_>>(), votes.len(), &ballot, &decide);
            // The mean of equal numbers may differ from them by a rounding error.
            let near = result.score.is_some_and(|it| (it.get() - 0.7).abs() < 1e-9);
            prop_assert!(result.verdict == Verdict::Pass || near);
        }

        #[test]
        fn the_order_of_votes_does_not_matter(
            scores in proptest::collection::vec(0.0..=1.0f64, 1..6),
            how in proptest::sample::select(vec![VoteRule::Median, VoteRule::Majority, VoteRule::All]),
        ) {
            let votes: Vec<AssertionResult> = scores.iter().map(|it| vote(*it)).collect();
            let ballot = Ballot { how, quorum: 1, who: "jurors" };
            let all = votes.len();
            let forth = fold(&votes.iter().collect::<Vec<_>>(), all, &ballot, &decide);
            let back = fold(&votes.iter().rev().collect::<Vec<_>>(), all, &ballot, &decide);
            prop_assert_eq!((forth.verdict, forth.score), (back.verdict, back.score));
        }
    }
}
