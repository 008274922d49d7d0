//! Creates a first suite.

use std::fs;
use std::io::ErrorKind;
use std::path::Path;

use kindlm_providers::servers::{self, Server};

use crate::Failure;
use crate::project::CONFIG;

/// The lines of `.gitignore`: runs, and the usual file for `--env-file`.
const IGNORED: [&str; 2] = [".kindlm/runs/", ".env"];

/// The ignore file of git.
const IGNORE_FILE: &str = ".gitignore";

/// A template for a suite with scripted models.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Template {
    /// Two prompts with checks of words, personal data, JSON and a judge.
    Basic,
    /// An agent that calls tools, with simulated answers.
    Agent,
    /// A suite with tags, gates and a report for the EU AI Act.
    Compliance,
}

/// A provider of real models.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Provider {
    /// OpenAI.
    Openai,
    /// Anthropic.
    Anthropic,
    /// Google Gemini.
    Google,
    /// Ollama on this machine, without a key.
    Ollama,
    /// A server with an API compatible to OpenAI's. The suite has placeholders for the models.
    Server(&'static Server),
}

impl Provider {
    /// Returns all providers. The servers are those that need only a key.
    pub fn all() -> impl Iterator<Item = Self> {
        let servers = servers::all().filter(|it| !it.is_open && it.needs.is_empty());
        let known = [Self::Openai, Self::Anthropic, Self::Google, Self::Ollama];
        known.into_iter().chain(servers.map(Self::Server))
    }

    /// Returns the provider with this name, or with this id in a suite; `None` if there is none.
    pub fn find(name: &str) -> Option<Self> {
        Self::all().find(|it| it.name() == name || values(*it).id == name)
    }

    /// Returns the name of the provider for users.
    pub fn name(self) -> &'static str {
        match self {
            Self::Google => "google",
            other => values(other).id,
        }
    }

    /// Returns the vendor, and the variable of the key.
    pub fn summary(self) -> String {
        let vendor = match self {
            Self::Openai => "OpenAI",
            Self::Anthropic => "Anthropic",
            Self::Google => "Google Gemini",
            Self::Ollama => "Ollama on this machine",
            Self::Server(server) => server.vendor,
        };
        values(self).key.map_or_else(
            || format!("{vendor}, without a key"),
            |key| format!("{vendor}, with the key in `{key}`"),
        )
    }
}

/// A CI service.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ci {
    /// GitHub Actions.
    Github,
    /// GitLab CI.
    Gitlab,
}

/// The choices for a new suite.
#[derive(Clone, Copy, Debug, Default)]
pub struct NewSuite {
    /// The template; [`Template::Basic`] by default.
    pub template: Option<Template>,
    /// The provider of the model. Without `template`, the new suite is made for this provider.
    pub provider: Option<Provider>,
    /// The CI service to write a job for; `None` for no job. Without `template`, `provider` and `force`, an existing
    /// suite stays.
    pub ci: Option<Ci>,
    /// True to replace existing files.
    pub force: bool,
}

/// The values that a template needs for a provider.
struct Values {
    id: &'static str,
    /// The variable with the key; `None` without a key.
    key: Option<&'static str>,
    model: &'static str,
    judge: &'static str,
    /// The address of the vendor's documentation, if `model` and `judge` are placeholders; otherwise `None`.
    docs: Option<&'static str>,
}

impl NewSuite {
    /// Writes the files to a folder, and adds runs and `.env` to its `.gitignore`.
    ///
    /// Calls `say` with a text after each file, and at the end with the next step. Fails before anything is written if
    /// a file exists and `force` is false. Also fails if a file cannot be written, or if `say` fails.
    pub fn write(
        &self,
        folder: &Path,
        say: &mut dyn FnMut(&str) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        let values = self.provider.map(values);
        // The CI job is written first, so that an error does not leave a suite without its CI job.
        let mut files: Vec<_> = self.ci.map(|it| job(it, values.as_ref())).into_iter().collect();
        // If only a CI job is requested, an existing suite stays.
        let is_chosen = self.ci.is_none() || self.template.is_some() || self.provider.is_some();
        if is_chosen || self.force || !folder.join(CONFIG).exists() {
            files.push((CONFIG, suite(self.template, values.as_ref())));
        }
        let existing = files.iter().find(|(path, _)| folder.join(path).exists());
        if let Some((path, _)) = existing.filter(|_| !self.force) {
            return Err(Failure::input(format!("`{path}` already exists; nothing was written"))
                .with_help("replace it with `--force`"));
        }
        for (path, text) in &files {
            write(folder, path, text)?;
            say(&format!("wrote {path}\n"))?;
        }
        ignore(folder, say)?;
        let first = match values {
            Some(Values { key: Some(key), model, judge, docs: Some(docs), .. }) => format!(
                "replace {model} and {judge} in {CONFIG} with the names of models (see {docs}), set {key}, then "
            ),
            Some(Values { key: Some(key), .. }) => format!("set {key}, then "),
            Some(Values { model, judge, .. }) => {
                format!("`ollama pull {model}` and `ollama pull {judge}`, then ")
            }
            None => String::new(),
        };
        let next = "`kindlm test` runs it, `kindlm validate` checks your changes.";
        say(&format!("\nNext: {first}{next}\n"))
    }
}

fn write(folder: &Path, path: &str, text: &str) -> Result<(), Failure> {
    kindlm_store::write(&folder.join(path), text.as_bytes())
        .map_err(|err| Failure::internal(err.to_string()))
}

/// Adds the missing lines to `.gitignore`.
fn ignore(folder: &Path, say: &mut dyn FnMut(&str) -> Result<(), Failure>) -> Result<(), Failure> {
    let before = match fs::read_to_string(folder.join(IGNORE_FILE)) {
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
    write(folder, IGNORE_FILE, &format!("{before}{gap}{}\n", missing.join("\n")))?;
    say(&format!("added `{}` to {IGNORE_FILE}\n", missing.join("` and `")))
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
        Provider::Server(server) => (server.name, Some(server.key), "MODEL", "JUDGE_MODEL"),
    };
    let docs = match provider {
        Provider::Server(server) => Some(server.docs),
        _ => None,
    };
    Values { id, key, model, judge, docs }
}

/// Returns the text of the suite.
fn suite(template: Option<Template>, values: Option<&Values>) -> String {
    let raw = env!("CARGO_PKG_REPOSITORY").replace("github.com", "raw.githubusercontent.com");
    let version = env!("CARGO_PKG_VERSION");
    let schema = format!("{raw}/v{version}/schemas/kindlm.schema.json");
    let text = match (template, values) {
        (None, Some(values)) => from_values(values),
        (None | Some(Template::Basic), _) => include_str!("../templates/basic.yaml").to_owned(),
        (Some(Template::Agent), _) => include_str!("../templates/agent.yaml").to_owned(),
        (Some(Template::Compliance), _) => include_str!("../templates/compliance.yaml").to_owned(),
    };
    text.replace("{SCHEMA}", &schema)
}

fn from_values(Values { id, key, model, judge, docs }: &Values) -> String {
    let (run, config) = match key {
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
    // A run with a budget needs the prices of its models.
    let (first, budget) = match docs {
        Some(docs) => (
            format!("Replace {model} and {judge} with the names of models: see {docs}\n# {run}"),
            "# costMaxUsd: 0.50                        # needs `price: { input: 0.1, output: 0.4 }` in each model",
        ),
        None => {
            (run, "costMaxUsd: 0.50                          # the run stops before more is spent")
        }
    };
    include_str!("../templates/provider.yaml")
        .replace("{FIRST}", &first)
        .replace("{BUDGET}", budget)
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
            include_str!("../templates/github.yml"),
            Some(match key {
                Some(key) => format!("        env: {{ {key}: \"${{{{ secrets.{key} }}}}\" }}\n"),
                None => "        # env: { NAME: \"${{ secrets.NAME }}\" }\n".to_owned(),
            }),
        ),
        Ci::Gitlab => (
            ".gitlab-ci.yml",
            include_str!("../templates/gitlab.yml"),
            key.map(|it| format!("# Set the masked CI/CD variable {it}.\n")),
        ),
    };
    let text = text.replace("{VERSION}", env!("CARGO_PKG_VERSION"));
    (path, text.replace("{ENV}", &env.unwrap_or_default()))
}
