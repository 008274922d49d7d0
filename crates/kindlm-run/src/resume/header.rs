//! The parts of a run that must be unchanged when the run is resumed: the suite, the models, and the tests.

use std::borrow::Cow;
use std::collections::BTreeMap;

use kindlm_config::{Parts, Programs};
use kindlm_engine::{CaseBody, Digest as Fingerprint, Model, Plan, Subject, Suite, TestCase};
use kindlm_store::Digest;
use kindlm_store::journal::{Header, PlannedCase};
use kindlm_types::{Files, RunInfo};
use serde_json::{Map, Value};

use crate::Failure;
use crate::suites::{PROJECT, config_name};

/// Returns the header of a run, which is the first line of its journal.
pub(super) fn build_header<'a>(
    info: &'a RunInfo,
    (suite, files): (&'a Suite, &dyn Files),
    plan: &Plan,
    baseline: Option<Digest>,
    arguments: Vec<String>,
) -> Result<Header<'a>, Failure> {
    let name = suite.info.name.as_str();
    let mut header = Header::new(info.id.as_str(), info.version.as_str(), &*info.started_at, name);
    header.config = config_name(&suite.info).map(Cow::Owned);
    header.suite_digest = suite.info.config_sha256.as_deref().map(Cow::Borrowed);
    header.settings = settings(suite, baseline);
    let programs = &Programs::new(files);
    header.models =
        suite.models.iter().map(|it| (it.id.as_str().into(), model(suite, programs, it))).collect();
    header.arguments = arguments.into_iter().map(Cow::Owned).collect();
    for group in plan.units.chunk_by(|a, b| (a.case, a.model) == (b.case, b.model)) {
        let Some(unit) = group.first() else { continue };
        let Some(case) = suite.cases.get(unit.case) else { continue };
        let repeats = u32::try_from(group.len()).unwrap_or(u32::MAX);
        header.cases.push(planned(case, unit.target(suite), repeats, programs)?);
    }
    Ok(header)
}

fn settings(suite: &Suite, baseline: Option<Digest>) -> BTreeMap<Cow<'static, str>, Digest> {
    let mut settings = BTreeMap::new();
    settings.insert(PROJECT.into(), Digest::from_content(&suite.info.project));
    settings.extend(baseline.map(|it| ("baseline".into(), it)));
    if let Some(judge) = &suite.defaults.judge_model {
        settings.insert("defaults.judgeModel".into(), Digest::from_content(judge));
    }
    if !suite.judging.is_empty() {
        let judging = serde_json::to_value(&suite.judging).unwrap_or_default();
        settings.insert("defaults.judge".into(), digest([judging]));
    }
    settings
}

fn model(suite: &Suite, programs: &Programs<'_>, model: &Model) -> Digest {
    // API keys and rate limits may change before a run is resumed.
    let provider = suite.providers.get(&model.provider).map(kindlm_providers::without_free);
    let provider = provider.map(Value::Object).unwrap_or_default();
    let mut files = Parts::clone(&programs.named_in(&provider));
    let params = serde_json::to_value(&model.params).unwrap_or_default();
    let mut parts =
        vec![Value::from(&*model.provider), Value::from(&*model.name), params, provider];
    // The time limit and the environment variables of an agent may change before a run is resumed.
    if let Some(Ok(Value::Object(mut agent))) = model.agent.as_deref().map(serde_json::to_value) {
        agent.retain(|key, _| key != "timeoutMs" && key != "env");
        let agent = Value::Object(agent);
        files.extend(Parts::clone(&programs.named_in(&agent)));
        parts.push(agent);
    }
    if !files.is_empty() {
        parts.push(in_words(files));
    }
    digest(parts)
}

fn planned<'a>(
    case: &'a TestCase,
    model: &'a str,
    repeats: u32,
    programs: &Programs<'_>,
) -> Result<PlannedCase<'a>, Failure> {
    let body = case.body.body();
    let body = body.map_err(|err| Failure::internal(format!("`{}`: {err}", case.name)))?;
    let whole = case.digest.map(|it| Digest::shortened(it.as_bytes()));
    Ok(PlannedCase {
        case: case.name.as_str().into(),
        model: model.into(),
        repeats,
        prompt: prompt(&body, programs),
        tools: Digest::from_content(format!("{:?}", body.tools)),
        vars: vars(&body.vars),
        checks: whole.unwrap_or_else(|| Digest::from_content("")),
    })
}

/// Returns the digest of the prompt, command or transcript, the conversation, and `maxTurns`.
fn prompt(body: &CaseBody, programs: &Programs<'_>) -> Digest {
    let sum = Fingerprint::default().number(body.max_turns.into());
    let sum = match &body.subject {
        Subject::Prompt { messages } => {
            messages.iter().fold(sum.number(messages.len() as u64), |sum, it| {
                let sum = sum.text(it.role.as_str()).text(&it.content);
                // Debug text is stable enough here. If a new KindLM version formats it differently, runs of older
                // versions cannot be resumed.
                if it.tool_calls.is_empty() {
                    sum
                } else {
                    sum.text(&format!("{:?}", it.tool_calls))
                }
            })
        }
        Subject::Command { command_line } => {
            let files = programs.of_command(command_line).map(|it| it.to_string());
            sum.text("command").text(command_line).text(files.as_deref().unwrap_or_default())
        }
        Subject::Transcript(transcript) => sum.text("transcript").text(&format!("{transcript:?}")),
    };
    let said = body.conversation.iter().map(|it| it.user.as_deref());
    let sum = said.fold(sum, |sum, it| match it {
        Some(text) => sum.text("user").text(text),
        None => sum.text("on"),
    });
    Digest::shortened(sum.finish().as_bytes())
}

fn in_words(parts: Parts) -> Value {
    let parts = parts.into_iter().map(|(path, digest)| (path, digest.to_string().into()));
    Value::Object(parts.collect())
}

/// Returns a digest of the variables that does not depend on the order of keys.
fn vars(vars: &Map<String, Value>) -> Digest {
    let mut keys: Vec<(&String, &Value)> = vars.iter().collect();
    keys.sort_unstable_by_key(|(key, _)| *key);
    let sum = keys
        .into_iter()
        .fold(Fingerprint::default(), |sum, (key, value)| sum.text(key).value(value));
    Digest::shortened(sum.finish().as_bytes())
}

/// Returns a digest of the values that does not depend on the order of their keys.
fn digest(values: impl IntoIterator<Item = Value>) -> Digest {
    let sorted: Value = values.into_iter().map(sorted).collect();
    Digest::from_content(sorted.to_string())
}

fn sorted(value: Value) -> Value {
    match value {
        Value::Object(entries) => {
            let entries: BTreeMap<String, Value> = entries.into_iter().collect();
            let entries = entries.into_iter().map(|(key, value)| (key, sorted(value)));
            Value::Object(entries.collect::<Map<String, Value>>())
        }
        Value::Array(items) => items.into_iter().map(sorted).collect(),
        value => value,
    }
}
