//! Another tool that runs the same suite, for benchmarks against KindLM.

use std::fmt::Write as _;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::str::FromStr;

/// An installed tool, given on the command line as `promptfoo=<path>`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Peer {
    tool: Tool,
    program: PathBuf,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Tool {
    Promptfoo,
}

impl FromStr for Peer {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (name, program) = text.split_once('=').ok_or_else(|| {
            format!("`{text}` does not say where the peer is: `promptfoo=<path>`")
        })?;
        let tool = match name {
            "promptfoo" => Tool::Promptfoo,
            _ => return Err(format!("there is no peer `{name}`: `promptfoo=<path>` is known")),
        };
        let program = std::path::absolute(program).map_err(|err| format!("`{program}`: {err}"))?;
        if !program.is_file() {
            return Err(format!("there is no program `{}`", program.display()));
        }
        Ok(Self { tool, program })
    }
}

impl Peer {
    /// Returns the tool's name.
    pub fn name(&self) -> &'static str {
        match self.tool {
            Tool::Promptfoo => "promptfoo",
        }
    }

    /// Returns the command that prints the tool's version.
    pub fn version(&self) -> Command {
        let mut command = self.command();
        command.arg("--version");
        command
    }

    /// Writes the benchmark suite in the tool's format to `folder`.
    ///
    /// Returns the command that runs the suite against the server at `url`.
    ///
    /// The suite has `cases` prompts with three deterministic checks each, without caching and storage.
    pub fn run(
        &self,
        folder: &Path,
        cases: usize,
        url: &str,
        concurrency: usize,
    ) -> io::Result<Command> {
        let config = folder.join("promptfooconfig.yaml");
        std::fs::write(&config, promptfoo_config(cases, url))?;
        let mut command = self.command();
        command
            .arg("eval")
            .arg("-c")
            .arg(&config)
            .args(["-j", &concurrency.to_string()])
            .args(["--no-cache", "--no-write", "--no-table", "--no-progress-bar", "--no-share"])
            .env("PROMPTFOO_CONFIG_DIR", folder.join("promptfoo"))
            .current_dir(folder);
        Ok(command)
    }

    /// Returns the tool's command, without telemetry and update checks.
    fn command(&self) -> Command {
        let mut command = Command::new(&self.program);
        command
            .env("PROMPTFOO_DISABLE_TELEMETRY", "1")
            .env("PROMPTFOO_DISABLE_UPDATE", "1")
            .env("OPENAI_API_KEY", "not-a-key");
        command
    }
}

/// Returns a promptfoo config with the checks of the benchmarks' `kindlm.yaml`.
///
/// The checks of `kindlm.yaml` that promptfoo does not have are left out.
fn promptfoo_config(cases: usize, url: &str) -> String {
    let mut yaml = format!(
        "description: bench\n\
         providers:\n  - id: openai:chat:gpt-4o\n    config: {{ apiBaseUrl: \"{url}/v1\" }}\n\
         prompts:\n  - '[{{\"role\":\"system\",\"content\":\"You are helpful.\"}},{{\"role\":\"user\",\"content\":\"Say hello to {{{{name}}}}.\"}}]'\n\
         defaultTest:\n  assert:\n    - {{ type: not-contains, value: sorry }}\n\
         \x20   - {{ type: word-count, value: {{ max: 10000 }} }}\n\
         \x20   - {{ type: not-regex, value: '\\b\\d{{3}}-\\d{{2}}-\\d{{4}}\\b' }}\n\
         tests:\n"
    );
    for index in 0..cases {
        // Writing to a `String` does not fail, so the result can be ignored.
        let _ = writeln!(yaml, "  - {{ description: case {index}, vars: {{ name: n{index} }} }}");
    }
    yaml
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_peer_is_parsed_from_its_name_and_path() {
        let here = concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml");
        assert_eq!(format!("promptfoo={here}").parse::<Peer>().unwrap().name(), "promptfoo");
        for (text, expected) in [
            ("promptfoo", "`promptfoo` does not say where the peer is"),
            ("other=/bin/true", "there is no peer `other`"),
            ("promptfoo=/nowhere/promptfoo", "there is no program `/nowhere/promptfoo`"),
        ] {
            let err = text.parse::<Peer>().unwrap_err();
            assert!(err.contains(expected), "{err}");
        }
    }

    #[cfg(unix)]
    #[test]
    fn the_suite_is_written_in_the_format_of_the_tool() {
        use std::os::unix::fs::PermissionsExt as _;

        let folder = std::env::temp_dir().join(format!("kindlm-peer-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        // A fake tool that prints its arguments, its variables and its config.
        let fake = folder.join("fake");
        std::fs::write(
            &fake,
            "#!/bin/sh\necho \"$@\"\necho \"$OPENAI_API_KEY $PWD\"\ncat \"$3\"\n",
        )
        .unwrap();
        std::fs::set_permissions(&fake, std::fs::Permissions::from_mode(0o755)).unwrap();
        let peer: Peer = format!("promptfoo={}", fake.display()).parse().unwrap();
        let output = peer.run(&folder, 2, "http://127.0.0.1:9", 32).unwrap().output().unwrap();
        std::fs::remove_dir_all(&folder).unwrap();

        let stdout = String::from_utf8(output.stdout).unwrap();
        let (arguments, rest) = stdout.split_once('\n').unwrap();
        let (variables, config) = rest.split_once('\n').unwrap();
        let file = folder.join("promptfooconfig.yaml");
        assert_eq!(
            arguments,
            format!(
                "eval -c {} -j 32 --no-cache --no-write --no-table --no-progress-bar --no-share",
                file.display()
            )
        );
        assert!(variables.starts_with("not-a-key "), "{variables}");
        let config: serde_json::Value = serde_yaml::from_str(config).unwrap();
        assert_eq!(config["providers"][0]["config"]["apiBaseUrl"], "http://127.0.0.1:9/v1");
        let prompt = config["prompts"][0].as_str().unwrap();
        let prompt: serde_json::Value = serde_json::from_str(prompt).unwrap();
        assert_eq!(prompt[1]["content"], "Say hello to {{name}}.");
        assert_eq!(config["defaultTest"]["assert"].as_array().unwrap().len(), 3);
        assert_eq!(config["tests"][1]["vars"]["name"], "n1");
        assert_eq!(config["tests"].as_array().unwrap().len(), 2);
    }
}
