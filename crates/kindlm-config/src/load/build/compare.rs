//! Groups of tests whose outputs are compared with each other.

use std::collections::HashMap;

use kindlm_engine::Comparison;
use kindlm_source::{Code, Diagnostic, Piece};
use kindlm_types::MemberPart;

use super::Builder;

/// The groups of tests whose outputs are compared.
#[derive(Debug, Default)]
pub(super) struct Groups(HashMap<Comparison, Group>);

#[derive(Debug, Default)]
struct Group {
    /// The number of outputs to compare.
    outputs: usize,
    /// The error for a group with only one output.
    lonely: Option<Diagnostic>,
}

impl Builder<'_> {
    /// Returns the comparison group of a test, and counts the outputs of the group.
    ///
    /// Returns `None` if no check of the test compares outputs. A `compare` key in such a test is reported.
    pub(super) fn compared(
        &mut self,
        piece: Piece<'_>,
        at: &str,
        name: &str,
        group: Option<String>,
        compares: bool,
        models: &[String],
    ) -> Option<Comparison> {
        if !compares {
            if group.is_some() {
                let message =
                    "`compare` does nothing in a test without `select-best` or `max-score`";
                self.base.sink.no_effect(piece, &format!("{at}/compare"), message);
            }
            return None;
        }
        let key = match group {
            Some(group) => Comparison::Named(group.into()),
            None => Comparison::Case(name.into()),
        };
        let known = self.groups.0.entry(key.clone()).or_default();
        // A test of a command or of a transcript has no models, and produces one output.
        known.outputs += models.len().max(1);
        if known.lonely.is_none() {
            let message = match &key {
                Comparison::Named(name) => format!(
                    "there is only one output to compare: `{name}` is the `compare` of this test alone"
                ),
                Comparison::Case(_) => {
                    "there is only one output to compare: the test runs on one model".to_owned()
                }
            };
            let diagnostic = piece
                .error(Code::INVALID_VALUE, &format!("{at}/expect"), MemberPart::Key, message)
                .with_help("name several `models`, or give the tests that are to be compared the same `compare`");
            known.lonely = Some(diagnostic);
        }
        Some(key)
    }

    /// Reports comparison groups with fewer than two outputs.
    pub(super) fn report_lonely(&mut self) {
        let groups = std::mem::take(&mut self.groups.0).into_values();
        for lonely in groups.filter(|it| it.outputs < 2).filter_map(|it| it.lonely) {
            self.base.sink.push(lonely);
        }
    }
}
