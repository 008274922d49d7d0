//! Finds missing API keys before the first request.

use std::collections::{BTreeMap, BTreeSet};

use kindlm_assertions::{Evidence, first_questions};
use kindlm_engine::{CaseKind, Model, Plan, Suite, TestCase, judge_of};
use kindlm_types::{Answers, Execution, Question};

use serde_json::{Map, Value};

use crate::responses::ResponseSource;
use crate::secrets::{keys_of, variables};
use crate::{Failure, World};

/// Error messages about unset environment variables.
#[derive(Debug, Default)]
pub struct Missing {
    /// The messages about keys without which every request fails.
    required: Vec<String>,
    /// The messages about variables that only some requests need.
    optional: Vec<String>,
}

impl Missing {
    /// Returns the messages, those about required keys first.
    pub fn all(self) -> impl Iterator<Item = String> {
        self.required.into_iter().chain(self.optional)
    }

    /// Fails if a required key is missing and `is_sure` is true.
    ///
    /// `is_sure` means that requests will be sent. A stored response needs no key.
    pub(crate) fn refuse(&mut self, is_sure: bool) -> Result<(), Failure> {
        if !is_sure || self.required.is_empty() {
            return Ok(());
        }
        let required = std::mem::take(&mut self.required);
        Err(Failure::inputs(required).with_help(
            "set it in the environment or in a file (`--env-file .env`), or name another variable as `apiKeyEnv`; nothing was sent",
        ))
    }
}

/// Returns the missing keys for a run of the whole suite, without skipped cases.
pub fn missing(world: &World, suite: &Suite) -> Missing {
    let cases = suite.cases.iter().filter(|it| it.skip.is_none());
    let pairs = cases.flat_map(|case| {
        let models: &[String] = if case.kind == CaseKind::Prompt { &case.models } else { &[] };
        let named = models.iter().filter_map(|id| suite.models.iter().find(|it| it.id == *id));
        std::iter::once((case, None)).chain(named.map(move |it| (case, Some(it))))
    });
    missing_of(world, suite, pairs)
}

/// Fails if the key of a judge is not set.
///
/// Judges whose answers may be in the response store need no key.
pub(crate) fn require<'m>(
    world: &World,
    judges: impl IntoIterator<Item = &'m Model>,
    providers: &Map<String, Value>,
    responses: &ResponseSource,
) -> Result<(), Failure> {
    let missing = judges.into_iter().filter(|_| responses.always_asks()).find_map(|judge| {
        let needed = providers.get(&judge.provider).map(keys_of).unwrap_or_default();
        let missing = needed.into_iter().find(|it| world.var(it).is_none())?;
        Some(format!("`{missing}` is not set, and the judge `{}` needs it", judge.id))
    });
    let Some(message) = missing else { return Ok(()) };
    Err(Failure::input(message).with_help(
        "set it; a suite with `-c` may name another variable (`apiKeyEnv`), and `--responses replay` sends no request",
    ))
}

/// Returns the missing keys of a plan.
///
/// Keys of the models under test count only with `asks_models`.
pub(crate) fn missing_for(world: &World, suite: &Suite, plan: &Plan, asks_models: bool) -> Missing {
    let pairs = plan.units.iter().filter_map(|unit| {
        let model = unit.model.filter(|_| asks_models).and_then(|it| suite.models.get(it));
        Some((suite.cases.get(unit.case)?, model))
    });
    missing_of(world, suite, pairs)
}

fn missing_of<'s>(
    world: &World,
    suite: &'s Suite,
    pairs: impl Iterator<Item = (&'s TestCase, Option<&'s Model>)>,
) -> Missing {
    let unset: BTreeMap<&str, BTreeSet<&str>> = suite
        .providers
        .iter()
        .map(|(provider, config)| {
            let all = variables(config).into_iter();
            (provider.as_str(), all.filter(|it| world.var(it).is_none()).collect::<BTreeSet<_>>())
        })
        .filter(|(_, variables)| !variables.is_empty())
        .collect();
    let mut asked = BTreeSet::new();
    let mut agents = BTreeSet::new();
    let mut seen = BTreeSet::new();
    for (case, model) in pairs {
        match model {
            Some(Model { id, agent: Some(agent), .. }) => {
                let named = agent.env.iter().flatten().filter(|it| world.var(it).is_none());
                agents.extend(named.map(|name| (name.as_str(), id.as_str())));
            }
            Some(model) if unset.contains_key(model.provider.as_str()) => {
                // Recorded outputs need no request.
                let is_asked = case.body.body().is_ok_and(|it| it.recorded.is_none());
                asked.extend(is_asked.then_some(model.provider.as_str()));
            }
            _ => {}
        }
        if unset.is_empty() {
            continue;
        }
        if seen.insert(case.name.as_str()) {
            asked.extend(questions(suite, case).iter().map(|(_, it)| it.provider.as_str()));
        }
    }
    let mut missing = Missing::default();
    for (provider, variables) in unset.iter().filter(|(provider, _)| asked.contains(*provider)) {
        let keys = suite.providers.get(*provider).map(keys_of).unwrap_or_default();
        for variable in variables {
            let message =
                format!("`{variable}` is not set, and the provider `{provider}` needs it");
            let is_key = keys.contains(variable);
            if is_key { &mut missing.required } else { &mut missing.optional }.push(message);
        }
    }
    missing.optional.extend(agents.into_iter().map(|(variable, agent)| {
        format!("`{variable}` is not set, and the agent `{agent}` needs it")
    }));
    missing
}

/// Returns the questions of a case's checks, with the models that answer them.
///
/// Questions for scripts, and questions without a known model, are left out.
pub(crate) fn questions<'s>(suite: &'s Suite, case: &TestCase) -> Vec<(Question, &'s Model)> {
    let (execution, answers) = (Execution::default(), Answers::default());
    let evidence =
        Evidence { execution: &execution, answers: &answers, baseline: None, comparison: None };
    // A case whose body cannot be built has no questions; the run reports the error.
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
