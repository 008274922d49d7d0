//! Describes the requests that a run would send, and the upper bound of their cost.

use std::collections::{BTreeSet, HashSet};
use std::fmt::Write as _;

use kindlm_assertions::{Check, Evidence, first_questions};
use kindlm_engine::gates::dollars;
use kindlm_engine::{
    CaseBody, LONGEST_ANSWER, Model, Plan, RunOptions, Subject, Suite, budget_usd, judge_of,
    reserve_usd,
};
use kindlm_reporters::one_line;
use kindlm_types::ask::JudgeQuestion;
use kindlm_types::{Answers, ContentPart, Execution, Question, Usage};

use crate::Failure;
use crate::budget::unpriced_names;

/// The estimated number of characters per token.
const CHARS_PER_TOKEN: usize = 4;

/// Returns the text of a dry run.
///
/// The text lists the cases with models and repeats, the number of requests, the maximum cost and the budget.
/// `canaries` are the questions about outputs of the judges' calibrations. `canary_warnings` are about judges without
/// such questions.
pub(crate) fn describe(
    suite: &Suite,
    plan: &Plan,
    options: &RunOptions,
    (canaries, canary_warnings): (&[JudgeQuestion], &[String]),
) -> Result<String, Failure> {
    let mut text =
        format!("suite `{}`: {}\n\n", one_line(&suite.info.name), executions(plan.units.len()));
    let mut sum = Estimate::default();
    let mut reserve = None::<f64>;
    let mut compared = HashSet::new();
    for group in groups(plan) {
        let Some(case) = suite.cases.get(group.case) else { continue };
        let model = group.model.and_then(|it| suite.models.get(it));
        let body = case.body.body().map_err(|err| {
            Failure::internal(format!("the test case `{}` cannot be executed: {err}", case.name))
        })?;
        // Recorded outputs need no request.
        let asked = model.filter(|_| body.recorded.is_none());
        let requests = requests(&body, asked.is_some());
        let alone = case.kind.alone().unwrap_or_default();
        let name = one_line(model.map_or(alone, |it| it.id.as_str()));
        let case_name = one_line(&case.name);
        let each = match asked.filter(|it| it.agent.is_some()) {
            Some(_) => turns(&body),
            None => at_most(requests),
        };
        let _ = writeln!(text, "  {case_name} [{name}]: {} × {each}", group.repeats);
        let first = asked.and_then(|it| reserve_usd(&body, it));
        reserve = reserve.into_iter().chain(first).reduce(f64::max);
        // A comparison asks its questions once, for all models and tests that it compares.
        let is_first = case.compared.as_ref().is_none_or(|it| compared.insert(it));
        for _ in 0..group.repeats {
            sum.add_case(suite, &body, model, is_first);
        }
    }
    sum.canaries = canaries.len();
    for question in canaries {
        sum.add_question(suite, question, 0);
    }
    for skipped in &plan.skipped {
        let skipped = one_line(&format!("{} ({})", skipped.case, skipped.reason));
        let _ = writeln!(text, "  skipped: {skipped}");
    }
    if plan.deselected > 0 {
        let _ = writeln!(text, "  {} not selected", cases(plan.deselected));
    }
    let budget = budget_usd(suite, options);
    let budget = budget.map_or_else(String::new, |it| about_budget(suite, plan, it, reserve));
    let concurrency = options.concurrency.unwrap_or(suite.defaults.concurrency);
    let _ = writeln!(text, "\n{sum}{budget}concurrency: {concurrency}");
    for warning in suite.warnings.iter().chain(canary_warnings) {
        let _ = writeln!(text, "warning: {}", one_line(warning));
    }
    text.push_str("nothing was sent\n");
    Ok(text)
}

/// Describes the budget, and names the models without a price.
///
/// `reserve` is the highest amount in US dollars that a first request reserves; `None` if nothing is reserved.
fn about_budget(suite: &Suite, plan: &Plan, budget: f64, reserve: Option<f64>) -> String {
    let mut text = format!("budget: {}\n", dollars(budget));
    if let Some(reserve) = reserve {
        let _ = write!(
            text,
            "  (each request reserves its highest possible cost before it is sent: here up to {}, and more in long\n  \
             conversations",
            dollars(reserve)
        );
        text.push_str(if reserve > budget {
            "; that is more than the budget, so it would not be sent)\n"
        } else {
            ")\n"
        });
    }
    if let Some(names) = unpriced_names(suite, plan) {
        let names = one_line(&names);
        let _ = writeln!(
            text,
            "  no price known for {names}: the run is refused, unless `--allow-unpriced` leaves it out of the count"
        );
    }
    text
}

/// The repeats of a case on a model.
struct Group {
    case: usize,
    model: Option<usize>,
    repeats: usize,
}

fn groups(plan: &Plan) -> Vec<Group> {
    let mut groups: Vec<Group> = Vec::new();
    for unit in &plan.units {
        match groups.last_mut().filter(|it| it.case == unit.case && it.model == unit.model) {
            Some(group) => group.repeats += 1,
            None => groups.push(Group { case: unit.case, model: unit.model, repeats: 1 }),
        }
    }
    groups
}

/// Returns the maximum number of requests to the model in one execution.
fn requests(body: &CaseBody, on_model: bool) -> u32 {
    let said = u32::try_from(body.conversation.len()).unwrap_or(u32::MAX);
    match (on_model, body.tools.is_empty()) {
        (false, _) => 0,
        (true, true) => said.clamp(1, body.max_turns.max(1)),
        // Every answer may call a tool, and the tool's result needs another request.
        (true, false) => body.max_turns.max(1),
    }
}

/// The upper bounds of the requests and the cost of a run.
#[derive(Default)]
struct Estimate {
    commands: u64,
    transcripts: u64,
    recorded: u64,
    agents: u64,
    requests: u64,
    questions: u64,
    /// The number of questions about canaries. `questions` does not include them.
    canaries: usize,
    usd: f64,
    /// True if some requests have a known price, which may be 0.
    has_price: bool,
    /// The ids of the models without `maxTokens`. Each of their answers counts with [`LONGEST_ANSWER`] tokens.
    unlimited: BTreeSet<String>,
    unknown: BTreeSet<String>,
}

impl Estimate {
    fn add_case(&mut self, suite: &Suite, body: &CaseBody, model: Option<&Model>, compares: bool) {
        match (model, &body.subject) {
            (Some(_), _) if body.recorded.is_some() => self.recorded += 1,
            (Some(model), _) if model.agent.is_some() => {
                self.agents += 1;
                let name = &model.id;
                self.unknown.insert(format!(
                    "the cost of the agent `{name}`: it is counted when the agent has ended"
                ));
            }
            (Some(model), Subject::Prompt { messages }) => {
                let said: usize = messages.iter().map(|it| it.content.len()).sum();
                let turns: usize = body
                    .conversation
                    .iter()
                    .filter_map(|it| it.user.as_ref())
                    .map(String::len)
                    .sum();
                let tools: usize = body.tools.iter().map(described).sum();
                let parts = messages.iter().flat_map(|it| &it.parts);
                let parts = parts.map(ContentPart::reserved_tokens).sum::<u64>();
                let input = tokens(said + turns + tools) + parts;
                self.add_requests(model, requests(body, true), input);
            }
            (_, Subject::Command { .. }) => self.commands += 1,
            (_, Subject::Transcript(_) | Subject::Prompt { .. }) => self.transcripts += 1,
        }
        let all = body.checks.iter().chain(body.conversation.iter().flat_map(|it| &*it.checks));
        let output = model.map_or(0, |it| it.params.max_tokens.unwrap_or(LONGEST_ANSWER));
        for check in all.filter(|it| compares || !it.compares()) {
            self.add_check(suite, check, output);
        }
    }

    /// Adds the requests of a conversation.
    ///
    /// The first request has `input` tokens. Each later request also contains all earlier answers.
    fn add_requests(&mut self, model: &Model, requests: u32, input: u64) {
        self.requests += u64::from(requests);
        let Some(price) = model.price else {
            self.unknown
                .insert(format!("the price of `{}` ({}:{})", model.id, model.provider, model.name));
            return;
        };
        self.has_price = true;
        let most = model.params.max_tokens.unwrap_or_else(|| {
            self.unlimited.insert(model.id.clone());
            LONGEST_ANSWER
        });
        for turn in 0..u64::from(requests) {
            let input_tokens = input + turn * u64::from(most);
            self.usd +=
                price.cost(&Usage { input_tokens, output_tokens: most.into(), ..Usage::default() });
        }
    }

    fn add_check(&mut self, suite: &Suite, check: &Check, output: u32) {
        // There is no output yet, so the questions are built from an empty execution.
        let (execution, answers) = (Execution::default(), Answers::default());
        let evidence =
            Evidence { execution: &execution, answers: &answers, baseline: None, comparison: None };
        for (_, question) in first_questions([check], &evidence) {
            let question = match question {
                // A script runs locally and costs nothing.
                Question::Script(_) => continue,
                Question::Embedding(_) => None,
                Question::Judge(question) => Some(question),
            };
            self.questions += 1;
            if let Some(question) = question {
                self.add_question(suite, &question, output);
            }
        }
    }

    /// Adds the cost of a question. The text of the question lacks the output, which counts with `output` tokens.
    fn add_question(&mut self, suite: &Suite, question: &JudgeQuestion, output: u32) {
        let id = question.model.as_deref().or(suite.defaults.judge_model.as_deref());
        let judge = judge_of(&suite.models, id);
        let Some((judge, price)) = judge.and_then(|it| Some((it, it.price?))) else {
            let name = judge.map_or("the judge", |it| it.id.as_str());
            self.unknown.insert(format!("the price of the judge `{name}`"));
            return;
        };
        self.has_price = true;
        let asked = tokens(question.system.len() + question.user.len());
        self.usd += price.cost(&Usage {
            input_tokens: asked + u64::from(output),
            output_tokens: judge.judge_params(question).max_tokens.unwrap_or(0).into(),
            ..Usage::default()
        });
    }
}

impl std::fmt::Display for Estimate {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if self.requests > 0 {
            writeln!(f, "models: {}", at_most(self.requests.try_into().unwrap_or(u32::MAX)))?;
        }
        if self.commands > 0 {
            writeln!(f, "commands: {}", self.commands)?;
        }
        if self.transcripts > 0 {
            writeln!(f, "transcripts: {}", self.transcripts)?;
        }
        if self.recorded > 0 {
            writeln!(f, "recorded outputs: {}", self.recorded)?;
        }
        if self.agents > 0 {
            writeln!(f, "agents: {}", executions(self.agents.try_into().unwrap_or(usize::MAX)))?;
        }
        if self.questions > 0 {
            let questions = if self.questions == 1 { "question" } else { "questions" };
            writeln!(f, "judges: about {} {questions}", self.questions)?;
        }
        if self.canaries > 0 {
            let canaries = if self.canaries == 1 { "canary" } else { "canaries" };
            writeln!(f, "judges: about {} {canaries} before the first test", self.canaries)?;
        }
        for unknown in &self.unknown {
            writeln!(f, "unknown: {}", one_line(unknown))?;
        }
        if self.usd > 0.0 {
            let more = if self.unknown.is_empty() { "" } else { ", plus the unknown costs" };
            writeln!(f, "cost: at most about ${:.4}{more}", self.usd)?;
            writeln!(
                f,
                "  (a token for every {CHARS_PER_TOKEN} characters sent, answers as long as `maxTokens` allows;\n  \
                 without the results of tools, retries, and second questions to judges)"
            )?;
            for id in &self.unlimited {
                let most = kindlm_reporters::count(LONGEST_ANSWER.into());
                writeln!(
                    f,
                    "  (`{}` has no `maxTokens`: counted with {most} tokens for each answer)",
                    one_line(id)
                )?;
            }
        } else if !self.unknown.is_empty() {
            writeln!(f, "cost: unknown")?;
        } else if self.has_price {
            writeln!(f, "cost: $0, because all prices are 0")?;
        }
        Ok(())
    }
}

/// Returns the number of bytes in the JSON description of a tool.
fn described(tool: &kindlm_engine::SimulatedTool) -> usize {
    serde_json::to_string(&tool.spec).map_or(0, |it| it.len())
}

fn tokens(chars: usize) -> u64 {
    chars.div_ceil(CHARS_PER_TOKEN) as u64
}

/// Returns the number of user messages in one execution, such as `2 turns`.
fn turns(body: &CaseBody) -> String {
    let said = body.conversation.iter().skip(1).filter(|it| it.user.is_some()).count() + 1;
    if said == 1 { "1 turn".to_owned() } else { format!("{said} turns") }
}

fn at_most(requests: u32) -> String {
    match requests {
        0 => "no request".to_owned(),
        1 => "1 request".to_owned(),
        more => format!("at most {more} requests"),
    }
}

fn executions(count: usize) -> String {
    if count == 1 { "1 execution".to_owned() } else { format!("{count} executions") }
}

fn cases(count: usize) -> String {
    if count == 1 { "1 test case".to_owned() } else { format!("{count} test cases") }
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::sync::Arc;

    use super::*;
    use crate::{OpenOptions, Project, Purpose, World, budget};

    /// Returns the suite in a folder, and its plan.
    fn planned(folder: &Path, test: &str) -> (Suite, Plan) {
        let config = format!(
            "kindlm: 1\nproject: p\nsuite: {{ name: s }}\n\
             providers: {{ openai: {{ apiKeyEnv: MOCK_KEY }} }}\n\
             models: [{{ id: own, provider: openai, model: without-price }}]\n\
             prompts: {{ p: {{ user: hello }} }}\ntests:\n  - {{ name: t, prompt: p, {test} }}\n"
        );
        std::fs::write(folder.join("kindlm.yaml"), config).unwrap();
        let world = World::new(folder, Arc::new(|_| None));
        let project =
            Project::open(&world, &OpenOptions::new("kindlm.yaml"), Purpose::Models).unwrap();
        let plan = kindlm_engine::plan(&project.suite, &RunOptions::default()).unwrap();
        (project.suite, plan)
    }

    #[test]
    fn recorded_outputs_need_no_request_and_no_price() {
        let options = RunOptions { budget_usd: Some(1.0), ..RunOptions::default() };
        let expect = "expect: { output: { contains: [a] } }";
        for (test, is_recorded) in [(expect, false), (&*format!("output: a, {expect}"), true)] {
            let folder = tempfile::tempdir().unwrap();
            let (suite, plan) = planned(folder.path(), test);
            assert_eq!(budget::check(&suite, &plan, &options, true).is_ok(), is_recorded);
            let text = describe(&suite, &plan, &options, (&[], &[])).unwrap();
            for (part, is_there) in [
                ("  t [own]: 1 × no request\n", is_recorded),
                ("recorded outputs: 1\n", is_recorded),
                ("models: 1 request\n", !is_recorded),
                ("no price known", !is_recorded),
            ] {
                assert_eq!(text.contains(part), is_there, "{part}: {text}");
            }
        }
    }
}
