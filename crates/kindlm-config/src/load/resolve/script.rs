//! Detection of the test variables that a script reads.

/// Returns the test variables that a script reads by name. The forms are `context.vars.name` and
/// `context.vars['name']`.
pub(in crate::load) fn variables(code: &str) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    for (at, start) in code.match_indices("context.vars") {
        let rest = &code[at + start.len()..];
        let rest = rest.strip_prefix('?').unwrap_or(rest);
        let quoted = rest.strip_prefix("['").or_else(|| rest.strip_prefix("[\""));
        let name = if let Some(quoted) = quoted {
            quoted.split(['\'', '"']).next().unwrap_or_default()
        } else if let Some(rest) = rest.strip_prefix('.') {
            let end = rest.find(|it: char| !it.is_alphanumeric() && it != '_' && it != '$');
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
            ("'x' in context.vars", vec![]),
            ("context.vars[name]", vec![]),
            ("file://check.js", vec![]),
        ] {
            assert_eq!(super::variables(code), expected, "{code}");
        }
    }
}
