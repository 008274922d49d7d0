//! The runtimes of scripts, and their permissions.

use std::sync::Arc;
use std::time::Duration;

use kindlm_types::script::{ScriptPermissions, ScriptRuntime};
use kindlm_types::{FileError, Files, HostPattern, Problem, ProblemKind};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

/// The runtime and the permissions of scripts, in the config file or one check.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct ScriptsBlock {
    /// The runtime of JavaScript.
    ///
    /// `quickjs` is built in and runs in a sandbox. `node` is the installed Node.js, without a sandbox.
    pub runtime: Option<Runtime>,
    /// Hosts that `fetch` may reach. None by default.
    ///
    /// Examples: `example.com`, `*.example.com`, `localhost:8080`.
    #[schemars(inner(length(min = 1)))]
    pub net: Option<Vec<String>>,
    /// Folders that scripts may read files from. None by default.
    ///
    /// Paths are relative to the folder of the config file.
    #[schemars(inner(length(min = 1)))]
    pub read: Option<Vec<String>>,
    /// Environment variables that scripts and templates may read. None by default.
    #[schemars(inner(length(min = 1)))]
    pub env: Option<Vec<String>>,
    /// The time limit of one call of a script, in milliseconds.
    #[schemars(range(min = 1, max = 3_600_000))]
    pub timeout_ms: Option<u64>,
}

impl ScriptsBlock {
    /// Returns the problems of invalid hosts and variable names.
    ///
    /// Pointers start at the block.
    pub fn problems(&self) -> Vec<Problem> {
        let hosts = self.net.iter().flatten().enumerate();
        let hosts = hosts.filter_map(|(at, it)| {
            Some(HostPattern::parse(it).err()?.under(&format!("/net/{at}")))
        });
        let names = self.env.iter().flatten().enumerate();
        hosts.chain(names.filter_map(|(at, it)| unnamed(it, &format!("/env/{at}")))).collect()
    }

    /// Returns a problem if the block sets a permission, Node.js as runtime, or a time limit.
    ///
    /// The pointer starts at the block.
    pub(crate) fn beyond_sandbox(&self) -> Option<Problem> {
        let Self { runtime, net, read, env, timeout_ms } = self;
        let lists = [("net", net), ("read", read), ("env", env)];
        let set = lists.into_iter().find(|(_, it)| it.as_ref().is_some_and(|it| !it.is_empty()));
        let key = match (set, runtime, timeout_ms) {
            (Some((key, _)), _, _) => key,
            (None, Some(Runtime::Node), _) => "runtime",
            (None, _, Some(_)) => "timeoutMs",
            (None, _, None) => return None,
        };
        let problem = Problem::new(format!("/{key}"), format!("scripts cannot have `{key}` here"));
        Some(problem.with_help("remove it: scripts run in the sandbox, without permissions"))
    }

    /// Returns a problem for each folder in `read` that is missing or not permitted.
    ///
    /// Pointers start at the block.
    pub fn unreadable_folders(&self, files: &dyn Files) -> Vec<Problem> {
        let folders = self.read.iter().flatten().enumerate();
        let problem = |at: usize, err: &FileError, outside: bool, help: &str| {
            Problem::new(format!("/read/{at}"), err.to_string())
                .with_kind(ProblemKind::File { outside })
                .with_help(help)
        };
        let problem = |(at, it): (usize, &String)| match files.read_file(it) {
            Err(err @ FileError::NotFound { .. }) => {
                let help = "the path is relative to the folder of the config file";
                Some(problem(at, &err, false, help))
            }
            Err(err @ FileError::Outside { .. }) => {
                let help = "name a folder inside it, or give `--allow-outside`";
                Some(problem(at, &err, true, help))
            }
            _ => None,
        };
        folders.filter_map(problem).collect()
    }
}

/// Returns a problem if a text cannot be the name of an environment variable.
fn unnamed(name: &str, at: &str) -> Option<Problem> {
    let is_part = |it: char| it.is_alphanumeric() || "_.-()".contains(it);
    if name.chars().all(is_part) {
        return None;
    }
    let message = format!("`{name}` is not the name of an environment variable");
    let help = if name.contains('*') {
        "name each variable: patterns are not supported, because they could expose new secrets"
    } else {
        "write one name for each entry of the list, such as `REGION`"
    };
    Some(Problem::new(at, message).with_help(help))
}

/// The runtime of JavaScript.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Runtime {
    /// The built-in engine, in a sandbox.
    QuickJs,
    /// The installed Node.js. Not a sandbox.
    Node,
}

/// The runtime of scripts and their permissions. By default, scripts may only compute.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ScriptSettings {
    /// The runtime of JavaScript, or the interpreter if the check has a script in another language.
    pub runtime: ScriptRuntime,
    /// The hosts, folders and environment variables that scripts may use.
    pub permissions: Arc<ScriptPermissions>,
    /// The time limit of one call; `None` for the time limit of the script host.
    pub timeout: Option<Duration>,
}

impl ScriptSettings {
    /// Returns the settings of the suite, overridden by the `scripts` block of a check.
    ///
    /// If `files` is given, folders of the block that are missing or not permitted are problems.
    pub(crate) fn of_check(
        &self,
        block: Option<&ScriptsBlock>,
        files: Option<&dyn Files>,
    ) -> Result<Self, Vec<Problem>> {
        let Some(block) = block else { return Ok(self.clone()) };
        let mut problems = block.problems();
        if let Some(files) = files {
            problems.extend(block.unreadable_folders(files));
        }
        if problems.is_empty() {
            return Ok(self.with(block));
        }
        Err(problems.into_iter().map(|it| it.under("/scripts")).collect())
    }

    /// Returns the settings that can change the results of scripts, as JSON.
    ///
    /// Returns `None` for the default runtime and permissions.
    pub fn deciding(&self) -> Option<Value> {
        let Self { runtime, permissions, timeout: _ } = self;
        if *runtime == ScriptRuntime::default() && **permissions == ScriptPermissions::default() {
            return None;
        }
        let ScriptPermissions { net, read, env } = &**permissions;
        let runtime = match runtime {
            ScriptRuntime::QuickJs => "quickjs",
            ScriptRuntime::Node => "node",
            ScriptRuntime::Python => "python",
            ScriptRuntime::Ruby => "ruby",
        };
        Some(json!({"runtime": runtime, "net": net, "read": read, "env": env}))
    }

    /// Returns these settings, overridden by a block. A list of the block replaces the whole list of the settings.
    #[must_use]
    pub fn with(&self, block: &ScriptsBlock) -> Self {
        let mut permissions = (*self.permissions).clone();
        for (list, given) in [
            (&mut permissions.net, &block.net),
            (&mut permissions.read, &block.read),
            (&mut permissions.env, &block.env),
        ] {
            if let Some(given) = given {
                list.clone_from(given);
            }
        }
        Self {
            runtime: match block.runtime {
                None => self.runtime,
                Some(Runtime::QuickJs) => ScriptRuntime::QuickJs,
                Some(Runtime::Node) => ScriptRuntime::Node,
            },
            permissions: Arc::new(permissions),
            timeout: block.timeout_ms.map(Duration::from_millis).or(self.timeout),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_without_effect_are_reported() {
        let block: ScriptsBlock = serde_json::from_str(
            r#"{"env": ["A", "*", "A B", "API_*", "ProgramFiles(x86)", "A=b"], "net": ["a.de:"]}"#,
        )
        .unwrap();
        let told: Vec<String> = block.problems().into_iter().map(|it| it.pointer).collect();
        assert_eq!(told, ["/net/0", "/env/1", "/env/2", "/env/3", "/env/5"]);
    }

    #[test]
    fn deciding_settings_name_the_runtime() {
        for (runtime, expected) in [
            (ScriptRuntime::Node, "node"),
            (ScriptRuntime::Python, "python"),
            (ScriptRuntime::Ruby, "ruby"),
        ] {
            let settings = ScriptSettings { runtime, ..ScriptSettings::default() };
            assert_eq!(settings.deciding().unwrap()["runtime"], expected);
        }
        assert_eq!(ScriptSettings::default().deciding(), None);
    }

    #[test]
    fn checks_inherit_unset_script_settings() {
        let suite: ScriptsBlock = serde_json::from_str(
            r#"{"net": ["a.example"], "env": ["X"], "timeoutMs": 100, "runtime": "node"}"#,
        )
        .unwrap();
        let suite = ScriptSettings::default().with(&suite);
        let own: ScriptsBlock = serde_json::from_str(r#"{"net": [], "read": ["data"]}"#).unwrap();
        let own = suite.with(&own);
        assert_eq!(own.runtime, ScriptRuntime::Node);
        assert_eq!(own.timeout, Some(Duration::from_millis(100)));
        assert_eq!(own.permissions.net, Vec::<String>::new());
        assert_eq!(own.permissions.read, ["data"]);
        assert_eq!(own.permissions.env, ["X"]);
    }
}
