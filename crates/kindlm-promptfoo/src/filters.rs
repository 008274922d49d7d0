//! `nunjucksFilters`: JavaScript functions as template filters.
//!
//! Templates that are rendered during a run must not call programs. Therefore templates with such filters are rendered
//! when the config is read and all their variables are known.

use std::sync::Arc;

use kindlm_source::{Kind, Node, Span};
use kindlm_template::{Filter, Filters, Variables, environment, is_template, literal};
use serde_json::{Map, Value};

use super::Translator;
use super::programs::run;
use super::vars::Vars;

/// The custom filters of a config.
#[derive(Debug)]
pub(super) struct OwnFilters {
    names: Vec<String>,
    filters: Filters,
}

impl OwnFilters {
    /// True if a text is a template that may use a custom filter.
    pub(super) fn are_in(&self, text: &str) -> bool {
        is_template(text) && self.names.iter().any(|it| text.contains(it.as_str()))
    }

    /// True if a text within a value is a template that may use a custom filter.
    pub(super) fn are_within(&self, node: &Node) -> bool {
        match &node.kind {
            Kind::Text(text) => self.are_in(text),
            Kind::List(items) => items.iter().any(|it| self.are_within(it)),
            Kind::Mapping(entries) => entries.iter().any(|(_, it)| self.are_within(it)),
            Kind::Null | Kind::Bool(_) | Kind::Number(_) => false,
        }
    }
}

impl Translator<'_> {
    pub(super) fn filters(&mut self, block: &Node) -> Option<OwnFilters> {
        let mut names = Vec::new();
        let mut filters: Vec<(String, Arc<Filter>)> = Vec::new();
        for (key, value) in block.entries() {
            let Some(file) = value.text() else {
                let help = "name a file of JavaScript, such as `./filters/shout.js`";
                self.error(value.span, "expected the file of a filter", Some(help));
                continue;
            };
            let Some(program) = self.program(value.span, file, None) else { continue };
            let runner = self.runner();
            names.push(key.name.to_string());
            let filter = move |values: &[Value]| run(&runner, &program, values);
            filters.push((key.name.to_string(), Arc::new(filter)));
        }
        (!names.is_empty()).then(|| OwnFilters { names, filters: Filters::new(filters) })
    }

    /// Renders a text with custom filters.
    ///
    /// Returns a template whose output is exactly the rendered text. Other texts are returned unchanged. Returns `None`
    /// after an error, which is reported.
    pub(super) fn filtered(&mut self, span: Span, text: &str, vars: &Vars) -> Option<String> {
        let Some(own) = &self.filters else { return Some(text.to_owned()) };
        if !own.are_in(text) {
            return Some(text.to_owned());
        }
        let values: Map<String, Value> =
            vars.iter().map(|(key, it)| (key.name.to_string(), it.to_json())).collect();
        let env = environment(text)
            .filter_map(|name| Some((name.to_owned(), (self.inputs.env)(name)?.into())));
        let env: Map<String, Value> = env.collect();
        match Variables::new(&values, &env).render_with(text, &own.filters) {
            Ok(rendered) => Some(literal(&rendered)),
            Err(message) => {
                self.error(span, message, None);
                None
            }
        }
    }

    /// Renders all texts of a value that use custom filters. Returns `None` after an error, which is reported.
    pub(super) fn filtered_within(&mut self, node: &Node, vars: &Vars) -> Option<Node> {
        let kind = match &node.kind {
            Kind::Text(text) => Kind::Text(self.filtered(node.span, text, vars)?.as_str().into()),
            Kind::List(items) => {
                let items = items.iter().map(|it| self.filtered_within(it, vars));
                Kind::List(items.collect::<Option<Vec<_>>>()?.into())
            }
            Kind::Mapping(entries) => {
                let entries = entries
                    .iter()
                    .map(|(key, it)| Some((key.clone(), self.filtered_within(it, vars)?)));
                Kind::Mapping(entries.collect::<Option<Vec<_>>>()?.into())
            }
            other => other.clone(),
        };
        Some(Node { kind, ..node.clone() })
    }
}
