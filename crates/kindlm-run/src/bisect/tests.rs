//! Tests of the search with suites on disk, and of its error rate.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use fastrand::Rng;
use kindlm_testing::{MockReply, MockServer};
use kindlm_types::BoxFuture;
use kindlm_wire::bisect::{Step, StepVerdict};

use super::search::first_bad;
use super::*;
use crate::{Interrupt, git};

/// The number of simulated searches.
const ROUNDS: u32 = 2_000;

/// The results of simulated searches.
#[derive(Debug, Default)]
struct Simulated {
    wrong: u32,
    unanswered: u32,
    executions: u64,
}

/// Simulates searches in 16 commits with these pass rates before and after the first bad commit.
fn simulate(good: f64, bad: f64, test: &dyn Fn(&mut Rng, f64) -> (Verdict, u64)) -> Simulated {
    let mut random = Rng::with_seed(7);
    let mut found = Simulated::default();
    for _ in 0..ROUNDS {
        let first = random.usize(0..16);
        let mut executions = 0;
        // `None` is the good commit before the first candidate.
        let mut attempt = |at: Option<usize>| {
            let rate = if at.is_some_and(|it| it >= first) { bad } else { good };
            let (verdict, count) = test(&mut random, rate);
            executions += count;
            verdict
        };
        // A search with a wrong verdict about an end gives no answer.
        let suspects = if attempt(Some(15)) == Verdict::Bad && attempt(None) == Verdict::Good {
            first_bad(16, &mut |at| Ok(attempt(Some(at)))).unwrap().suspects
        } else {
            Vec::new()
        };
        match &*suspects {
            [only] => found.wrong += u32::from(*only != first),
            _ => found.unanswered += 1,
        }
        found.executions += executions;
    }
    found
}

#[test]
fn few_answers_are_wrong_although_the_case_is_flaky() {
    let error = 0.05 / 6.0;
    let test = Sprt::new(0.5, 0.95, error, error).unwrap();
    let max = test.smallest_max(UNDECIDED, MOST_REPEATS).unwrap();
    let decided = |random: &mut Rng, rate: f64| {
        let (mut passed, mut failed) = (0, 0);
        while passed + failed < u64::from(max) {
            if random.f64() < rate {
                passed += 1;
            } else {
                failed += 1;
            }
            match test.decide(passed, failed) {
                Some(Decision::Pass) => return (Verdict::Good, passed + failed),
                Some(Decision::Fail) => return (Verdict::Bad, passed + failed),
                None => {}
            }
        }
        (Verdict::Skip, passed + failed)
    };
    let once = |random: &mut Rng, rate: f64| {
        (if random.f64() < rate { Verdict::Good } else { Verdict::Bad }, 1)
    };
    for (good, bad) in [(0.95, 0.5), (0.95, 0.2), (1.0, 0.0)] {
        let found = simulate(good, bad, &decided);
        // The error is 5%. The bound adds three standard errors of 2,000 rounds.
        assert!(f64::from(found.wrong) / f64::from(ROUNDS) <= 0.065, "{good} {bad}: {found:?}");
    }
    // A search that executes the case only once in each try is wrong in more than half of its answers.
    let naive = simulate(0.95, 0.5, &once);
    let answered = ROUNDS - naive.unanswered;
    assert!(naive.wrong * 2 > answered, "{naive:?}");
}

/// A temporary folder for suites, and the notices of the searches.
struct Suites {
    folder: tempfile::TempDir,
    notices: Arc<Mutex<Vec<String>>>,
}

fn suite(prompt: &str, other: &str) -> String {
    format!(
        r#"kindlm: 1
project: shop
suite: {{ name: orders }}
providers: {{ echo: {{}} }}
models: [{{ id: model, provider: echo, model: any }}]
prompts:
  support: {{ user: "{prompt}" }}
  other: {{ user: "{other}" }}
tests:
  - {{ name: refund, prompt: support, expect: {{ output: {{ contains: [polite] }} }} }}
  - {{ name: other, prompt: other, expect: {{ output: {{ contains: [x] }} }} }}
"#
    )
}

impl Suites {
    fn new() -> Self {
        Self { folder: tempfile::tempdir().unwrap(), notices: Arc::default() }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn world(&self) -> World {
        let notices = Arc::clone(&self.notices);
        World {
            notices: Arc::new(move |text| notices.lock().unwrap().push(text.to_owned())),
            ..World::new(self.folder.path(), Arc::new(|_| None))
        }
    }

    /// Commits a suite; false if git is missing or fails.
    fn commit(&self, text: &str, message: &str) -> bool {
        fs::write(self.path("kindlm.yaml"), text).unwrap();
        self.git(&["add", "--all"]) && self.git(&["commit", "--quiet", "-m", message])
    }

    fn git(&self, words: &[&str]) -> bool {
        let own = ["-c", "user.name=a", "-c", "user.email=a@b.c", "-c", "commit.gpgsign=false"];
        let mut command = git::command(self.folder.path());
        command.args(own).args(words).output().is_ok_and(|it| it.status.success())
    }

    fn bisect(&self, config: &BisectConfig) -> Result<(Bisection, ExitStatus), Failure> {
        let world = self.world();
        PreparedBisection::new(&world, &OpenOptions::new("kindlm.yaml"), config)?.run()
    }
}

fn config(range: Range) -> BisectConfig {
    BisectConfig {
        case: "refund".to_owned(),
        model: None,
        range,
        pass: None,
        fail: None,
        error: 0.05,
        max_executions: None,
        budget_usd: None,
        allow_unpriced: false,
    }
}

fn commits(good: &str) -> BisectConfig {
    config(Range::Commits { good: good.to_owned(), bad: "HEAD".to_owned() })
}

fn verdicts(steps: &[Step]) -> Vec<(StepVerdict, bool)> {
    steps.iter().map(|it| (it.verdict, it.reused)).collect()
}

#[test]
fn finds_the_commit_and_runs_equal_prompts_once() {
    let suites = Suites::new();
    if !suites.git(&["init", "--quiet", "--initial-branch=main"]) {
        return;
    }
    for (prompt, other, message) in [
        ("Be polite.", "a", "begin"),
        ("Be polite.", "b", "change the other prompt"),
        ("Be very polite.", "b", "stress it"),
        ("Be brief.", "b", "shorten the prompt"),
        ("Be brief.", "c", "change the other prompt again"),
    ] {
        assert!(suites.commit(&suite(prompt, other), message));
    }
    fs::write(suites.path("kindlm.yaml"), "not a suite").unwrap();
    let (report, status) = suites.bisect(&commits("HEAD~4")).unwrap();
    assert_eq!(status, ExitStatus::Success);
    assert_eq!(report.answer, Answer::Found { candidates: vec![2] });
    assert_eq!(report.candidates[2].subject.as_deref(), Some("shorten the prompt"));
    let (good, bad) = (StepVerdict::Good, StepVerdict::Bad);
    // The steps: both ends, "stress it", and "shorten the prompt". The last step reuses the verdict of the bad end,
    // because both commits have the same prompt.
    assert_eq!(verdicts(&report.steps), [(bad, false), (good, false), (good, false), (bad, true)]);
    let executions: u64 = report.steps.iter().map(|it| it.executions).sum();
    assert_eq!((report.executions, executions), (executions, report.executions));
    assert!((report.error_bound - 3.0 * report.test.error).abs() < 1e-12);
    assert_eq!(suites.notices.lock().unwrap().len(), 4, "{:?}", suites.notices);
    assert!(!suites.path(".kindlm").exists(), "nothing is stored");
    assert_eq!(fs::read_to_string(suites.path("kindlm.yaml")).unwrap(), "not a suite");

    let swapped = suites
        .bisect(&config(Range::Commits { good: "HEAD~1".to_owned(), bad: "HEAD".to_owned() }));
    let (report, status) = swapped.unwrap();
    assert_eq!(status, ExitStatus::GatesFailed);
    let Answer::NotReproduced { reason } = &report.answer else { panic!("{:?}", report.answer) };
    assert_eq!(reason, "the case does not pass at the good end");
}

#[test]
fn a_commit_whose_suite_is_broken_is_skipped() {
    let suites = Suites::new();
    if !suites.git(&["init", "--quiet", "--initial-branch=main"]) {
        return;
    }
    let no_case = suite("Be polite.", "a").replace("name: refund", "name: renamed");
    for text in [
        suite("Be polite.", "a"),
        suite("Be very polite.", "a"),
        "kindlm: [".to_owned(),
        no_case,
        suite("Be brief.", "a"),
    ] {
        assert!(suites.commit(&text, "change"));
    }
    let (report, status) = suites.bisect(&commits("HEAD~4")).unwrap();
    assert_eq!(status, ExitStatus::GatesFailed);
    let Answer::Among { candidates, reason } = &report.answer else { panic!("{report:?}") };
    assert_eq!((&**candidates, &**reason), (&[1, 2, 3][..], "2 commits were skipped"));
    let reasons: Vec<&str> = report.steps.iter().filter_map(|it| it.reason.as_deref()).collect();
    assert!(reasons.iter().any(|it| it.contains("there is no case `refund`")), "{reasons:?}");
    assert!(reasons.iter().all(|it| !it.contains("/files/")), "{reasons:?}");

    let limited = |most| BisectConfig { max_executions: Some(most), ..commits("HEAD~4") };
    let (report, status) = suites.bisect(&limited(5)).unwrap();
    assert_eq!((report.executions, status), (5, ExitStatus::GatesFailed));
    let Answer::NotReproduced { reason } = &report.answer else { panic!("{report:?}") };
    assert_eq!(
        reason,
        "the maximum number of executions is reached, before the good end was decided"
    );
    // The limit ends the search after both ends are decided, and before a commit between them is decided.
    let (report, _) = suites.bisect(&limited(10)).unwrap();
    let Answer::Among { candidates, reason } = &report.answer else { panic!("{report:?}") };
    assert_eq!(candidates.len(), 4);
    assert_eq!(reason, "the maximum number of executions is reached");
}

#[test]
fn finds_the_line_of_the_prompt() {
    let suites = Suites::new();
    let old = suite("Be polite.\\nName the order.\\nThank the customer.", "a");
    let new = suite("Be brief.\\nName the order number.\\nGreet first.\\nThank the customer.", "b");
    fs::write(suites.path("old.yaml"), &old).unwrap();
    fs::write(suites.path("kindlm.yaml"), &new).unwrap();
    let changes = || config(Range::Changes { from: "old.yaml".to_owned() });
    let world = suites.world();
    let options = OpenOptions::new(Path::new("kindlm.yaml"));
    let prepared = PreparedBisection::new(&world, &options, &changes()).unwrap();
    let text = prepared.describe();
    assert!(text.starts_with("refund · model: 3 changes\n"), "{text}");
    let (report, status) = prepared.run().unwrap();
    assert_eq!(status, ExitStatus::Success);
    assert_eq!(report.answer, Answer::Found { candidates: vec![0] });
    assert_eq!(report.candidates[0].removed, ["Be polite."]);
    assert_eq!(report.candidates[0].added, ["Be brief."]);
    assert!(!suites.path(".kindlm").exists(), "nothing is stored");

    fs::write(suites.path("kindlm.yaml"), &old).unwrap();
    let same = suites.bisect(&changes()).unwrap_err().message.unwrap();
    assert_eq!(same, "`kindlm.yaml` is the same as in `old.yaml`");
    let other = suite("Be polite.\\nName the order.\\nThank the customer.", "c");
    fs::write(suites.path("kindlm.yaml"), other).unwrap();
    let idle = suites.bisect(&changes()).unwrap_err().message.unwrap();
    assert_eq!(idle, "the only change does not affect `refund`");
}

#[test]
fn tries_call_no_extensions() {
    let suites = Suites::new();
    let code = "module.exports.afterAll = () => { throw new Error('called'); };";
    fs::write(suites.path("hooks.js"), code).unwrap();
    let with_hook =
        |prompt| format!("{}extensions: [\"file://hooks.js:afterAll\"]\n", suite(prompt, "a"));
    fs::write(suites.path("old.yaml"), with_hook("Be polite.")).unwrap();
    fs::write(suites.path("kindlm.yaml"), with_hook("Be brief.")).unwrap();
    let found = suites.bisect(&config(Range::Changes { from: "old.yaml".to_owned() }));
    let (report, status) = found.unwrap();
    assert_eq!(status, ExitStatus::Success);
    assert_eq!(report.answer, Answer::Found { candidates: vec![0] });
}

#[test]
fn refuses_what_cannot_be_searched() {
    let suites = Suites::new();
    fs::write(suites.path("old.yaml"), suite("Be polite.", "a")).unwrap();
    fs::write(suites.path("kindlm.yaml"), suite("Be brief.", "b")).unwrap();
    let changes = |case: &str| BisectConfig {
        case: case.to_owned(),
        ..config(Range::Changes { from: "old.yaml".to_owned() })
    };
    for (config, text) in [
        (changes("none"), "has no case `none`"),
        (changes("/./"), "matches 2 cases: `refund`, `other`"),
        (BisectConfig { model: Some("x".to_owned()), ..changes("refund") }, "does not run on"),
        (BisectConfig { fail: Some(0.97), ..changes("refund") }, "no test of the pass rates"),
        (BisectConfig { fail: Some(0.9499), ..changes("refund") }, "are too close"),
        (config(Range::Changes { from: "x".to_owned() }), "neither a file nor a commit"),
        (commits("HEAD~1"), "is in no git repository"),
    ] {
        let message = suites.bisect(&config).unwrap_err().message.unwrap();
        assert!(message.contains(text), "{message}");
    }
}

/// Returns a suite whose model is at `url`. Each answer of the mock costs 0.10 US dollars.
fn served(url: &str, prompt: &str, gates: &str) -> String {
    format!(
        r#"kindlm: 1
project: shop
suite: {{ name: orders }}
providers: {{ openai: {{ baseUrl: "{url}", apiKeyEnv: KEY }} }}
models:
  - {{ id: model, provider: openai, model: m, price: {{ input: 0, output: 20000 }}, params: {{ maxTokens: 5 }} }}
prompts: {{ support: {{ user: "{prompt}" }} }}
tests:
  - {{ name: refund, prompt: support, expect: {{ output: {{ contains: [polite] }} }} }}
{gates}"#
    )
}

impl Suites {
    /// Writes two versions of a suite, whose prompts differ in one word and whose model is at this server.
    fn write_served(&self, server: &MockServer, gates: &str) {
        let url = server.url();
        fs::write(self.path("old.yaml"), served(&url, "Be polite.", gates)).unwrap();
        fs::write(self.path("kindlm.yaml"), served(&url, "Be brief.", gates)).unwrap();
    }

    fn served_world(&self) -> World {
        World { env: Arc::new(|name| (name == "KEY").then(|| "k".to_owned())), ..self.world() }
    }
}

fn changes() -> BisectConfig {
    config(Range::Changes { from: "old.yaml".to_owned() })
}

fn polite_server() -> MockServer {
    MockServer::answering(|request| {
        let body = String::from_utf8_lossy(&request.body).into_owned();
        MockReply::text(if body.contains("polite") { "polite" } else { "brief" })
    })
    .unwrap()
}

fn prepared<'a>(world: &'a World, config: &BisectConfig) -> PreparedBisection<'a> {
    PreparedBisection::new(world, &OpenOptions::new("kindlm.yaml"), config).unwrap()
}

#[test]
fn a_provider_error_has_its_own_exit_code() {
    let suites = Suites::new();
    let server = MockServer::answering(|_| MockReply::error(400, "no")).unwrap();
    suites.write_served(&server, "");
    let world = suites.served_world();
    let (report, status) = prepared(&world, &changes()).run().unwrap();
    assert_eq!((status, status.code()), (ExitStatus::ProviderError, 3));
    let Answer::NotReproduced { reason } = &report.answer else { panic!("{:?}", report.answer) };
    assert_eq!(reason, "the bad end is undecided");
}

/// An interrupt source that reports one interrupt, immediately.
struct AtOnce(bool);

impl Interrupt for AtOnce {
    fn next(&mut self) -> BoxFuture<'_, &'static str> {
        if std::mem::replace(&mut self.0, true) {
            return Box::pin(std::future::pending());
        }
        Box::pin(std::future::ready("interrupted"))
    }
}

#[test]
fn an_interrupt_ends_the_search_with_its_exit_code() {
    let suites = Suites::new();
    let server = polite_server();
    suites.write_served(&server, "");
    let world = World { interrupts: Arc::new(|| Box::new(AtOnce(false))), ..suites.served_world() };
    let (report, status) = prepared(&world, &changes()).run().unwrap();
    assert_eq!((status, status.code()), (ExitStatus::Interrupted, 130));
    let Answer::NotReproduced { reason } = &report.answer else { panic!("{:?}", report.answer) };
    // The first try may have ended before the interrupt.
    let ends = ["bad", "good"]
        .map(|it| format!("the user interrupted it, before the {it} end was decided"));
    assert!(ends.contains(reason), "{reason}");
    assert!(report.steps.len() <= 2, "nothing is tried after an interrupt: {:?}", report.steps);
    assert!(server.count() <= 4, "at most the first wave was sent: {}", server.count());
}

#[test]
fn a_budget_holds_for_all_tries_together() {
    let suites = Suites::new();
    // The run reserves 5 tokens for each request, which cost 10 cents.
    for (gates, budget_usd) in [("", Some(0.45)), ("gates: { costMaxUsd: 0.45 }\n", None)] {
        let server = polite_server();
        suites.write_served(&server, gates);
        let config = BisectConfig { budget_usd, ..changes() };
        let world = suites.served_world();
        let text = prepared(&world, &config).describe();
        assert!(text.contains("the budget of all executions together is $0.4500"), "{text}");
        let (report, status) = prepared(&world, &config).run().unwrap();
        assert_eq!(status, ExitStatus::GatesFailed, "{:?}", report.answer);
        let Answer::NotReproduced { reason } = &report.answer else {
            panic!("{:?}", report.answer)
        };
        let ends = "the rest of the budget of $0.4500 is too low for another request, before the good end was decided";
        assert_eq!(reason, ends);
        assert_eq!(server.count(), 4, "{:?}", report.steps);
    }
    let server = polite_server();
    suites.write_served(&server, "");
    let text = fs::read_to_string(suites.path("kindlm.yaml")).unwrap();
    let unpriced = text.replace("price: { input: 0, output: 20000 }, ", "");
    fs::write(suites.path("kindlm.yaml"), unpriced).unwrap();
    let config = BisectConfig { budget_usd: Some(1.0), ..changes() };
    let world = suites.served_world();
    let refused = prepared(&world, &config).run().unwrap_err().message.unwrap();
    assert!(refused.contains("cannot enforce the budget: no price known"), "{refused}");
    assert_eq!(server.count(), 0);
}

#[test]
fn lost_answers_count_in_the_budget() {
    use crate::{Progress as _, RunProgress};
    let world = World::new(Path::new("."), Arc::new(|_| None));
    let lost_usd = Mutex::new(0.0);
    let notices = super::trial::Notices { world: &world, lost_usd: &lost_usd };
    notices.on(RunProgress::AnswersLost { attempts: 2, usd: 0.25 });
    notices.on(RunProgress::AnswersLost { attempts: 1, usd: 0.5 });
    assert!((lost_usd.into_inner().unwrap() - 0.75_f64).abs() < 1e-9);
}
