//! Warnings about tests that are valid but probably mistakes.

use std::collections::BTreeSet;
use std::ops::Range;

use kindlm_assertions::{Check, Evidence, first_questions};
use kindlm_engine::Model;
use kindlm_source::{Code, Diagnostic, Piece};
use kindlm_types::{
    Answers, Execution, MemberPart, Message, Question, Role, ToolKind, nearest, suggest,
};
use serde_json::{Map, Value};

use super::Builder;
use super::placed::{TextUse, Written};
use crate::load::is_zero;

/// Returns true if any check has a result or asks a question, such as a judge request, for an empty execution.
pub(super) fn check_something<'c>(checks: impl IntoIterator<Item = &'c Check>) -> bool {
    let (execution, answers) = (Execution::default(), Answers::default());
    let evidence =
        Evidence { execution: &execution, answers: &answers, baseline: None, comparison: None };
    checks
        .into_iter()
        .any(|it| !it.questions(&evidence).is_empty() || !it.evaluate(&evidence).is_empty())
}

/// Returns true if any check asks the default judge (or judge panel) of the suite.
pub(super) fn asks_judge(checks: &[Check], vars: &Map<String, Value>) -> bool {
    let said = "?".to_owned();
    let execution = Execution {
        input: vec![Message::new(Role::User, said.as_str())],
        output: said.clone(),
        vars: vars.clone(),
        ..Execution::default()
    };
    let answers = Answers::default();
    let evidence = Evidence {
        execution: &execution,
        answers: &answers,
        baseline: Some(&said),
        comparison: None,
    };
    let open = checks.iter().filter(|it| it.leaves_judge_open);
    first_questions(open, &evidence).iter().any(|(_, it)| matches!(it, Question::Judge(_)))
}

impl Builder<'_> {
    /// Records a test in which a tested model is also a judge.
    pub(super) fn note_self_judged(
        &mut self,
        piece: Piece<'_>,
        at: &str,
        name: &str,
        models: &[String],
    ) {
        let jury = self.base.setup.judging.models.iter().flatten();
        let one = self.base.suite.defaults.judge_model.as_ref().or(self.base.listed.first());
        let one = one.filter(|_| self.base.setup.judging.models.is_none());
        let model = |id: &str| self.base.suite.models.iter().find(|it| it.id == id);
        // The same model may be listed under several ids.
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
            let help = "name another model as `defaults.judge.model`; if this is intended, name it as `model` of the \
                check";
            let diagnostic = piece
                .error(Code::SELF_JUDGED, &format!("{at}/expect"), MemberPart::Key, message)
                .with_help(help);
            self.self_judged.0 = Some(diagnostic.into_warning());
        }
    }

    /// Reports all tests whose judge is one of their own models, as one warning.
    pub(super) fn report_self_judged(&mut self) {
        let Some(mut first) = self.self_judged.0.take() else { return };
        if self.self_judged.1 > 1 {
            first.message = format!("{} and {} more", first.message, self.self_judged.1 - 1);
        }
        self.base.sink.push(first);
    }

    /// Reports the threshold of a test if all its checks have the weight 0.
    ///
    /// Such a threshold has no effect. A `defaults.threshold` may be meant for other tests, so it only causes a
    /// warning.
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
            (None, None) if self.base.defaults.threshold.is_some() => {
                ("`defaults.threshold`", format!("{at}/expect"))
            }
            (None, None) => return,
        };
        let message = format!("{whose} has no effect here: every check has the weight 0");
        let diagnostic = piece
            .error(Code::NO_EFFECT, &at, MemberPart::Key, message)
            .with_help("give a check or a rule a `weight`, or remove the threshold");
        let is_own = test.get("threshold").is_some() || of_prompt.is_some();
        self.base.sink.push(if is_own { diagnostic } else { diagnostic.into_warning() });
    }

    /// Reports literal text that looks like a variable or like Jinja.
    ///
    /// The report is an error in a text for a model. It is a warning in a command, because the program may read such
    /// text, as in `docker ps --format '{{ .Names }}'`.
    pub(super) fn check_literals(
        &mut self,
        written: Written<'_>,
        vars: &Map<String, Value>,
        use_of: TextUse,
    ) {
        let text = written.template.text();
        for (range, name) in written.template.lookalikes() {
            if self.base.sink.is_full {
                return;
            }
            let is_closed = text[range.clone()].ends_with("}}");
            let is_known = vars.contains_key(name) || name.starts_with("env.");
            let meant =
                if is_known { Some(name) } else { nearest(name, vars.keys().map(String::as_str)) };
            // Braces that are not closed usually belong to another syntax. Report them only before the exact name of a
            // variable.
            if !is_closed && meant != Some(name) {
                continue;
            }
            let literal = &text[range.clone()];
            let is_plain = |it: &str| it.trim_matches([' ', '-', '~']) == name;
            let is_variable =
                !is_closed || is_plain(literal.trim_start_matches('{').trim_end_matches('}'));
            let own = meant.map(|it| format!("did you mean `{{{{{it}}}}}`?"));
            let help = match own {
                Some(own) if is_variable => own,
                _ if use_of == TextUse::Command => String::new(),
                _ => {
                    "to send it unchanged, write `{% raw %}` before it and `{% endraw %}` after it"
                        .to_owned()
                }
            };
            self.report_literal(written, range, help, use_of);
        }
    }

    fn report_literal(
        &mut self,
        written: Written<'_>,
        range: &Range<usize>,
        help: String,
        use_of: TextUse,
    ) {
        let literal = &written.template.text()[range.clone()];
        let message =
            format!("`{literal}` would be sent unchanged; a variable is written `{{{{ name }}}}`");
        let span = written.place(range);
        let diagnostic = Diagnostic::error(Code::NO_EFFECT, message, written.source, span);
        let diagnostic = if help.is_empty() { diagnostic } else { diagnostic.with_help(help) };
        let is_error = use_of != TextUse::Command;
        self.base.sink.push(if is_error { diagnostic } else { diagnostic.into_warning() });
    }

    /// Warns of limits and thresholds of 0, and of tests whose checks all have the weight 0.
    pub(super) fn check_zeros(
        &mut self,
        piece: Piece<'_>,
        at: &str,
        test: &Value,
        checks: &[Check],
    ) {
        self.base.check_zero_limits(piece, at, test, "the test");
        let mut warn = |at: String, message: String, help: &str| {
            let diagnostic = piece.error(Code::NO_EFFECT, &at, MemberPart::Key, message);
            self.base.sink.push(diagnostic.with_help(help).into_warning());
        };
        let accepts_all = |it: &&Check| {
            let written = test.pointer(&format!("/expect{}", it.at));
            let keys = ["threshold", "atLeast"].into_iter();
            let has_zero =
                written.is_some_and(|it| keys.filter_map(|key| it.get(key)).any(is_zero));
            has_zero && !it.traits.measures && !it.options.negate && it.options.skip.is_none()
        };
        for check in checks.iter().filter(accepts_all) {
            let id = check.meta.id;
            let message =
                format!("a threshold of 0 accepts every score, so the check `{id}` cannot fail");
            let key = format!("{at}/expect{}", check.at);
            warn(key, message, "write a number above 0, or remove the check");
        }
        let counts = |it: &Check| it.options.weight != 0.0 || it.options.skip.is_some();
        if !checks.is_empty() && test.get("threshold").is_none() && !checks.iter().any(counts) {
            let message = "every check has the weight 0, so the test cannot fail".to_owned();
            let help = "remove `weight` from a check that must hold";
            warn(format!("{at}/expect"), message, help);
        }
    }

    /// Warns of checks that name a tool that the test does not offer.
    ///
    /// - A required call is reported immediately if the test has tools, or if its models have no other tools. Such a
    ///   call cannot happen.
    /// - A forbidden call is reported after all tests are read, and only if no test declares the tool.
    pub(super) fn check_called(&mut self, piece: Piece<'_>, at: &str, test: &Value) {
        let offered: Vec<&str> =
            items(test, "/tools").filter_map(|it| it.get("name")?.as_str()).collect();
        self.tools.declared.extend(offered.iter().map(|it| (*it).to_owned()));
        let others = ["agent", "command", "transcript"];
        if test.get("prompt").is_none() || others.iter().any(|it| test.get(*it).is_some()) {
            return;
        }
        let is_closed = self.offers_all(test);
        if offered.is_empty() && !is_closed && self.tools.declared.is_empty() {
            return;
        }
        let turns = items(test, "/conversation").count();
        let turns = (0..turns).map(|index| format!("/conversation/{index}/expect"));
        for expect in std::iter::once("/expect".to_owned()).chain(turns) {
            for Named { at: place, tool, must_not } in named_tools(test, &expect) {
                if is_one_of(tool, offered.iter().copied()) {
                    continue;
                }
                let at = format!("{at}{place}");
                if must_not {
                    let is_known = self.tools.unwanted.iter().any(|it| it.tool == tool);
                    if !is_known && self.tools.unwanted.len() < MAX_UNWANTED {
                        let message = format!(
                            "no test declares a tool `{tool}`, so this check always passes"
                        );
                        let problem =
                            piece.error(Code::UNKNOWN_REFERENCE, &at, MemberPart::Value, message);
                        let tool = tool.to_owned();
                        self.tools.unwanted.push(Unwanted { tool, is_closed, problem });
                    }
                } else if !offered.is_empty() || is_closed {
                    let message =
                        format!("the test offers no tool `{tool}`, so no model can call it");
                    let help = match offered.as_slice() {
                        [] => format!("declare it in the test: `tools: [{{ name: {tool} }}]`"),
                        offered => suggest(tool, "its tools", offered.iter().copied()),
                    };
                    let problem =
                        piece.error(Code::UNKNOWN_REFERENCE, &at, MemberPart::Value, message);
                    self.base.sink.push(problem.with_help(help).into_warning());
                }
            }
        }
    }

    /// Returns true if the models of a test can only call the tools of the test.
    ///
    /// Models behind an API have no other tools. Providers that run a program may have their own tools.
    fn offers_all(&self, test: &Value) -> bool {
        let own: Vec<&str> = items(test, "/models").filter_map(Value::as_str).collect();
        let listed = || self.base.listed.iter().map(String::as_str).collect();
        let ids: Vec<&str> = if own.is_empty() { listed() } else { own };
        let is_of_api = |id: &str| {
            let model = self.base.suite.models.iter().find(|it| it.id == id);
            let short = id.split_once(':').map(|(provider, _)| provider);
            let provider = model.map(|it| it.provider.as_str()).or(short);
            provider.is_some_and(|name| {
                let config = self.base.suite.providers.get(name).unwrap_or(&Value::Null);
                kindlm_providers::is_model_api(self.base.around.known_providers, name, config)
            })
        };
        !ids.is_empty() && ids.into_iter().all(is_of_api)
    }

    /// Warns of checks that forbid a tool that no test declares.
    ///
    /// Such checks always pass. If no test declares any tool, tests whose models may have other tools cause no warning.
    pub(super) fn report_unwanted(&mut self) {
        let Tools { declared, unwanted } = std::mem::take(&mut self.tools);
        let names = || declared.iter().map(String::as_str);
        for Unwanted { tool, is_closed, problem } in unwanted {
            if is_one_of(&tool, names()) || (declared.is_empty() && !is_closed) {
                continue;
            }
            let help = if declared.is_empty() {
                format!("declare it where a model may call it: `tools: [{{ name: {tool} }}]`")
            } else {
                suggest(&tool, "the tools of the suite", names())
            };
            self.base.sink.push(problem.with_help(help).into_warning());
        }
    }
}

/// The tools that tests declare, and the forbidden tools that may be typos.
#[derive(Debug, Default)]
pub(super) struct Tools {
    declared: BTreeSet<String>,
    unwanted: Vec<Unwanted>,
}

/// The maximum number of forbidden tools in [`Tools::unwanted`].
const MAX_UNWANTED: usize = 100;

/// A check that forbids a tool that its test does not offer.
#[derive(Debug)]
struct Unwanted {
    tool: String,
    /// True if the model can only call the tools of the test.
    is_closed: bool,
    problem: Diagnostic,
}

/// A tool that a check names.
struct Named<'v> {
    at: String,
    tool: &'v str,
    must_not: bool,
}

/// Returns true if a name is a tool of the list, or the kind of such a tool.
///
/// An example of a kind is `shell`.
fn is_one_of<'n>(name: &str, tools: impl IntoIterator<Item = &'n str>) -> bool {
    tools.into_iter().any(|it| {
        let kind = ToolKind::of_name(it);
        it == name || (kind != ToolKind::Unknown && kind.as_str() == name)
    })
}

/// Returns the tools that `toolCalls`, `called-tool` and `tool-order` of an `expect` block name.
///
/// The pointers in the result are relative to the test.
fn named_tools<'v>(test: &'v Value, expect: &str) -> Vec<Named<'v>> {
    let mut named = Vec::new();
    for (index, call) in items(test, &format!("{expect}/toolCalls")).enumerate() {
        if let Some(tool) = call.get("tool").and_then(Value::as_str) {
            let must_not = call.get("shouldNotCall").and_then(Value::as_bool).unwrap_or(false);
            named.push(Named { at: format!("{expect}/toolCalls/{index}/tool"), tool, must_not });
        }
    }
    let mut lists = vec![format!("{expect}/assert")];
    while let Some(list) = lists.pop() {
        for (index, entry) in items(test, &list).enumerate() {
            let at = format!("{list}/{index}");
            let Some(id) = entry.get("type").and_then(Value::as_str) else { continue };
            let must_not = id.starts_with("not-");
            match id.strip_prefix("not-").unwrap_or(id) {
                "called-tool" => {
                    // With a `count`, the check may also forbid the tool (`count: { atMost: 0 }`).
                    let is_counted = entry.get("count").is_some();
                    if let Some(tool) =
                        entry.get("value").and_then(Value::as_str).filter(|_| !is_counted)
                    {
                        named.push(Named { at: format!("{at}/value"), tool, must_not });
                    }
                }
                "tool-order" if !must_not => {
                    for (index, tool) in items(entry, "/value").enumerate() {
                        if let Some(tool) = tool.as_str() {
                            let at = format!("{at}/value/{index}");
                            named.push(Named { at, tool, must_not });
                        }
                    }
                }
                "assert-set" => lists.push(format!("{at}/assert")),
                _ => {}
            }
        }
    }
    named
}

/// Returns the items of the list at a pointer. Without a list, the result is empty.
fn items<'v>(value: &'v Value, pointer: &str) -> impl Iterator<Item = &'v Value> {
    value.pointer(pointer).and_then(Value::as_array).into_iter().flatten()
}
