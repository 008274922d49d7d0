//! Tests of the server with a raw socket, which can send requests that no browser sends.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::path::Path;
use std::sync::mpsc;

use kindlm_testing::{installed, not_run, sample_report};
use kindlm_types::{Outcome, Report, RunInfo};
use kindlm_wire::v1;
use serde_json::Value;

use super::library::Library;
use super::*;
use crate::saved;

const FIRST: &str = "20261101-100000-000-aaaa";
const SECOND: &str = "20261102-100000-000-bbbb";

fn save(folder: &Path, report: &Report) {
    let mut json = Vec::new();
    v1::write_compact(report, &mut json).unwrap();
    let runs = Runs::new(folder.join(".kindlm"));
    runs.save(&report.run.id, &String::from_utf8(json).unwrap()).unwrap();
}

fn report(id: &str) -> Report {
    let mut report = sample_report();
    report.run = RunInfo { id: id.to_owned(), ..report.run };
    report
}

/// A started server and a folder with two runs. The second run lacks the first case, and has a new output.
struct Served {
    folder: tempfile::TempDir,
    port: u16,
    token: String,
}

fn served() -> Served {
    let folder = tempfile::tempdir().unwrap();
    save(folder.path(), &report(FIRST));
    let mut second = report(SECOND);
    second.cases.remove(0);
    for it in &mut second.cases[0].executions {
        it.execution.output = "another output".to_owned();
    }
    save(folder.path(), &second);
    std::fs::write(folder.path().join("secret.txt"), "secret").unwrap();
    serve(folder)
}

fn serve(folder: tempfile::TempDir) -> Served {
    let world = World::new(folder.path(), Arc::new(|_| None));
    let place = SuiteFolder::new(&world, Path::new("kindlm.yaml"));
    let (send, receive) = mpsc::channel();
    // The server ends with the process of the test.
    std::thread::spawn(move || {
        view(&world, place, None, &ViewConfig::default(), &mut |url| {
            send.send(url.to_owned()).unwrap();
            Ok(())
        })
    });
    let url = receive.recv().unwrap();
    let (origin, token) = url.split_once("/#token=").unwrap();
    let port = origin.rsplit_once(':').unwrap().1.parse().unwrap();
    Served { folder, port, token: token.to_owned() }
}

impl Served {
    /// Sends a request with these headers, and returns the status, the headers and the body.
    fn send(&self, start: &str, headers: &[(&str, &str)]) -> (u16, String, Vec<u8>) {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).unwrap();
        let mut request = format!("{start} HTTP/1.1\r\nconnection: close\r\n");
        for (name, value) in headers {
            request.extend([name, ": ", value, "\r\n"]);
        }
        stream.write_all((request + "\r\n").as_bytes()).unwrap();
        let mut all = Vec::new();
        stream.read_to_end(&mut all).unwrap();
        let end = all.windows(4).position(|it| it == b"\r\n\r\n").unwrap();
        let head = String::from_utf8(all[..end].to_vec()).unwrap();
        let status = head.split(' ').nth(1).unwrap().parse().unwrap();
        (status, head.to_ascii_lowercase(), all[end + 4..].to_vec())
    }

    fn host(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    /// Requests a path with the host and the token that the page sends.
    fn get(&self, path: &str) -> (u16, String, Vec<u8>) {
        self.send(&format!("GET {path}"), &[("host", &self.host()), (TOKEN, &self.token)])
    }

    fn json(&self, path: &str) -> Value {
        let (status, _, body) = self.get(path);
        assert_eq!(status, 200, "{path}: {}", String::from_utf8_lossy(&body));
        serde_json::from_slice(&body).unwrap()
    }
}

const TOKEN: &str = "x-kindlm-token";

#[test]
fn data_needs_the_token() {
    let served = served();
    let host = served.host();
    for path in ["page", "head", "index", "chunk/0", "heads", "compare", "difference", "history"] {
        let start = format!("GET /wire/{path}");
        assert_eq!(served.send(&start, &[("host", &host)]).0, 401, "{path}");
        let other = "0".repeat(64);
        for wrong in ["", "x", &served.token[1..], &other] {
            let (status, _, body) = served.send(&start, &[("host", &host), (TOKEN, wrong)]);
            assert_eq!((status, &*body), (403, &b"the token is wrong"[..]), "{path}");
        }
    }
    // The server reads no token from the query, because logs and browser histories store the query.
    let start = format!("GET /wire/heads?token={}", served.token);
    assert_eq!(served.send(&start, &[("host", &host)]).0, 401);
}

#[test]
fn a_folder_without_runs_has_a_page_until_the_first_run() {
    let served = serve(tempfile::tempdir().unwrap());
    let start = || {
        let (status, head, body) = served.send("GET /", &[("host", &served.host())]);
        assert_eq!(status, 200);
        (head, String::from_utf8(body).unwrap())
    };
    let (head, page) = start();
    assert!(
        page.contains("There is no finished run yet") && page.contains("kindlm test"),
        "{page}"
    );
    assert!(!page.contains("<script") && !head.contains("script-src"), "{head}");
    assert_eq!(served.get("/wire/page").0, 404);
    save(served.folder.path(), &report(FIRST));
    assert!(!start().1.contains("There is no finished run yet"));
    assert_eq!(served.json("/wire/head")["run"], FIRST);
}

#[test]
fn the_page_has_the_mutation_result_beside_the_run() {
    use kindlm_wire::mutation::{MutantCounts, MutationReport};
    let served = served();
    let page = |run: &str| {
        let (status, _, body) = served.get(&format!("/wire/page?run={run}"));
        assert_eq!(status, 200);
        String::from_utf8(body).unwrap()
    };
    let path = |run: &str| Runs::new(served.folder.path().join(".kindlm")).path(run).unwrap();
    let mut result = MutationReport::new(FIRST, "s");
    result.score = Some(0.75);
    result.harmful = MutantCounts { killed: 3, survived: 1, ..MutantCounts::default() };
    // The result of another run is not shown.
    Runs::save_mutation(&path(SECOND), &result).unwrap();
    Runs::save_mutation(&path(FIRST), &result).unwrap();
    let (first, second) = (page(FIRST), page(SECOND));
    assert!(first.contains("How strong are the checks") && first.contains("75.0% (3 of 4)"));
    assert!(!second.contains("How strong are the checks"));
}

#[test]
fn a_damaged_mutation_result_does_not_hide_the_run() {
    let served = served();
    let path = Runs::new(served.folder.path().join(".kindlm")).path(FIRST).unwrap();
    std::fs::write(path.with_file_name("mutation.json"), "{ damaged").unwrap();
    let (status, _, body) = served.get(&format!("/wire/page?run={FIRST}"));
    assert_eq!(status, 200, "{}", String::from_utf8_lossy(&body));
    assert!(!String::from_utf8_lossy(&body).contains("How strong are the checks"));
}

#[test]
fn foreign_hosts_and_origins_are_refused() {
    let served = served();
    let token = served.token.as_str();
    let (host, local) = (served.host(), format!("localhost:{}", served.port));
    let ask = |headers: &[(&str, &str)]| served.send("GET /wire/heads", headers).0;
    for host in ["attacker.example", "127.0.0.1", "127.0.0.1:1", "localhost", ""] {
        assert_eq!(ask(&[("host", host), (TOKEN, token)]), 403, "{host}");
        assert_eq!(served.send("GET /", &[("host", host)]).0, 403, "{host}");
    }
    let own = format!("http://{host}");
    for origin in
        ["http://attacker.example", "null", "http://127.0.0.1:1", &own.replace("http", "https")]
    {
        assert_eq!(ask(&[("host", &host), ("origin", origin), (TOKEN, token)]), 403, "{origin}");
        let both = [("host", &*host), ("origin", &*own), ("origin", origin), (TOKEN, token)];
        assert_eq!(ask(&both), 403, "{origin}");
    }
    assert_eq!(ask(&[("host", &host), ("origin", &own), (TOKEN, token)]), 200);
    assert_eq!(ask(&[("host", &local), (TOKEN, token)]), 200);
}

#[test]
fn only_runs_of_the_folder_can_be_read() {
    let served = served();
    let outside = tempfile::tempdir_in(served.folder.path().join(".kindlm")).unwrap();
    std::fs::copy(
        served.folder.path().join(format!(".kindlm/runs/{FIRST}/report.json")),
        outside.path().join("report.json"),
    )
    .unwrap();
    let name = outside.path().file_name().unwrap().to_str().unwrap();
    let absolute = outside.path().display().to_string();
    for run in [
        "unknown",
        "..",
        ".",
        "../..",
        &format!("../{name}"),
        &format!("..%2F{name}"),
        &absolute,
        &format!("{FIRST}/../{FIRST}"),
        "%00",
        "a%0Ab",
    ] {
        for path in ["page", "head", "index", "chunk/0", "compare"] {
            let (status, _, body) = served.get(&format!("/wire/{path}?run={run}&base={FIRST}"));
            assert_eq!(status, 404, "{path} {run}: {}", String::from_utf8_lossy(&body));
        }
        assert_eq!(served.get(&format!("/wire/compare?base={run}")).0, 404, "{run}");
    }
    for path in [
        "/wire/../secret.txt",
        "/../secret.txt",
        "/%2e%2e/secret.txt",
        "//secret.txt",
        "/secret.txt",
        "/wire/chunk/-1",
        "/wire/chunk/99",
        "/wire/chunk/../0",
        "/wire/",
        "/wire/unknown",
    ] {
        let (status, _, body) = served.get(path);
        assert_eq!(status, 404, "{path}");
        assert!(!String::from_utf8_lossy(&body).contains("secret"), "{path}");
    }
}

#[test]
fn the_server_only_reads() {
    let served = served();
    let headers = [("host", &*served.host()), (TOKEN, &*served.token)];
    for method in ["POST", "PUT", "DELETE", "PATCH", "OPTIONS"] {
        let (status, head, _) = served.send(&format!("{method} /wire/heads"), &headers);
        assert_eq!(status, 405, "{method}");
        assert!(head.contains("allow: get, head"), "{head}");
        assert!(!head.contains("access-control-"), "{head}");
    }
    let (status, _, body) = served.send("HEAD /wire/heads", &headers);
    assert_eq!((status, body.len()), (200, 0));
}

#[test]
fn the_first_page_has_no_data_and_a_strict_policy() {
    let served = served();
    let (status, head, body) = served.send("GET /", &[("host", &served.host())]);
    let page = String::from_utf8(body).unwrap();
    assert_eq!(status, 200);
    for part in [
        "default-src 'none'; style-src 'sha256-",
        "require-trusted-types-for 'script'",
        "frame-ancestors 'none'",
        "connect-src 'self'",
        "cache-control: no-store",
        "referrer-policy: no-referrer",
        "nosniff",
        "cross-origin-resource-policy: same-origin",
    ] {
        assert!(head.contains(part), "{part}: {head}");
    }
    assert!(!head.contains("unsafe-"), "{head}");
    let report = sample_report();
    for text in [&*served.token, FIRST, SECOND, &report.suite.name, &report.cases[0].case] {
        assert!(!page.contains(text), "{text}");
    }
}

#[test]
fn the_parts_are_those_of_the_run() {
    let served = served();
    let page = String::from_utf8(served.get("/wire/page").2).unwrap();
    assert!(page.contains(SECOND) && !page.contains(FIRST));
    assert!(page.contains("href=\"#compare\""));
    assert!(page.contains("class=\"spark\""), "the causes have the shares of the first run");
    let (_, head, gzip) = served.get("/wire/index");
    assert!(head.contains("content-encoding: gzip") && gzip.starts_with(&[0x1f, 0x8b]), "{head}");
    assert_eq!(served.json("/wire/head")["run"], SECOND);
    assert_eq!(served.json(&format!("/wire/head?run={FIRST}"))["run"], FIRST);
    let heads = served.json("/wire/heads");
    let runs: Vec<&str> =
        heads.as_array().unwrap().iter().map(|it| it["run"].as_str().unwrap()).collect();
    assert_eq!(runs, [FIRST, SECOND]);
}

#[test]
fn runs_are_compared_case_by_case() {
    let served = served();
    let comparison = &served.json(&format!("/wire/compare?base={FIRST}"))["comparison"];
    assert_eq!(
        (&comparison["before"]["runId"], &comparison["after"]["runId"]),
        (&FIRST.into(), &SECOND.into())
    );
    let cases = comparison["cases"].as_array().unwrap();
    let gone: Vec<&Value> = cases.iter().filter(|it| it["kind"] == "gone").collect();
    let (first, second) = (&sample_report().cases[0], &sample_report().cases[1]);
    assert_eq!(gone.len(), 1);
    assert_eq!(
        (&gone[0]["case"], &gone[0]["model"]),
        (&(&*first.case).into(), &(&*first.model).into())
    );
    assert_eq!(comparison["verdict"]["kind"], "notEnoughData");

    let query = |base: &str, of: &kindlm_types::CaseResult| {
        let query = form(&[("base", base), ("case", &of.case), ("model", &of.model)]);
        served.json(&format!("/wire/difference?{query}"))
    };
    let changed = query(FIRST, second);
    assert_eq!(changed["after"]["output"], "another output");
    assert!(changed["output"].is_array() && changed["prompt"].is_null(), "{changed}");
    let gone = query(FIRST, first);
    assert!(gone["after"].is_null() && gone["before"].is_object(), "{gone}");

    let history = served.json(&format!(
        "/wire/history?{}",
        form(&[("case", &second.case), ("model", &second.model)])
    ));
    assert_eq!(history.as_array().unwrap().len(), 2);
    assert_eq!(history[0]["run"], FIRST);
}

#[test]
fn a_stored_comparison_is_not_reused() {
    use kindlm_types::{ComparedRun, Comparison, ComparisonVerdict};
    let folder = tempfile::tempdir().unwrap();
    let mut second = report(SECOND);
    let before = ComparedRun { run_id: Some(FIRST.to_owned()), ..ComparedRun::default() };
    let after = ComparedRun::default();
    second.comparison = Some(Comparison::new(before, after, ComparisonVerdict::Regression, 0.05));
    save(folder.path(), &report(FIRST));
    save(folder.path(), &second);
    let world = World::new(folder.path(), Arc::new(|_| None));
    let place = SuiteFolder::new(&world, Path::new("kindlm.yaml"));
    let saved = saved::find(&world, &place, None, None).unwrap();
    let library = Library::new(&world, &place, saved);
    let run = library.open("").unwrap();
    let compared = library.compare(FIRST, &run).unwrap();
    // The stored comparison may have the margin and the selection of a gate. The page shows what `kindlm compare`
    // prints.
    assert_eq!(compared["comparison"]["verdict"]["kind"], "notEnoughData");
}

#[test]
fn runs_are_found_by_id_file_and_folder() {
    let folder = tempfile::tempdir().unwrap();
    let (inner, other) = (folder.path().join("suite"), folder.path().join("other"));
    save(&inner, &report(FIRST));
    save(&inner, &report(SECOND));
    let world = World::new(&other, Arc::new(|_| None));
    std::fs::create_dir(&other).unwrap();
    let file = inner.join(".kindlm/runs").join(FIRST);
    for (named, run) in [
        (inner.display().to_string(), SECOND),
        (file.display().to_string(), FIRST),
        (file.join("report.json").display().to_string(), FIRST),
    ] {
        let config = ViewConfig { run: Some(named), ..ViewConfig::default() };
        let place = SuiteFolder::new(&world, Path::new("kindlm.yaml"));
        let world = World { interrupts: Arc::new(|| Box::new(Now)), ..world.clone() };
        let mut shown = String::new();
        let outcome = view(&world, place, None, &config, &mut |url| {
            url.clone_into(&mut shown);
            Ok(())
        });
        assert_eq!(outcome.unwrap(), ExitStatus::Success, "{run}");
        assert!(shown.starts_with("http://127.0.0.1:"), "{shown}");
    }
    let place = SuiteFolder::new(&world, Path::new("kindlm.yaml"));
    let config = ViewConfig { run: Some("20261103".to_owned()), ..ViewConfig::default() };
    let failed = view(&world, place, None, &config, &mut |_| Ok(())).unwrap_err();
    assert!(failed.message.unwrap().contains("20261103"));
}

/// An interrupt source that reports an interrupt immediately.
struct Now;

impl crate::Interrupt for Now {
    fn next(&mut self) -> kindlm_types::BoxFuture<'_, &'static str> {
        Box::pin(async { "interrupted" })
    }
}

fn form(pairs: &[(&str, &str)]) -> String {
    let mut query = url::form_urlencoded::Serializer::new(String::new());
    query.extend_pairs(pairs);
    query.finish()
}

/// Eight runs whose outcomes change from run to run. The seventh and the eighth run each have a case that the other
/// lacks. One case has hostile texts.
fn save_history(folder: &Path) {
    for number in 0..8_usize {
        let mut report = report(&format!("2026110{}-100000-000-{number:04x}", number + 1));
        report.run.started_at = format!("2026-11-0{}T10:00:00.000Z", number + 1);
        for (at, case) in report.cases.iter_mut().enumerate() {
            let flips = case.outcome == Outcome::Failed && (at + number) % 3 == 0;
            for it in case.executions.iter_mut().filter(|_| flips) {
                it.outcome = Outcome::Passed;
                it.results.retain(|it| it.verdict.held());
                it.execution.output.push_str("\nIt was corrected.");
            }
            case.outcome = if flips { Outcome::Passed } else { case.outcome };
        }
        if number > 0 {
            let mut hostile = report.cases[0].clone();
            hostile.case = "hostile <img src=x onerror=alert(1)> \u{202e}".to_owned();
            for it in &mut hostile.executions {
                it.execution.output = format!(
                    "run {number}\n<script>alert(1)</script>\n<img src=x onerror=alert(1)>\n\u{1b}[31mred\u{1b}[0m"
                );
            }
            if number == 7 {
                hostile.outcome = Outcome::Failed;
                hostile.executions.iter_mut().for_each(|it| it.outcome = Outcome::Failed);
            }
            report.cases.push(hostile);
        }
        let mut extra = report.cases[0].clone();
        extra.case = format!("only in run {number}");
        report.cases.push(extra);
        save(folder, &report);
    }
}

#[test]
fn the_page_works_in_a_browser() {
    if !["node", "npm", "chromium"].into_iter().all(installed) {
        return;
    }
    let tests = Path::new(env!("CARGO_MANIFEST_DIR")).join("../kindlm-reporters/tests/browser");
    if !tests.join("node_modules/.package-lock.json").exists() {
        let mut npm = Command::new("npm");
        npm.args(["ci", "--ignore-scripts", "--no-audit", "--no-fund"]).current_dir(&tests);
        if !npm.stdout(Stdio::null()).status().unwrap().success() {
            not_run("chromium", "npm cannot install the packages of tests/browser");
            return;
        }
    }
    let folder = tempfile::tempdir().unwrap();
    save_history(folder.path());
    let served = serve(folder);
    let url = format!("http://127.0.0.1:{}/#token={}", served.port, served.token);
    let mut node = Command::new("node");
    node.arg("view.test.mjs").current_dir(&tests).env("KINDLM_VIEW", url);
    let output = node.output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{text}{}", String::from_utf8_lossy(&output.stderr));
}
