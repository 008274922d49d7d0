//! Detection of the test variables that a script reads.

/// Returns the test variables that a script reads by name. The forms are `context.vars.name` and
/// `context.vars['name']`, also with `?.` for any of the dots.
pub(in crate::load) fn variables(code: &str) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    for (at, start) in code.match_indices("context") {
        // Skip longer names, such as `mycontext`, and members of other objects.
        if code[..at].ends_with(|it| is_of_name(it) || it == '.') {
            continue;
        }
        let Some(rest) = after_dot(&code[at + start.len()..]) else { continue };
        let Some(rest) = rest.strip_prefix("vars") else { continue };
        let subscript = rest.strip_prefix("?.").unwrap_or(rest);
        let quoted = subscript.strip_prefix("['").or_else(|| subscript.strip_prefix("[\""));
        let name = if let Some(quoted) = quoted {
            quoted.split(['\'', '"']).next().unwrap_or_default()
        } else if let Some(rest) = after_dot(rest) {
            let end = rest.find(|it| !is_of_name(it));
            end.map_or(rest, |end| &rest[..end])
        } else {
            continue;
        };
        if !name.is_empty() && !names.iter().any(|it| it == name) {
            names.push(name.to_owned());
        }
    }
    names
}

/// Returns the text after a leading `.` or `?.`; `None` if the text begins with neither.
fn after_dot(code: &str) -> Option<&str> {
    code.strip_prefix('?').unwrap_or(code).strip_prefix('.')
}

/// True for the characters of names in scripts.
fn is_of_name(character: char) -> bool {
    character.is_alphanumeric() || matches!(character, '_' | '$')
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_variables_that_a_script_reads_are_found() {
        for (code, expected) in [
            ("context.vars.plan === 'pro'", vec!["plan"]),
            (
                "context.vars['a b'] && context.vars[\"c\"] && context.vars?.d.length > 1",
                vec!["a b", "c", "d"],
            ),
            ("context.vars.x || context.vars.x", vec!["x"]),
            ("context.vars?.['x'] ?? context?.vars.y ?? context?.vars?.z", vec!["x", "y", "z"]),
            ("mycontext.vars.x || my.context.vars.y || $context.vars.z", vec![]),
            ("context.varsity.x", vec![]),
            ("'x' in context.vars", vec![]),
            ("context.vars[name]", vec![]),
            ("file://check.js", vec![]),
        ] {
            assert_eq!(super::variables(code), expected, "{code}");
        }
    }
}
