//! Converts TypeScript to JavaScript.

use std::io::{Read as _, Write as _};

/// The argument that makes the worker program convert TypeScript from stdin. The next argument is the path of the file.
pub(crate) const TYPESCRIPT: &str = "typescript";

/// Converts TypeScript from stdin, and writes the JavaScript to stdout. Returns the exit code: 0, or 70 after an error.
/// Returns `None` if the process has no argument [`TYPESCRIPT`].
pub(crate) fn convert_stdin() -> Option<u8> {
    let path = std::env::args().skip_while(|it| it != TYPESCRIPT).nth(1)?;
    let mut text = String::new();
    let made = match std::io::stdin().read_to_string(&mut text) {
        Ok(_) => strip(&path, text),
        Err(err) => Err(format!("`{path}`: {err}")),
    };
    let written = made.and_then(|code| {
        std::io::stdout().write_all(code.as_bytes()).map_err(|err| err.to_string())
    });
    let Err(message) = written else { return Some(0) };
    // If stderr is closed, nothing can be reported; the exit code still shows the failure.
    let _ = writeln!(std::io::stderr(), "{message}");
    Some(70)
}

/// Returns the JavaScript of a TypeScript file. Other files are returned unchanged. Fails if the file is invalid, or if
/// this build does not support TypeScript.
pub(crate) fn strip(path: &str, text: String) -> Result<String, String> {
    if [".ts", ".mts", ".cts"].iter().any(|ending| path.ends_with(ending)) {
        return javascript(path, &text);
    }
    Ok(text)
}

#[cfg(not(feature = "typescript"))]
fn javascript(path: &str, _text: &str) -> Result<String, String> {
    Err(format!(
        "`{path}` is TypeScript, which this build of KindLM cannot read: `cargo install --path crates/kindlm-cli --features full` \
         builds one that can, or compile the file to JavaScript"
    ))
}

/// Removes types, and converts TypeScript's own constructs to code, as `tsc` does. The constructs are enums, namespaces
/// and parameter properties. Fails with the errors, and their places if known.
#[cfg(feature = "typescript")]
fn javascript(path: &str, text: &str) -> Result<String, String> {
    use std::path::Path;

    use oxc_allocator::Allocator;
    use oxc_codegen::Codegen;
    use oxc_parser::Parser;
    use oxc_semantic::SemanticBuilder;
    use oxc_span::SourceType;
    use oxc_transformer::{TransformOptions, Transformer};

    let failed = |errors: &[String]| Err(format!("`{path}`: {}", errors.join("; ")));
    // A file without imports and exports is a script, as in Node. A `.mts` file is always a module.
    let is_module =
        std::path::Path::new(path).extension().is_some_and(|it| it.eq_ignore_ascii_case("mts"));
    let source_type = SourceType::ts().with_unambiguous(!is_module);
    let allocator = Allocator::default();
    let parsed = Parser::new(&allocator, text, source_type).parse();
    let place = |offset: usize| {
        let before = text.get(..offset).unwrap_or(text);
        let column = before.rsplit('\n').next().map_or(0, |line| line.chars().count()) + 1;
        format!("{}:{column}", before.matches('\n').count() + 1)
    };
    if !parsed.diagnostics.is_empty() {
        let errors: Vec<String> = parsed
            .diagnostics
            .iter()
            .map(|error| {
                let at = error.labels.first().map(|label| place(label.offset() as usize));
                at.map_or_else(|| error.to_string(), |at| format!("{at}: {error}"))
            })
            .collect();
        return failed(&errors);
    }
    let mut program = parsed.program;
    let scoping = SemanticBuilder::new()
        .with_excess_capacity(2.0)
        .with_enum_eval(true)
        .build(&program)
        .semantic
        .into_scoping();
    let options = TransformOptions::default();
    let transformed = Transformer::new(&allocator, Path::new(path), &options)
        .build_with_scoping(scoping, &mut program);
    if !transformed.diagnostics.is_empty() {
        let errors: Vec<String> = transformed.diagnostics.iter().map(ToString::to_string).collect();
        return failed(&errors);
    }
    let code = Codegen::new().build(&program).code;
    // The code generator adds this line if the file only imports types. The line would turn CommonJS into an ES module.
    Ok(code.strip_suffix("export {};\n").map(ToOwned::to_owned).unwrap_or(code))
}
