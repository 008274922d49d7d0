//! What is allowed and probably not meant: warnings about tests that would run all the same.

use kindlm_assertions::{Check, Evidence, first_questions};
use kindlm_engine::Model;
use kindlm_types::{Answers, Execution, Message, Place, Question, Role, nearest, suggest};
use serde_json::{Map, Value};

use super::Loader;
use super::vars::Written;
use crate::diagnostic::{Code, Diagnostic, Piece};

/// Whether checks find something in an execution, whatever it is: a result, or a question to ask.
pub(super) fn check_something<'c>(checks: impl IntoIterator<Item = &'c Check>) -> bool {
    let (execution, answers) = (Execution::default(), Answers::default());
    let evidence =
        Evidence { execution: &execution, answers: &answers, baseline: None, contest: None };
    checks
        .into_iter()
        .any(|it| !it.questions(&evidence).is_empty() || !it.evaluate(&evidence).is_empty())
}

/// Whether checks ask the suite's judge, or its jury, about an execution.
pub(super) fn asks_judge(checks: &[Check], vars: &Map<String, Value>) -> bool {
    let said = "?".to_owned();
    let execution = Execution {
        input: vec![Message::new(Role::User, said.as_str())],
        output: said.clone(),
        vars: vars.clone(),
        ..Execution::default()
    };
    let answers = Answers::default();
    let evidence =
        Evidence { execution: &execution, answers: &answers, baseline: Some(&said), contest: None };
    let open = checks.iter().filter(|it| it.leaves_judge_open);
    first_questions(open, &evidence).iter().any(|(_, it)| matches!(it, Question::Judge(_)))
}

impl Loader<'_> {
    /// Notes a test whose answers are judged by one of the models that give them.
    pub(super) fn note_self_judged(
        &mut self,
        piece: Piece<'_>,
        at: &str,
        name: &str,
        models: &[String],
    ) {
        let jury = self.setup.judging.models.iter().flatten();
        let one = self.suite.defaults.judge_model.as_ref().or(self.listed.first());
        let one = one.filter(|_| self.setup.judging.models.is_none());
        let model = |id: &str| self.suite.models.iter().find(|it| it.id == id);
        // One model may have several ids.
        let is_same = |a: &str, b: &str| {
            let same = |a: &Model, b: &Model| (&a.provider, &a.name) == (&b.provider, &b.name);
            a == b || model(a).zip(model(b)).is_some_and(|(a, b)| same(a, b))
        };
        let found =
            jury.chain(one).find_map(|it| Some((it, models.iter().find(|id| is_same(it, id))?)));
        let Some((judge, tested)) = found else { return };
        self.self_judged.1 += 1;
        if self.self_judged.0.is_none() {
            let mut message = format!("`{judge}` judges its own answers in the test `{name}`");
            if judge != tested {
                message = format!("{message}: it is the same model as `{tested}`");
            }
            let help = "name another model as `defaults.judge.model`, or this one as `model` of the check if it is meant";
            let diagnostic = piece
                .error(Code::SELF_JUDGED, &format!("{at}/expect"), Place::Key, message)
                .with_help(help);
            self.self_judged.0 = Some(diagnostic.into_warning());
        }
    }

    /// Reports the tests whose answers are judged by the models that give them as one warning.
    pub(super) fn report_self_judged(&mut self) {
        let Some(mut first) = self.self_judged.0.take() else { return };
        if self.self_judged.1 > 1 {
            first.message = format!("{} and {} more", first.message, self.self_judged.1 - 1);
        }
        self.push(first);
    }

    /// Reports a threshold for a mean in which nothing has a weight: it would decide nothing. Only that of the suite may
    /// be meant for other tests.
    pub(super) fn check_threshold<'c>(
        &mut self,
        piece: Piece<'_>,
        at: &str,
        test: &Value,
        of_prompt: Option<f64>,
        checks: impl Iterator<Item = &'c Check>,
    ) {
        let mut checks = checks.peekable();
        if checks.peek().is_none() || checks.any(Check::weighs) {
            return;
        }
        let (whose, at) = match (test.get("threshold"), of_prompt) {
            (Some(_), _) => ("`threshold`", format!("{at}/threshold")),
            (None, Some(_)) => ("the `threshold` of the prompt", format!("{at}/prompt")),
            (None, None) if self.defaults.threshold.is_some() => {
                ("`defaults.threshold`", format!("{at}/expect"))
            }
            (None, None) => return,
        };
        let message = format!("{whose} decides nothing here: every check has the weight 0");
        let diagnostic = piece
            .error(Code::NO_EFFECT, &at, Place::Key, message)
            .with_help("give a check or a rule a `weight`, or leave the threshold out");
        let is_own = test.get("threshold").is_some() || of_prompt.is_some();
        self.push(if is_own { diagnostic } else { diagnostic.into_warning() });
    }

    /// Warns of what looks like a variable and is not one.
    pub(super) fn check_literals(&mut self, written: Written<'_>, vars: &Map<String, Value>) {
        for (range, name) in written.template.lookalikes() {
            let is_closed = written.template.text()[range.clone()].ends_with("}}");
            let is_known = vars.contains_key(name) || name.starts_with("env.");
            let meant =
                if is_known { Some(name) } else { nearest(name, vars.keys().map(String::as_str)) };
            // Two opening braces alone are seldom meant for us.
            if !is_closed && meant != Some(name) {
                continue;
            }
            let text = &written.template.text()[range.clone()];
            let message =
                format!("`{text}` is sent as it is; variables are written `{{{{name}}}}`");
            let span = written.place(range);
            let mut diagnostic =
                Diagnostic::error(Code::NO_EFFECT, message, written.source, span).into_warning();
            if let Some(meant) = meant {
                diagnostic = diagnostic.with_help(format!("did you mean `{{{{{meant}}}}}`?"));
            }
            self.push(diagnostic);
        }
    }

    /// Warns of expected calls of tools that the model cannot call, as the test does not offer them.
    pub(super) fn check_called(&mut self, piece: Piece<'_>, at: &str, test: &Value) {
        let offered: Vec<&str> =
            items(test, "/tools").filter_map(|it| it.get("name")?.as_str()).collect();
        if offered.is_empty() || test.get("prompt").is_none() {
            return;
        }
        let turns = items(test, "/conversation").count();
        let turns = (0..turns).map(|index| format!("/conversation/{index}/expect/toolCalls"));
        for list in std::iter::once("/expect/toolCalls".to_owned()).chain(turns) {
            for (index, call) in items(test, &list).enumerate() {
                let Some(tool) = call.get("tool").and_then(Value::as_str) else { continue };
                let must_not = call.get("shouldNotCall").and_then(Value::as_bool).unwrap_or(false);
                if must_not || offered.contains(&tool) {
                    continue;
                }
                let message = format!("the test offers no tool `{tool}`, so no model can call it");
                let diagnostic = piece
                    .error(
                        Code::UNKNOWN_REFERENCE,
                        &format!("{at}{list}/{index}/tool"),
                        Place::Value,
                        message,
                    )
                    .with_help(suggest(tool, "its tools", offered.iter().copied()))
                    .into_warning();
                self.push(diagnostic);
            }
        }
    }
}

/// The items of the list at a pointer; none if there is no list.
fn items<'v>(value: &'v Value, pointer: &str) -> impl Iterator<Item = &'v Value> {
    value.pointer(pointer).and_then(Value::as_array).into_iter().flatten()
}
