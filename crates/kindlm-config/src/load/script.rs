//! Whether a script that is written in the suite can be read at all.

/// Why a script is not JavaScript, in words. One line is an expression, several are the body of a function.
///
/// A file that is named is left to those who run it: it may be of several kinds.
#[cfg(feature = "javascript")]
pub(super) fn fault(code: &str) -> Option<String> {
    use oxc_allocator::Allocator;
    use oxc_parser::Parser;
    use oxc_span::SourceType;

    if code.starts_with("file://") {
        return None;
    }
    let (start, body) = if code.contains('\n') {
        ("", code.to_owned())
    } else {
        ("return ", format!("return {code}"))
    };
    let opening = "async function when(output, context) {\n";
    let text = format!("{opening}{body}\n}}");
    let allocator = Allocator::default();
    // As a script, which allows all that the engine does, so that nothing is refused that would run.
    let parsed = Parser::new(&allocator, &text, SourceType::script()).parse();
    let first = parsed.diagnostics.first()?;
    let place = first.labels.first().map(|it| it.offset() as usize);
    let place = place.and_then(|it| it.checked_sub(opening.len() + start.len()));
    let place = place.filter(|it| *it < code.len()).and_then(|it| code.get(..it)).map(|before| {
        let column = before.rsplit('\n').next().map_or(0, |line| line.chars().count()) + 1;
        match before.matches('\n').count() {
            0 if !code.trim_end().contains('\n') => format!(" at column {column} of the text"),
            line => format!(" at {}:{column} of the text", line + 1),
        }
    });
    Some(format!("{first}{}", place.unwrap_or_default()))
}

/// Without a reader of JavaScript, what cannot be read is found when it is run.
#[cfg(not(feature = "javascript"))]
pub(super) fn fault(_code: &str) -> Option<String> {
    None
}

/// The variables of the test that a script reads by name: `context.vars.name`, `context.vars['name']`.
pub(super) fn variables(code: &str) -> Vec<String> {
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
mod variables {
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

#[cfg(all(test, feature = "javascript"))]
mod tests {
    use super::fault;

    #[test]
    fn what_the_engine_runs_is_no_fault() {
        for code in [
            "output.length > 3",
            "await check(output)",
            "context.vars.segment === 'smb' // only these",
            "const it = JSON.parse(output)\nreturn it.ok === true",
            "{ ok: true }.ok",
            "/a+/u.test(output)",
            "with_ in context",
            "\nif (output) return true\nreturn false\n",
            "file://check.ts",
        ] {
            assert_eq!(fault(code), None, "{code}");
        }
    }

    #[test]
    fn what_it_cannot_read_is_told_with_its_place() {
        for (code, place) in [
            ("output.length >", ""),
            ("output.length > > 3", "at column 17 of the text"),
            ("const it = 1\nreturn it ==== 1", "at 2:14 of the text"),
            ("(output", ""),
        ] {
            let fault = fault(code).unwrap_or_default();
            assert!(!fault.is_empty() && fault.ends_with(place), "{code}: {fault}");
        }
    }
}
