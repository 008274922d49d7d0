//! Checks that every variable has a value.

use std::ops::Range;
use std::sync::Arc;

use kindlm_source::{Code, Diagnostic, Piece, Source, Span};
use kindlm_types::{MemberPart, nearest};
use serde_json::{Map, Value};

use super::Builder;
use super::placed::{TextUse, Written};
use crate::shell::{self, Context};
use crate::template::{Form, FormError, Looked, Unrendered, look_up, value_of};

/// Variables without a value, and the places that use them.
#[derive(Default)]
pub(super) struct Missing {
    names: Vec<String>,
    places: Vec<(Arc<Source>, Span)>,
}

impl Missing {
    fn add(&mut self, name: String, source: &Arc<Source>, span: Span) {
        self.places.push((Arc::clone(source), span));
        if !self.names.contains(&name) {
            self.names.push(name);
        }
    }
}

/// Returns the help for variables that do not exist.
///
/// Returns `None` without such variables.
fn absent_help(absent: &[String], vars: &Map<String, Value>) -> Option<String> {
    let of = |name: &String| match nearest(name, vars.keys().map(String::as_str)) {
        Some(near) => format!("unknown variable `{name}`: did you mean `{near}`?"),
        None => format!("unknown variable `{name}`: give it a value under `vars`"),
    };
    let all: Vec<String> = absent.iter().map(of).collect();
    Some(all.join("; ")).filter(|it| !it.is_empty())
}

impl Builder<'_> {
    /// Checks a text with variables, and adds missing variables to `missing`.
    pub(super) fn check_text(
        &mut self,
        written: Written<'_>,
        vars: &Map<String, Value>,
        missing: &mut Missing,
        use_of: TextUse,
    ) {
        self.check_literals(written, vars, use_of);
        self.check_vars(written, vars, missing);
    }

    /// Checks a command line, and returns it as a form with quoted variables.
    ///
    /// Returns `None` if the form cannot be made.
    pub(super) fn check_command(
        &mut self,
        written: Written<'_>,
        vars: &Map<String, Value>,
        missing: &mut Missing,
    ) -> Option<Form> {
        self.check_text(written, vars, missing, TextUse::Command);
        let places: Vec<Range<usize>> =
            written.template.placeholders().map(|(range, _)| range.clone()).collect();
        let contexts = shell::contexts(written.template.text(), places.iter());
        let mut unsafe_places = Vec::new();
        for (place, context) in places.iter().zip(&contexts) {
            if let Context::Unsafe(why) = context {
                let message = format!("a variable cannot be put into {why} safely");
                unsafe_places.push((written.place(place), message));
            }
        }
        let form = written.template.form(self.base.around.env, Some(&contexts));
        if let Err(FormError::Nul(err)) =
            form.as_ref().map_or_else(|err| Err(err.clone()), |form| form.fill(vars))
        {
            unsafe_places.push((written.source.first_line(written.span), err.to_string()));
        }
        for (span, message) in unsafe_places {
            let diagnostic =
                Diagnostic::error(Code::UNSAFE_TEMPLATE, message, written.source, span).with_help(
                    "pass it as a separate argument, such as `./agent --input {{name}}`: it is quoted automatically",
                );
            self.base.sink.push(diagnostic);
        }
        form.ok()
    }

    fn check_vars(
        &mut self,
        written: Written<'_>,
        vars: &Map<String, Value>,
        missing: &mut Missing,
    ) {
        let form = written.template.form(self.base.around.env, None);
        let found = form.as_ref().map_or_else(|_| Ok(Vec::new()), |it| it.missing(vars));
        if let Err(Unrendered { why, absent }) = &found {
            let why = format!("in some test, {why}");
            let at = written.source.first_line(written.span);
            let diagnostic = Diagnostic::error(Code::INVALID_VALUE, why, written.source, at);
            self.base.sink.push(Diagnostic { help: absent_help(absent, vars), ..diagnostic });
        }
        for it in found.unwrap_or_default() {
            if written.template.is_strict() && !it.is_null {
                missing.add(it.name, written.source, written.source.first_line(written.span));
                continue;
            }
            let (name, what) = (it.name, if it.is_null { "is `null`" } else { "has no value" });
            let message = format!("the variable `{name}` {what} in some test: it is empty there");
            let diagnostic = Diagnostic::error(
                Code::MISSING_VARIABLE,
                message,
                written.source,
                written.source.first_line(written.span),
            );
            let near = it.near.map(|it| format!("did you mean `{it}`?"));
            self.base.sink.push(Diagnostic { help: near, ..diagnostic.into_warning() });
        }
        for (variable, range) in written.template.plain_env() {
            if (self.base.around.env)(variable).is_none() && !vars.contains_key("env") {
                let diagnostic = unset(variable, written, range);
                self.base.sink.push(diagnostic.with_help(format!(
                    "set it before `kindlm` runs, or give it a default: `{{{{ env.{variable} | default('…') }}}}`"
                )));
            }
        }
        for (range, name) in written.template.placeholders() {
            if value_of(name, vars).is_some() && !name.starts_with("env.") {
                continue;
            }
            match look_up(name, vars, self.base.around.env) {
                Looked::Value(_) => {}
                Looked::Missing => {
                    missing.add(name.to_owned(), written.source, written.place(range));
                }
                Looked::Unset(variable) => {
                    let diagnostic = unset(&variable, written, range)
                        .with_help("set it before `kindlm` runs, or use a variable of the test");
                    self.base.sink.push(diagnostic);
                }
            }
        }
    }

    /// Reports all variables of a test that have no value, as one error.
    pub(super) fn report_missing(
        &mut self,
        piece: Piece<'_>,
        at: &str,
        vars: Option<&Map<String, Value>>,
        missing: &Missing,
    ) {
        let [first, ..] = missing.names.as_slice() else { return };
        let names: Vec<String> = missing.names.iter().map(|it| format!("`{it}`")).collect();
        let names = names.join(", ");
        let (is, them) = if missing.names.len() == 1 { ("has", "it") } else { ("have", "them") };
        let near = vars.and_then(|it| nearest(first, it.keys().map(String::as_str)));
        let outer = first
            .split_once('.')
            .filter(|(outer, _)| vars.is_some_and(|it| it.contains_key(*outer)));
        let help = if let Some((outer, inner)) = outer {
            format!("the test has `{outer}`, but it has no `{inner}`")
        } else if let Some(near) = near {
            format!("the test has `{near}`: did you mean that?")
        } else if is_table(piece.source) {
            let columns: Vec<String> =
                missing.names.iter().map(|it| format!("`vars.{it}`")).collect();
            format!("add a column for {them}: {}", columns.join(", "))
        } else {
            let pairs: Vec<String> = missing.names.iter().map(|it| format!("{it}: …")).collect();
            format!("give {them} a value: `vars: {{ {} }}`", pairs.join(", "))
        };
        let place = if vars.is_some() { "/vars" } else { "/name" };
        let mut diagnostic = piece
            .error(
                Code::MISSING_VARIABLE,
                &format!("{at}{place}"),
                if vars.is_some() { MemberPart::Key } else { MemberPart::Value },
                format!("{names} {is} no value in this test"),
            )
            .with_path(&format!("{}{at}/vars", piece.prefix))
            .with_label(if vars.is_some() { "not among these" } else { "this test has no `vars`" })
            .with_help(help);
        for (source, span) in &missing.places {
            diagnostic = diagnostic.with_related(source, *span, "used here");
        }
        self.base.sink.push(diagnostic);
    }
}

fn unset(variable: &str, written: Written<'_>, range: &Range<usize>) -> Diagnostic {
    let message = format!("the environment variable `{variable}` is not set");
    Diagnostic::error(Code::MISSING_VARIABLE, message, written.source, written.place(range))
}

/// Returns true if the file is a CSV dataset, in which variables are columns.
fn is_table(source: &Source) -> bool {
    let name = source.name().as_bytes();
    name.len() > 4 && name[name.len() - 4..].eq_ignore_ascii_case(b".csv")
}
