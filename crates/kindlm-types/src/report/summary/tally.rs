//! Computes totals while cases finish.

use std::collections::{BTreeMap, HashSet};

use kindlm_stats::Quantiles;

use super::causes::Causes;
use super::paired::{ModelDifference, Pairs};
use super::{
    Breakdown, Distribution, ModelTotals, NamedTotal, Percentiles, Quantity, SuiteTotals, Summary,
    TagTotals,
};
use crate::{
    CaseResult, ExactSum, ExecutionError, ExecutionResult, ExitStatus, FailureCode, JudgeSpending,
    Mean, ModelInfo, Outcome, ProviderErrorKind, RateSum, SkippedCase,
};

/// The totals over cases, updated while the cases finish.
///
/// Cases may be observed in any order, each with its position in the plan. Sums are exact, and lists in order of first
/// appearance follow the plan. If there are more than 500 causes of failures, the listed causes depend on the order of
/// observation. The failures of the other causes are only counted.
///
/// The memory use depends on the numbers of models, tags, failure codes, named scores, prompt assertions and causes (at
/// most 500). Unless the cases are [independent](Self::of_independent_cases), the memory use also depends on the
/// numbers of clusters and cases. The intervals of rates need the clusters, and the differences of models need the
/// cases.
#[derive(Clone, Debug, Default)]
pub struct Tally {
    /// True if no two cases belong to the same cluster.
    is_independent: bool,
    all: Totals,
    deterministic: RateSum,
    probabilistic: RateSum,
    models: OrderedMap<String, OfModel>,
    tags: BTreeMap<String, Totals>,
    untagged: Totals,
    assertions: Breakdown,
    causes: Causes,
    /// The outcomes by test; empty if the cases are independent, because no test then has several models.
    pairs: Pairs,
    judges: Vec<JudgeSum>,
    flaky: RateSum,
    failure_codes: OrderedMap<FailureCode, ()>,
    /// The failure codes in `CaseResult::failure_codes`.
    case_codes: OrderedMap<FailureCode, ()>,
    provider_errors: OrderedMap<ProviderErrorKind, ()>,
    cached: u64,
    /// The number of executions of unknown cost, because an answer did not report its tokens.
    uncounted: u64,
    broken_off: u64,
    not_run: u64,
    failed_by_provider: u64,
    failed_inside: bool,
}

impl Tally {
    /// Returns an empty tally for cases that each form a cluster of their own.
    pub fn of_independent_cases() -> Self {
        Self { is_independent: true, ..Self::default() }
    }

    /// Computes the totals over cases that are in the order of the plan.
    pub fn from_cases<'a>(cases: impl IntoIterator<Item = &'a CaseResult>) -> Self {
        let mut tally = Self::default();
        cases.into_iter().enumerate().for_each(|(position, case)| tally.observe(position, case));
        tally
    }

    /// Adds the case at a position of the plan. Must be called once for each case.
    pub fn observe(&mut self, position: usize, case: &CaseResult) {
        let cluster = (!self.is_independent).then(|| case.cluster_name());
        self.all.add(case, cluster);
        let checks = &case.checks;
        let (passed, total) = (checks.deterministic_passed, checks.deterministic_total);
        self.deterministic.add(cluster, passed, total);
        let (passed, total) = (checks.probabilistic_passed, checks.probabilistic_total);
        self.probabilistic.add(cluster, passed, total);

        // A model has one result of each test, so cases without a cluster in the suite are independent here.
        let on_model = case.cluster.as_deref();
        let model = self.models.entry((position, 0), case.model.as_str());
        model.totals.add(case, on_model);
        model.waited.add(case.latency_total_ms());
        if let Some(latency) = case.latency_avg_ms {
            model.latency.add(latency);
        }
        model.measure(case);
        if case.repeat_counts().executed() > 1 {
            let is_flaky = u64::from(case.is_flaky());
            model.flaky.add(on_model, is_flaky, 1);
            self.flaky.add(cluster, is_flaky, 1);
        }
        self.causes.observe(position, case);
        if !self.is_independent {
            self.pairs.observe(case);
        }
        let named = case.executions.iter().flat_map(ExecutionResult::named_scores);
        for (at, it) in named.enumerate() {
            let Named { sum, weight, count } = model.named.entry((position, at), it.name.as_str());
            sum.add(it.score.get() * it.weight);
            weight.add(it.weight);
            *count += 1;
        }
        let results = case.executions.iter().flat_map(|it| &it.results);
        self.assertions.observe(position, cluster, (&case.case, &case.model), results);
        self.add_judges(case);
        self.add_to_tags(case, cluster);
        self.add_codes(position, case);
    }

    fn add_judges(&mut self, case: &CaseResult) {
        for it in case.executions.iter().flat_map(|it| &it.judge_spending) {
            let known = self.judges.iter().position(|one| one.counts.judge == it.judge);
            let at = known.unwrap_or_else(|| {
                let counts = JudgeSpending { judge: it.judge.clone(), ..JudgeSpending::default() };
                self.judges.push(JudgeSum { counts, known_usd: ExactSum::default() });
                self.judges.len() - 1
            });
            let Some(sum) = self.judges.get_mut(at) else { continue };
            sum.counts.answers += it.answers;
            sum.counts.tokens += it.tokens;
            sum.counts.unknown += it.unknown;
            sum.known_usd.add(it.known_usd);
        }
    }

    /// Returns the spending of the judges, sorted by their ids, because cases are observed in any order.
    fn judges(&self) -> Vec<JudgeSpending> {
        let judges = self.judges.iter();
        let mut judges: Vec<JudgeSpending> = judges
            .map(|it| JudgeSpending { known_usd: it.known_usd.value(), ..it.counts.clone() })
            .collect();
        judges.sort_by(|a, b| a.judge.cmp(&b.judge));
        judges
    }

    fn add_to_tags(&mut self, case: &CaseResult, cluster: Option<&str>) {
        if case.tags.is_empty() {
            self.untagged.add(case, cluster);
        }
        for tag in distinct(&case.tags) {
            match self.tags.get_mut(tag) {
                Some(totals) => totals.add(case, cluster),
                None => self.tags.entry(tag.to_owned()).or_default().add(case, cluster),
            }
        }
    }

    fn add_codes(&mut self, position: usize, case: &CaseResult) {
        let mut place = (position, 0);
        for code in &case.failure_codes {
            self.case_codes.entry(place, code);
            self.failure_codes.entry(place, code);
            place.1 += 1;
        }
        for execution in &case.executions {
            self.cached += u64::from(execution.execution.spend.cached);
            let unknown = execution.execution.spent().is_none();
            self.uncounted += u64::from(unknown && execution.execution.is_uncounted());
            self.failed_by_provider += u64::from(execution.failed_by_provider());
            let Some(error) = &execution.error else { continue };
            self.broken_off += 1;
            if let Some(code) = error.code() {
                self.failure_codes.entry(place, &code);
            }
            match error {
                ExecutionError::Provider(err) => {
                    self.provider_errors.entry(place, &err.kind);
                }
                ExecutionError::Internal { .. } => self.failed_inside = true,
                ExecutionError::NotRun { .. } => self.not_run += 1,
            }
            place.1 += 1;
        }
    }

    /// Returns true if an execution was not run.
    pub(crate) fn was_cut_short(&self) -> bool {
        self.not_run > 0
    }

    /// Returns the exit status of the cases, without the gates.
    pub fn exit_status(&self) -> ExitStatus {
        if self.failed_inside {
            ExitStatus::Internal
        } else if self.failed_by_provider > 0 {
            ExitStatus::ProviderError
        } else {
            ExitStatus::Success
        }
    }

    /// Returns the differences between the first of `models` that has results and each other model.
    pub(crate) fn model_differences(&self, models: &[ModelInfo]) -> Vec<ModelDifference> {
        let first = models.iter().find(|it| self.models.get(it.id.as_str()).is_some());
        first.map(|it| self.pairs.differences(&it.id)).unwrap_or_default()
    }

    /// Builds the summary, including the test cases that were not run.
    pub(crate) fn summary(
        &self,
        models: &[ModelInfo],
        skipped: &[SkippedCase],
        exit_status: ExitStatus,
    ) -> Summary {
        let mut totals = self.all.totals();
        totals.skipped += skipped.len() as u64;
        let mut tags: BTreeMap<&str, SuiteTotals> =
            self.tags.iter().map(|(tag, it)| (tag.as_str(), it.totals())).collect();
        let mut untagged = self.untagged.totals();
        for it in skipped {
            untagged.skipped += u64::from(it.tags.is_empty());
            for tag in distinct(&it.tags) {
                tags.entry(tag).or_default().skipped += 1;
            }
        }
        let tags = tags.into_iter().map(|(tag, totals)| TagTotals { tag: tag.to_owned(), totals });
        Summary {
            totals,
            deterministic: self.deterministic.rate(),
            probabilistic: self.probabilistic.rate(),
            models: self.by_model(models),
            judges: self.judges(),
            tags: tags.collect(),
            untagged: (untagged.listed() > 0).then_some(untagged),
            assertions: self.assertions.summaries(),
            causes: self.causes.totals(),
            failures_left_out: self.causes.left_out(),
            flaky: self.flaky.rate(),
            failure_codes: self.failure_codes.in_order().map(|(code, ())| code.clone()).collect(),
            first_code: self.case_codes.in_order().next().map(|(code, ())| code.clone()),
            provider_error_kinds: self.provider_errors.in_order().map(|(it, ())| *it).collect(),
            cached_executions: self.cached,
            uncounted_executions: self.uncounted,
            broken_off: self.broken_off,
            not_run: self.not_run,
            failed_by_provider: self.failed_by_provider,
            exit_status,
        }
    }

    /// Returns the totals by model.
    ///
    /// Models are in the order of the suite, followed by other names such as `command`.
    fn by_model(&self, models: &[ModelInfo]) -> Vec<ModelTotals> {
        let mut seen = HashSet::new();
        let ends = Quantity::ALL.map(|it| (it, self.range_end(it)));
        let known = models.iter().filter_map(|it| self.models.get(it.id.as_str()));
        known
            .chain(self.models.in_order())
            .filter(|(id, _)| seen.insert(id.as_str()))
            .map(|(id, of)| ModelTotals {
                model: id.clone(),
                totals: of.totals.totals(),
                latency_avg_ms: of.latency.value(),
                latency_total_ms: of.waited.value(),
                flaky: of.flaky.rate(),
                latency_ms: percentiles(&of.latencies),
                tokens: percentiles(&of.tokens),
                cost_usd: percentiles(&of.costs),
                distributions: of.distributions(&ends),
                named_scores: of.named.in_order().map(|(name, it)| it.total(name)).collect(),
            })
            .collect()
    }

    /// Returns the upper end of the histogram of a quantity.
    ///
    /// The end is the largest measurement of all models, but at most twice the largest 95th percentile. So a few
    /// extreme executions do not hide the others. If the percentile is 0, only the largest measurement counts. Without
    /// measurements, the end is 0.
    fn range_end(&self, quantity: Quantity) -> f64 {
        let largest = |share: f64| {
            let models = self.models.in_order();
            let values = models.filter_map(|(_, it)| it.quantiles(quantity).quantile(share));
            values.fold(0.0, f64::max)
        };
        let (all, most) = (largest(1.0), largest(0.95));
        if most > 0.0 { all.min(2.0 * most) } else { all }
    }
}

/// The spending of a judge, whose cost is not rounded yet.
#[derive(Clone, Debug)]
struct JudgeSum {
    /// The counts, without the cost.
    counts: JudgeSpending,
    known_usd: ExactSum,
}

/// The number of bins of a histogram.
const BINS: usize = 24;

impl Quantity {
    const ALL: [Self; 3] = [Self::Latency, Self::Tokens, Self::Cost];
}

#[derive(Clone, Debug, Default)]
struct OfModel {
    totals: Totals,
    latency: Mean,
    waited: ExactSum,
    flaky: RateSum,
    latencies: Quantiles,
    tokens: Quantiles,
    costs: Quantiles,
    named: OrderedMap<String, Named>,
}

impl OfModel {
    /// Returns the histograms of the measured quantities. `ends` has the upper end of each quantity's histogram.
    fn distributions(&self, ends: &[(Quantity, f64)]) -> Vec<Distribution> {
        let known = ends.iter().filter(|(_, end)| *end > 0.0);
        let found = known.filter_map(|(quantity, end)| {
            let quantiles = self.quantiles(*quantity);
            Some(Distribution {
                quantity: *quantity,
                end: *end,
                bins: quantiles.bins(*end, BINS),
                percentiles: percentiles(quantiles)?,
            })
        });
        found.collect()
    }

    fn quantiles(&self, of: Quantity) -> &Quantiles {
        match of {
            Quantity::Latency => &self.latencies,
            Quantity::Tokens => &self.tokens,
            Quantity::Cost => &self.costs,
        }
    }

    /// Adds the latency, tokens and cost of the executions of a case.
    #[expect(clippy::cast_precision_loss, reason = "only three digits of a percentile are shown")]
    fn measure(&mut self, case: &CaseResult) {
        let was_run =
            |it: &&ExecutionResult| !matches!(it.error, Some(ExecutionError::NotRun { .. }));
        for it in case.executions.iter().filter(was_run) {
            let execution = &it.execution;
            if let Some(latency) = execution.latency_ms.filter(|_| !execution.spend.cached) {
                self.latencies.add(latency);
            }
            // Every answer uses tokens, so 0 means that the source did not report them.
            if execution.usage.total_tokens > 0 {
                self.tokens.add(execution.usage.total_tokens as f64);
            }
            if let Some(usd) = execution.spent() {
                self.costs.add(usd);
            }
        }
    }
}

fn percentiles(of: &Quantiles) -> Option<Percentiles> {
    Some(Percentiles { p50: of.quantile(0.5)?, p95: of.quantile(0.95)? })
}

/// The running totals of one named score.
#[derive(Clone, Debug, Default)]
struct Named {
    sum: ExactSum,
    weight: ExactSum,
    count: u64,
}

impl Named {
    fn total(&self, name: &str) -> NamedTotal {
        let (sum, weight) = (self.sum.value(), self.weight.value());
        NamedTotal { name: name.to_owned(), sum, weight, count: self.count }
    }
}

/// Running [`SuiteTotals`], in which costs and scores are not rounded yet.
#[derive(Clone, Debug, Default)]
struct Totals {
    counts: SuiteTotals,
    held: RateSum,
    cost: ExactSum,
    judge_cost: ExactSum,
    score: Mean,
}

impl Totals {
    fn add(&mut self, case: &CaseResult, cluster: Option<&str>) {
        let counts = &mut self.counts;
        match case.outcome {
            Outcome::Passed => counts.passed += 1,
            Outcome::Scored => counts.scored += 1,
            Outcome::Failed => counts.failed += 1,
            Outcome::Errored => counts.errored += 1,
            Outcome::Skipped => counts.skipped += 1,
        }
        if case.outcome != Outcome::Skipped {
            counts.cases += 1;
            self.held.add(cluster, u64::from(case.passed()), 1);
        }
        counts.undecided += u64::from(case.is_undecided());
        counts.saved_repeats += case.saved_repeats();
        counts.executions += u64::from(case.repeats);
        counts.tokens = counts.tokens.saturating_add(case.total_tokens);
        counts.cost.unknown = counts.cost.unknown.saturating_add(case.cost.unknown);
        self.cost.add(case.cost.known_usd);
        if let Some(share) = case.passed_share() {
            self.score.add(share);
        }
        for execution in &case.executions {
            let cached = execution.judge_usage.cached_input_tokens.unwrap_or(0);
            counts.judge_cached_tokens = counts.judge_cached_tokens.saturating_add(cached);
            match execution.judge_cost_usd {
                Some(usd) => self.judge_cost.add(usd),
                None => counts.judge_cost.unknown = counts.judge_cost.unknown.saturating_add(1),
            }
        }
    }

    fn totals(&self) -> SuiteTotals {
        let mut totals = self.counts;
        totals.cost.known_usd = self.cost.value();
        totals.judge_cost.known_usd = self.judge_cost.value();
        totals.average_score = self.score.value();
        totals.held_interval = self.held.rate().interval;
        totals
    }
}

/// The position of a case in the plan, and an index within the case.
type CasePosition = (usize, usize);

/// A small map that lists its entries in the order of their first appearance in the plan.
#[derive(Clone, Debug)]
struct OrderedMap<K, V>(Vec<(CasePosition, K, V)>);

impl<K, V> Default for OrderedMap<K, V> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<K: Eq, V: Default> OrderedMap<K, V> {
    /// Returns the entry of `key`, and creates a missing entry. An earlier `place` replaces the entry's first
    /// appearance.
    fn entry<Q>(&mut self, place: CasePosition, key: &Q) -> &mut V
    where
        Q: Eq + ToOwned<Owned = K> + ?Sized,
        K: std::borrow::Borrow<Q>,
    {
        let found = self.0.iter().position(|(_, it, _)| it.borrow() == key);
        let at = found.unwrap_or_else(|| {
            self.0.push((place, key.to_owned(), V::default()));
            self.0.len() - 1
        });
        let (first, _, value) = &mut self.0[at];
        *first = place.min(*first);
        value
    }

    fn get<Q: Eq + ?Sized>(&self, key: &Q) -> Option<(&K, &V)>
    where
        K: std::borrow::Borrow<Q>,
    {
        self.0.iter().find(|(_, it, _)| it.borrow() == key).map(|(_, key, value)| (key, value))
    }

    fn in_order(&self) -> impl Iterator<Item = (&K, &V)> {
        let mut all: Vec<_> = self.0.iter().collect();
        all.sort_by_key(|(place, ..)| *place);
        all.into_iter().map(|(_, key, value)| (key, value))
    }
}

fn distinct(tags: &[String]) -> impl Iterator<Item = &str> {
    tags.iter()
        .enumerate()
        .filter(|(i, tag)| !tags[..*i].contains(tag))
        .map(|(_, tag)| tag.as_str())
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::report::summary::causes::MOST;
    use crate::{AssertionResult, Cost, Report, Severity};

    pub(in crate::report::summary) fn case(model: &str, outcome: Outcome) -> CaseResult {
        CaseResult { pass_rate: 0.5, repeats: 2, ..CaseResult::new("greets", model, outcome) }
    }

    /// Returns a case that fails two checks: one of its own, and one that all cases fail.
    fn failing(at: usize) -> CaseResult {
        let fail = |label: &str| {
            AssertionResult::fail("contains", label, FailureCode::new("MISSING"), "missing")
        };
        let results = vec![fail("shared"), fail(&"x".repeat(at + 1))];
        let execution = ExecutionResult {
            judge_cost_usd: None,
            ..ExecutionResult::new(crate::Execution::default(), results)
        };
        CaseResult { executions: vec![execution], ..case("a", Outcome::Failed) }
    }

    #[test]
    fn failures_of_causes_beyond_the_limit_are_counted() {
        let all = MOST + 20;
        for order in [(0..all).collect::<Vec<_>>(), (0..all).rev().collect()] {
            let mut tally = Tally::default();
            for at in order {
                tally.observe(at, &failing(at));
            }
            let summary = tally.summary(&[], &[], ExitStatus::Success);
            let most = &summary.causes[0];
            assert_eq!((most.title.as_str(), most.cases), ("shared", all as u64));
            // One listed cause is shared, so 21 cases have causes of their own that are not listed.
            assert_eq!((summary.causes.len(), summary.failures_left_out), (MOST, 21));
        }
    }

    #[test]
    fn causes_are_those_of_cases_that_did_not_hold() {
        let mut soft = failing(3);
        soft.executions[0].results[1].severity = Severity::Soft;
        let mut errored = CaseResult { outcome: Outcome::Errored, ..failing(4) };
        let code = FailureCode::new("LOST");
        let lost = AssertionResult::errored("judge", "polite", code, "no answer");
        errored.executions[0].results = vec![AssertionResult { severity: Severity::Soft, ..lost }];
        let held = CaseResult { outcome: Outcome::Passed, ..failing(2) };
        let cases = vec![failing(1), held, soft, errored];
        let summary = Report { cases, ..Report::default() }.summary();
        let of_cause = summary.causes.iter().map(|it| (&*it.title, it.cases));
        let counts: Vec<(&str, u64)> = of_cause.collect();
        assert_eq!(counts, [("shared", 2), ("xx", 1), ("no answer", 1)]);
    }

    #[test]
    fn intervals_count_a_cluster_of_cases_once() {
        let cases = |models: u8, cluster: Option<&str>| -> Vec<CaseResult> {
            let each = (0..20).flat_map(|at| (0..models).map(move |model| (at, model)));
            let all = each.map(|(at, model)| CaseResult {
                case: format!("case {at}"),
                cluster: cluster.map(str::to_owned),
                tags: vec!["tag".to_owned()],
                repeats: 1,
                ..case(&model.to_string(), Outcome::Passed)
            });
            all.collect()
        };
        let low = |models, cluster| {
            let summary =
                Tally::from_cases(&cases(models, cluster)).summary(&[], &[], ExitStatus::Success);
            let parts = [summary.totals, summary.tags[0].totals, summary.models[0].totals];
            parts.map(|it| format!("{:.3}", it.held_interval.unwrap().low))
        };
        // The lower ends of the intervals for 20 of 20 clusters, and for 1 of 1 cluster.
        let (twenty, one) = ("0.839", "0.207");
        assert_eq!(low(1, None), [twenty; 3]);
        assert_eq!(low(2, None), [twenty; 3]);
        assert_eq!(low(2, Some("document")), [one; 3]);
        let mut independent = Tally::of_independent_cases();
        let cases = cases(1, None);
        cases.iter().enumerate().for_each(|(at, case)| independent.observe(at, case));
        let summary = |it: &Tally| it.summary(&[], &[], ExitStatus::Success);
        assert_eq!(summary(&independent), summary(&Tally::from_cases(&cases)));
    }

    #[test]
    fn a_duplicate_tag_counts_once() {
        let tags = ["tone", "tone"].map(str::to_owned).to_vec();
        let cases = vec![CaseResult { tags, ..case("a", Outcome::Failed) }];
        let summary = Report { cases, ..Report::default() }.summary();
        assert_eq!(summary.tags.len(), 1);
        assert_eq!(summary.tags[0].totals.failed, 1);
        assert_eq!(summary.untagged, None);
    }

    #[test]
    fn distributions_share_their_ranges_and_miss_nothing() {
        let with = |model: &str, latencies: &[u32]| {
            let executions = latencies.iter().map(|it| {
                let mut one = failing(1).executions.remove(0);
                one.execution.latency_ms = Some(f64::from(*it));
                one
            });
            CaseResult { executions: executions.collect(), ..case(model, Outcome::Passed) }
        };
        let mut long = vec![100; 39];
        long.push(9_000);
        let cases = vec![with("a", &[10, 100]), with("b", &long)];
        let summary = Report { cases, ..Report::default() }.summary();
        let of = |at: usize| {
            let found = &summary.models[at].distributions;
            let all: Vec<Quantity> = found.iter().map(|it| it.quantity).collect();
            assert!(!all.contains(&Quantity::Tokens), "no tokens were reported: {all:?}");
            let it = found.iter().find(|it| it.quantity == Quantity::Latency).unwrap();
            (it.end, it.bins.len(), it.bins[1], it.bins[12], it.bins[23], it.bins.iter().sum())
        };
        assert_eq!(of(0), (200.0, 24, 1, 1, 0, 2_u64));
        assert_eq!(of(1), (200.0, 24, 0, 39, 1, 40_u64));
    }

    #[test]
    fn a_distribution_of_mostly_zeros_ends_at_the_maximum() {
        let executions = (0..40).map(|it| {
            let mut one = failing(1).executions.remove(0);
            one.execution.latency_ms = Some(if it == 0 { 48.0 } else { 0.0 });
            one
        });
        let case = CaseResult { executions: executions.collect(), ..case("a", Outcome::Passed) };
        let summary = Report { cases: vec![case], ..Report::default() }.summary();
        let found = &summary.models[0].distributions;
        let latency = found.iter().find(|it| it.quantity == Quantity::Latency).unwrap();
        assert_eq!((latency.end, latency.bins[0], latency.bins[23]), (48.0, 39, 1));
    }

    #[test]
    fn models_without_results_are_not_listed_and_commands_come_last() {
        let model = |id: &str| ModelInfo { id: id.to_owned(), ..Default::default() };
        let report = Report {
            models: vec![model("b"), model("unused"), model("a")],
            cases: ["command", "a", "b"].map(|it| case(it, Outcome::Passed)).to_vec(),
            ..Report::default()
        };
        let models: Vec<String> = report.summary().models.into_iter().map(|it| it.model).collect();
        assert_eq!(models, ["b", "a", "command"]);
    }

    #[test]
    fn unknown_costs_saturate() {
        let many = CaseResult {
            cost: Cost { unknown: u32::MAX, ..Cost::default() },
            ..case("x", Outcome::Failed)
        };
        let summary = Tally::from_cases([&many, &many]).summary(&[], &[], ExitStatus::Success);
        assert_eq!(summary.totals.cost.unknown, u32::MAX);
    }

    #[test]
    fn cases_may_finish_in_any_order() {
        let cases: Vec<CaseResult> = (0_u16..40)
            .map(|it| CaseResult {
                tags: vec![format!("tag {}", it % 3)],
                failure_codes: vec![FailureCode::new(
                    ["A", "B", "C", "D"][usize::from(it / 9 % 4)],
                )],
                cost: Cost { known_usd: 1.0 / f64::from(it + 1), unknown: 0 },
                latency_avg_ms: Some(f64::from(it) / 7.0),
                ..case(["x", "command"][usize::from(it % 2)], Outcome::Failed)
            })
            .collect();
        let in_order = Tally::from_cases(&cases).summary(&[], &[], ExitStatus::Success);
        let mut shuffled = Tally::default();
        for at in 0..cases.len() {
            let position = at * 17 % cases.len();
            shuffled.observe(position, &cases[position]);
        }
        assert_eq!(shuffled.summary(&[], &[], ExitStatus::Success), in_order);
        assert_eq!(in_order.first_code, Some(FailureCode::new("A")));
    }
}
