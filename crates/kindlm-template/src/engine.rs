//! The engine: its settings, and what is added to what it brings.

use std::sync::{Arc, LazyLock};

use minijinja::value::{Rest, Serde};
use minijinja::{
    AutoEscape, Environment, ErrorKind, Output, State, UndefinedBehavior, Value as Jinja,
};
use serde_json::Value;

use crate::text::text;
use crate::{bounded, filters, methods, steps};

/// The steps that one template may take; a bound for loops in loops.
pub(crate) const FUEL: u64 = 3_000_000;

pub(crate) static ENGINE: LazyLock<Environment<'static>> = LazyLock::new(|| {
    let mut engine = Environment::new();
    engine.set_undefined_behavior(UndefinedBehavior::Chainable);
    engine.set_auto_escape_callback(|_| AutoEscape::None);
    engine.set_formatter(print);
    engine.set_fuel(Some(FUEL));
    engine.set_unknown_method_callback(|_, value, name, args| methods::call(value, name, args));
    bounded::add_to(&mut engine);
    // A value that can be changed can contain itself, and then printing, comparing or dropping it never ends.
    engine.remove_global("namespace");
    filters::add_to(&mut engine);
    steps::add_to(&mut engine);
    engine
});

/// Prints a value as `String(value)` of JavaScript does; an object as JSON, because `[object Object]` says nothing.
fn print(
    out: &mut Output<'_>,
    state: &mut State<'_, '_>,
    value: &Jinja,
) -> Result<(), minijinja::Error> {
    let text = text(value);
    steps::count_printed(state, &text)?;
    out.write_str(&text).map_err(minijinja::Error::from)
}

/// What a filter does: the value in front of it and its arguments, and what comes of them.
pub type Filter = dyn Fn(&[Value]) -> Result<Value, String> + Send + Sync;

/// Filters beside those that are built in.
#[derive(Clone, Debug)]
pub struct Filters(pub(crate) Environment<'static>);

impl Filters {
    /// Filters by name. One with the name of a built-in filter takes its place.
    pub fn new(filters: impl IntoIterator<Item = (String, Arc<Filter>)>) -> Self {
        let mut engine = ENGINE.clone();
        for (name, filter) in filters {
            let called = name.clone();
            engine.add_filter(name, move |values: Rest<Jinja>| {
                let failed = |message: String| {
                    let message = format!("the filter `{called}`: {message}");
                    minijinja::Error::new(ErrorKind::InvalidOperation, message)
                };
                let values: Result<Vec<Value>, _> =
                    values.iter().map(serde_json::to_value).collect();
                let values = values.map_err(|err| failed(err.to_string()))?;
                Ok(Jinja::from(Serde(filter(&values).map_err(failed)?)))
            });
        }
        Self(engine)
    }
}
