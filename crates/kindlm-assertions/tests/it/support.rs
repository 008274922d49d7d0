//! Files in memory, and evidence made from the blocks of a page.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use kindlm_assertions::{Check, Evidence, Registration, Setup, compile_with};
use kindlm_testing::examples::{self, Case, Recorded};
use kindlm_types::script::ScriptSource;
use kindlm_types::{Answers, AssertionResult, FileError, Files, Question};

/// Files by path.
#[derive(Clone, Debug, Default)]
pub(crate) struct Memory(pub(crate) BTreeMap<String, String>);

impl Files for Memory {
    fn read(&self, path: &str) -> Result<Arc<str>, FileError> {
        match self.0.get(path) {
            Some(text) => Ok(Arc::from(text.as_str())),
            None => Err(FileError::NotFound { path: path.to_owned(), folder: "memory".to_owned() }),
        }
    }

    fn glob(&self, _pattern: &str) -> Result<Vec<String>, FileError> {
        Ok(self.0.keys().cloned().collect())
    }
}

/// The page of an entry of the registry.
pub(crate) fn page(registration: &Registration) -> PathBuf {
    let folder = registration.meta.id.to_lowercase().replace(['-', ':'], "_");
    Path::new(env!("CARGO_MANIFEST_DIR")).join("src").join(folder).join("docs.md")
}

/// Runs the example of a page.
///
/// `file <path>` blocks are files that the `expect` block may name.
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
    let files = case
        .inputs
        .iter()
        .filter_map(|it| Some((it.info.strip_prefix("file ")?.trim().to_owned(), it.text.clone())));
    let files = Memory(files.collect());
    let expect = case.input("expect").ok_or("the example has no `yaml expect` block")?;
    let expect = examples::yaml(expect)?;
    let recorded = Recorded::parse(case.input("execution").unwrap_or_default())?;
    let setup = Setup::new(&files, None).with_yaml(yaml);
    let (checks, problems) = compile_with(&expect, &setup, &recorded.execution.vars);
    let results = judge(&checks, &recorded, case)?;
    let mut text = examples::show_problems(&problems);
    let _ = write!(text, "{}", examples::show_results(&results));
    Ok((text, results))
}

/// What is asked, without the instructions.
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

/// Asks in rounds, as the engine does, and evaluates.
fn judge(
    checks: &[Check],
    recorded: &Recorded,
    case: &Case,
) -> Result<Vec<AssertionResult>, String> {
    let baseline = recorded.baseline.as_deref();
    let mut answers = Answers::default();
    let mut blocks = case.inputs_of(&["answer", "no-answer"]);
    loop {
        let evidence = Evidence { execution: &recorded.execution, answers: &answers, baseline };
        let mut questions: Vec<_> = checks.iter().flat_map(|it| it.questions(&evidence)).collect();
        questions.retain(|it| answers.get(it).is_none());
        if questions.is_empty() {
            break;
        }
        for question in questions {
            if answers.get(&question).is_none() {
                let block = blocks.next().ok_or_else(|| {
                    format!(
                        "nobody answers a question: add a `json answer` block for\n{}",
                        ask(&question)
                    )
                })?;
                answers.insert(&question, examples::answer(&question, block)?);
            }
        }
    }
    if let Some(block) = blocks.next() {
        return Err(format!("nobody asks for the answer on line {}", block.line));
    }
    let evidence = Evidence { execution: &recorded.execution, answers: &answers, baseline };
    Ok(checks.iter().flat_map(|it| it.evaluate(&evidence)).collect())
}

/// Reads YAML, as whoever reads configs lets checks do.
pub(crate) fn yaml(text: &str) -> Result<serde_json::Value, String> {
    serde_yaml::from_str(text).map_err(|err| err.to_string())
}
