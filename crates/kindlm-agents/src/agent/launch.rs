//! The start of an agent: its command line, environment and folder.

use std::path::{Path, PathBuf};

use kindlm_process::{Guard, prepared};
use kindlm_types::{AgentKind, AgentStart};
use serde_json::{Value, json};
use tokio::process::Command;

use super::PROTOCOL_VERSION;

/// Environment variables that every program may need, and that hold no secrets.
const COMMON: [&str; 20] = [
    "PATH",
    "HOME",
    "USER",
    "LOGNAME",
    "SHELL",
    "LANG",
    "LC_ALL",
    "LC_CTYPE",
    "TERM",
    "TZ",
    "TMPDIR",
    "TEMP",
    "TMP",
    "SSL_CERT_FILE",
    "SYSTEMROOT",
    "SYSTEMDRIVE",
    "COMSPEC",
    "PATHEXT",
    "APPDATA",
    "USERPROFILE",
];

/// A function that looks up an environment variable.
pub type Env = dyn Fn(&str) -> Option<String> + Send + Sync;

/// The folder, environment and guard with which agents run.
#[non_exhaustive]
pub struct Surroundings<'a> {
    /// The folder of the suite.
    pub folder: &'a Path,
    /// The environment of this process.
    pub env: &'a Env,
    /// The guard that ends agents if KindLM is killed.
    pub guard: &'a Guard,
}

impl<'a> Surroundings<'a> {
    /// Creates the surroundings from the folder of the suite, the environment of this process, and the guard.
    pub fn new(folder: &'a Path, env: &'a Env, guard: &'a Guard) -> Self {
        Self { folder, env, guard }
    }
}

impl Surroundings<'_> {
    /// Returns the folder in which the agent runs: its workspace, its `cwd`, or else the folder of the suite.
    pub(super) fn folder(&self, start: &AgentStart) -> PathBuf {
        match (&start.folder, &start.agent.cwd) {
            (Some(folder), _) => folder.path.clone(),
            (None, Some(cwd)) => self.folder.join(cwd),
            (None, None) => self.folder.to_path_buf(),
        }
    }

    /// Returns the command, ready to be started. `thread` is the Codex thread to resume.
    pub(super) fn command(&self, start: &AgentStart, thread: Option<&str>) -> Command {
        let own = start.folder.as_ref();
        let line = shell_line(start, thread);
        let line = match own.and_then(|it| it.before.as_deref()) {
            Some(before) => format!("{before} {}", quoted(&line)),
            None => line,
        };
        let mut command = prepared(&line, &self.folder(start));
        for name in own.into_iter().flat_map(|it| &it.without) {
            command.env_remove(name);
        }
        let inherits_env = !own.is_some_and(|it| it.names_env);
        if let Some(names) = start.agent.env.as_ref().filter(|_| inherits_env) {
            command.env_clear();
            for name in COMMON.into_iter().chain(names.iter().map(String::as_str)) {
                if let Some(value) = (self.env)(name) {
                    command.env(name, value);
                }
            }
        }
        command.envs(&start.agent.set_env);
        command
            .envs(own.into_iter().flat_map(|it| it.env.iter().map(|(name, value)| (name, value))));
        command
    }

    /// Returns the folder in which Codex stores its files for this agent. Returns `None` if the folder is unknown.
    pub(super) fn codex_home(&self, start: &AgentStart) -> Option<PathBuf> {
        let home = self.variable(start, "CODEX_HOME").filter(|it| !it.is_empty());
        let home = home.map(PathBuf::from).or_else(|| {
            let home = self.variable(start, "HOME").or_else(|| self.variable(start, "USERPROFILE"));
            home.map(|it| PathBuf::from(it).join(".codex"))
        });
        home.map(|it| self.folder(start).join(it))
    }

    /// Returns the value of an environment variable as the agent sees it. Returns `None` if the agent does not get the
    /// variable.
    fn variable(&self, start: &AgentStart, name: &str) -> Option<String> {
        let own = start.folder.as_ref();
        let given = own.and_then(|it| it.env.iter().rfind(|(key, _)| key == name));
        if let Some((_, value)) = given {
            return Some(value.clone());
        }
        if let Some(value) = start.agent.set_env.get(name) {
            return Some(value.clone());
        }
        if own.is_some_and(|it| it.names_env) {
            return None;
        }
        let gets_it = match &start.agent.env {
            Some(names) => COMMON.contains(&name) || names.iter().any(|it| it == name),
            None => !own.is_some_and(|it| it.without.iter().any(|it| it == name)),
        };
        gets_it.then(|| (self.env)(name)).flatten()
    }
}

/// Returns the shell line of an agent: its command line, with the setup before it and the cleanup after it.
///
/// The shell creates the temporary folder and the schema file, so that both exist in the agent's container.
fn shell_line(start: &AgentStart, thread: Option<&str>) -> String {
    let spec = &start.agent;
    let (mut before, mut after) = (String::new(), String::new());
    // The program that isolates the agent passes on no environment variables, so the shell line sets them.
    if start.folder.as_ref().is_some_and(|it| it.names_env) {
        for (name, value) in &spec.set_env {
            before += &["export ", name, "=", &quoted(value), " && "].concat();
        }
    }
    if spec.empty_folder && start.folder.is_none() {
        before.push_str("kindlm_folder=$(mktemp -d) && cd \"$kindlm_folder\" && ");
        after.push_str(" cd / && rm -rf \"$kindlm_folder\";");
    }
    if let Some(schema) = spec.output_schema.as_ref().filter(|_| spec.kind == AgentKind::Codex) {
        let schema = Value::Object(schema.clone()).to_string();
        before.push_str("kindlm_schema=$(mktemp) && ");
        before += &["printf %s ", &quoted(&schema), " > \"$kindlm_schema\" && "].concat();
        after.push_str(" rm -f \"$kindlm_schema\";");
    }
    let line = command_line(start, thread);
    if after.is_empty() {
        return before + &line;
    }
    format!("{before}{line}; kindlm_code=$?;{after} exit $kindlm_code")
}

/// Returns the command line of an agent, with the arguments that its kind needs.
fn command_line(start: &AgentStart, thread: Option<&str>) -> String {
    let spec = &start.agent;
    let command = spec.command.as_deref().or(spec.kind.default_command()).unwrap_or_default();
    let model = spec.model.as_deref();
    let schema = spec.output_schema.as_ref().map(|it| Value::Object(it.clone()).to_string());
    let schema = schema.as_deref();
    let mut args: Vec<&str> = Vec::new();
    match spec.kind {
        AgentKind::Kindlm => args.extend(spec.args.iter().map(String::as_str)),
        AgentKind::ClaudeCode => {
            args.extend(["-p", "--input-format", "stream-json"]);
            args.extend(["--output-format", "stream-json", "--verbose"]);
            args.extend(model.into_iter().flat_map(|it| ["--model", it]));
            let system = start.system.as_deref();
            args.extend(system.into_iter().flat_map(|it| ["--append-system-prompt", it]));
            args.extend(schema.into_iter().flat_map(|it| ["--json-schema", it]));
            args.extend(spec.args.iter().map(String::as_str));
        }
        AgentKind::Codex => {
            // Options come before `resume`, which does not accept all options.
            args.extend(["exec", "--json"]);
            args.extend(schema.into_iter().flat_map(|_| ["--output-schema", SCHEMA_FILE]));
            args.extend(model.into_iter().flat_map(|it| ["--model", it]));
            args.extend(spec.args.iter().map(String::as_str));
            args.extend(thread.into_iter().flat_map(|it| ["resume", it]));
            args.push("-");
        }
    }
    args.into_iter().fold(command.to_owned(), |line, arg| match arg {
        SCHEMA_FILE => format!("{line} {arg}"),
        _ => format!("{line} {}", quoted(arg)),
    })
}

/// The shell's expression for the file of the schema. It is the only argument that the shell expands.
const SCHEMA_FILE: &str = "\"$kindlm_schema\"";

/// Quotes an argument for a shell. Within single quotes, a shell interprets no character except the single quote.
#[cfg(unix)]
fn quoted(arg: &str) -> String {
    format!("'{}'", arg.replace('\'', r"'\''"))
}

#[cfg(not(unix))]
fn quoted(arg: &str) -> String {
    format!("\"{}\"", arg.replace('"', "\"\""))
}

/// Returns the first line for an agent with KindLM's protocol.
pub(super) fn hello(start: &AgentStart) -> String {
    let mut hello = json!({
        "kindlm": "hello",
        "version": PROTOCOL_VERSION,
        "agent": start.id,
        "case": start.case,
        "repeat": start.repeat,
    });
    let optional = [
        ("model", start.agent.model.as_ref().map(|it| json!(it))),
        ("system", start.system.as_ref().map(|it| json!(it))),
        ("vars", Some(&start.vars).filter(|it| !it.is_empty()).map(|it| json!(it))),
    ];
    for (key, value) in optional {
        if let (Some(value), Value::Object(hello)) = (value, &mut hello) {
            hello.insert(key.to_owned(), value);
        }
    }
    hello.to_string()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use kindlm_types::AgentSpec;

    use super::*;

    #[test]
    #[cfg(unix)]
    fn arguments_reach_the_agent_unchanged() {
        let start = |kind, command: Option<&str>| AgentStart {
            agent: Arc::new(AgentSpec {
                kind,
                command: command.map(str::to_owned),
                args: vec!["it's".to_owned(), "$HOME".to_owned()],
                model: Some("m".to_owned()),
                ..AgentSpec::default()
            }),
            system: Some("Be brief.".to_owned()),
            ..AgentStart::default()
        };
        for (kind, command, thread, line) in [
            (AgentKind::Kindlm, Some("./agent.py"), None, r"./agent.py 'it'\''s' '$HOME'"),
            (
                AgentKind::ClaudeCode,
                None,
                None,
                r"claude '-p' '--input-format' 'stream-json' '--output-format' 'stream-json' '--verbose' '--model' 'm' '--append-system-prompt' 'Be brief.' 'it'\''s' '$HOME'",
            ),
            (
                AgentKind::Codex,
                None,
                None,
                r"codex 'exec' '--json' '--model' 'm' 'it'\''s' '$HOME' '-'",
            ),
            (
                AgentKind::Codex,
                Some("npx codex"),
                Some("t1"),
                r"npx codex 'exec' '--json' '--model' 'm' 'it'\''s' '$HOME' 'resume' 't1' '-'",
            ),
        ] {
            assert_eq!(command_line(&start(kind, command), thread), line);
        }
    }

    /// Runs the line of an agent in a real shell. The agent is a program that shows what it gets.
    #[test]
    #[cfg(unix)]
    fn the_shell_creates_the_folder_and_the_schema() {
        let schema = json!({"type": "object", "title": "it's"});
        let start = |kind, command: &str, empty_folder| AgentStart {
            agent: Arc::new(AgentSpec {
                kind,
                command: Some(command.to_owned()),
                empty_folder,
                output_schema: schema.as_object().cloned(),
                set_env: [("MODE".to_owned(), "a b".to_owned())].into(),
                ..AgentSpec::default()
            }),
            ..AgentStart::default()
        };
        let run = |start: &AgentStart| {
            let line = shell_line(start, None);
            std::process::Command::new("sh").args(["-c", &line]).output().unwrap()
        };
        let show = |script: &str| format!("sh -c '{script}' agent");
        let codex = show("cat \"$4\"; echo; echo \"$4\"; exit 7");
        let ran = run(&start(AgentKind::Codex, &codex, false));
        let shown = String::from_utf8(ran.stdout).unwrap();
        let (read, file) = shown.trim_end().split_once('\n').unwrap();
        assert_eq!(serde_json::from_str::<Value>(read).unwrap(), schema);
        assert_eq!((ran.status.code(), Path::new(file).exists()), (Some(7), false));

        let claude = show("ls -A; pwd; printf %s \"$8\"");
        let ran = run(&start(AgentKind::ClaudeCode, &claude, true));
        let shown = String::from_utf8(ran.stdout).unwrap();
        let (folder, read) = shown.split_once('\n').unwrap();
        assert_eq!(serde_json::from_str::<Value>(read).unwrap(), schema, "{shown}");
        assert!(folder.starts_with('/') && !Path::new(folder).exists(), "{shown}");
        assert_eq!(ran.status.code(), Some(0));
    }
}
