//! Settings of `anthropic:claude-agent-sdk`, as options of Claude Code's command line.

use std::collections::BTreeSet;

use kindlm_source::{Key, Node, Span};
use serde_json::{Map, Value, json};

use super::Translator;
use super::agents::{AgentEntry, quoted, with_values};
use super::build::{node, text};

/// The tools that may read files. promptfoo allows them if there is a working folder.
const READING: [&str; 4] = ["Glob", "Grep", "LS", "Read"];

/// Settings that become a command-line option with an equal value.
const OPTIONS: [(&str, &str); 9] = [
    ("max_turns", "--max-turns"),
    ("fallback_model", "--fallback-model"),
    ("max_thinking_tokens", "--max-thinking-tokens"),
    ("max_budget_usd", "--max-budget-usd"),
    ("effort", "--effort"),
    ("agent", "--agent"),
    ("agents", "--agents"),
    ("custom_system_prompt", "--system-prompt"),
    ("permission_prompt_tool_name", "--permission-prompt-tool"),
];

/// Settings that other code reads, and settings without an effect on the work or the answer of the agent.
const READ_ELSEWHERE: [&str; 25] = [
    "working_dir",
    "allow_all_tools",
    "custom_allowed_tools",
    "append_allowed_tools",
    "disallowed_tools",
    "tools",
    "strict_mcp_config",
    "setting_sources",
    "append_system_prompt",
    "sandbox",
    "settings",
    "permission_mode",
    "apiKeyRequired",
    "cache_mcp",
    "title",
    "debug",
    "debug_file",
    "include_partial_messages",
    "include_hook_events",
    "enable_file_checkpointing",
    "prompt_suggestions",
    "agent_progress_summaries",
    "maxRetries",
    "basePath",
    "additional_directories",
];

/// Options that promptfoo refuses in `extra_args`. Their names have no dashes and are in lower case.
const RESERVED: [&str; 17] = [
    "adddir",
    "agent",
    "agents",
    "allowdangerouslyskippermissions",
    "allowedtools",
    "dangerouslyskippermissions",
    "disallowedtools",
    "managedsettings",
    "mcpconfig",
    "permissionmode",
    "permissionprompttool",
    "plugindir",
    "settings",
    "settingsources",
    "strictmcpconfig",
    "tools",
    "bare",
];

/// The settings of a config by name.
struct Config<'c>(&'c [(Key, Node)]);

impl<'c> Config<'c> {
    fn get(&self, name: &str) -> Option<&'c Node> {
        self.0.iter().find(|(key, _)| &*key.name == name).map(|(_, it)| it)
    }

    fn is_true(&self, name: &str) -> bool {
        self.get(name).is_some_and(|it| it.to_json() == Value::Bool(true))
    }

    fn texts(&self, name: &str) -> Option<BTreeSet<String>> {
        Some(self.get(name)?.items().iter().filter_map(|it| it.text().map(str::to_owned)).collect())
    }
}

impl Translator<'_> {
    pub(super) fn claude_agent(
        &mut self,
        span: Span,
        config: &[(Key, Node)],
        entry: &mut AgentEntry,
    ) {
        let mut filled = Vec::new();
        for (key, value) in config {
            if let Some(value) = self.setting_of_agent(key, value) {
                filled.push((key.clone(), value));
            }
        }
        let config = Config(&filled);
        if let Some(folder) = config.get("working_dir").and_then(Node::text) {
            self.check_folder(span, folder);
            entry.folder = Some(folder.to_owned());
            entry.entries.push(("cwd", text(span, folder)));
        } else {
            let yes = node(span, kindlm_source::Kind::Bool(true));
            entry.entries.push(("emptyFolder", yes));
        }
        for (key, value) in config.0 {
            self.claude_setting(key, value, entry);
        }
        self.claude_tools(span, &config, entry);
        self.claude_permissions(span, &config, entry);
        self.claude_settings(span, &config, entry);
        if let Some(prompt) = config.get("append_system_prompt").and_then(Node::text)
            && config.get("custom_system_prompt").is_none()
        {
            entry.option(span, "--append-system-prompt", prompt);
        }
        if config.get("strict_mcp_config").is_none() || config.is_true("strict_mcp_config") {
            entry.flag(span, "--strict-mcp-config");
        }
        let sources = config.get("setting_sources").map(super::build::texts).unwrap_or_default();
        entry.flag(span, &format!("--setting-sources={}", sources.join(",")));
        if let Some(mcp) = config.get("mcp") {
            self.set_variables_of_servers(mcp, entry);
        }
        let mut usual = vec![("CLAUDE_CODE_MAX_SUBAGENT_SPAWN_DEPTH", "5")];
        if config.is_true("allow_all_tools") {
            usual.push(("CLAUDE_CODE_ENABLE_TODO_TOOLS", "1"));
        }
        for (name, value) in usual {
            let is_set = entry.set_env.iter().any(|(it, _)| it == name);
            if !is_set && self.env_value(name).is_none() {
                entry.set_env.push((name.to_owned(), text(span, value)));
            }
        }
    }

    /// Translates a setting that does not depend on other settings.
    fn claude_setting(&mut self, key: &Key, value: &Node, entry: &mut AgentEntry) {
        let (name, span) = (&*key.name, value.span);
        let written = value.text().map_or_else(|| value.to_json().to_string(), str::to_owned);
        let option = OPTIONS.iter().find(|(it, _)| *it == name);
        let takes_text = name != "custom_system_prompt" || value.text().is_some();
        if let Some((_, option)) = option.filter(|_| takes_text) {
            return entry.option(span, option, &written);
        }
        match name {
            "model" => entry.entries.push(("model", value.clone())),
            "betas" => {
                entry.option(span, "--betas", &super::build::texts(value).join(","));
            }
            "thinking" => self.claude_thinking(key, value, entry),
            "mcp" => self.claude_servers(value, entry),
            "plugins" => {
                for plugin in value.items() {
                    let path = plugin.get("path").and_then(Node::text).unwrap_or_default();
                    let option = "--plugin-dir";
                    self.path_option(plugin.span, option, path, entry);
                }
            }
            "output_format" => match value.get("schema").map(|it| self.in_place(it)) {
                Some(Some(schema)) => entry.entries.push(("outputSchema", schema)),
                Some(None) => {}
                None => self.no_counterpart(key, "Claude Code"),
            },
            "extra_args" => self.extra_args(value, entry),
            "env" => self.variables_of_agent(value, entry),
            "apiKey" => self.key_of_agent(key, value, "ANTHROPIC_API_KEY"),
            "max_subagent_spawn_depth" => {
                let name = "CLAUDE_CODE_MAX_SUBAGENT_SPAWN_DEPTH".to_owned();
                entry.set_env.push((name, text(span, &written)));
            }
            "max_concurrent_subagents" => {
                let name = "CLAUDE_CODE_MAX_CONCURRENT_SUBAGENTS".to_owned();
                entry.set_env.push((name, text(span, &written)));
            }
            "persist_session" => {
                if value.to_json() == Value::Bool(false) {
                    entry.flag(span, "--no-session-persistence");
                }
            }
            "allow_dangerously_skip_permissions" => {
                if value.to_json() == Value::Bool(true) {
                    entry.flag(span, "--allow-dangerously-skip-permissions");
                }
            }
            "path_to_claude_code_executable" => {
                match from_folder(entry.folder.as_deref(), &written) {
                    Some(path) => entry.entries.push(("command", text(span, &quoted(&path)))),
                    None => self.unknown_folder(span),
                }
            }
            "executable" | "executable_args" | "deep_tracing" | "forward_subagent_text" => {
                let message = format!("`config.{name}` has no effect here");
                self.warn(key.span, message, Some("KindLM runs the program `claude` itself"));
            }
            "ask_user_question" => {
                let help = "no one can answer a question during a run: write into the prompt what to choose, and remove \
                    this key";
                self.unsupported(key.span, "`config.ask_user_question`", Some(help));
            }
            "skills" => {
                let help = "write `append_allowed_tools: [Skill]` and `setting_sources: [project]`";
                self.unsupported(key.span, "`config.skills` of Claude Code", Some(help));
            }
            _ if READ_ELSEWHERE.contains(&name) => {}
            _ => self.no_counterpart(key, "Claude Code"),
        }
    }

    fn claude_thinking(&mut self, key: &Key, value: &Node, entry: &mut AgentEntry) {
        let span = value.span;
        match (value.get("type").and_then(Node::text), value.get("budgetTokens")) {
            (Some("enabled"), Some(budget)) => {
                entry.option(span, "--max-thinking-tokens", &budget.to_json().to_string());
            }
            (Some("enabled" | "adaptive"), None) => entry.option(span, "--thinking", "adaptive"),
            (Some("disabled"), _) => entry.option(span, "--thinking", "disabled"),
            _ => self.no_counterpart(key, "Claude Code"),
        }
    }

    /// Adds the agent's tools, and the tools that the agent may use without permission.
    fn claude_tools(&mut self, span: Span, config: &Config<'_>, entry: &mut AgentEntry) {
        let has_all = config.is_true("allow_all_tools");
        let mut allowed: BTreeSet<String> = BTreeSet::new();
        if let Some(custom) = config.texts("custom_allowed_tools") {
            allowed = custom;
        } else if !has_all {
            if entry.folder.is_some() {
                allowed.extend(READING.map(str::to_owned));
            }
            allowed.extend(config.texts("append_allowed_tools").unwrap_or_default());
        }
        for (name, others) in [
            ("append_allowed_tools", "custom_allowed_tools"),
            ("allow_all_tools", "custom_allowed_tools"),
            ("allow_all_tools", "append_allowed_tools"),
            ("allow_all_tools", "tools"),
        ] {
            let counts = name != "allow_all_tools" || has_all;
            if let (Some(it), Some(_)) = (config.get(name), config.get(others).filter(|_| counts)) {
                let message = format!("`{name}` and `{others}` exclude each other");
                self.error(it.span, message, Some("remove one of the two"));
            }
        }
        if !allowed.is_empty() {
            let all: Vec<&str> = allowed.iter().map(String::as_str).collect();
            entry.option(span, "--allowedTools", &all.join(","));
        }
        if let Some(denied) = config.texts("disallowed_tools").filter(|it| !it.is_empty()) {
            let all: Vec<String> = denied.into_iter().collect();
            entry.option(span, "--disallowedTools", &all.join(","));
        }
        let tools = match config.get("tools") {
            Some(preset) if preset.get("type").is_some() => "default".to_owned(),
            Some(own) => super::build::texts(own).join(","),
            None if has_all => "default".to_owned(),
            None => {
                let agents = config.get("agents").filter(|it| !it.entries().is_empty());
                allowed.extend(agents.map(|_| "Task".to_owned()));
                let mode = config.get("permission_mode").and_then(Node::text);
                allowed.extend((mode == Some("plan")).then(|| "ExitPlanMode".to_owned()));
                allowed.into_iter().collect::<Vec<_>>().join(",")
            }
        };
        entry.option(span, "--tools", &tools);
    }

    fn claude_permissions(&mut self, span: Span, config: &Config<'_>, entry: &mut AgentEntry) {
        let value = config.get("permission_mode");
        let mode = value.and_then(Node::text).unwrap_or("default");
        if mode == "bypassPermissions" && !config.is_true("allow_dangerously_skip_permissions") {
            let help = "add `allow_dangerously_skip_permissions: true`, as promptfoo demands";
            let span = value.map_or(span, |it| it.span);
            self.error(span, "`bypassPermissions` needs a second setting", Some(help));
        }
        let mode = if mode == "manual" { "default" } else { mode };
        entry.option(span, "--permission-mode", mode);
    }

    /// Adds the settings of Claude Code and of its sandbox, and the additional folders.
    fn claude_settings(&mut self, span: Span, config: &Config<'_>, entry: &mut AgentEntry) {
        for folder in config.get("additional_directories").map(Node::items).unwrap_or_default() {
            let path = folder.text().unwrap_or_default();
            self.path_option(folder.span, "--add-dir", path, entry);
        }
        let sandbox = config.get("sandbox");
        match config.get("settings") {
            Some(settings) if settings.text().is_some() => {
                if sandbox.is_some() {
                    let help = "write the settings in place, beside `sandbox`";
                    self.unsupported(
                        settings.span,
                        "a file of settings with `sandbox`",
                        Some(help),
                    );
                }
                let path = settings.text().unwrap_or_default();
                self.path_option(settings.span, "--settings", path, entry);
            }
            settings => {
                let own = settings.map(Node::to_json);
                let own = own.as_ref().and_then(Value::as_object).cloned();
                let mut all: Map<String, Value> = own.unwrap_or_default();
                if let Some(mut sandbox) = sandbox.map(Node::to_json) {
                    // Without this key, Claude Code would work without a sandbox on a machine that has none.
                    if let Some(sandbox) = sandbox.as_object_mut()
                        && sandbox.get("enabled") == Some(&Value::Bool(true))
                    {
                        sandbox.entry("failIfUnavailable").or_insert(Value::Bool(true));
                    }
                    all.insert("sandbox".to_owned(), sandbox);
                }
                if !all.is_empty() {
                    entry.option(span, "--settings", &Value::Object(all).to_string());
                }
            }
        }
    }

    /// Adds the MCP servers in the format of Claude Code. Claude Code replaces variables such as `${NAME}` itself, so
    /// no secret is in the command line.
    fn claude_servers(&mut self, mcp: &Node, entry: &mut AgentEntry) {
        if mcp.get("enabled").is_some_and(|it| it.to_json() == Value::Bool(false)) {
            return;
        }
        for (key, _) in mcp.entries() {
            if !matches!(&*key.name, "enabled" | "server" | "servers" | "timeout" | "debug") {
                self.no_counterpart(key, "Claude Code");
            }
        }
        let mut servers = Map::new();
        let listed = mcp.get("servers").map(Node::items).unwrap_or_default();
        for server in listed.iter().chain(mcp.get("server")) {
            let said = |name: &str| server.get(name).and_then(Node::text);
            for (key, _) in server.entries() {
                let known = ["name", "url", "headers", "command", "args", "env", "path"];
                if !known.contains(&&*key.name) {
                    self.no_counterpart(key, "an MCP server of Claude Code");
                }
            }
            let name = said("name").or(said("url")).or(said("command")).unwrap_or("default");
            let part = |name: &str| server.get(name).map(|it| shell_variables(&it.to_json()));
            let mut form = match (part("url"), part("command"), said("path")) {
                (Some(url), ..) => {
                    let headers = part("headers").unwrap_or_else(|| json!({}));
                    json!({"type": "http", "url": url, "headers": headers})
                }
                (None, Some(command), _) => {
                    let args = part("args").unwrap_or_else(|| json!([]));
                    json!({"type": "stdio", "command": command, "args": args})
                }
                (None, None, Some(path)) => {
                    let is_python = super::files::extension(path) == "py";
                    let program = if is_python { "python3" } else { "node" };
                    json!({"type": "stdio", "command": program, "args": [with_shell_variables(path)]})
                }
                (None, None, None) => {
                    let help = "add a `command` or a `url`";
                    self.error(server.span, "this MCP server cannot be started", Some(help));
                    continue;
                }
            };
            if form["type"] == "stdio"
                && let Some(env) = part("env")
            {
                form["env"] = env;
            }
            if kindlm_template::is_template(&form.to_string()) {
                let help = "write `{{env.NAME}}` without a filter, or the value itself";
                self.unsupported(server.span, "this template in an MCP server", Some(help));
                continue;
            }
            servers.insert(name.to_owned(), form);
        }
        if !servers.is_empty() {
            let config = json!({"mcpServers": servers});
            entry.option(mcp.span, "--mcp-config", &config.to_string());
        }
    }

    /// Sets those variables of the `env` block that MCP servers use.
    ///
    /// The agent gets them as environment variables, so that their values are not in its command line.
    fn set_variables_of_servers(&self, mcp: &Node, entry: &mut AgentEntry) {
        let written = mcp.to_json().to_string();
        for name in kindlm_template::environment(&written) {
            let is_set = entry.set_env.iter().any(|(it, _)| it == name);
            if let Some(value) = self.own_env.get(name).filter(|_| !is_set) {
                let value = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
                entry.set_env.push((name.to_owned(), text(mcp.span, &value)));
            }
        }
    }

    fn extra_args(&mut self, args: &Node, entry: &mut AgentEntry) {
        for (key, value) in args.entries() {
            let plain = key.name.trim_start_matches('-').replace(['-', '_'], "").to_lowercase();
            if RESERVED.contains(&plain.as_str()) {
                let message = format!("`extra_args` must not have the option `{}`", key.name);
                let help = "use the setting of the provider for it, as promptfoo demands";
                self.error(key.span, message, Some(help));
                continue;
            }
            let option = format!("--{}", key.name.trim_start_matches('-'));
            match (value.text(), value.to_json()) {
                (_, Value::Null) => entry.flag(key.span, &option),
                (Some(it), _) => entry.option(key.span, &option, it),
                (None, other) => entry.option(key.span, &option, &other.to_string()),
            }
        }
    }

    /// Adds an option with a path. In promptfoo the path is relative to the config; here it is relative to the
    /// agent's folder.
    fn path_option(&mut self, span: Span, option: &str, path: &str, entry: &mut AgentEntry) {
        match from_folder(entry.folder.as_deref(), path) {
            Some(path) => entry.option(span, option, &path),
            None => self.unknown_folder(span),
        }
    }

    fn unknown_folder(&mut self, span: Span) {
        let help = "write an absolute path, or a `working_dir` below the folder of the config";
        let message = "this path is relative to a folder that is not known here";
        self.error(span, message, Some(help));
    }
}

/// Converts a path relative to the config's folder to a path relative to `folder`, a folder below the config's folder.
///
/// An absolute path stays unchanged. Returns `None` if `folder` is missing, is absolute, or contains `..`, because the
/// way back is then unknown.
fn from_folder(folder: Option<&str>, path: &str) -> Option<String> {
    if path.starts_with('/') {
        return Some(path.to_owned());
    }
    let folder = folder.filter(|it| !it.starts_with('/'))?;
    let names = || folder.split('/').filter(|it| !it.is_empty() && *it != ".");
    if names().any(|it| it == "..") {
        return None;
    }
    let up = names().map(|_| "../").collect::<String>();
    Some(up + path.trim_start_matches("./"))
}

/// Replaces `{{env.NAME}}` by `${NAME}` in all texts of a value.
fn shell_variables(value: &Value) -> Value {
    match value {
        Value::String(text) => Value::String(with_shell_variables(text)),
        Value::Array(items) => items.iter().map(shell_variables).collect(),
        Value::Object(map) => {
            map.iter().map(|(key, it)| (key.clone(), shell_variables(it))).collect()
        }
        other => other.clone(),
    }
}

/// Replaces `{{env.NAME}}` by `${NAME}` in a text. Other templates stay as they are.
fn with_shell_variables(text: &str) -> String {
    let is_name = |name: &str| name.bytes().all(|it| it.is_ascii_alphanumeric() || it == b'_');
    with_values(text, |name| is_name(name).then(|| ["${", name, "}"].concat()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_paths_from_the_folder_of_the_agent() {
        for (folder, path, expected) in [
            (Some("./sample-project"), "./plugin", Some("../plugin")),
            (Some("a/b/"), "c/d", Some("../../c/d")),
            (Some("."), "c", Some("c")),
            (Some("../a"), "c", None),
            (Some("/a"), "c", None),
            (None, "c", None),
            (None, "/c", Some("/c")),
        ] {
            assert_eq!(from_folder(folder, path).as_deref(), expected, "{folder:?} {path}");
        }
    }

    #[test]
    fn leaves_secrets_to_the_environment() {
        let headers =
            json!({"Authorization": "Bearer {{ env.TOKEN }}", "x": "{{ env.A | upper }}", "n": 1});
        let expected =
            json!({"Authorization": "Bearer ${TOKEN}", "x": "{{ env.A | upper }}", "n": 1});
        assert_eq!(shell_variables(&headers), expected);
    }
}
