//! What must be the same when a run goes on: the suite, the models, the tests.

use std::borrow::Cow;
use std::collections::BTreeMap;

use kindlm_config::{Parts, Programs};
use kindlm_engine::{Digest as Fingerprint, Model, Plan, Subject, Suite, TestCase};
use kindlm_store::Digest;
use kindlm_store::journal::{Header, PlannedCase};
use kindlm_types::{Files, RunInfo};
use serde_json::{Map, Value};

use crate::Failure;

/// The first line of a run's journal.
pub(super) fn of<'a>(
    info: &'a RunInfo,
    (suite, files): (&'a Suite, &dyn Files),
    plan: &Plan,
    baseline: Option<Digest>,
    arguments: Vec<String>,
) -> Result<Header<'a>, Failure> {
    let name = suite.info.name.as_str();
    let mut header = Header::new(info.id.as_str(), info.version.as_str(), &*info.started_at, name);
    header.suite_digest = suite.info.config_sha256.as_deref().map(Cow::Borrowed);
    header.settings = settings(suite, baseline);
    let programs = &Programs::new(files);
    header.models =
        suite.models.iter().map(|it| (it.id.as_str().into(), model(suite, programs, it))).collect();
    header.arguments = arguments.into_iter().map(Cow::Owned).collect();
    let mut same = (Same::default(), programs);
    for group in plan.units.chunk_by(|a, b| (a.case, a.model) == (b.case, b.model)) {
        let Some(unit) = group.first() else { continue };
        let Some(case) = suite.cases.get(unit.case) else { continue };
        let repeats = u32::try_from(group.len()).unwrap_or(u32::MAX);
        header.cases.push(planned(case, unit.target(suite), repeats, &mut same)?);
    }
    Ok(header)
}

fn settings(suite: &Suite, baseline: Option<Digest>) -> BTreeMap<Cow<'static, str>, Digest> {
    let mut settings = BTreeMap::new();
    settings.insert("project".into(), Digest::of(&suite.info.project));
    settings.extend(baseline.map(|it| ("baseline".into(), it)));
    if let Some(judge) = &suite.defaults.judge_model {
        settings.insert("defaults.judgeModel".into(), Digest::of(judge));
    }
    if !suite.judging.is_empty() {
        let judging = serde_json::to_value(&suite.judging).unwrap_or_default();
        settings.insert("defaults.judge".into(), digest([judging]));
    }
    settings
}

fn model(suite: &Suite, programs: &Programs<'_>, model: &Model) -> Digest {
    // Other keys and other limits may be given for the rest of a run.
    let provider = suite.providers.get(&model.provider).map(kindlm_providers::without_free);
    let provider = provider.map(Value::Object).unwrap_or_default();
    let mut files = Parts::clone(&programs.named_in(&provider));
    let params = serde_json::to_value(&model.params).unwrap_or_default();
    let mut parts =
        vec![Value::from(&*model.provider), Value::from(&*model.name), params, provider];
    // What an agent may take does not change what it does.
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

/// Debug texts serve well enough where a value is not JSON: a new KindLM that writes them otherwise asks for a new run.
fn planned<'a>(
    case: &'a TestCase,
    model: &'a str,
    repeats: u32,
    (tools, programs): &mut (Same, &Programs<'_>),
) -> Result<PlannedCase<'a>, Failure> {
    let body = case.body.body();
    let body = body.map_err(|err| Failure::internal(format!("`{}`: {err}", case.name)))?;
    let said: Vec<Option<&str>> = body.conversation.iter().map(|it| it.user.as_deref()).collect();
    let whole = case.digest.map(|it| Digest::shortened(it.as_bytes()));
    Ok(PlannedCase {
        case: case.name.as_str().into(),
        model: model.into(),
        repeats,
        prompt: Digest::of(format!(
            "{:?} {said:?} {}{}",
            body.subject,
            body.max_turns,
            files_of(programs, &body.subject)
        )),
        tools: tools.digest(format!("{:?}", body.tools)),
        vars: vars(&body.vars),
        checks: whole.unwrap_or_else(|| Digest::of("")),
    })
}

/// What tells of the files of a command; empty for what is no command, or has none.
fn files_of(programs: &Programs<'_>, subject: &Subject) -> String {
    let Subject::Command { command_line } = subject else { return String::new() };
    programs.of_command(command_line).map(|it| format!(" {it}")).unwrap_or_default()
}

fn in_words(parts: Parts) -> Value {
    let parts = parts.into_iter().map(|(path, digest)| (path, digest.to_string().into()));
    Value::Object(parts.collect())
}

/// The digest of a text that is mostly the one before: that of the tools, which many cases have in common.
#[derive(Default)]
struct Same(Option<(String, Digest)>);

impl Same {
    fn digest(&mut self, text: String) -> Digest {
        match &self.0 {
            Some((before, digest)) if *before == text => *digest,
            _ => self.0.insert((text.clone(), Digest::of(text))).1,
        }
    }
}

/// The same whatever the order of keys.
fn vars(vars: &Map<String, Value>) -> Digest {
    let mut keys: Vec<(&String, &Value)> = vars.iter().collect();
    keys.sort_unstable_by_key(|(key, _)| *key);
    let sum = keys
        .into_iter()
        .fold(Fingerprint::default(), |sum, (key, value)| sum.text(key).value(value));
    Digest::shortened(sum.finish().as_bytes())
}

/// The same whatever the order of keys.
fn digest(values: impl IntoIterator<Item = Value>) -> Digest {
    let sorted: Value = values.into_iter().map(sorted).collect();
    Digest::of(sorted.to_string())
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
