//! The options of a run.
//!
//! These are `evaluateOptions`, `commandLineOptions` and the paths of reports.

use kindlm_source::{Kind, Node};

use super::Translator;
use super::build::{entries, number, text};
use super::files::extension;

/// Options that do not affect the results of a run.
const INERT: [&str; 14] = [
    "cache",
    "showProgressBar",
    "progressBar",
    "verbose",
    "table",
    "tableCellMaxLength",
    "write",
    "share",
    "interactiveProviders",
    "grader",
    "color",
    "watch",
    "generateSuggestions",
    "eventSource",
];

/// The reporters, by the extension of promptfoo's output file.
const REPORTERS: [(&str, &str); 5] =
    [("json", "json"), ("xml", "junit"), ("html", "html"), ("csv", "csv"), ("jsonl", "jsonl")];

impl Translator<'_> {
    /// Translates `evaluateOptions` and `commandLineOptions` into `defaults`.
    pub(super) fn defaults(&mut self, root: &Node) -> Vec<(&'static str, Node)> {
        let mut defaults: Vec<(&'static str, Node)> = Vec::new();
        for block in ["commandLineOptions", "evaluateOptions"] {
            for (key, node) in root.get(block).map(Node::entries).unwrap_or_default() {
                let name = &*key.name;
                let known = match name {
                    "maxConcurrency" => Some("concurrency"),
                    "repeat" => Some("repeat"),
                    "timeoutMs" => Some("timeoutMs"),
                    _ => None,
                };
                if let Some(known) = known {
                    // `evaluateOptions` overrides `commandLineOptions`.
                    defaults.retain(|(it, _)| *it != known);
                    defaults.push((known, node.clone()));
                } else if name == "delay" {
                    if !matches!(node.to_json().as_f64(), Some(0.0)) {
                        defaults.retain(|(it, _)| *it != "concurrency");
                        defaults.push(("concurrency", number(node.span, 1.0)));
                    }
                } else if name == "grader" && node.text().is_some() {
                    let help = "name it as the grader: `defaultTest: { options: { provider: … } }`";
                    self.unsupported(key.span, &format!("`{block}.grader`"), Some(help));
                } else if INERT.contains(&name) {
                    self.warn(key.span, format!("`{name}` has no effect here"), None);
                } else {
                    let help = match name {
                        "maxEvalTimeMs" => {
                            "limit the time of the CI job; `--resume` runs what is missing"
                        }
                        "filterPattern" | "filterFirstN" | "filterSample" | "filterFailing"
                        | "filterProviders" | "filterTargets" | "filterMetadata" => {
                            "select on the command line: `--test`, `--models`, `--tags`, `--failed`"
                        }
                        "vars" | "prompts" | "providers" | "config" | "tests" | "assertions" => {
                            "write it at the top of the file"
                        }
                        "promptPrefix" | "promptSuffix" => {
                            "write it as `defaultTest: { options: { prefix: …, suffix: … } }`"
                        }
                        _ => {
                            "no option of `kindlm test` does this: `kindlm test --help` lists them"
                        }
                    };
                    self.unsupported(key.span, &format!("`{block}.{name}`"), Some(help));
                }
            }
        }
        defaults
    }

    /// Returns the pause after each request in milliseconds; `None` if the config has no `delay`.
    pub(super) fn pause(root: &Node) -> Option<Node> {
        let delay_in = |block: &str| root.get(block).and_then(|it| it.get("delay"));
        delay_in("evaluateOptions").or_else(|| delay_in("commandLineOptions")).cloned()
    }

    /// True if the options limit the time of each request.
    pub(super) fn has_timeout(root: &Node) -> bool {
        ["evaluateOptions", "commandLineOptions"].iter().any(|block| {
            let limit = root.get(block).and_then(|it| it.get("timeoutMs"));
            limit.and_then(|it| it.to_json().as_f64()).is_some_and(|it| it > 0.0)
        })
    }

    /// Translates `outputPath` into `reports`.
    ///
    /// Returns `None` without a supported path.
    pub(super) fn reports(&mut self, root: &Node) -> Option<Node> {
        let node = root.get("outputPath")?;
        let one = [node.clone()];
        let paths = if matches!(node.kind, Kind::List(_)) { node.items() } else { &one[..] };
        let mut reports: Vec<(String, Node)> = Vec::new();
        for path in paths {
            let Some(written) = path.text() else {
                if !matches!(path.kind, Kind::Null) {
                    self.error(path.span, "expected the path of a file", None);
                }
                continue;
            };
            let ending = extension(written);
            let reporter = REPORTERS.iter().find(|(it, _)| *it == ending).map(|(_, it)| *it);
            let is_there =
                |it: &&str| self.inputs.reporters.is_empty() || self.inputs.reporters.contains(it);
            match reporter.filter(is_there) {
                Some(reporter) if reports.iter().any(|(it, _)| it == reporter) => {
                    let help = "copy the file after the run";
                    let what = format!("a second `.{ending}` file");
                    self.unsupported(path.span, &what, Some(help));
                }
                Some(reporter) => reports.push((reporter.to_owned(), text(path.span, written))),
                None => {
                    let help = "`.json` and `.jsonl` have every result; `.csv`, `.html` and `.xml` (JUnit) are written too";
                    let message = format!(
                        "the file of results `{written}` is not written: no reporter writes `.{ending}`"
                    );
                    self.warn(path.span, message, Some(help));
                }
            }
        }
        (!reports.is_empty()).then(|| entries(node.span, reports))
    }
}
