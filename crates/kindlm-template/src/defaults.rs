//! Adds defaults for missing variables to a template.

use std::ops::Range;

use crate::read::parsed;
use crate::syntax::as_jinja;
use crate::walk::{Lookup, Walk};

/// Adds a `default` filter to each use of a variable or key.
///
/// `name` is the name in the template, such as `user` or `user.name`. `default` is an expression, such as `''`.
///
/// Checks such as `x is defined`, `{% if x %}`, `x or 1` or `x | default(1)` stay unchanged. A template with invalid
/// syntax is returned unchanged.
pub fn with_default(template: &str, name: &str, default: &str) -> String {
    let read = as_jinja(template);
    let Ok(tree) = parsed(&read) else { return template.to_owned() };
    let lookups = Walk::lookups(&read, &tree);
    let is_meant = |it: &&Lookup| it.name == name;
    // If the template sets the variable for some uses only, the variable is missing in the other uses.
    let has_own = !lookups.iter().filter(is_meant).any(|it| !it.is_own);
    let meant = lookups.iter().filter(is_meant).filter(|it| it.is_own == has_own);
    let mut places: Vec<Range<usize>> = meant.map(|it| whole(template, &lookups, it)).collect();
    places.sort_by_key(|it| it.start);
    places.dedup();
    let mut written = template.to_owned();
    // Replace from the end, so that the earlier ranges stay valid.
    for place in places.into_iter().rev() {
        let Some(looked_up) = template.get(place.clone()) else { continue };
        let before = template.get(..place.start).unwrap_or_default();
        let behind = template.get(place.end..).unwrap_or_default().trim_start();
        // The expression needs no brackets if it stands directly after `{{`, and before `}}` or another filter.
        let is_alone = before.trim_end().trim_end_matches('-').ends_with("{{")
            && ["}}", "-}}", "|"].iter().any(|it| behind.starts_with(it));
        let [open, close] = if is_alone { ["", ""] } else { ["(", ")"] };
        let with = format!("{open}{looked_up} | default({default}){close}");
        written.replace_range(place, &with);
    }
    written
}

/// Returns the range of the longest chain of keys that starts with the lookup `of`.
///
/// For the lookup `a`, the chain can be `a.b.c`. All keys after a missing key are missing too.
fn whole(template: &str, lookups: &[Lookup], of: &Lookup) -> Range<usize> {
    let is_part = |it: &&Lookup| {
        let rest = it.name.strip_prefix(&of.name).unwrap_or_default();
        let is_around = it.range.start <= of.range.start && of.range.end <= it.range.end;
        is_around && rest.starts_with(['.', '['])
    };
    let largest = lookups.iter().filter(is_part).max_by_key(|it| it.range.len());
    let Range { mut start, end } = largest.unwrap_or(of).range.clone();
    let looked_up = template.get(start..end).unwrap_or_default();
    // The engine's range may start after the opening brackets, so add the brackets.
    let open = looked_up.matches(')').count().saturating_sub(looked_up.matches('(').count());
    for _ in 0..open {
        let before = template.get(..start).unwrap_or_default().trim_end();
        start = before.strip_suffix('(').map_or(start, str::len);
    }
    start..end
}

#[cfg(test)]
mod tests {
    use serde_json::{Map, json};

    use super::*;
    use crate::Variables;

    #[test]
    fn a_default_stands_where_a_name_is_looked_up() {
        for (template, name, expected) in [
            ("a x {{ x }} {{ y }}", "x", "a x {{ x | default('') }} {{ y }}"),
            (
                "{{ x | upper }}{{- x -}}{{ 'x' }}",
                "x",
                "{{ x | default('') | upper }}{{- x | default('') -}}{{ 'x' }}",
            ),
            ("{{ x.a.trim() }} {{ y.x }}", "x", "{{ (x.a | default('')).trim() }} {{ y.x }}"),
            (
                "{% for i in u.l %}é{% endfor %}",
                "u.l",
                "{% for i in (u.l | default('')) %}é{% endfor %}",
            ),
            ("{{ u }} {{ u.b }}", "u.l", "{{ u }} {{ u.b }}"),
            ("{{ title | title }}", "title", "{{ title | default('') | title }}"),
            ("{{ x[0] }} {{ x[y].z }}", "x", "{{ x[0] | default('') }} {{ x[y].z | default('') }}"),
            ("{{ f(x=x) }}", "x", "{{ f(x=(x | default(''))) }}"),
            (
                "{% for x in l %}{{ x }}{% endfor %}{{ x }}{% set x = 1 %}{{ x }}",
                "x",
                "{% for x in l %}{{ x }}{% endfor %}{{ x | default('') }}{% set x = 1 %}{{ x }}",
            ),
            ("{% set u = o %}{{ u.x }}", "u.x", "{% set u = o %}{{ u.x | default('') }}"),
            // The template itself checks that the variable exists.
            (
                "{{ x is defined }}{% if x %}{% elseif y %}{% endif %}{{ x or 1 }} {{ x | d(1) }}{{ x }}",
                "x",
                "{{ x is defined }}{% if x %}{% elseif y %}{% endif %}{{ x or 1 }} {{ x | d(1) }}{{ x | default('') }}",
            ),
            ("{{ ((x).a ).b }}", "x", "{{ ((x).a ).b | default('') }}"),
            ("{{ x", "x", "{{ x"),
        ] {
            assert_eq!(with_default(template, name, "''"), expected);
        }
    }

    #[test]
    fn with_a_default_nothing_is_missing() {
        let vars = json!({"l": [1], "o": {"a": {}}, "y": 0});
        let variables = Variables::new(vars.as_object().unwrap(), &Map::new());
        for template in [
            "{{ title | title }}{{ title[0] }}{{ (title).a.b }}{{ title[y].trim() }}",
            "{% for x in l %}{{ x }}{% endfor %}{{ x }}{% for x in x %}{{ x.a }}{% endfor %}",
            "{{ o.a.b.c }}{{ o['a'].b | upper }}{{ o.a[y] }}",
            "{% if x == 1 %}{% elseif x %}{{ x }}{% endif %}{{ x if x else z }}",
        ] {
            let mut written = template.to_owned();
            for missing in variables.missing(template).unwrap() {
                written = with_default(&written, &missing.name, "''");
            }
            assert_eq!(variables.missing(&written).unwrap(), [], "{template}: {written}");
            assert_eq!(variables.render(&written), variables.render(template), "{written}");
        }
    }
}
