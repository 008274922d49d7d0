//! Converts traces to executions of a run: assigns traces to test cases, and computes costs.

use std::collections::HashMap;

use kindlm_assertions::pattern::Pattern;
use kindlm_engine::{Model, Observed, Suite};
use kindlm_otlp::{Filter, OtlpSpan, Reading, TEST, read_trace};
use kindlm_types::{
    CommandEnd, CommandOutput, Completeness, Execution, ExecutionError, Limits, Params,
    ProviderError, Spend, ecma, suggest,
};

use super::prices::TracePrices;
use super::{GatheredTraces, MODEL, agent};
use crate::Failure;

/// The settings for converting traces to executions.
pub(crate) struct Options {
    /// True to join all traces to one execution.
    pub merge: bool,
    /// The number of expected traces, if it is known.
    pub traces: Option<usize>,
}

/// The recorded executions of an agent, by test case.
pub(crate) struct Observations {
    /// The parsed traces.
    readings: Vec<Reading>,
    /// The indices of the traces that name a test case, by the name of the case.
    named: HashMap<String, Vec<usize>>,
    /// The indices of the traces that name no test case. These traces are judged by each test case that no trace names.
    open: Vec<usize>,
    /// The error that makes judging impossible; `None` without such an error.
    failure: Option<ProviderError>,
    command: Option<CommandOutput>,
    expected: usize,
    prices: TracePrices,
}

impl Observations {
    /// Parses the traces; also returns notes for the user. Fails if the pattern of the span filter cannot be applied.
    pub(crate) fn new(
        suite: &Suite,
        gathered: GatheredTraces,
        options: &Options,
    ) -> Result<(Self, Vec<String>), Failure> {
        let GatheredTraces { mut traces, command, failure, rejected, lost, notes: mut gathered } =
            gathered;
        if options.merge && !traces.is_empty() {
            traces = vec![traces.into_iter().flatten().collect()];
        }
        let mut readings = read_all(suite, &traces)?;
        let mut notes = rejection(&rejected);
        notes.append(&mut gathered);
        // The agent's process may send traces that do not belong to the agent.
        let apart = readings.iter().filter(|it| !it.shows_agent).count();
        if apart < readings.len() && apart > 0 {
            readings.retain(|it| it.shows_agent);
            notes.push(format!(
                "{apart} of {} traces show no step of an agent, and are not judged",
                apart + readings.len()
            ));
        }
        // If the filter removed all spans of a trace, there is nothing to judge.
        readings.retain(|it| it.execution.trace.as_ref().is_some_and(|it| !it.spans.is_empty()));
        for (number, reading) in readings.iter_mut().enumerate() {
            if let Some(lost) = &lost {
                reading.lose(lost);
            }
            for gap in &reading.execution.completeness.gaps {
                notes.push(format!(
                    "warning: trace {} is incomplete: {gap}; checks of the output, of success and of absence are \
                     errored",
                    number + 1
                ));
            }
            if !reading.shows_agent {
                // The duration of a trace without an agent is not the latency of an agent.
                reading.execution.latency_ms = None;
                notes.push(format!("warning: trace {} shows no step of an agent", number + 1));
            }
        }
        let mut this = Self {
            named: HashMap::new(),
            open: Vec::new(),
            failure: failure.or_else(|| {
                let words = "`trace.spanFilter` excludes all spans of the traces";
                readings.is_empty().then(|| agent::missing(words.to_owned()))
            }),
            command,
            expected: options.traces.unwrap_or(0),
            prices: TracePrices::of_models(&suite.models),
            readings,
        };
        for (at, reading) in this.readings.iter().enumerate() {
            match &reading.test {
                Some(test) => this.named.entry(test.clone()).or_default().push(at),
                None => this.open.push(at),
            }
        }
        for test in this.named.keys() {
            if !suite.cases.iter().any(|it| it.name == *test) {
                let help = suggest(test, "tests", suite.cases.iter().map(|it| it.name.as_str()));
                notes.push(format!("warning: a trace names the unknown test `{test}`: {help}"));
            }
        }
        this.adopt_output();
        Ok((this, notes))
    }

    /// Uses the command's output as the agent's answer.
    ///
    /// The output is used only if a single trace exists and that trace has no answer.
    ///
    /// Many instrumentations do not record messages by default.
    fn adopt_output(&mut self) {
        let Some(command) = &self.command else { return };
        if let [reading] = self.readings.as_mut_slice()
            && reading.execution.output.is_empty()
        {
            let text = command.text.trim_end();
            reading.execution.output = match &command.output_json {
                // A JSON value without text is an output too.
                Some(value) if text.is_empty() => ecma::text(value),
                _ => text.to_owned(),
            };
            reading.execution.output_json.clone_from(&command.output_json);
        }
    }

    /// Returns the number of executions of a test case.
    ///
    /// The number is the highest of three: the traces of the case, the expected traces, and 1. An execution without a
    /// trace reports that the trace is missing.
    pub(crate) fn repeats(&self, case: &str) -> u32 {
        let count = self.of_case(case).len().max(self.expected).max(1);
        u32::try_from(count).unwrap_or(u32::MAX)
    }

    fn of_case(&self, case: &str) -> &[usize] {
        self.named.get(case).unwrap_or(&self.open)
    }
}

impl Observed for Observations {
    fn observe(&self, begun: Execution) -> (Execution, Option<ExecutionError>) {
        let Execution { case, model, repeat, vars, test_metadata, completeness, .. } = begun;
        let declared = completeness.declared;
        let begun = Execution {
            case,
            model,
            repeat,
            vars,
            test_metadata,
            completeness: Completeness { declared, ..Completeness::default() },
            ..Execution::default()
        };
        if let Some(failure) = &self.failure {
            return (begun, Some(ExecutionError::Provider(failure.clone())));
        }
        let of_case = self.of_case(&begun.case);
        let at = of_case.get(begun.repeat as usize);
        let Some(reading) = at.and_then(|it| self.readings.get(*it)) else {
            let message = match of_case.len() {
                0 => format!(
                    "no trace is of this test: all of them name other tests by the attribute `{TEST}`"
                ),
                some => format!("{some} of {} traces came (`--traces`)", self.expected),
            };
            return (begun, Some(ExecutionError::Provider(agent::missing(message))));
        };
        let command = self.command.as_ref();
        let execution = Execution {
            case: begun.case,
            model: begun.model,
            repeat: begun.repeat,
            vars: begun.vars,
            test_metadata: begun.test_metadata,
            spend: Spend { cost_usd: self.prices.cost(reading), ..reading.execution.spend.clone() },
            command: command.and_then(|it| CommandEnd::from_parts(it.exit_code, it.stderr.clone())),
            ..reading.execution.clone()
        };
        (execution, None)
    }
}

/// Returns the model under which reports list the results of traces.
pub(crate) fn model() -> Model {
    Model {
        id: MODEL.to_owned(),
        provider: MODEL.to_owned(),
        name: MODEL.to_owned(),
        params: Params::default(),
        price: None,
        limits: Limits::default(),
        tells_vars: false,
        offers: [].into(),
        declared: std::collections::BTreeSet::new(),
        agent: None,
    }
}

fn read_all(suite: &Suite, traces: &[Vec<OtlpSpan>]) -> Result<Vec<Reading>, Failure> {
    let settings = &suite.trace;
    // The pattern was compiled when the config was loaded, so it compiles here too.
    let pattern = settings.filter.name_pattern.as_deref().map(Pattern::compile).transpose();
    let pattern = pattern.map_err(|err| Failure::input(err.to_string()))?;
    let matches = |name: &str| match &pattern {
        Some(pattern) => pattern.is_match(name).map_err(|err| err.to_string()),
        None => Ok(true),
    };
    let filter = Filter::new(&settings.filter, Some(&matches));
    let reading = |spans: &Vec<OtlpSpan>| read_trace(spans, &settings.mapping, filter);
    let readings: Result<Vec<Reading>, String> = traces.iter().map(reading).collect();
    readings.map_err(|why| Failure::input(format!("`trace.spanFilter.namePattern`: {why}")))
}

/// Returns warnings about the first five rejected parts, and counts the remaining parts.
fn rejection(rejected: &[String]) -> Vec<String> {
    let mut notes: Vec<String> =
        rejected.iter().take(5).map(|it| format!("warning: {it}")).collect();
    if rejected.len() > notes.len() {
        notes.push(format!("warning: … and {} more", rejected.len() - notes.len()));
    }
    notes
}
