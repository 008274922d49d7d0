//! Rules from several lists whose ids must be unique.

use std::collections::HashSet;

use kindlm_source::{Code, Piece};
use kindlm_types::{MemberPart, PROMPT_ASSERTION};
use serde_json::{Map, Value};

use super::Builder;
use crate::load::resolve::Rules;
use crate::load::text;

impl Builder<'_> {
    /// Checks that the ids of the rules of a test, of its prompt and of its assertion sets are unique together.
    ///
    /// Also records which variables the conditions of the rules need.
    pub(super) fn check_rules(
        &mut self,
        piece: Piece<'_>,
        at: &str,
        expect: &Value,
        rules: &Rules,
        vars: &Map<String, Value>,
    ) {
        let shared = rules.list();
        self.base.meet(shared, vars);
        let mut own = Vec::new();
        lists(expect, at, &mut own);
        if own.is_empty() {
            return;
        }
        let shared: HashSet<&str> = shared.iter().filter_map(|it| text(it, "id")).collect();
        let mut before: HashSet<&str> = HashSet::new();
        for (at, list) in own {
            self.base.note_conditions(piece, &at, list);
            self.base.meet(list, vars);
            for (index, id) in list.iter().enumerate() {
                let Some(id) = text(id, "id") else { continue };
                let message = if shared.contains(id) {
                    format!("a rule of the prompt or of a set has the id `{id}` too")
                } else if before.contains(id) {
                    format!("duplicate id `{id}` in this `expect`")
                } else {
                    continue;
                };
                let at = format!("{at}/{index}/id");
                let diagnostic = piece.error(Code::DUPLICATE, &at, MemberPart::Value, message);
                self.base.sink.push(
                    diagnostic
                        .with_help("give one of the two another id: results are identified by it"),
                );
            }
            // A duplicate id within one list is reported when that list is compiled.
            before.extend(list.iter().filter_map(|it| text(it, "id")));
        }
    }
}

/// Collects the lists of rules in an `expect` block, with their pointers.
fn lists<'v>(block: &'v Value, at: &str, found: &mut Vec<(String, &'v [Value])>) {
    let entries = block.get("assert").and_then(Value::as_array).into_iter().flatten();
    for (index, entry) in entries.enumerate() {
        let at = format!("{at}/assert/{index}");
        let id = text(entry, "type").unwrap_or_default();
        if id.strip_prefix("not-").unwrap_or(id) == PROMPT_ASSERTION {
            let rules = entry.get("assertions").and_then(Value::as_array);
            found.extend(rules.map(|it| (format!("{at}/assertions"), it.as_slice())));
        } else {
            lists(entry, &at, found);
        }
    }
}
