//! Built-in filters whose output size depends on their arguments. A limit on the size protects the memory.

use std::sync::LazyLock;

use minijinja::value::{Rest, ValueKind, ValueOrKwargs};
use minijinja::{Environment, Error, ErrorKind, State, UndefinedBehavior, Value as Jinja};

use crate::rendering::made;
use crate::text::{LONGEST, replaced, text};

/// The largest indentation that `tojson` accepts, in characters.
const WIDEST: usize = 100;

/// The engine with its original filters. The limited filters call the original filters.
pub(crate) static BUILT_IN: LazyLock<Environment<'static>> = LazyLock::new(|| {
    let mut engine = Environment::new();
    engine.set_undefined_behavior(UndefinedBehavior::Chainable);
    engine
});

/// A function that estimates the output size of a filter from its arguments.
type Length = fn(&[Jinja]) -> usize;

/// The limited filters, each with the function that estimates its output size.
const FILTERS: [(&str, Length); 7] = [
    ("batch", |args| number(args.get(1))),
    ("format", |args| args.first().and_then(Jinja::as_str).map_or(0, |it| widest(it, args))),
    ("indent", |args| {
        let lines = args.first().and_then(Jinja::as_str).map_or(0, |it| it.lines().count());
        width(args, "width").saturating_mul(lines)
    }),
    ("join", |args| {
        let between = args.get(1).and_then(Jinja::as_str).map_or(0, str::len);
        between.saturating_mul(args.first().and_then(Jinja::len).unwrap_or(0))
    }),
    ("replace", |args| {
        let text = |index: usize| args.get(index).map(text).unwrap_or_default();
        replaced(&text(0), &text(1), &text(2))
    }),
    ("slice", |args| number(args.get(1))),
    ("tojson", |args| if width(args, "indent") > WIDEST { usize::MAX } else { 0 }),
];

pub(crate) fn add_to(engine: &mut Environment<'static>) {
    for (name, length) in FILTERS {
        engine.add_filter(name, move |state: &mut State<'_, '_>, args: Rest<ValueOrKwargs>| {
            let args = args.into_values();
            if length(&args) > LONGEST {
                let message = format!("`{name}` would write more than 1,000,000 characters");
                return Err(Error::new(ErrorKind::InvalidOperation, message));
            }
            let result = BUILT_IN.empty_state().apply_filter(name, &args)?;
            // Count each result here. `map` collects the results of all items before the template counts the result of
            // `map`.
            made(state, result)
        });
    }
}

/// Returns true if the filter itself counts the size of its results.
pub(crate) fn counts(name: &str) -> bool {
    FILTERS.iter().any(|(it, _)| *it == name)
}

/// Converts a numeric argument to a size. Returns 0 for any other argument, because the filter itself refuses it.
fn number(value: Option<&Jinja>) -> usize {
    let Some(value) = value.filter(|it| it.kind() == ValueKind::Number) else { return 0 };
    match usize::try_from(value.clone()) {
        Ok(number) => number,
        // An integer that does not fit is larger than every limit.
        Err(_) if value.is_integer() && *value > Jinja::from(0) => usize::MAX,
        Err(_) => 0,
    }
}

/// Returns the larger of two numbers: the second argument, and the argument with this name. A missing argument is 0.
fn width(args: &[Jinja], name: &str) -> usize {
    let named = args.iter().filter(|it| it.is_kwargs()).find_map(|it| it.get_attr(name).ok());
    number(args.get(1)).max(number(named.as_ref()))
}

/// Returns the largest width or precision in a format such as `%5.2f`, or 0 without one.
///
/// With `*`, the width is one of the arguments. Then the largest of all arguments counts too.
fn widest(format: &str, args: &[Jinja]) -> usize {
    let mut most = 0;
    for spec in format.split('%').skip(1) {
        let end = spec.find(|it: char| it.is_alphabetic()).unwrap_or(spec.len());
        for part in spec[..end].split(|it: char| !it.is_ascii_digit()).filter(|it| !it.is_empty()) {
            most = most.max(part.parse().unwrap_or(usize::MAX));
        }
        if spec[..end].contains('*') {
            most = args.iter().skip(1).map(|it| number(Some(it))).fold(most, usize::max);
        }
    }
    most
}

#[cfg(test)]
mod tests {
    use crate::Variables;
    use serde_json::{Map, json};

    #[test]
    fn results_of_filters_count_once() {
        let vars = json!({"s": "x".repeat(900_000)});
        let variables = Variables::new(vars.as_object().unwrap(), &Map::new());
        for (filter, length) in
            [("dump", 900_002), ("tojson", 900_002), ("replace('y', 'z')", 900_000)]
        {
            let template = format!("{{% for i in range(20) %}}{{{{ s|{filter} }}}}{{% endfor %}}");
            let text = variables.render(&template).unwrap();
            assert_eq!(text.len(), 20 * length, "{filter}");
        }
    }

    #[test]
    fn too_large_results_are_refused() {
        let vars = json!({"n": 5_000_000_000_u64, "l": [1, 2, 3], "o": {"a": 1}});
        let variables = Variables::new(vars.as_object().unwrap(), &Map::new());
        for template in [
            "{{ 'a\nb' | indent(9223372036854775000) }}",
            "{{ 'a\nb' | indent(width=9223372036854775000) }}",
            "{{ 'a\nb\nc' | indent(400000) }}",
            "{{ '%9223372036854775000s' | format(1) }}",
            "{{ '%.9223372036854775000f' | format(1.5) }}",
            "{{ '%*d' | format(9223372036854775000, 1) }}",
            "{{ [1] | batch(9223372036854775000, 'x') }}",
            "{{ [1] | batch(92233720368547750000000, 'x') }}",
            "{{ l | slice(9223372036854775000) }}",
            "{{ o | tojson(indent=9223372036854775000) }}",
            "{{ o | tojson(9223372036854775000) }}",
        ] {
            let words = variables.render(template).unwrap_err();
            assert!(words.contains("more than 1,000,000 characters"), "{template}: {words}");
        }
        for template in [
            "{{ range(60) | map('center', 900000) | list }}",
            "{{ range(60) | map('truncate', 0, true, 'b' * 900000) | list }}",
            "{{ (['%900000s'] * 60) | map('format', 1) | list }}",
            "{{ (['a'] * 600) | map('replace', 'a', 'b' * 100000) | list }}",
        ] {
            let words = variables.render(template).unwrap_err();
            assert!(words.contains("50,000,000 characters in all"), "{template}: {words}");
        }
        for (template, expected) in [
            ("{{ 'a\nb' | indent(2) }}", "a\n  b"),
            ("{{ 'a\nb' | indent(width=2, first=true) }}", "  a\n  b"),
            ("{{ '%5d|%-3s|%.2f' | format(n, 'x', 1.5) }}", "5000000000|x  |1.50"),
            ("{{ '100% of %s' | replace('100%', 'all') | format('it') }}", "all of it"),
            ("{{ l | batch(2, n) }}", "1,2,3,5000000000"),
            ("{{ l | slice(2) | first }}", "1,2"),
            ("{{ n | tojson }} {{ l | tojson }}", "5000000000 [1, 2, 3]"),
            ("{{ o | tojson(indent=2) }}", "{\n  \"a\": 1\n}"),
        ] {
            assert_eq!(variables.render(template).as_deref(), Ok(expected), "{template}");
        }
    }
}
