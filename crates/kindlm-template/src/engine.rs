//! The template engine with its settings and additions.

use std::sync::{Arc, LazyLock};

use minijinja::value::{Rest, Serde};
use minijinja::{
    AutoEscape, Environment, ErrorKind, Output, State, UndefinedBehavior, Value as Jinja,
};
use serde_json::Value;

use crate::text::{json_text, text};
use crate::{bounded, filters, methods, rendering, steps};

/// The highest number of engine steps in one rendering. The limit ends nested loops that run too long.
pub(crate) const FUEL: u64 = 3_000_000;

pub(crate) static ENGINE: LazyLock<Environment<'static>> = LazyLock::new(|| {
    let mut engine = Environment::new();
    engine.set_undefined_behavior(UndefinedBehavior::Chainable);
    engine.set_auto_escape_callback(|_| AutoEscape::None);
    engine.set_formatter(print);
    engine.set_fuel(Some(FUEL));
    engine.set_unknown_method_callback(|_, value, name, args| methods::call(value, name, args));
    bounded::add_to(&mut engine);
    // A mutable object could contain itself. Printing, comparing or dropping such an object would never end.
    engine.remove_global("namespace");
    filters::add_to(&mut engine);
    steps::add_to(&mut engine);
    engine
});

/// Prints a value as JavaScript's `String(value)` does, with two exceptions.
///
/// Objects are printed as JSON, and `null` and `undefined` as an empty text. Fails if the total size of all results
/// exceeds a limit.
fn print(
    out: &mut Output<'_>,
    state: &mut State<'_, '_>,
    value: &Jinja,
) -> Result<(), minijinja::Error> {
    let text = text(value);
    rendering::count_printed(state, &text)?;
    out.write_str(&text).map_err(minijinja::Error::from)
}

/// A copy of [`ENGINE`] that prints lists and `null` as JSON.
///
/// [`ENGINE`] already prints objects as JSON. So this engine prints every defined value that is not a text as JSON.
pub(crate) static JSON_ENGINE: LazyLock<Environment<'static>> = LazyLock::new(|| {
    let mut engine = ENGINE.clone();
    engine.set_formatter(print_json);
    engine
});

fn print_json(
    out: &mut Output<'_>,
    state: &mut State<'_, '_>,
    value: &Jinja,
) -> Result<(), minijinja::Error> {
    let text = json_text(value);
    rendering::count_printed(state, &text)?;
    out.write_str(&text).map_err(minijinja::Error::from)
}

/// A filter function. It gets the filtered value, and then the arguments in the template. The error is a message.
pub type Filter = dyn Fn(&[Value]) -> Result<Value, String> + Send + Sync;

/// The built-in filters together with custom filters.
#[derive(Clone, Debug)]
pub struct Filters(pub(crate) Environment<'static>);

impl Filters {
    /// Adds filters by name. A filter with a built-in name replaces the built-in filter.
    pub fn new(filters: impl IntoIterator<Item = (String, Arc<Filter>)>) -> Self {
        let mut engine = ENGINE.clone();
        for (name, filter) in filters {
            let called = name.clone();
            let is_counted = filters::counts(&name);
            engine.add_filter(name, move |state: &mut State<'_, '_>, values: Rest<Jinja>| {
                let failed = |message: String| {
                    let message = format!("the filter `{called}`: {message}");
                    minijinja::Error::new(ErrorKind::InvalidOperation, message)
                };
                let values: Result<Vec<Value>, _> =
                    values.iter().map(serde_json::to_value).collect();
                let values = values.map_err(|err| failed(err.to_string()))?;
                let value = Jinja::from(Serde(filter(&values).map_err(failed)?));
                // For all other filters, a filter that the analysis adds to the template counts the results.
                if is_counted { rendering::made(state, value) } else { Ok(value) }
            });
        }
        Self(engine)
    }
}
