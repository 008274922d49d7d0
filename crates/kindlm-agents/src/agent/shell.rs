//! Unwraps shell commands: `bash -lc '…'` becomes the command that it runs.
//!
//! Codex reports `/bin/bash -lc 'ls; pwd'`, but Claude Code reports `ls; pwd`. A check of the command must mean the
//! same for both agents, so the wrapper is removed. The reported form is stored as `raw`.

use serde_json::{Map, Value, json};

/// Returns the input of a shell call: `command` without its wrappers. `argv` holds the words of a single plain command.
/// `raw` holds the reported form if it differs from `command`.
pub(super) fn input(command: &Value) -> Value {
    let mut input = Map::new();
    describe(command, &mut input);
    Value::Object(input)
}

/// Unwraps the `command` of an input in place, and keeps the other keys.
pub(super) fn unwrap_input(input: &mut Value) {
    if let Value::Object(map) = input
        && let Some(command) = map.get("command").cloned()
    {
        describe(&command, map);
    }
}

fn describe(command: &Value, input: &mut Map<String, Value>) {
    let (text, wrapped) = match command {
        Value::String(line) => match unwrapped(line) {
            Some(inner) => (inner, true),
            None => (line.clone(), false),
        },
        Value::Array(words) => {
            let words: Option<Vec<&str>> = words.iter().map(Value::as_str).collect();
            match words.as_deref().map(|it| (script(it), it)) {
                Some((Some(inner), _)) => {
                    (unwrapped(inner).unwrap_or_else(|| inner.to_owned()), true)
                }
                Some((None, words)) => (joined(words), true),
                None => (command.to_string(), true),
            }
        }
        other => (other.as_str().unwrap_or_default().to_owned(), !other.is_null()),
    };
    if let Some(argv) = plain_words(&text) {
        input.insert("argv".to_owned(), json!(argv));
    }
    input.insert("command".to_owned(), text.into());
    if wrapped {
        input.insert("raw".to_owned(), command.clone());
    }
}

/// Returns the script that a line such as `bash -lc 'ls'` runs: `ls`. Returns `None` for a line that does anything
/// other than start a shell with a script. Shells may be nested.
fn unwrapped(line: &str) -> Option<String> {
    /// A limit beyond any reasonable nesting.
    const DEEPEST: usize = 16;
    let mut found: Option<String> = None;
    for _ in 0..DEEPEST {
        let words = plain_words(found.as_deref().unwrap_or(line));
        let words = words.unwrap_or_default();
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        match script(&words) {
            Some(inner) => found = Some(inner.to_owned()),
            None => break,
        }
    }
    found
}

/// Returns the script that a shell runs with `-c` or with options such as `-lc`. Returns `None` for any other command.
fn script<'w>(words: &[&'w str]) -> Option<&'w str> {
    let (program, rest) = words.split_first()?;
    let name = program.rsplit(['/', '\\']).next()?;
    if !["sh", "bash", "zsh", "dash", "ksh"].contains(&name) {
        return None;
    }
    let options = rest.iter().take_while(|it| it.starts_with('-')).count();
    let has_script = rest.iter().take(options).any(|it| {
        it.strip_prefix('-').is_some_and(|letters| {
            letters.ends_with('c') && letters.bytes().all(|it| it.is_ascii_lowercase())
        })
    });
    match rest.get(options..) {
        Some([script]) if has_script => Some(script),
        // A script with arguments may run them as a command: `bash -c '"$@"' name rm x`.
        _ => None,
    }
}

/// Joins words to a command line, with quotes where needed.
fn joined(words: &[&str]) -> String {
    let is_plain = |it: &char| it.is_ascii_alphanumeric() || "-_./:=,@%+".contains(*it);
    let quoted = |word: &&str| {
        if !word.is_empty() && word.chars().all(|it| is_plain(&it)) {
            (*word).to_owned()
        } else {
            format!("'{}'", word.replace('\'', r"'\''"))
        }
    };
    words.iter().map(quoted).collect::<Vec<_>>().join(" ")
}

/// Returns the words of a command line that only starts one program.
///
/// Returns `None` for several commands, redirections, variables, patterns and everything else that a shell would
/// expand. Also returns `None` for a line without words, and for a line that begins with an assignment.
fn plain_words(line: &str) -> Option<Vec<String>> {
    /// The characters that a shell interprets outside of quotes.
    const SPECIAL: &str = ";|&<>()$`*?[]{}~!#\n\r";
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut chars = line.trim().chars();
    while let Some(char) = chars.next() {
        match char {
            ' ' | '\t' => words.extend(word.take()),
            '\'' => {
                let word = word.get_or_insert_default();
                loop {
                    match chars.next()? {
                        '\'' => break,
                        other => word.push(other),
                    }
                }
            }
            '"' => {
                let word = word.get_or_insert_default();
                loop {
                    match chars.next()? {
                        '"' => break,
                        '$' | '`' => return None,
                        '\\' => match chars.next()? {
                            '\n' => {}
                            escaped @ ('"' | '\\' | '$' | '`') => word.push(escaped),
                            other => word.extend(['\\', other]),
                        },
                        other => word.push(other),
                    }
                }
            }
            '\\' => word.get_or_insert_default().push(chars.next().filter(|it| *it != '\n')?),
            special if SPECIAL.contains(special) => return None,
            other => word.get_or_insert_default().push(other),
        }
    }
    words.extend(word);
    // `A=b program` sets a variable for the program.
    let sets_variable = words.first().is_none_or(|it| it.contains('='));
    (!sets_variable).then_some(words)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wrappers_are_removed_and_kept_as_raw() {
        for (reported, command, argv) in [
            (json!("/bin/bash -lc 'ls; pwd'"), "ls; pwd", None),
            (json!("/bin/bash -lc ls"), "ls", Some(vec!["ls"])),
            (json!("bash -c 'npm i'"), "npm i", Some(vec!["npm", "i"])),
            (json!("zsh -l -c \"echo \\\"a b\\\"\""), "echo \"a b\"", Some(vec!["echo", "a b"])),
            (json!(r"sh -c 'it'\''s'"), "it's", None),
            (json!("sh -c \"bash -lc 'rm -rf x'\""), "rm -rf x", Some(vec!["rm", "-rf", "x"])),
            (json!(["/bin/bash", "-lc", "exit 3"]), "exit 3", Some(vec!["exit", "3"])),
            (
                json!(["git", "commit", "-m", "a b"]),
                "git commit -m 'a b'",
                Some(vec!["git", "commit", "-m", "a b"]),
            ),
        ] {
            let input = input(&reported);
            assert_eq!(input["command"], command, "{reported}");
            assert_eq!(input["raw"], reported);
            assert_eq!(input.get("argv").cloned(), argv.map(|it| json!(it)), "{reported}");
        }
    }

    #[test]
    fn other_commands_are_not_unwrapped() {
        for (reported, argv) in [
            ("ls -la", Some(vec!["ls", "-la"])),
            ("rm '' \"\"", Some(vec!["rm", "", ""])),
            ("ls; pwd", None),
            ("echo $HOME", None),
            ("echo \"$(rm x)\"", None),
            ("bash -lc 'ls'; rm x", None),
            ("bash -lc 'ls' > out", None),
            ("bash -c 'rm x' name", Some(vec!["bash", "-c", "rm x", "name"])),
            (
                r#"bash -c '"$0" "$@"' rm -rf data"#,
                Some(vec!["bash", "-c", r#""$0" "$@""#, "rm", "-rf", "data"]),
            ),
            ("bash script.sh", Some(vec!["bash", "script.sh"])),
            ("bash --norc", Some(vec!["bash", "--norc"])),
            ("A=1 ls", None),
            ("echo 'open", None),
            ("", None),
        ] {
            let input = input(&json!(reported));
            assert_eq!(input["command"], reported);
            assert_eq!(input.get("raw"), None, "{reported}");
            assert_eq!(input.get("argv").cloned(), argv.map(|it| json!(it)), "{reported}");
        }
        let mut other = json!({"command": "bash -c ls", "description": "List"});
        unwrap_input(&mut other);
        assert_eq!(
            other,
            json!({"command": "ls", "argv": ["ls"], "raw": "bash -c ls", "description": "List"})
        );
        let mut none = json!({"path": "a"});
        unwrap_input(&mut none);
        assert_eq!(none, json!({"path": "a"}));
    }
}
