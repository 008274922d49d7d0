//! The names of a suite, read without the rest of the config file.

use kindlm_source::read_yaml;

/// The names that identify the runs of a suite.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct SuiteNames {
    /// The name of the project.
    pub project: String,
    /// The name of the suite within its project.
    pub suite: String,
}

/// Reads the names from a config file, even if other parts have errors.
///
/// Reads no other file and runs no program. Returns `None` if the file is not YAML, or if a name is missing.
pub fn suite_names(bytes: &[u8]) -> Option<SuiteNames> {
    let source = kindlm_source::decode("", bytes).ok()?;
    let root = read_yaml(&source, 0..source.text().len()).root?;
    if kindlm_promptfoo::is_promptfoo(&root) {
        return Some(SuiteNames {
            project: kindlm_promptfoo::PROJECT.to_owned(),
            suite: kindlm_promptfoo::suite_name(&root),
        });
    }
    Some(SuiteNames {
        project: root.get("project")?.text()?.to_owned(),
        suite: root.get("suite")?.get("name")?.text()?.to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_names_out_of_valid_and_broken_files() {
        for (text, expected) in [
            ("kindlm: 1\nproject: p\nsuite: { name: s }\n", Some(("p", "s"))),
            ("kindlm: 1\nproject: p\nsuite: { name: s, x: 1 }\ntests: 7\n", Some(("p", "s"))),
            ("kindlm: 1\nsuite: { name: s }\n", None),
            ("description: d\nprompts: [a]\nproviders: [echo]\n", Some(("promptfoo", "d"))),
            ("prompts: [a]\nproviders: [echo]\n", Some(("promptfoo", "promptfoo"))),
            ("", None),
        ] {
            let names = suite_names(text.as_bytes());
            let expected = expected.map(|(project, suite)| SuiteNames {
                project: project.into(),
                suite: suite.into(),
            });
            assert_eq!(names, expected, "{text}");
        }
    }
}
