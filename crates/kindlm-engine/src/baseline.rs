//! The outputs of an earlier run, as a reference.

use std::collections::HashMap;

use kindlm_types::CaseResult;

/// The outputs of an earlier run, by test case and model.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Baseline(HashMap<String, HashMap<String, Entry>>);

#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Entry {
    output: Option<String>,
    turns: HashMap<String, String>,
}

impl Baseline {
    /// Extracts the outputs of a finished run.
    ///
    /// For each case and model, these are the outputs of the first repeat without an error.
    pub fn from_cases(cases: &[CaseResult]) -> Self {
        let mut baseline = Self::default();
        for case in cases {
            let Some(first) = case.executions.iter().find(|it| it.error.is_none()) else {
                continue;
            };
            let execution = &first.execution;
            baseline.insert(&case.case, &case.model, &execution.output);
            for turn in &execution.turns {
                baseline.insert_turn(&case.case, &case.model, &turn.label, &turn.text);
            }
        }
        baseline
    }

    /// Sets the output of a case on a model. An earlier output is replaced.
    pub fn insert(&mut self, case: &str, model: &str, output: impl Into<String>) {
        self.entry(case, model).output = Some(output.into());
    }

    /// Sets the text of one labelled turn. An earlier text is replaced.
    pub fn insert_turn(&mut self, case: &str, model: &str, turn: &str, text: impl Into<String>) {
        self.entry(case, model).turns.insert(turn.to_owned(), text.into());
    }

    /// Returns the output of a case on a model; `None` if the output is not recorded.
    pub fn output(&self, case: &str, model: &str) -> Option<&str> {
        self.0.get(case)?.get(model)?.output.as_deref()
    }

    /// Returns the text of one labelled turn; `None` if the text is not recorded.
    pub fn turn(&self, case: &str, model: &str, turn: &str) -> Option<&str> {
        self.0.get(case)?.get(model)?.turns.get(turn).map(String::as_str)
    }

    /// Returns true if the baseline has no entries.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    fn entry(&mut self, case: &str, model: &str) -> &mut Entry {
        self.0.entry(case.to_owned()).or_default().entry(model.to_owned()).or_default()
    }
}
