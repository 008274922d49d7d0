//! Runs the binary in a folder with a config.

use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};
use tempfile::TempDir;

/// The default name of a config.
pub(crate) const CONFIG: &str = "promptfooconfig.yaml";

/// Creates a folder with these files.
pub(crate) fn folder(files: &[(&str, &str)]) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    for (name, text) in files {
        let path = folder.path().join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }
    folder
}

/// The result of a command.
#[derive(Debug)]
pub(crate) struct Ran {
    pub(crate) code: i32,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

/// Runs the binary in a folder.
pub(crate) fn kindlm(folder: &Path, args: &[&str]) -> Ran {
    kindlm_with(folder, args, &[])
}

/// Runs the binary in a folder, with environment variables.
pub(crate) fn kindlm_with(folder: &Path, args: &[&str], env: &[(&str, &str)]) -> Ran {
    let mut command = Command::new(env!("CARGO_BIN_EXE_kindlm"));
    command.current_dir(folder).args(args).envs(env.iter().copied());
    let output = command.output().unwrap();
    Ran {
        code: output.status.code().unwrap(),
        stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
        stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
    }
}

/// Runs a config; returns the result of the command, and the executions.
///
/// Each execution has its outputs, calls of tools, verdicts and model.
pub(crate) fn rows(folder: &Path, config: &str, env: &[(&str, &str)]) -> (Ran, Vec<Value>) {
    let args = ["test", "-c", config, "-q", "--reporter", "json=ran.json"];
    let ran = kindlm_with(folder, &args, env);
    let Ok(text) = std::fs::read(folder.join("ran.json")) else { return (ran, Vec::new()) };
    std::fs::remove_file(folder.join("ran.json")).unwrap();
    let report: Value = serde_json::from_slice(&text).unwrap();
    let cases = report["cases"].as_array().unwrap();
    let rows = cases.iter().flat_map(|case| {
        case["executions"].as_array().unwrap().iter().map(|it| {
            let results = it["results"].as_array().unwrap();
            let results = results.iter().map(|it| {
                json!({"type": it["type"], "status": it["status"], "score": it["score"], "why": it["reasoning"]})
            });
            json!({
                "test": it["case"],
                "model": it["model"],
                "status": it["outcome"],
                "score": it["score"],
                "output": it["output"],
                "outputJson": it["outputJson"],
                "toolCalls": it["toolCalls"],
                "vars": it["vars"],
                "namedScores": it["namedScores"],
                "results": results.collect::<Vec<_>>(),
            })
        })
    });
    (ran, rows.collect())
}
