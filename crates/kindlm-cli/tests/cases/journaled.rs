//! A suite, a server that counts requests by process and case, and the files of an interrupted run.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use kindlm_store::journal::{Journal, JournalError};
use kindlm_testing::{MockReply, MockServer};
use regex::Regex;

use crate::binary;

/// The number of requests by process and case. A process is identified by its API key.
pub(crate) type RequestCounts = BTreeMap<String, BTreeMap<u32, u32>>;

/// A server whose model repeats the prompt, and counts the requests.
pub(crate) struct Counting {
    pub(crate) server: MockServer,
    asked: Arc<Mutex<RequestCounts>>,
}

impl Counting {
    pub(crate) fn start(latency: Duration) -> Self {
        let asked: Arc<Mutex<RequestCounts>> = Arc::default();
        let of_server = Arc::clone(&asked);
        let server = MockServer::answering(move |request| {
            let key = request.header("authorization").unwrap_or_default().to_owned();
            let body = request.json();
            let said = body["messages"][0]["content"].as_str().unwrap_or_default().to_owned();
            let number = said.trim_start_matches("case ").parse().unwrap();
            *of_server.lock().unwrap().entry(key).or_default().entry(number).or_default() += 1;
            MockReply::text(format!("this is {said}, {}", "and so on, ".repeat(40))).after(latency)
        });
        Self { server: server.unwrap(), asked }
    }

    /// Returns the number of requests for each case by the process with this key.
    pub(crate) fn by(&self, key: &str) -> BTreeMap<u32, u32> {
        let asked = self.asked.lock().unwrap();
        asked.get(&format!("Bearer {key}")).cloned().unwrap_or_default()
    }

    /// Returns the number of cases that the process with this key has requested.
    pub(crate) fn count_by(&self, key: &str) -> usize {
        self.asked.lock().unwrap().get(&format!("Bearer {key}")).map_or(0, BTreeMap::len)
    }

    /// Writes a suite with this number of cases that uses this server. The cases 7, 257 and so on fail.
    pub(crate) fn suite(&self, folder: &Path, cases: usize) {
        let mut yaml = format!(
            "kindlm: 1\nproject: p\nsuite: {{ name: many }}\n\
             providers: {{ openai: {{ apiKeyEnv: KEY, baseUrl: \"{}/v1\" }} }}\n\
             models: [{{ id: m, provider: openai, model: gpt-4o }}]\n\
             prompts: {{ p: {{ user: \"case {{{{n}}}}\" }} }}\n\
             defaults: {{ concurrency: 8 }}\ngates: {{ passRateMin: 1 }}\ntests:\n",
            self.server.url()
        );
        for number in 0..cases {
            let word = if number % 250 == 7 { "other" } else { "this is case" };
            writeln!(
                yaml,
                "  - {{ name: c{number}, prompt: p, vars: {{ n: \"{number}\" }}, expect: {{ output: {{ contains: [{word}] }} }} }}"
            )
            .unwrap();
        }
        fs::write(folder.join("kindlm.yaml"), yaml).unwrap();
    }
}

pub(crate) const REPORTS: [&str; 4] =
    ["--reporter", "json=report.json", "--reporter", "junit=report.xml"];

pub(crate) fn kindlm(folder: &Path, key: &str, args: &[&str]) -> Command {
    let mut command = Command::new(binary());
    command.args(args).current_dir(folder).env("KEY", key).env("NO_COLOR", "1");
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
    command
}

pub(crate) fn ended(output: Output) -> (Option<i32>, String) {
    (output.status.code(), String::from_utf8(output.stderr).unwrap())
}

/// Returns the folder of the only run; `None` if there is no run yet.
pub(crate) fn run_folder(folder: &Path) -> Option<PathBuf> {
    let runs = fs::read_dir(folder.join(".kindlm/runs")).ok()?.map(|it| it.unwrap().path());
    // A process that is killed before it has a journal leaves an empty folder, which does not count as a run.
    let is_run =
        |it: &PathBuf| ["journal.jsonl", "report.json"].iter().any(|file| it.join(file).is_file());
    let runs: Vec<PathBuf> = runs.filter(is_run).collect();
    assert!(runs.len() <= 1, "going on keeps the run: {runs:?}");
    runs.into_iter().next()
}

/// Returns the cases in the journal, and checks that the journal has no duplicate case.
///
/// Returns `None` if there is no journal yet.
pub(crate) fn journaled(folder: &Path) -> Option<BTreeSet<u32>> {
    let journal = match Journal::open(run_folder(folder)?) {
        Ok(journal) => journal,
        Err(JournalError::Missing { .. }) => return None,
        Err(err) => panic!("{err}"),
    };
    let mut cases = BTreeSet::new();
    for entry in journal.entries().unwrap() {
        let result = entry.unwrap().result;
        let case = result.execution.case;
        assert!(result.execution.output.contains(&case.replace('c', "this is case ")), "{case}");
        assert!(cases.insert(case.trim_start_matches('c').parse().unwrap()), "{case} twice");
    }
    Some(cases)
}

/// Returns the written reports without times and ids, because nothing else may differ.
pub(crate) fn reports(folder: &Path) -> [String; 2] {
    ["report.json", "report.xml"].map(|name| {
        let text = fs::read_to_string(folder.join(name)).unwrap();
        assert!(text.len() > 1000, "{text}");
        [
            (r"\b\d{8}-\d{6}-\d{3}-[0-9a-f]{4}\b", "<run>"),
            (r"\b\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(\.\d+)?( UTC|Z)?", "<time>"),
            (r#"name="latency_p50_ms" value="[^"]*""#, r#"name="latency_p50_ms" value="<ms>""#),
            (r#""latencyMs": ?\{[^}]*\}"#, "\"latencyMs\": <ms>"),
            (r#""(durationMs|latencyMs|latencyAvgMs)": ?[0-9.e-]+"#, "\"$1\": <ms>"),
            (r#"\btime="[^"]*""#, "time=\"<s>\""),
        ]
        .into_iter()
        .fold(text, |text, (pattern, to)| {
            Regex::new(pattern).unwrap().replace_all(&text, to).into_owned()
        })
    })
}

pub(crate) fn assert_same(actual: &[String; 2], expected: &[String; 2]) {
    for (actual, expected) in actual.iter().zip(expected) {
        let diff = similar::TextDiff::from_lines(expected, actual);
        assert!(actual == expected, "{}", diff.unified_diff());
    }
}
