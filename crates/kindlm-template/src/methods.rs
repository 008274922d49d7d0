//! JavaScript methods of texts, lists and numbers for templates.

use kindlm_types::ecma;
use minijinja::value::ValueKind;
use minijinja::{Error, ErrorKind, Value as Jinja};

use crate::text::{not_too_long, refused, replaced, text};

/// The names of all methods.
pub(crate) const METHODS: [&str; 22] = [
    "at",
    "charAt",
    "concat",
    "endsWith",
    "includes",
    "indexOf",
    "join",
    "padEnd",
    "padStart",
    "repeat",
    "replace",
    "replaceAll",
    "slice",
    "split",
    "startsWith",
    "substring",
    "toFixed",
    "toLowerCase",
    "toString",
    "toUpperCase",
    "trim",
    "trimEnd",
];

/// Calls a JavaScript method of a value. Returns an error for an unknown method, invalid arguments, or a result that
/// would be too long.
pub(crate) fn call(value: &Jinja, name: &str, args: &[Jinja]) -> Result<Jinja, Error> {
    let found = match value.kind() {
        ValueKind::String => of_text(value.as_str().unwrap_or_default(), name, args)?,
        ValueKind::Seq | ValueKind::Iterable => of_list(value, name, args)?,
        ValueKind::Number => of_number(value, name, args)?,
        ValueKind::Bool if name == "toString" => Some(text(value).into()),
        // A method of a missing value returns a missing value, which renders as an empty text.
        ValueKind::Undefined | ValueKind::None => Some(Jinja::UNDEFINED),
        _ => None,
    };
    found.ok_or_else(|| {
        let message = format!("a {} has no method `{name}`", value.kind());
        Error::new(ErrorKind::UnknownMethod, message)
    })
}

fn of_text(own: &str, name: &str, args: &[Jinja]) -> Result<Option<Jinja>, Error> {
    let first = || args.first().map(text).unwrap_or_default();
    let second = || args.get(1).map(text).unwrap_or_default();
    let chars = || own.chars().collect::<Vec<char>>();
    let part = |from: usize, to: usize| -> Jinja {
        own.chars().skip(from).take(to.saturating_sub(from)).collect::<String>().into()
    };
    Ok(Some(match name {
        "toUpperCase" => own.to_uppercase().into(),
        "toLowerCase" => own.to_lowercase().into(),
        "toString" => own.into(),
        "trim" => own.trim().into(),
        "trimEnd" => own.trim_end().into(),
        "includes" => behind(own, args).1.contains(&first()).into(),
        "startsWith" => behind(own, args).1.starts_with(&first()).into(),
        "endsWith" => {
            let end = args.get(1).and_then(number).map_or(usize::MAX, |it| clamp(it, usize::MAX));
            own[..own.char_indices().nth(end).map_or(own.len(), |(at, _)| at)]
                .ends_with(&first())
                .into()
        }
        "indexOf" => {
            let (skipped, rest) = behind(own, args);
            position(rest.find(&first()).map(|at| skipped + rest[..at].chars().count()))
        }
        "slice" => {
            let (from, to) = bounds(args, chars().len());
            part(from, to)
        }
        "substring" => {
            let length = chars().len();
            let bound = |index: usize, or: usize| {
                args.get(index).and_then(number).map_or(or, |it| clamp(it, length))
            };
            let (from, to) = (bound(0, 0), bound(1, length));
            part(from.min(to), from.max(to))
        }
        // For an index outside of the text, JavaScript's `at` returns undefined and `charAt` an empty text. Both are
        // rendered as an empty text.
        "at" | "charAt" => {
            let at = args.first().and_then(number).unwrap_or(0);
            let at = if name == "at" { place(at, chars().len()) } else { usize::try_from(at).ok() };
            at.map_or_else(|| "".into(), |at| part(at, at.saturating_add(1)))
        }
        "split" => {
            let most = args.get(1).and_then(number).and_then(|it| usize::try_from(it).ok());
            let most = most.unwrap_or(usize::MAX);
            match args.first() {
                None => Jinja::from(vec![own.to_owned()]),
                Some(by) if text(by).is_empty() => {
                    own.chars().map(String::from).take(most).collect::<Vec<_>>().into()
                }
                Some(by) => {
                    own.split(&text(by)).map(str::to_owned).take(most).collect::<Vec<_>>().into()
                }
            }
        }
        "replace" => own.replacen(&first(), &second(), 1).into(),
        "replaceAll" => {
            not_too_long(replaced(own, &first(), &second()))?;
            own.replace(&first(), &second()).into()
        }
        "concat" => format!("{own}{}", args.iter().map(text).collect::<String>()).into(),
        "repeat" => own.repeat(times(own, args)?).into(),
        "padStart" => (padding(own, args)? + own).into(),
        "padEnd" => format!("{own}{}", padding(own, args)?).into(),
        _ => return Ok(None),
    }))
}

/// Returns the argument of `repeat`. Returns an error if the argument is negative, or if the result would be too long.
fn times(own: &str, args: &[Jinja]) -> Result<usize, Error> {
    let times = args.first().and_then(number).unwrap_or(0);
    let times = usize::try_from(times)
        .map_err(|_| refused(format!("a text cannot be repeated {times} times")))?;
    not_too_long(own.len().saturating_mul(times))?;
    Ok(times)
}

/// Returns the characters that `padStart` and `padEnd` add to a text.
///
/// Returns an error if too many characters are needed.
fn padding(own: &str, args: &[Jinja]) -> Result<String, Error> {
    let width = args.first().and_then(number).unwrap_or(0);
    let missing = usize::try_from(width).unwrap_or(0).saturating_sub(own.chars().count());
    let filler = args.get(1).map_or_else(|| " ".to_owned(), text);
    not_too_long(missing)?;
    Ok(filler.chars().cycle().take(missing).collect())
}

fn of_list(own: &Jinja, name: &str, args: &[Jinja]) -> Result<Option<Jinja>, Error> {
    let items: Vec<Jinja> = own.try_iter()?.collect();
    let place_of = || {
        let first = args.first()?;
        let from = args.get(1).and_then(number).map_or(0, |it| bound(it, items.len()));
        // The engine treats `1` and `true` as equal, but JavaScript does not.
        let is_same = |item: &Jinja| item.kind() == first.kind() && item == first;
        Some(from + items.get(from..)?.iter().position(is_same)?)
    };
    Ok(Some(match name {
        "join" => {
            let by = args.first().map_or_else(|| ",".to_owned(), text);
            not_too_long(by.len().saturating_mul(items.len()))?;
            items.iter().map(text).collect::<Vec<_>>().join(&by).into()
        }
        "includes" => place_of().is_some().into(),
        "indexOf" => position(place_of()),
        "slice" => {
            let (from, to) = bounds(args, items.len());
            items.get(from..to.max(from)).unwrap_or_default().to_vec().into()
        }
        "at" => {
            let at = place(args.first().and_then(number).unwrap_or(0), items.len());
            at.and_then(|at| items.get(at)).cloned().unwrap_or_default()
        }
        "concat" => {
            let mut all = items;
            for more in args {
                match more.kind() {
                    ValueKind::Seq => all.extend(more.try_iter()?),
                    _ => all.push(more.clone()),
                }
            }
            all.into()
        }
        "toString" => text(own).into(),
        _ => return Ok(None),
    }))
}

fn of_number(own: &Jinja, name: &str, args: &[Jinja]) -> Result<Option<Jinja>, Error> {
    Ok(match name {
        "toFixed" => {
            let digits = args.first().and_then(number).unwrap_or(0);
            let few = u8::try_from(digits).ok().filter(|it| *it <= 100);
            let few = few
                .ok_or_else(|| refused(format!("`toFixed` gives 0 to 100 digits, not {digits}")))?;
            Some(ecma::to_fixed(f64::try_from(own.clone())?, few).into())
        }
        "toString" => Some(text(own).into()),
        _ => None,
    })
}

/// Converts an index to a value. `None` becomes `-1`.
fn position(at: Option<usize>) -> Jinja {
    at.map_or_else(|| Jinja::from(-1), Jinja::from)
}

fn number(value: &Jinja) -> Option<i64> {
    i64::try_from(value.clone()).ok()
}

/// Returns the start and end index for `slice`.
fn bounds(args: &[Jinja], length: usize) -> (usize, usize) {
    let bound = |index: usize, or: usize| {
        args.get(index).and_then(number).map_or(or, |it| bound(it, length))
    };
    (bound(0, 0), bound(1, length))
}

/// Converts an argument of `slice` to an index from 0 to `length`. A negative argument counts from the end.
fn bound(at: i64, length: usize) -> usize {
    if at < 0 { relative(at, length) } else { clamp(at, length) }
}

/// Converts an index for `at`. A negative index counts from the end.
///
/// Returns `None` for a position before the first item. The result can be beyond the last item.
fn place(at: i64, length: usize) -> Option<usize> {
    if at < 0 {
        length.checked_sub(usize::try_from(at.unsigned_abs()).ok()?)
    } else {
        usize::try_from(at).ok()
    }
}

/// Returns the start position of a search, counted in characters, and the text after this position.
///
/// The second argument of the method is the start position; the default is 0. A position after the end gives the length
/// of the text and an empty text.
fn behind<'t>(own: &'t str, args: &[Jinja]) -> (usize, &'t str) {
    let from = args.get(1).and_then(number).map_or(0, |it| clamp(it, usize::MAX));
    match own.char_indices().nth(from) {
        Some((at, _)) => (from, &own[at..]),
        None => (own.chars().count(), ""),
    }
}

fn clamp(at: i64, most: usize) -> usize {
    usize::try_from(at).unwrap_or(0).min(most)
}

/// Converts a negative position, which counts from the end, to an index. Positions before the start become 0.
fn relative(at: i64, length: usize) -> usize {
    length.saturating_sub(usize::try_from(at.unsigned_abs()).unwrap_or(usize::MAX))
}
