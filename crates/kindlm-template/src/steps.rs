//! Filters that check values during rendering. They find missing values and limit the size of results.
//!
//! Templates cannot use these filters, because the names are not valid in a template. [`crate::walk`] inserts the
//! filters.

use std::sync::{Arc, LazyLock};

use kindlm_types::nearest;
use minijinja::value::{Object, ObjectRepr, ValueKind};
use minijinja::{Environment, Error, Expression, State, Value as Jinja, context};

use crate::bounded::BUILT_IN;
use crate::filters::length;
use crate::rendering::{ITEM, MOST, Missing, made, refused, render_state, size};
use crate::text::{not_too_long, text};

/// The filter for the value of a variable.
pub(crate) const VARIABLE: &str = "=variable";
/// The filter for a value whose key is read.
///
/// The arguments are the key and two source texts: of the whole expression (`user.name`) and of the value (`user`).
pub(crate) const PART: &str = "=part";
/// The filter for a value that is used in an operation.
pub(crate) const USED: &str = "=used";
/// The filter for a value whose items a loop, `select` or `reject` visits.
pub(crate) const GONE_THROUGH: &str = "=gone_through";
/// The filter for a value that a loop iterates over with two variables. An object yields its keys and values.
pub(crate) const GONE_THROUGH_IN_PAIRS: &str = "=gone_through_in_pairs";
/// The filter for the value that `set` gives to a shared variable.
///
/// A shared variable is set both in a loop and outside of the loop.
pub(crate) const SET: &str = "=set";
/// The filter for the value of a shared variable.
pub(crate) const WAS_SET: &str = "=was_set";
/// The filter for a value that another filter reads as text.
pub(crate) const READ: &str = "=read";
/// The filter for a list that is joined to one text.
pub(crate) const PUT_TOGETHER: &str = "=put_together";
/// The filter for a value that is printed.
pub(crate) const PRINTED: &str = "=printed";
/// The filter for a value whose existence the template checks.
pub(crate) const ASKED: &str = "=asked";
/// The filter for the result of another filter, or for a list or object in the template.
pub(crate) const MADE: &str = "=made";
/// The filter for the result of a function or method.
pub(crate) const CALLED: &str = "=called";
/// The filter that computes `+` from a value and its argument. The next two filters compute `*` and `~`.
pub(crate) const ADDED: &str = "=added";
pub(crate) const REPEATED: &str = "=repeated";
pub(crate) const JOINED: &str = "=joined";

/// A placeholder for a missing value. The value is reported when the template uses the placeholder.
#[derive(Debug)]
struct Gap(Missing);

impl Object for Gap {
    fn repr(self: &Arc<Self>) -> ObjectRepr {
        ObjectRepr::Plain
    }

    fn is_true(self: &Arc<Self>) -> bool {
        false
    }

    fn render(self: &Arc<Self>, _: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        Ok(())
    }
}

fn gap(name: &str, near: Option<String>) -> Jinja {
    Jinja::from_object(Gap(Missing { name: name.to_owned(), near, is_null: false }))
}

pub(crate) fn add_to(engine: &mut Environment<'static>) {
    engine.add_filter(
        VARIABLE,
        |value: Jinja, name: &str| {
            if value.is_undefined() { gap(name, None) } else { value }
        },
    );
    engine.add_filter(PART, part);
    engine.add_filter(USED, |state: &mut State<'_, '_>, value: Jinja, name: &str| {
        used(state, value, name, true)
    });
    engine.add_filter(GONE_THROUGH, |state: &mut State<'_, '_>, value: Jinja, name: &str| {
        used(state, value, name, false)
    });
    engine.add_filter(
        GONE_THROUGH_IN_PAIRS,
        |state: &mut State<'_, '_>, value: Jinja, name: &str| {
            let value = used(state, value, name, false)?;
            if value.kind() != ValueKind::Map {
                return Ok(value);
            }
            let pair = |key: Jinja| Ok(Jinja::from(vec![key.clone(), value.get_item(&key)?]));
            value.try_iter()?.map(pair).collect::<Result<Vec<_>, Error>>().map(Jinja::from)
        },
    );
    engine.add_filter(SET, |state: &mut State<'_, '_>, value: Jinja, name: &str| {
        render_state(state).set.insert(name.to_owned(), value.clone());
        value
    });
    engine.add_filter(WAS_SET, |state: &mut State<'_, '_>, value: Jinja, name: &str| {
        render_state(state).set.get(name).cloned().unwrap_or(value)
    });
    engine.add_filter(PRINTED, |state: &mut State<'_, '_>, value: Jinja, name: &str| {
        note_null(state, &value, name);
        used(state, value, name, true)
    });
    engine.add_filter(READ, |state: &mut State<'_, '_>, value: Jinja, name: &str| {
        note_null(state, &value, name);
        used(state, or_empty(value), name, true)
    });
    engine.add_filter(PUT_TOGETHER, |state: &mut State<'_, '_>, value: Jinja, name: &str| {
        let value = used(state, value, name, true)?;
        Ok::<_, Error>(match value.kind() {
            ValueKind::Seq | ValueKind::Iterable => {
                value.try_iter()?.map(or_empty).collect::<Vec<_>>().into()
            }
            _ => value,
        })
    });
    engine.add_filter(ASKED, |value: Jinja, _: &str| match value.downcast_object_ref::<Gap>() {
        Some(_) => Jinja::UNDEFINED,
        None => value,
    });
    engine.add_filter(MADE, |state: &mut State<'_, '_>, value: Jinja, name: &str| {
        let value = made(state, value)?;
        Ok::<_, Error>(if value.is_undefined() { gap(name, None) } else { value })
    });
    engine.add_filter(CALLED, |state: &mut State<'_, '_>, value: Jinja| made(state, value));
    engine.add_filter(ADDED, |state: &mut State<'_, '_>, left: Jinja, right: Jinja| {
        made_list(state, ADD.eval(context! { left, right })?)
    });
    engine.add_filter(REPEATED, |state: &mut State<'_, '_>, left: Jinja, right: Jinja| {
        let times = |it: &Jinja| usize::try_from(it.clone()).unwrap_or(0);
        for (what, times) in [(&left, times(&right)), (&right, times(&left))] {
            let length = match what.kind() {
                ValueKind::String => what.as_str().map_or(0, str::len),
                ValueKind::Seq | ValueKind::Iterable => what.len().unwrap_or(0),
                _ => 0,
            };
            not_too_long(length.saturating_mul(times))?;
        }
        made_list(state, MULTIPLY.eval(context! { left, right })?)
    });
    engine.add_filter(JOINED, |state: &mut State<'_, '_>, left: Jinja, right: Jinja| {
        made(state, Jinja::from(text(&left) + &text(&right)))
    });
}

/// The `+` and `*` of the engine, for the filters [`ADDED`] and [`REPEATED`].
static ADD: LazyLock<Operator> = LazyLock::new(|| Operator::new("left + right"));
static MULTIPLY: LazyLock<Operator> = LazyLock::new(|| Operator::new("left * right"));

struct Operator(Option<Expression<'static, 'static>>);

impl Operator {
    fn new(expression: &'static str) -> Self {
        Self(BUILT_IN.compile_expression(expression).ok())
    }

    fn eval(&self, operands: Jinja) -> Result<Jinja, Error> {
        self.0.as_ref().ok_or_else(|| refused("the operator is not there"))?.eval(operands)
    }
}

fn note_null(state: &mut State<'_, '_>, value: &Jinja, name: &str) {
    if value.is_none() {
        let missing = Missing { name: name.to_owned(), near: None, is_null: true };
        render_state(state).note(&missing);
    }
}

/// Replaces `null` by an empty text. Templates print `null` in the same way.
fn or_empty(value: Jinja) -> Jinja {
    if value.is_none() { "".into() } else { value }
}

/// Returns the value of a key, or the `length` of a text or list.
///
/// Returns a placeholder ([`Gap`]) for a missing key, and undefined if the value or the key is undefined. Fails if the
/// engine cannot read the keys of the value.
fn part(value: Jinja, key: &Jinja, name: &str, whole: &str) -> Result<Jinja, Error> {
    // Only the first missing part is reported.
    if value.downcast_object_ref::<Gap>().is_some() {
        return Ok(value);
    }
    // The value or the key is undefined, for example because an earlier step has reported it as missing.
    if value.is_undefined() || key.is_undefined() {
        return Ok(Jinja::UNDEFINED);
    }
    let found = value.get_item(key)?;
    if !found.is_undefined() {
        return Ok(found);
    }
    let word = key.as_str();
    if word == Some("length") {
        let length = length(&value);
        if !length.is_undefined() {
            return Ok(length);
        }
    }
    let keys: Vec<String> = match value.kind() {
        ValueKind::Map => {
            value.try_iter()?.filter_map(|it| it.as_str().map(str::to_owned)).collect()
        }
        _ => Vec::new(),
    };
    let near = word.and_then(|it| nearest(it, keys.iter().map(String::as_str)));
    Ok(gap(name, near.map(|it| format!("{whole}.{it}"))))
}

/// Records a missing value and, with `with_items`, missing items of a list.
///
/// The size of a text, list or object, divided by [`ITEM`], counts for the total size of the results. Returns the
/// value, or undefined for a missing value. Returns an error if a size exceeds a limit.
fn used(
    state: &mut State<'_, '_>,
    value: Jinja,
    name: &str,
    with_items: bool,
) -> Result<Jinja, Error> {
    let rendering = render_state(state);
    if let Some(gap) = value.downcast_object_ref::<Gap>() {
        rendering.note(&gap.0);
        return Ok(Jinja::UNDEFINED);
    }
    match value.kind() {
        ValueKind::String => rendering.count(value.as_str().map_or(0, str::len) as u64 / ITEM)?,
        ValueKind::Seq | ValueKind::Iterable | ValueKind::Map => {
            rendering.count(size(&value, MOST, 0)? / ITEM)?;
        }
        _ => {}
    }
    if with_items
        && matches!(value.kind(), ValueKind::Seq | ValueKind::Iterable)
        && value.try_iter()?.any(|it| it.is_undefined())
    {
        rendering.note(&Missing { name: name.to_owned(), near: None, is_null: false });
    }
    Ok(value)
}

/// Counts the size of a result like [`made`], and converts a lazy list to a list.
///
/// The engine would evaluate a lazy list again in each iteration.
fn made_list(state: &mut State<'_, '_>, value: Jinja) -> Result<Jinja, Error> {
    let value = made(state, value)?;
    match value.kind() {
        ValueKind::Iterable => Ok(value.try_iter()?.collect::<Vec<_>>().into()),
        _ => Ok(value),
    }
}
