//! `conversation-relevance`: each answer of a conversation fits the messages before it.

use kindlm_types::{AssertionResult, Class, Execution, Question, Severity, ecma, schema_of};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::core::codes::ASSERTION_FAILED;
use crate::core::config::parse_config;
use crate::core::judging::{
    BuiltInQuestion, Choice, Flaw, Frame, Graded, GradingPrompt, Inquiry, Instructions,
    JUDGE_EVAL_ERROR, JUDGE_PARSE_ERROR, Kind, NotAsked, Respondent, RubricPrompt, Slot, asked,
    choice_schema, data_rule, fenced, grade_score, read_choice,
};
use crate::{
    Assertion, Build, Built, Code, EntryOptions, Evidence, LooksAt, Meta, Registration, Setup,
    Traits,
};

const ID: &str = "conversation-relevance";

pub(crate) static REGISTRATION: Registration = Registration {
    meta: Meta {
        id: ID,
        path: None,
        summary: "Every answer of a conversation fits the messages before it.",
        since: "0.1.0",
        class: Class::Probabilistic,
        severity: Severity::Gate,
        codes: &[
            Code { code: ASSERTION_FAILED, summary: "Too few answers of the conversation fit." },
            JUDGE_PARSE_ERROR,
            JUDGE_EVAL_ERROR,
        ],
        docs: include_str!("docs.md"),
    },
    schema: schema_of::<Config>,
    build: Build::Graded(build),
};

/// The number of turns that the judge sees at a time, and the prompt.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
#[schemars(rename = "ConversationRelevanceConfig")]
struct Config {
    /// The number of turns that the judge sees at a time; 5 by default. The judge grades only the last of these turns.
    #[schemars(range(min = 1, max = 100))]
    window_size: Option<usize>,
    /// Replaces the prompt: a text or the messages of a chat, with `{{ messages }}`.
    rubric_prompt: Option<RubricPrompt>,
}

const SYSTEM: &str = concat!(include_str!("prompt.md"), data_rule!());
/// The variables that the check provides to a replacement prompt.
const GIVES: [&str; 1] = ["messages"];
const MAX_TOKENS: u32 = 512;
/// The default number of turns in a window.
const WINDOW: usize = 5;
/// The default threshold of the share of answers that fit.
const THRESHOLD: f64 = 0.5;

const KINDS: &[Kind] = &[
    Kind { letter: "yes", meaning: "The last answer fits." },
    Kind { letter: "no", meaning: "The last answer does not fit." },
];

#[derive(Debug)]
struct ConversationRelevance {
    frame: Frame,
    window: usize,
}

/// A message of the user, with the answer of the model.
#[derive(Debug, PartialEq)]
struct Exchange {
    input: String,
    output: String,
}

fn build(config: &Value, own: EntryOptions, setup: &Setup<'_>) -> Built {
    let config: Config = parse_config(config)?;
    let prompt = GradingPrompt::new(SYSTEM, config.rubric_prompt, Slot::rubric(&GIVES), setup)?;
    let frame = Frame::new(ID, "Conversation relevance", "", own, prompt);
    let window = config.window_size.unwrap_or(WINDOW);
    Ok(std::sync::Arc::new(ConversationRelevance { frame, window }))
}

/// Returns the conversation: the variable `_conversation`, else the turns, else a single exchange.
fn conversation(execution: &Execution) -> Vec<Exchange> {
    let text = |it: &Value, key: &str| match it.get(key) {
        Some(value) => crate::core::grade::text(value).into_owned(),
        None => String::new(),
    };
    if let Some(Value::Array(items)) = execution.vars.get("_conversation") {
        let exchange =
            |it: &Value| Exchange { input: text(it, "input"), output: text(it, "output") };
        return items.iter().map(exchange).collect();
    }
    if execution.turns.is_empty() {
        return vec![Exchange { input: asked(execution), output: execution.output.clone() }];
    }
    let turns = execution.turns.iter();
    turns
        .map(|it| Exchange { input: it.user.clone().unwrap_or_default(), output: it.text.clone() })
        .collect()
}

impl ConversationRelevance {
    /// Returns one question for each answer of the conversation.
    ///
    /// The error is the reason why the judge is not asked.
    fn inquiries(&self, evidence: &Evidence<'_>) -> Result<Vec<Inquiry>, NotAsked> {
        let all = conversation(evidence.execution);
        let windows = (1..=all.len()).map(|end| &all[end.saturating_sub(self.window)..end]);
        windows.map(|it| self.inquiry(evidence, it)).collect()
    }

    fn inquiry(&self, evidence: &Evidence<'_>, window: &[Exchange]) -> Result<Inquiry, NotAsked> {
        let said = window.iter().flat_map(|it| [("user", &it.input), ("assistant", &it.output)]);
        let said: Vec<(&str, &String)> = said.filter(|(_, text)| !text.is_empty()).collect();
        let messages: Value =
            said.iter().map(|(role, text)| json!({"role": role, "content": text})).collect();
        let vars = [("messages", json!(ecma::stringify(&messages)))];
        self.frame.inquiry(evidence, &vars, MAX_TOKENS, || {
            let lines: Vec<String> =
                said.iter().map(|(role, text)| format!("{role}: {text}")).collect();
            let data = fenced("conversation", &lines.join("\n"));
            BuiltInQuestion::about("", data, ("verdict", choice_schema("verdict", KINDS)))
        })
    }

    fn found(&self, evidence: &Evidence<'_>) -> Result<AssertionResult, NotAsked> {
        let mut verdicts: Vec<Choice> = Vec::new();
        let mut by = Respondent::default();
        for inquiry in self.inquiries(evidence)? {
            let verdict = inquiry.verdict(evidence.answers, read_verdict);
            let (verdict, respondent) =
                verdict.map_err(|it| NotAsked::Never(Box::new(self.frame.lost(&it))))?;
            by = respondent.after(by);
            verdicts.push(verdict);
        }
        let count = |it: usize| u32::try_from(it).map_or(f64::NAN, f64::from);
        let misfits: Vec<(usize, &Choice)> =
            verdicts.iter().enumerate().filter(|(_, it)| it.index != 0).collect();
        let relevant = verdicts.len() - misfits.len();
        let score = count(relevant) / count(verdicts.len());
        let mut reason =
            format!("{relevant} out of {} conversation windows were relevant", verdicts.len());
        for (index, misfit) in &misfits {
            let why = if misfit.reason.is_empty() { "it does not fit" } else { &misfit.reason };
            reason = format!("{reason}; answer {}: {why}", index + 1);
        }
        let graded = Graded::from(grade_score(self.frame.own, THRESHOLD, score, reason))
            .with("windows", verdicts.len())
            .with("relevantWindows", relevant);
        Ok(by.note(self.frame.result(graded)))
    }
}

impl Assertion for ConversationRelevance {
    fn traits(&self) -> Traits {
        let rule = |own, score| Some(grade_score(own, THRESHOLD, score, String::new()));
        Traits {
            looks_at: LooksAt::AllAnswers,
            instructions: Some(
                Instructions::from_prompts([&self.frame.prompt])
                    .beyond("the turns of the conversation"),
            ),
            verdict_rule: Some(self.frame.verdict_rule(rule)),
            ..Traits::OF_OUTPUT
        }
    }

    fn questions(&self, evidence: &Evidence<'_>) -> Vec<Question> {
        let Ok(inquiries) = self.inquiries(evidence) else { return Vec::new() };
        inquiries.iter().flat_map(|it| it.questions(evidence.answers, read_verdict)).collect()
    }

    fn evaluate(&self, evidence: &Evidence<'_>) -> Vec<AssertionResult> {
        vec![match self.found(evidence) {
            Ok(result) => result,
            Err(NotAsked::Never(result)) => *result,
            Err(NotAsked::First(_)) => self.frame.unfinished(),
        }]
    }
}

fn read_verdict(reply: &str) -> Result<Choice, Flaw> {
    read_choice(
        reply,
        &["verdict"],
        KINDS,
        |_| Err("it holds no JSON object with `verdict`".into()),
    )
}
