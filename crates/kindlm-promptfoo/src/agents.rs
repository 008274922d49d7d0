//! Providers that run an agent: Claude Code and Codex, as agents of the suite.

use kindlm_redact::is_secret_variable;
use kindlm_source::{Key, Kind, Node, Span};
use kindlm_types::FileError;
use serde_json::Value;

use super::Translator;
use super::build::{entries, list, map, number, text};
use super::settings::{or_else, variable_of};

/// An agent of promptfoo that KindLM can run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AgentProvider {
    /// `anthropic:claude-agent-sdk`.
    Claude,
    /// `openai:codex-sdk`.
    Codex,
    /// `openai:codex-app-server`, which has other defaults than `openai:codex-sdk`.
    CodexServer,
}

/// The default time limit of an agent in milliseconds: 30 minutes. promptfoo has no limit.
const TIMEOUT: f64 = 1_800_000.0;

/// An entry of `agents` in the suite, while it is built.
#[derive(Default)]
pub(super) struct AgentEntry {
    pub(super) entries: Vec<(&'static str, Node)>,
    pub(super) args: Vec<Node>,
    pub(super) set_env: Vec<(String, Node)>,
    /// The names of variables that the agent gets from the environment.
    pub(super) passed: Vec<Node>,
    /// The working folder, as written in the config.
    pub(super) folder: Option<String>,
}

impl AgentEntry {
    /// Adds an option of the command line, with its value.
    pub(super) fn option(&mut self, span: Span, name: &str, value: &str) {
        self.args.push(text(span, name));
        self.args.push(text(span, value));
    }

    pub(super) fn flag(&mut self, span: Span, name: &str) {
        self.args.push(text(span, name));
    }

    fn into_node(self, span: Span, kind: &str) -> Node {
        let mut all = vec![("type", text(span, kind))];
        all.extend(self.entries);
        if !self.args.is_empty() {
            all.push(("args", list(span, self.args)));
        }
        if !self.set_env.is_empty() {
            all.push(("setEnv", entries(span, self.set_env)));
        }
        map(span, all)
    }
}

/// The help for a setting of an agent that has no counterpart.
const NO_COUNTERPART: &str = "remove it, or run the agent as you need it in a `kindlm.yaml`: `agents: { mine: { command: … } }`";

/// Settings of Codex that are left out, because they do not change its work or its answer.
///
/// Values of these settings that have an effect are reported before this list is used.
const IGNORED_BY_CODEX: [&str; 17] = [
    "skip_git_repo_check",
    "persist_threads",
    "thread_id",
    "thread_pool_size",
    "deep_tracing",
    "enable_streaming",
    "maxRetries",
    "request_timeout_ms",
    "startup_timeout_ms",
    "ephemeral",
    "reuse_server",
    "thread_cleanup",
    "include_raw_events",
    "experimental_raw_events",
    "experimental_api",
    "persist_extended_history",
    "basePath",
];

impl Translator<'_> {
    /// Translates a provider that is an agent to an entry of `agents`. Reports settings without a counterpart.
    pub(super) fn agent(
        &mut self,
        span: Span,
        (kind, model): (AgentProvider, &str),
        config: &[(Key, Node)],
    ) -> Node {
        let mut entry = AgentEntry::default();
        let name = if kind == AgentProvider::Claude {
            self.claude_agent(span, config, &mut entry);
            "claude-code"
        } else {
            if !model.is_empty() {
                entry.entries.push(("model", text(span, model)));
            }
            self.codex(span, kind, config, &mut entry);
            "codex"
        };
        // A limit of the agent would override a limit of the config. So set the default only if the config has no
        // limit.
        if !self.has_timeout {
            or_else(&mut entry.entries, "timeoutMs", || number(span, TIMEOUT));
        }
        entry.into_node(span, name)
    }

    fn codex(
        &mut self,
        span: Span,
        kind: AgentProvider,
        config: &[(Key, Node)],
        entry: &mut AgentEntry,
    ) {
        let (mut path, mut inherits) = (None, false);
        for (key, value) in config {
            let Some(value) = self.setting_of_agent(key, value) else { continue };
            match &*key.name {
                "codex_path_override" => path = value.text().map(str::to_owned),
                "inherit_process_env" => inherits = is_true(&value),
                name => self.codex_setting(name, (key, &value), kind, entry),
            }
        }
        if kind == AgentProvider::CodexServer {
            let set = |name: &str| config.iter().any(|(key, _)| &*key.name == name);
            if !set("sandbox_mode") {
                entry.option(span, "--sandbox", "read-only");
            }
            if !set("approval_policy") {
                entry.option(span, "--config", "approval_policy=\"never\"");
            }
        }
        // `codex exec` reads its key from another variable than promptfoo.
        let key = r#"env ${OPENAI_API_KEY:+"CODEX_API_KEY=$OPENAI_API_KEY"}"#;
        let program = path.map_or_else(|| "codex".to_owned(), |it| quoted(&it));
        entry.entries.push(("command", text(span, &format!("{key} {program}"))));
        if !inherits {
            // Each variable in this list must have a value, so leave out the unset variables.
            let names = ["OPENAI_API_KEY", "CODEX_API_KEY"].into_iter();
            let names = names.filter(|it| self.env_value(it).is_some());
            let mut names: Vec<Node> = names.map(|it| text(span, it)).collect();
            for name in std::mem::take(&mut entry.passed) {
                if !names.iter().any(|it| it.text() == name.text()) {
                    names.push(name);
                }
            }
            entry.entries.push(("env", list(span, names)));
        }
    }

    /// Translates one setting of Codex, with its environment variables filled in.
    fn codex_setting(
        &mut self,
        name: &str,
        (key, value): (&Key, &Node),
        kind: AgentProvider,
        entry: &mut AgentEntry,
    ) {
        let span = value.span;
        let written = value.text().map_or_else(|| value.to_json().to_string(), str::to_owned);
        // The name of the setting in Codex's own configuration.
        let own = match name {
            "approval_policy"
            | "model_reasoning_effort"
            | "model_provider"
            | "collaboration_mode" => Some(name),
            "reasoning_summary" => Some("model_reasoning_summary"),
            "web_search_mode" => Some("web_search"),
            "base_url" => Some("openai_base_url"),
            _ => None,
        };
        if let (Some(own), Some(_)) = (own, value.text()) {
            let setting = format!("{own}={}", Value::from(written));
            return entry.option(span, "--config", &setting);
        }
        match name {
            "model" => or_else(&mut entry.entries, "model", || value.clone()),
            "working_dir" => {
                self.check_folder(span, &written);
                entry.option(span, "--cd", &written);
            }
            "skip_git_repo_check" if is_true(value) => entry.flag(span, "--skip-git-repo-check"),
            "sandbox_mode" => entry.option(span, "--sandbox", &written),
            "network_access_enabled" => {
                let setting = format!("sandbox_workspace_write.network_access={written}");
                entry.option(span, "--config", &setting);
            }
            "web_search_enabled" => {
                let mode = if is_true(value) { "live" } else { "disabled" };
                entry.option(span, "--config", &format!("web_search=\"{mode}\""));
            }
            "additional_directories" => {
                for folder in value.items() {
                    entry.option(folder.span, "--add-dir", folder.text().unwrap_or_default());
                }
            }
            "cli_config" => {
                for (name, value) in toml_settings("", &value.to_json()) {
                    entry.option(span, "--config", &format!("{name}={value}"));
                }
            }
            "cli_env" => self.variables_of_agent(value, entry),
            "output_schema" => entry.entries.push(("outputSchema", value.clone())),
            "turn_timeout_ms" if kind == AgentProvider::CodexServer => {
                entry.entries.push(("timeoutMs", value.clone()));
            }
            "apiKey" => self.key_of_agent(key, value, "OPENAI_API_KEY"),
            "persist_threads" | "thread_id" if !is_false(value) => {
                let help = "write the messages as the turns of a test in a `kindlm.yaml`: `conversation: [{ turn: first, \
                    user: … }, …]`";
                self.unsupported(key.span, &format!("`config.{name}` of Codex"), Some(help));
            }
            "deep_tracing" if is_true(value) => {
                let help = "KindLM reads the events of Codex itself";
                self.warn(
                    key.span,
                    "`config.deep_tracing` has no effect here".to_owned(),
                    Some(help),
                );
            }
            _ if IGNORED_BY_CODEX.contains(&name) => {}
            _ => {
                let what = format!("`config.{name}` of Codex");
                self.unsupported(key.span, &what, Some(NO_COUNTERPART));
            }
        }
    }

    /// Reports a setting of an agent without a counterpart.
    pub(super) fn no_counterpart(&mut self, key: &Key, agent: &str) {
        let what = format!("`config.{}` of {agent}", key.name);
        self.unsupported(key.span, &what, Some(NO_COUNTERPART));
    }

    /// Checks `apiKey` of an agent. The agent reads its key from a variable of the environment.
    pub(super) fn key_of_agent(&mut self, key: &Key, value: &Node, variable: &str) {
        if value.text().and_then(variable_of) != Some(variable) {
            let help = format!("remove it, and put the key into the variable `{variable}`");
            self.error(key.span, "the agent reads its key from the environment", Some(&help));
        }
    }

    /// Reads the variables that are set for an agent. A variable `NAME` with the value `{{env.NAME}}` is only passed
    /// on.
    pub(super) fn variables_of_agent(&mut self, value: &Node, entry: &mut AgentEntry) {
        for (key, value) in value.entries() {
            let written = value.text().map_or_else(|| value.to_json().to_string(), str::to_owned);
            if variable_of(&written) == Some(&key.name) {
                if self.env_value(&key.name).is_some() {
                    entry.passed.push(text(value.span, &key.name));
                }
                continue;
            }
            if kindlm_template::is_template(&written) {
                let help = format!("set `{}` in the environment itself", key.name);
                self.unsupported(value.span, "a template in a variable of an agent", Some(&help));
                continue;
            }
            entry.set_env.push((key.name.to_string(), text(value.span, &written)));
        }
    }

    /// Returns a setting with its environment variables filled in. If a template remains, reports the template and
    /// returns `None`. `apiKey`, `env` and `mcp` may have secrets, so they get no values from the process environment.
    pub(super) fn setting_of_agent(&mut self, key: &Key, value: &Node) -> Option<Node> {
        match &*key.name {
            "apiKey" => Some(value.clone()),
            "mcp" => Some(self.with_env_defaults(value)),
            "env" => Some(self.texts_with_env(&self.with_env_defaults(value))),
            "cli_env" => Some(self.env_filled(value)),
            _ => {
                let value = self.env_filled(value);
                self.without_templates(key, &value)
            }
        }
    }

    /// Fills in environment variables, or their defaults, in all texts of a value. Variables that may be secrets stay
    /// templates.
    fn env_filled(&self, value: &Node) -> Node {
        let value = self.with_env_defaults(&self.texts_with_env(value));
        self.filled(&value)
    }

    fn filled(&self, value: &Node) -> Node {
        let kind = match &value.kind {
            Kind::Text(text) => {
                let found = |name: &str| {
                    if is_secret_variable(name) { None } else { self.env_value(name) }
                };
                Kind::Text(with_values(text, found).as_str().into())
            }
            Kind::List(items) => {
                Kind::List(items.iter().map(|it| self.filled(it)).collect::<Vec<_>>().into())
            }
            Kind::Mapping(entries) => {
                let entries = entries.iter().map(|(key, it)| (key.clone(), self.filled(it)));
                Kind::Mapping(entries.collect::<Vec<_>>().into())
            }
            other => other.clone(),
        };
        Node { kind, ..value.clone() }
    }

    /// Reports a working folder that does not exist. Ignores all other errors of the folder.
    pub(super) fn check_folder(&mut self, span: Span, folder: &str) {
        if let Err(err @ FileError::NotFound { .. }) = self.inputs.files.read_file(folder) {
            self.file_error(span, err.to_string(), "the path is relative to the config file");
        }
    }

    /// Reports a prompt that is a list of input items, which promptfoo gives to Codex as images and skills.
    pub(super) fn check_inputs(&mut self, span: Span, prompt: &str) {
        let items = serde_json::from_str::<Value>(prompt).ok();
        let items = items.as_ref().and_then(Value::as_array).filter(|it| !it.is_empty());
        if items.is_some_and(|it| it.iter().all(|it| it.get("type").is_some())) {
            let help = "write the prompt as a text; Codex finds a skill by its name, such as `$skill-name`";
            self.unsupported(span, "a prompt of input items for Codex", Some(help));
        }
    }
}

fn is_true(value: &Node) -> bool {
    value.to_json() == Value::Bool(true)
}

fn is_false(value: &Node) -> bool {
    value.to_json() == Value::Bool(false)
}

/// Replaces each `{{env.NAME}}` whose value is known.
pub(super) fn with_values(text: &str, found: impl Fn(&str) -> Option<String>) -> String {
    let (mut replaced, mut rest) = (String::new(), text);
    while let Some((before, (inside, after))) =
        rest.split_once("{{").and_then(|(before, it)| Some((before, it.split_once("}}")?)))
    {
        let value = inside.trim().strip_prefix("env.").and_then(&found);
        replaced.push_str(before);
        replaced.push_str(&value.unwrap_or_else(|| ["{{", inside, "}}"].concat()));
        rest = after;
    }
    replaced + rest
}

/// Quotes a word for a shell.
pub(super) fn quoted(word: &str) -> String {
    format!("'{}'", word.replace('\'', r"'\''"))
}

/// Returns the settings of Codex in the format of its option `--config`: dotted names, and values in TOML.
fn toml_settings(prefix: &str, value: &Value) -> Vec<(String, String)> {
    match value {
        Value::Object(map) if prefix.is_empty() || !map.is_empty() => {
            let named = |name: &str| match prefix {
                "" => name.to_owned(),
                _ => format!("{prefix}.{name}"),
            };
            map.iter().flat_map(|(name, it)| toml_settings(&named(name), it)).collect()
        }
        _ => vec![(prefix.to_owned(), toml(value))],
    }
}

/// Returns a value in TOML.
fn toml(value: &Value) -> String {
    let all = |it: Vec<String>| it.join(", ");
    match value {
        Value::Array(items) => format!("[{}]", all(items.iter().map(toml).collect())),
        Value::Object(map) => {
            let entry = |(name, it): (&String, &Value)| {
                format!("{} = {}", Value::from(name.as_str()), toml(it))
            };
            format!("{{{}}}", all(map.iter().map(entry).collect()))
        }
        // A JSON string is a valid basic string in TOML.
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn fills_in_known_variables() {
        let found = |name: &str| (name == "A").then(|| "1".to_owned());
        let filled = with_values("{{env.A}}/{{ env.B }}/{{ env.A }}-{{x}}", found);
        assert_eq!(filled, "1/{{ env.B }}/1-{{x}}");
    }

    #[test]
    fn secrets_of_an_agent_stay_names() {
        let text = "prompts: [Hi]\ntests: [{}]\nproviders:\n  - id: openai:codex-sdk\n    \
                    config: { cli_env: { GH_PAT: '{{env.GH_PAT}}' } }\n";
        let source = std::sync::Arc::new(kindlm_source::Source::new("promptfooconfig.yaml", text));
        let root = kindlm_source::read_yaml(&source, 0..text.len()).root.unwrap();
        let inputs = crate::Inputs {
            files: &kindlm_types::NoFiles,
            env: &|name| (name == "GH_PAT").then(|| "ghp_1".to_owned()),
            scripts: std::sync::Arc::new(|_: &kindlm_types::script::ScriptQuestion| {
                unreachable!("the config names no program")
            }),
            network: None,
            reporters: &[],
        };
        let suite = crate::translate(&source, &root, &inputs).root.to_json().to_string();
        assert!(suite.contains("GH_PAT") && !suite.contains("ghp_1"), "{suite}");
    }

    #[test]
    fn writes_settings_of_codex_as_toml() {
        let config = json!({
            "model_verbosity": "medium",
            "features": { "web": true, "n": 3 },
            "notify": ["a", "b\"c"],
            "mcp_servers": { "docs": { "args": [{ "x": 1 }], "env": {} } },
        });
        let expected = [
            ("model_verbosity", "\"medium\""),
            ("features.web", "true"),
            ("features.n", "3"),
            ("notify", "[\"a\", \"b\\\"c\"]"),
            ("mcp_servers.docs.args", "[{\"x\" = 1}]"),
            ("mcp_servers.docs.env", "{}"),
        ];
        let expected = expected.map(|(name, value)| (name.to_owned(), value.to_owned()));
        assert_eq!(toml_settings("", &config), expected);
    }
}
