//! Records the judges of checks, with their places in the config, for the gate `judgeKappaMin`. If the gate is set,
//! reports checks that `kindlm calibrate` cannot measure.

use kindlm_assertions::{Check, JudgeBlock};
use kindlm_engine::JudgedCheck;
use kindlm_source::{Code, Piece};
use kindlm_types::MemberPart;

use super::Resolved;

impl Resolved<'_> {
    /// Records the judges of checks at `at`.
    ///
    /// Warns of prompts that do not show the output to the judge. If `gates.judgeKappaMin` is set, reports each check
    /// that needs more evidence than the label files of `kindlm calibrate` contain.
    pub(in crate::load) fn note_judged<'c>(
        &mut self,
        piece: Piece<'_>,
        at: &str,
        checks: impl IntoIterator<Item = &'c Check>,
    ) {
        let is_wanted = self.suite.gates.iter().any(|it| it.judge_kappa_min().is_some());
        for check in checks.into_iter().flat_map(Check::leaves) {
            let samples = check.judging.as_ref().and_then(|it| it.samples);
            self.most_samples = self.most_samples.max(samples);
            let Some(told) = &check.traits.instructions else { continue };
            if check.options.skip.is_some() {
                continue;
            }
            let id = check.meta.id;
            let at = format!("{at}{}", check.at);
            for problem in told.blind() {
                self.sink.push(piece.problem(problem.under(&at)).into_warning());
            }
            if let Some(what) = told.further_evidence().filter(|_| is_wanted) {
                let message = format!(
                    "`gates.judgeKappaMin` cannot be measured for `{id}`: its verdict depends on {what}, which label \
                     files for `kindlm calibrate` do not contain"
                );
                let help = "remove the gate, or move this check to a suite without it";
                let diagnostic = piece.error(Code::INVALID_VALUE, &at, MemberPart::Value, message);
                self.sink.push(diagnostic.with_help(help));
                continue;
            }
            let judging = check.judging.as_deref().cloned().unwrap_or_default().settled();
            let prompts = told.digests().to_vec();
            let criteria = told.criteria().iter().map(|it| it.digest.clone());
            let known = self
                .suite
                .judged
                .iter_mut()
                .find(|it| (it.check, &it.judging, &it.prompts) == (id, &judging, &prompts));
            if let Some(known) = known {
                known.criteria.extend(criteria);
            } else {
                let found = piece.error(Code::INVALID_VALUE, &at, MemberPart::Value, "");
                let position = found.position();
                let place = format!("{}:{}:{}", found.file(), position.line, position.column);
                let mut judged = JudgedCheck::new(id, judging, place);
                judged.prompts = prompts;
                judged.texts = told.texts();
                judged.criteria = criteria.collect();
                self.suite.judged.push(judged);
            }
        }
    }

    /// Reports options of `defaults.judge` that have no effect.
    pub(in crate::load) fn idle_judging(&mut self, piece: Piece<'_>) {
        let judge = self.defaults.judge.block();
        // The method `judges` already reports these problems.
        if !judge.problems().is_empty() {
            return;
        }
        let samples = self.most_samples.max(judge.samples);
        let idle = judge.idle(&JudgeBlock { samples, ..judge.clone() });
        self.sink.report(piece, "/defaults/judge", idle);
    }
}
