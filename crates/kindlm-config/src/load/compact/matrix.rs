//! Writes the tests of one `matrix` as one test.

use serde_json::{Map, Value};

/// Joins consecutive tests `name, variant 1`, `name, variant 2`, … whose variables are all combinations of lists.
pub(in crate::load) fn with_matrix(mut root: Value) -> Value {
    let Some(tests) = root.get_mut("tests").and_then(Value::as_array_mut) else { return root };
    let mut joined: Vec<Value> = Vec::new();
    let mut rest = std::mem::take(tests).into_iter().peekable();
    while let Some(first) = rest.next() {
        let mut group = vec![first];
        while let Some(next) = rest.next_if(|it| is_next(&group, it)) {
            group.push(next);
        }
        match combined(&group) {
            Some(test) => joined.push(test),
            None => joined.append(&mut group),
        }
    }
    *tests = joined;
    root
}

/// True if a test is the next variant of a group.
fn is_next(group: &[Value], test: &Value) -> bool {
    let base = group.first().and_then(|it| it["name"].as_str()?.strip_suffix(", variant 1"));
    let own = base.map(|it| format!("{it}, variant {}", group.len() + 1));
    own.is_some_and(|it| test["name"] == it)
        && group.first().is_some_and(|it| without_vars(it) == without_vars(test))
}

fn without_vars(test: &Value) -> Map<String, Value> {
    let mut rest = test.as_object().cloned().unwrap_or_default();
    rest.retain(|key, _| !matches!(key.as_str(), "name" | "vars"));
    rest
}

/// Returns one test with a `matrix` for a group of variants; `None` if they are not all combinations, in their order.
fn combined(group: &[Value]) -> Option<Value> {
    let first = group.first().filter(|_| group.len() > 1)?;
    let rows: Option<Vec<&Map<String, Value>>> =
        group.iter().map(|it| it.get("vars")?.as_object()).collect();
    let rows = rows?;
    let names: Vec<&String> = rows.first()?.keys().collect();
    if !rows.iter().all(|it| it.keys().eq(names.iter().copied())) {
        return None;
    }
    let mut lists: Vec<(&String, Vec<Value>)> = Vec::new();
    for name in names {
        let mut values: Vec<Value> = Vec::new();
        for value in rows.iter().filter_map(|it| it.get(name)) {
            if !values.contains(value) {
                values.push(value.clone());
            }
        }
        lists.push((name, values));
    }
    let count: usize = lists.iter().map(|(_, it)| it.len()).product();
    if count != rows.len() {
        return None;
    }
    let mut period = count;
    for (name, values) in &lists {
        period /= values.len();
        for (index, row) in rows.iter().enumerate() {
            if row.get(*name) != values.get(index / period % values.len()) {
                return None;
            }
        }
    }
    // To keep the order of the variables, move only leading variables with a single value to `vars`.
    let fixed = lists.iter().take_while(|(_, it)| it.len() == 1).count();
    let vars = lists
        .iter()
        .take(fixed)
        .filter_map(|(name, it)| Some(((*name).clone(), it.first()?.clone())));
    let vars: Map<String, Value> = vars.collect();
    let matrix = lists.iter().skip(fixed).map(|(name, it)| ((*name).clone(), it.clone().into()));
    let matrix: Map<String, Value> = matrix.collect();
    let mut test = Map::new();
    for (key, value) in first.as_object()? {
        match key.as_str() {
            "name" => {
                let base = value.as_str()?.strip_suffix(", variant 1")?;
                test.insert(key.clone(), base.into());
            }
            "vars" => {
                if !vars.is_empty() {
                    test.insert(key.clone(), vars.clone().into());
                }
                test.insert("matrix".to_owned(), matrix.clone().into());
            }
            _ => _ = test.insert(key.clone(), value.clone()),
        }
    }
    Some(test.into())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn all_combinations_become_a_matrix() {
        let test = |number: usize, vars: Value| json!({"name": format!("t, variant {number}"), "vars": vars, "prompt": "p"});
        let product = |last: u32| {
            json!({"tests": [
                test(1, json!({"a": 0, "b": 1, "c": 5})), test(2, json!({"a": 0, "b": 1, "c": 6})),
                test(3, json!({"a": 0, "b": 2, "c": 5})), test(4, json!({"a": 0, "b": 2, "c": last})),
            ]})
        };
        let joined = with_matrix(product(6));
        let expected = json!([{"name": "t", "vars": {"a": 0}, "matrix": {"b": [1, 2], "c": [5, 6]}, "prompt": "p"}]);
        assert_eq!(joined["tests"], expected);
        assert_eq!(with_matrix(product(7)), product(7));
        let zipped =
            json!({"tests": [test(1, json!({"a": 1, "b": 1})), test(2, json!({"a": 2, "b": 2}))]});
        assert_eq!(with_matrix(zipped.clone()), zipped);
    }
}
