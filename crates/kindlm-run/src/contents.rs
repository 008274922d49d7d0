//! The contents of a suite in numbers: tests, models, checks and gates.

use std::fmt::Write as _;

use kindlm_engine::{CaseKind, Suite};
use kindlm_reporters::one_line;
use serde_json::{Value, json};

/// The numbers of items in a suite.
#[derive(Default)]
struct Counts {
    prompts: usize,
    commands: usize,
    transcripts: usize,
    skipped: usize,
    executions: u64,
    checks: usize,
}

impl Counts {
    fn from_suite(suite: &Suite) -> Self {
        let mut counts = Self::default();
        for case in &suite.cases {
            let targets = match case.kind {
                CaseKind::Prompt => {
                    counts.prompts += 1;
                    case.models.len() as u64
                }
                CaseKind::Command => {
                    counts.commands += 1;
                    1
                }
                CaseKind::Transcript => {
                    counts.transcripts += 1;
                    1
                }
            };
            // The suite was just loaded, so the body can normally be created. If the body cannot be created, its checks
            // are not counted here, and the run reports the error.
            if let Ok(body) = case.body.body() {
                counts.checks += body.checks.len();
                counts.checks += body.conversation.iter().map(|it| it.checks.len()).sum::<usize>();
            }
            if case.skip.is_some() {
                counts.skipped += 1;
            } else {
                counts.executions += targets * u64::from(case.repeat);
            }
        }
        counts
    }
}

/// Returns the names and numbers of a suite as a JSON object.
pub fn to_json(suite: &Suite) -> Value {
    let counts = Counts::from_suite(suite);
    json!({
        "project": suite.info.project,
        "name": suite.info.name,
        "tests": suite.cases.len(),
        "prompts": counts.prompts,
        "commands": counts.commands,
        "transcripts": counts.transcripts,
        "skipped": counts.skipped,
        "models": ids(suite, false),
        "agents": ids(suite, true),
        "checks": counts.checks,
        "gates": suite.gates.len(),
        "executions": counts.executions,
    })
}

/// Returns the ids of the models, or of the agents.
fn ids(suite: &Suite, of_agents: bool) -> Vec<&str> {
    let models = suite.models.iter().filter(|it| it.agent.is_some() == of_agents);
    models.map(|it| it.id.as_str()).collect()
}

/// Returns the names and numbers of a valid suite as text; `config` is the path of its file.
pub fn describe(config: &str, suite: &Suite) -> String {
    let counts = Counts::from_suite(suite);
    let mut text = format!("`{}` is valid.\n\n", one_line(config));
    let mut line = |name: &str, value: String| {
        let _ = writeln!(text, "{name:10}  {}", one_line(&value));
    };
    line("suite", format!("{} (project {})", suite.info.name, suite.info.project));
    line("tests", tests(suite, &counts));
    line(
        "models",
        list(
            suite
                .models
                .iter()
                .filter(|it| it.agent.is_none())
                .map(|it| format!("{} ({}:{})", it.id, it.provider, it.name)),
        ),
    );
    if suite.models.iter().any(|it| it.agent.is_some()) {
        let agents = suite.models.iter().filter(|it| it.agent.is_some());
        line("agents", list(agents.map(|it| format!("{} ({})", it.id, it.provider))));
    }
    line("checks", counts.checks.to_string());
    line("gates", suite.gates.len().to_string());
    line("executions", format!("{} in a complete run", counts.executions));
    text
}

fn tests(suite: &Suite, counts: &Counts) -> String {
    let mut parts = Vec::new();
    for (count, word) in [
        (counts.prompts, "with a prompt"),
        (counts.commands, "with a command"),
        (counts.transcripts, "with a transcript"),
        (counts.skipped, "skipped"),
    ] {
        if count > 0 {
            parts.push(format!("{count} {word}"));
        }
    }
    format!("{} ({})", suite.cases.len(), parts.join(", "))
}

fn list(items: impl Iterator<Item = String>) -> String {
    let items: Vec<String> = items.collect();
    if items.is_empty() { "none".to_owned() } else { items.join(", ") }
}
