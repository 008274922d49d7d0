//! Says which keys are missing before anything is sent without them.

use std::collections::{BTreeMap, BTreeSet};

use kindlm_assertions::{Evidence, first_questions};
use kindlm_engine::{CaseKind, Model, Plan, Suite, TestCase, judge_of};
use kindlm_types::{Answers, Execution, Question};

use serde_json::{Map, Value};

use crate::responses::ResponsesArgs;
use crate::secrets::variables;
use crate::{Failure, Io};

/// Warnings about keys that a run of everything needs and that are not there.
pub(crate) fn missing(io: &Io, suite: &Suite) -> Vec<String> {
    let cases = suite.cases.iter().filter(|it| it.skip.is_none());
    let pairs = cases.flat_map(|case| {
        let models: &[String] = if case.kind == CaseKind::Prompt { &case.models } else { &[] };
        let named = models.iter().filter_map(|id| suite.models.iter().find(|it| it.id == *id));
        std::iter::once((case, None)).chain(named.map(move |it| (case, Some(it))))
    });
    warnings(io, suite, pairs)
}

/// Refuses a judge that was named to be asked, and whose key is not there: each of its questions would fail.
pub(crate) fn require(
    io: &Io,
    judge: Option<&Model>,
    providers: &Map<String, Value>,
    responses: &ResponsesArgs,
) -> Result<(), Failure> {
    // What was kept can be read without a key.
    let Some(judge) = judge.filter(|_| responses.always_asks()) else { return Ok(()) };
    let needed = providers.get(&judge.provider).map(variables).unwrap_or_default();
    let Some(missing) = needed.into_iter().find(|it| io.var(it).is_none()) else { return Ok(()) };
    let message = format!("`{missing}` is not set, and the judge `{}` needs it", judge.id);
    Err(Failure::input(message).with_help(
        "set it; a suite with `-c` may name another variable (`apiKeyEnv`), and `--responses replay` asks nobody",
    ))
}

/// Warnings about keys that a plan needs and that are not there.
pub(crate) fn missing_for(io: &Io, suite: &Suite, plan: &Plan) -> Vec<String> {
    let pairs = plan.units.iter().filter_map(|unit| {
        Some((suite.cases.get(unit.case)?, unit.model.and_then(|it| suite.models.get(it))))
    });
    warnings(io, suite, pairs)
}

fn warnings<'s>(
    io: &Io,
    suite: &'s Suite,
    pairs: impl Iterator<Item = (&'s TestCase, Option<&'s Model>)>,
) -> Vec<String> {
    let unset: BTreeMap<&str, BTreeSet<&str>> = suite
        .providers
        .iter()
        .map(|(provider, config)| {
            let all = variables(config).into_iter();
            (provider.as_str(), all.filter(|it| io.var(it).is_none()).collect::<BTreeSet<_>>())
        })
        .filter(|(_, variables)| !variables.is_empty())
        .collect();
    let mut asked = BTreeSet::new();
    let mut agents = BTreeSet::new();
    let mut seen = BTreeSet::new();
    for (case, model) in pairs {
        match model {
            Some(Model { id, agent: Some(agent), .. }) => {
                let named = agent.env.iter().flatten().filter(|it| io.var(it).is_none());
                agents.extend(named.map(|name| (name.as_str(), id.as_str())));
            }
            model => asked.extend(model.map(|it| it.provider.as_str())),
        }
        if unset.is_empty() {
            continue;
        }
        if seen.insert(case.name.as_str()) {
            asked.extend(questions(suite, case).iter().map(|(_, it)| it.provider.as_str()));
        }
    }
    let missing = unset.iter().filter(|(provider, _)| asked.contains(*provider));
    missing
        .flat_map(|(provider, variables)| {
            variables.iter().map(move |variable| {
                format!("`{variable}` is not set, and the provider `{provider}` needs it")
            })
        })
        .chain(agents.into_iter().map(|(variable, agent)| {
            format!("`{variable}` is not set, and the agent `{agent}` should get it")
        }))
        .collect()
}

/// What a case's checks ask, and the models that are asked.
pub(crate) fn questions<'s>(suite: &'s Suite, case: &TestCase) -> Vec<(Question, &'s Model)> {
    let (execution, answers) = (Execution::default(), Answers::default());
    let evidence =
        Evidence { execution: &execution, answers: &answers, baseline: None, contest: None };
    // A body that cannot be made asks nobody; the run says why.
    let Ok(body) = case.body.body() else { return Vec::new() };
    let checks = body.checks.iter().chain(body.conversation.iter().flat_map(|it| &*it.checks));
    let questions = first_questions(checks, &evidence).into_iter().map(|(_, it)| it);
    let default = suite.defaults.judge_model.as_deref();
    let asked = |question: Question| {
        let id = match &question {
            Question::Judge(it) => it.model.as_deref(),
            Question::Embedding(it) => it.model.as_deref(),
            Question::Script(_) => return None,
        };
        let model = judge_of(&suite.models, id.or(default));
        Some((question, model?))
    };
    questions.filter_map(asked).collect()
}
