//! Files in memory, and evidence from the blocks of a reference page.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use kindlm_assertions::{
    Candidate, Check, Evidence, OutputComparison, Registration, Setup, compile_with,
};
use kindlm_testing::examples::{self, Case, Example, Recorded};
use kindlm_types::script::ScriptSource;
use kindlm_types::{
    Answers, AssertionResult, Execution, FileError, Files, Problem, Question, Score,
};

/// Files in memory, by path.
#[derive(Clone, Debug, Default)]
pub(crate) struct Memory(pub(crate) BTreeMap<String, String>);

impl Files for Memory {
    fn read_file(&self, path: &str) -> Result<Arc<str>, FileError> {
        match self.0.get(path) {
            Some(text) => Ok(Arc::from(text.as_str())),
            None => Err(FileError::NotFound { path: path.to_owned(), folder: "memory".to_owned() }),
        }
    }

    fn glob(&self, _pattern: &str) -> Result<Vec<String>, FileError> {
        Ok(self.0.keys().cloned().collect())
    }
}

/// Returns the path of an assertion's reference page.
pub(crate) fn page(group: &str, registration: &Registration) -> PathBuf {
    let folder = registration.meta.id.to_lowercase().replace(['-', ':'], "_");
    Path::new(env!("CARGO_MANIFEST_DIR")).join("src").join(group).join(folder).join("docs.md")
}

/// Runs the example of a page.
pub(crate) fn run(case: &Case) -> Result<(String, Vec<AssertionResult>), String> {
    let known = ["expect", "execution", "answer", "no-answer"];
    for block in &case.inputs {
        if !known.contains(&block.info.as_str()) && !block.info.starts_with("file ") {
            return Err(format!(
                "a block `{}` on line {} means nothing here",
                block.info, block.line
            ));
        }
    }
    let recorded = Recorded::parse(case.input("execution").unwrap_or_default())?;
    let (checks, problems) = compiled(case, &recorded)?;
    let results = judge(&checks, &recorded, case)?;
    let mut text = examples::show_problems(&problems);
    let _ = write!(text, "{}", examples::show_results(&results));
    Ok((text, results))
}

/// Compiles the checks of a page's example. Fails if the example has no `expect` block, or if the block is not YAML.
///
/// `file <path>` blocks are files that the `expect` block may name.
pub(crate) fn compiled(
    case: &Case,
    recorded: &Recorded,
) -> Result<(Vec<Check>, Vec<Problem>), String> {
    let files = case
        .inputs
        .iter()
        .filter_map(|it| Some((it.info.strip_prefix("file ")?.trim().to_owned(), it.text.clone())));
    let files = Memory(files.collect());
    let expect = case.input("expect").ok_or("the example has no `yaml expect` block")?;
    let expect = examples::yaml(expect)?;
    let setup = Setup::new(&files, None).with_yaml(yaml);
    Ok(compile_with(&expect, &setup, &recorded.execution.vars))
}

/// Returns the text of a question, without the instructions.
fn ask(question: &Question) -> &str {
    match question {
        Question::Judge(it) => &it.user,
        Question::Embedding(it) => &it.text,
        Question::Script(it) => match &it.source {
            ScriptSource::Body { code, .. } => code,
            ScriptSource::File { path, .. } | ScriptSource::Export { path, .. } => path,
        },
    }
}

/// Asks the questions in rounds, as the engine does, and evaluates the checks.
///
/// Checks that compare outputs run after all other checks.
fn judge(
    checks: &[Check],
    recorded: &Recorded,
    case: &Case,
) -> Result<Vec<AssertionResult>, String> {
    let mut blocks = case.inputs_of(&["answer", "no-answer"]);
    let (comparing, alone): (Vec<&Check>, Vec<&Check>) =
        checks.iter().partition(|it| it.compares());
    let mut results = rounds(&alone, recorded, None, &mut blocks)?;
    let scored = |(id, score): (&String, &f64)| {
        AssertionResult::pass(id, id).with_score(Score::new(*score).unwrap())
    };
    let of_others: Vec<Vec<AssertionResult>> =
        recorded.others.iter().map(|it| it.scores.iter().map(scored).collect()).collect();
    let own = Candidate::new("this", Cow::Borrowed(&recorded.execution), &results, true);
    let others = recorded.others.iter().zip(&of_others).map(|(it, results)| {
        let execution = Execution {
            output: it.output.clone().unwrap_or_default(),
            ..recorded.execution.clone()
        };
        Candidate::new(it.name.as_str(), Cow::Owned(execution), results, it.output.is_some())
    });
    let candidates: Vec<Candidate<'_>> = std::iter::once(own).chain(others).collect();
    let comparison = OutputComparison::new(&candidates, 0);
    let comparison = Some(comparison).filter(|_| !recorded.others.is_empty());
    let compared = rounds(&comparing, recorded, comparison, &mut blocks)?;
    results.extend(compared);
    if let Some(block) = blocks.next() {
        return Err(format!("no question asks for the answer on line {}", block.line));
    }
    Ok(results)
}

fn rounds<'b>(
    checks: &[&Check],
    recorded: &Recorded,
    comparison: Option<OutputComparison<'_>>,
    blocks: &mut impl Iterator<Item = &'b Example>,
) -> Result<Vec<AssertionResult>, String> {
    let baseline = recorded.baseline.as_deref();
    let execution = &recorded.execution;
    let mut answers = Answers::default();
    loop {
        let evidence = Evidence { execution, answers: &answers, baseline, comparison };
        let mut questions: Vec<_> = checks.iter().flat_map(|it| it.questions(&evidence)).collect();
        questions.retain(|it| answers.get(it).is_none());
        if questions.is_empty() {
            break;
        }
        for question in questions {
            if answers.get(&question).is_none() {
                let block = blocks.next().ok_or_else(|| {
                    format!(
                        "a question has no answer: add a `json answer` block for\n{}",
                        ask(&question)
                    )
                })?;
                answers.insert(&question, examples::answer(&question, block)?);
            }
        }
    }
    let evidence = Evidence { execution, answers: &answers, baseline, comparison };
    Ok(checks.iter().flat_map(|it| it.evaluate(&evidence)).collect())
}

/// Parses YAML, like the parser that a config reader provides to checks.
pub(crate) fn yaml(text: &str) -> Result<serde_json::Value, String> {
    serde_yaml::from_str(text).map_err(|err| err.to_string())
}
