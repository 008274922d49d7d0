//! `kindlm init`: creates a first suite.

use std::fs;
use std::io::ErrorKind;

use kindlm_run::Outcome;
use kindlm_run::project::CONFIG;
use kindlm_types::ExitStatus;

use crate::args::{Ci, InitArgs, Provider, Template};
use crate::{Failure, Io, print};

/// The lines of `.gitignore`: runs, and the usual file for `--env-file`.
const IGNORED: [&str; 2] = [".kindlm/runs/", ".env"];

/// The ignore file of git.
const IGNORE_FILE: &str = ".gitignore";

/// The values that a template needs for a provider.
struct Values {
    id: &'static str,
    /// The variable with the key; `None` without a key.
    key: Option<&'static str>,
    model: &'static str,
    judge: &'static str,
}

pub(crate) fn run(args: &InitArgs, io: &mut Io) -> Outcome {
    let values = args.provider.map(values);
    // The job is first, so that an error does not leave a suite without it.
    let mut files: Vec<_> = args.ci.map(|it| job(it, values.as_ref())).into_iter().collect();
    // `--ci` alone adds a job to an existing suite.
    let is_chosen = args.ci.is_none() || args.template.is_some() || args.provider.is_some();
    if is_chosen || args.force || !io.working_dir.join(CONFIG).exists() {
        files.push((CONFIG, suite(args.template, values.as_ref())));
    }
    let existing = files.iter().find(|(path, _)| io.working_dir.join(path).exists());
    if let Some((path, _)) = existing.filter(|_| !args.force) {
        return Err(Failure::input(format!("`{path}` already exists; nothing was written"))
            .with_help("replace it with `--force`"));
    }
    for (path, text) in &files {
        write(io, path, text)?;
        print(io, &format!("wrote {path}\n"))?;
    }
    ignore(io)?;
    let first = match values {
        Some(Values { key: Some(key), .. }) => format!("set {key}, then "),
        Some(Values { model, judge, .. }) => {
            format!("`ollama pull {model}` and `ollama pull {judge}`, then ")
        }
        None => String::new(),
    };
    let next = "`kindlm test` runs it, `kindlm validate` checks your changes.";
    print(io, &format!("\nNext: {first}{next}\n"))?;
    Ok(ExitStatus::Success)
}

fn write(io: &Io, path: &str, text: &str) -> Result<(), Failure> {
    kindlm_store::write(&io.working_dir.join(path), text.as_bytes())
        .map_err(|err| Failure::internal(err.to_string()))
}

/// Adds the missing lines to `.gitignore`.
fn ignore(io: &mut Io) -> Result<(), Failure> {
    let before = match fs::read_to_string(io.working_dir.join(IGNORE_FILE)) {
        Ok(text) => text,
        Err(err) if err.kind() == ErrorKind::NotFound => String::new(),
        Err(err) => {
            let why = kindlm_store::describe_io_error(&err);
            return Err(Failure::internal(format!("cannot read `{IGNORE_FILE}`: {why}")));
        }
    };
    let is_missing = |line: &&str| !before.lines().any(|it| it.trim() == *line);
    let missing: Vec<&str> = IGNORED.into_iter().filter(is_missing).collect();
    if missing.is_empty() {
        return Ok(());
    }
    let gap = if before.is_empty() || before.ends_with('\n') { "" } else { "\n" };
    write(io, IGNORE_FILE, &format!("{before}{gap}{}\n", missing.join("\n")))?;
    print(io, &format!("added `{}` to {IGNORE_FILE}\n", missing.join("` and `")))
}

fn values(provider: Provider) -> Values {
    let (id, key, model, judge) = match provider {
        Provider::Openai => ("openai", Some("OPENAI_API_KEY"), "gpt-4o-mini", "gpt-4o"),
        Provider::Anthropic => {
            ("anthropic", Some("ANTHROPIC_API_KEY"), "claude-haiku-4-5", "claude-sonnet-4-5")
        }
        Provider::Google => {
            ("gemini", Some("GEMINI_API_KEY"), "gemini-2.5-flash-lite", "gemini-2.5-flash")
        }
        Provider::Ollama => ("ollama", None, "llama3.1:8b", "qwen2.5:7b"),
    };
    Values { id, key, model, judge }
}

/// Returns the text of the suite.
fn suite(template: Option<Template>, values: Option<&Values>) -> String {
    let raw = env!("CARGO_PKG_REPOSITORY").replace("github.com", "raw.githubusercontent.com");
    let version = env!("CARGO_PKG_VERSION");
    let schema = format!("{raw}/v{version}/schemas/kindlm.schema.json");
    let text = match (template, values) {
        (None, Some(values)) => from_values(values),
        (None | Some(Template::Basic), _) => include_str!("../../templates/basic.yaml").to_owned(),
        (Some(Template::Agent), _) => include_str!("../../templates/agent.yaml").to_owned(),
        (Some(Template::Compliance), _) => {
            include_str!("../../templates/compliance.yaml").to_owned()
        }
    };
    text.replace("{SCHEMA}", &schema)
}

fn from_values(Values { id, key, model, judge }: &Values) -> String {
    let (first, config) = match key {
        Some(key) => (
            format!(
                "Run it with `kindlm test`, with the key in {key}, or with `--env-file .env` and the key in that file."
            ),
            format!("{id}: {{ apiKeyEnv: {key} }}"),
        ),
        None => (
            format!(
                "Run it with `kindlm test`, after `ollama pull {model}` and `ollama pull {judge}`."
            ),
            format!("{id}: {{ baseUrl: \"http://localhost:11434\" }}"),
        ),
    };
    include_str!("../../templates/provider.yaml")
        .replace("{FIRST}", &first)
        .replace("{CONFIG}", &config)
        .replace("{PROVIDER}", id)
        .replace("{MODEL}", model)
        .replace("{JUDGE}", judge)
}

/// Returns the path and the text of the CI job.
fn job(ci: Ci, values: Option<&Values>) -> (&'static str, String) {
    let key = values.and_then(|it| it.key);
    let (path, text, env) = match ci {
        Ci::Github => (
            ".github/workflows/kindlm.yml",
            include_str!("../../templates/github.yml"),
            Some(match key {
                Some(key) => format!("        env: {{ {key}: \"${{{{ secrets.{key} }}}}\" }}\n"),
                None => "        # env: { NAME: \"${{ secrets.NAME }}\" }\n".to_owned(),
            }),
        ),
        Ci::Gitlab => (
            ".gitlab-ci.yml",
            include_str!("../../templates/gitlab.yml"),
            key.map(|it| format!("# Set the masked CI/CD variable {it}.\n")),
        ),
    };
    let text = text.replace("{VERSION}", env!("CARGO_PKG_VERSION"));
    (path, text.replace("{ENV}", &env.unwrap_or_default()))
}
