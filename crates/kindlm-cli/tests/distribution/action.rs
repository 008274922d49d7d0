//! `action.yml`: its steps run with the environment of a GitHub runner.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use kindlm_testing::installed;
use serde_json::Value;

use crate::release::{
    ACCOUNT, Api, Comment, VERSION, copy_quickstart, release, root, sh, targets, text,
};

/// A GitHub runner with a checkout of the quickstart.
#[derive(Debug)]
struct Runner {
    folder: tempfile::TempDir,
    action: Value,
    /// The values of the expressions in `action.yml`.
    values: BTreeMap<String, String>,
    api: String,
}

/// The result of a step.
#[derive(Debug)]
struct Step {
    code: i32,
    log: String,
}

impl Runner {
    /// Creates a runner for a pull request of the repository itself.
    fn new(releases: &Path, api: &Api) -> Self {
        let folder = tempfile::tempdir().unwrap();
        for name in ["checkout", "temp"] {
            fs::create_dir(folder.path().join(name)).unwrap();
        }
        copy_quickstart(&folder.path().join("checkout"));
        let action = fs::read_to_string(root().join("action.yml")).unwrap();
        let action: Value = serde_yaml::from_str(&action).unwrap();
        let mut values = BTreeMap::new();
        for (name, input) in action["inputs"].as_object().unwrap() {
            let default = input["default"].as_str().unwrap().to_owned();
            values.insert(format!("inputs.{name}"), default);
        }
        for (name, value) in [
            ("inputs.token", "may-write"),
            ("inputs.download-url", &format!("file://{}", releases.display())),
            ("inputs.verify-attestation == 'true' && inputs.token || ''", ""),
            ("github.event.pull_request.number", "7"),
            (FORK, "false"),
        ] {
            values.insert(name.to_owned(), value.to_owned());
        }
        Self { folder, action, values, api: api.server.url() }
    }

    fn set(&mut self, expression: &str, value: &str) {
        assert!(self.values.insert(expression.to_owned(), value.to_owned()).is_some());
    }

    fn checkout(&self) -> PathBuf {
        self.folder.path().join("checkout")
    }

    /// Returns the content of a file of the runner, such as `$GITHUB_OUTPUT`.
    fn file(&self, name: &str) -> String {
        fs::read_to_string(self.folder.path().join(name)).unwrap_or_default()
    }

    /// Runs a step of `action.yml`.
    fn step(&self, name: &str) -> Step {
        let steps = self.action["runs"]["steps"].as_array().unwrap();
        let step = steps.iter().find(|it| it["name"] == name).unwrap();
        let file = |name: &str| self.folder.path().join(name).display().to_string();
        let mut environment = BTreeMap::from([
            ("GITHUB_ACTIONS".to_owned(), "true".to_owned()),
            ("GITHUB_ACTION_PATH".to_owned(), root().display().to_string()),
            ("GITHUB_API_URL".to_owned(), self.api.clone()),
            ("GITHUB_OUTPUT".to_owned(), file("output")),
            ("GITHUB_PATH".to_owned(), file("path")),
            ("GITHUB_REPOSITORY".to_owned(), "acme/shop".to_owned()),
            ("GITHUB_RUN_ID".to_owned(), "4711".to_owned()),
            ("GITHUB_SERVER_URL".to_owned(), "https://github.com".to_owned()),
            ("GITHUB_STEP_SUMMARY".to_owned(), file("summary")),
            ("RUNNER_TEMP".to_owned(), file("temp")),
        ]);
        let installed: Vec<String> = self.file("path").lines().map(str::to_owned).collect();
        let path = std::env::var("PATH").unwrap();
        environment.insert("PATH".to_owned(), [installed, vec![path]].concat().join(":"));
        for (name, template) in step["env"].as_object().unwrap() {
            let template = template.as_str().unwrap();
            let expression = template.strip_prefix("${{ ").and_then(|it| it.strip_suffix(" }}"));
            environment.insert(name.clone(), self.values[expression.unwrap()].clone());
        }
        let output = sh(step["run"].as_str().unwrap(), &self.checkout(), &environment);
        let log = text(&output.stdout) + &text(&output.stderr);
        Step { code: output.status.code().unwrap(), log }
    }
}

const FORK: &str = "github.event.pull_request && github.event.pull_request.head.repo.full_name != github.repository";
const INSTALL: &str = "Install KindLM";
const TEST: &str = "Run the suite";
const COMMENT: &str = "Comment on the pull request";
const MARKER: &str = "<!-- kindlm:report support%2ddesk/support%2dagent -->";

fn tools_installed() -> bool {
    ["curl", "jq"].into_iter().all(installed)
}

#[test]
fn action_installs_runs_and_comments_once() {
    if !tools_installed() {
        return;
    }
    let releases = release();
    // All comments on the first page are from another account, and the second page is empty. Each account can write a
    // comment with the marker.
    let foreign = |id| Comment { id, author: "mallory".to_owned(), body: format!("{MARKER}\nhi") };
    let api = Api::start((1..=100).map(foreign).collect());
    let mut runner = Runner::new(releases.path(), &api);

    let install = runner.step(INSTALL);
    assert_eq!(install.code, 0, "{install:?}");
    assert!(install.log.contains(&format!("kindlm {VERSION}")), "{install:?}");
    let path = runner.file("path");
    assert!(Path::new(path.trim()).join("kindlm").is_file(), "{path}");
    let again = runner.step(INSTALL);
    assert!(again.log.contains("is installed already"), "{again:?}");

    runner.set("inputs.config", "broken.yaml");
    let test = runner.step(TEST);
    assert_eq!(test.code, 1, "{test:?}");
    assert_eq!(runner.file("output"), "exit-code=1\nreports=kindlm-report\n");
    assert!(runner.file("summary").starts_with(MARKER), "{}", runner.file("summary"));
    for name in ["comment.md", "junit.xml", "report.html", "report.json"] {
        assert!(runner.checkout().join("kindlm-report").join(name).is_file(), "{name}");
    }

    let comment = runner.step(COMMENT);
    assert_eq!((comment.code, comment.log.as_str()), (0, "wrote a comment\n"));
    {
        let comments = api.comments();
        assert_eq!(comments.len(), 101);
        let body = &comments[100].body;
        assert!(body.starts_with(MARKER) && body.contains("## ❌"), "{body}");
        let link = "[full report](https://github.com/acme/shop/actions/runs/4711#artifacts)";
        assert!(body.contains(link), "{body}");
    }

    // The repaired suite has the same name, so its result replaces the comment.
    runner.set("inputs.config", "kindlm.yaml");
    let test = runner.step(TEST);
    assert_eq!(test.code, 0, "{test:?}");
    let comment = runner.step(COMMENT);
    assert_eq!((comment.code, comment.log.as_str()), (0, "updated comment 1100\n"));
    let comments = api.comments();
    assert_eq!(comments.len(), 101);
    assert!(comments[100].body.contains("## ✅"), "{:?}", comments[100]);
    assert!(comments[..100].iter().all(|it| it.body.ends_with("hi") && it.author != ACCOUNT));
}

#[test]
fn action_rejects_a_wrong_checksum() {
    if !tools_installed() {
        return;
    }
    let releases = release();
    let api = Api::start(Vec::new());
    let runner = Runner::new(releases.path(), &api);
    let release = releases.path().join(format!("v{VERSION}"));
    for target in targets() {
        let file = release.join(format!("kindlm-cli-{target}.tar.gz.sha256"));
        fs::write(file, format!("{} *x\n", "0".repeat(64))).unwrap();
    }
    let install = runner.step(INSTALL);
    assert_eq!(install.code, 1, "{install:?}");
    assert!(
        install.log.starts_with("::error title=KindLM::wrong checksum of kindlm-cli-"),
        "{install:?}"
    );
    assert!(install.log.contains("nothing was installed"), "{install:?}");
    assert_eq!(runner.file("path"), "");
    assert_eq!(fs::read_dir(runner.folder.path().join("temp")).unwrap().count(), 0);

    // A digest in the workflow is checked instead of the digest in the release.
    let mut runner = Runner::new(releases.path(), &api);
    runner.set("inputs.sha256", &"1".repeat(64));
    let install = runner.step(INSTALL);
    assert_eq!(install.code, 1, "{install:?}");
    assert!(install.log.contains(&"1".repeat(64)), "{install:?}");

    let mut runner = Runner::new(releases.path(), &api);
    runner.set("inputs.version", "99.0.0");
    let install = runner.step(INSTALL);
    assert_eq!(install.code, 1, "{install:?}");
    assert!(install.log.contains("::error title=KindLM::cannot download file://"), "{install:?}");
}

/// Returns a runner whose `kindlm` is the binary of this build. This is faster than to pack and install an archive.
fn installed_runner(api: &Api) -> Runner {
    let runner = Runner::new(Path::new("/nonexistent"), api);
    let folder = Path::new(env!("CARGO_BIN_EXE_kindlm")).parent().unwrap();
    fs::write(runner.folder.path().join("path"), folder.display().to_string()).unwrap();
    runner
}

#[test]
fn fork_without_token_writes_the_artifact() {
    if !tools_installed() {
        return;
    }
    for (expression, value, reason) in [
        (FORK, "true", "the pull request comes from a fork"),
        ("inputs.token", "", "no token that may write comments"),
        ("inputs.token", "may-read", "the token may not write comments here (status 403)"),
    ] {
        let api = Api::start(Vec::new());
        let mut runner = installed_runner(&api);
        runner.set(expression, value);
        assert_eq!(runner.step(TEST).code, 0);
        let comment = runner.step(COMMENT);
        assert_eq!(comment.code, 0, "{comment:?}");
        assert!(
            comment.log.contains(&format!("::notice title=KindLM::no comment: {reason}")),
            "{comment:?}"
        );
        let place = "the report is in the artifact \"kindlm-report\" and in the job summary";
        assert!(comment.log.contains(place), "{comment:?}");
        assert!(runner.checkout().join("kindlm-report/report.html").is_file());
        assert!(runner.file("summary").starts_with(MARKER));
        assert!(api.comments().is_empty());
        assert_eq!(api.server.count() == 0, value != "may-read");
    }
}

#[test]
fn failed_comment_is_a_warning() {
    if !tools_installed() {
        return;
    }
    let api = Api::start(Vec::new());
    let mut runner = installed_runner(&api);
    assert_eq!(runner.step(TEST).code, 0);
    runner.set("inputs.token", "breaks");
    let comment = runner.step(COMMENT);
    assert_eq!(comment.code, 0, "{comment:?}");
    assert!(
        comment.log.contains("::warning title=KindLM::cannot write the comment: GET "),
        "{comment:?}"
    );
    // A run of a push has no pull request.
    runner.set("github.event.pull_request.number", "");
    let comment = runner.step(COMMENT);
    assert!(comment.log.contains("this is not a run of a pull request"), "{comment:?}");
    // An earlier report is not the result of this run.
    runner.set("inputs.config", "missing.yaml");
    assert_eq!(runner.step(TEST).code, 2);
    let comment = runner.step(COMMENT);
    assert!(comment.log.contains("no comment: the run wrote no report"), "{comment:?}");
}

#[test]
fn action_passes_exit_code_and_arguments_on() {
    let api = Api::start(Vec::new());
    let mut runner = installed_runner(&api);
    let suite = "kindlm: 1\nproject: p\nsuite: { name: s }\nproviders: { scripted: { replies: \
        [{ error: { status: 401, message: no } }] } }\n\
        models: [{ id: m, provider: scripted, model: m }]\nprompts: { p: { user: hello } }\n\
        tests: [{ name: a, prompt: p, expect: { output: { contains: [hello] } } }]\n";
    fs::write(runner.checkout().join("unreachable.yaml"), suite).unwrap();
    runner.set("inputs.config", "unreachable.yaml");
    assert_eq!(runner.step(TEST).code, 3);
    assert!(runner.file("output").starts_with("exit-code=3\n"));

    runner.set("inputs.config", "kindlm.yaml");
    // If the script expanded globs, `says*` would become the name of this file.
    fs::write(runner.checkout().join("says x"), "").unwrap();
    for args in ["--test says* --runs 2", "--test\nsays where an order is\n--runs\n2"] {
        runner.set("inputs.args", args);
        let test = runner.step(TEST);
        assert_eq!(test.code, 0, "{test:?}");
        let report = fs::read(runner.checkout().join("kindlm-report/report.json")).unwrap();
        let report = kindlm_wire::parse_report(&report).unwrap();
        let cases: Vec<_> =
            report.cases.iter().map(|it| (it.case.as_str(), it.executions.len())).collect();
        assert_eq!(cases, [("says where an order is", 2)], "{args}");
    }
}

#[test]
fn attestation_is_verified_on_request() {
    if !tools_installed() {
        return;
    }
    let releases = release();
    let api = Api::start(Vec::new());
    for (verdict, code) in [("true", 0), ("false", 1)] {
        let mut runner = Runner::new(releases.path(), &api);
        runner.set("inputs.verify-attestation", "true");
        let tools = runner.folder.path().join("tools");
        fs::create_dir(&tools).unwrap();
        let gh = format!("#!/bin/sh\necho \"gh $*\"\n{verdict}\n");
        fs::write(tools.join("gh"), gh).unwrap();
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        fs::set_permissions(tools.join("gh"), mode).unwrap();
        fs::write(runner.folder.path().join("path"), format!("{}\n", tools.display())).unwrap();
        let install = runner.step(INSTALL);
        assert_eq!(install.code, code, "{install:?}");
        assert!(install.log.contains("gh attestation verify /"), "{install:?}");
        assert!(install.log.contains("--repo kindlm/kindlm"), "{install:?}");
        assert_eq!(install.log.contains("nothing was installed"), code == 1, "{install:?}");
    }
}

/// Each job in `docs/ci` that runs `kindlm` installs this version first.
#[test]
fn examples_for_ci_install_what_they_run() {
    let mut found = 0;
    for item in fs::read_dir(root().join("docs/ci")).unwrap() {
        let path = item.unwrap().path();
        let text = fs::read_to_string(&path).unwrap();
        let example: Value = serde_yaml::from_str(&text).unwrap();
        let name = path.display();
        let action = format!("kindlm/kindlm@v{VERSION}");
        for (job, content) in example["jobs"].as_object().into_iter().flatten() {
            let steps = content["steps"].as_array().unwrap();
            let installs = steps.iter().position(|it| it["uses"] == action.as_str());
            let runs = |it: &Value| it["run"].as_str().is_some_and(|it| it.starts_with("kindlm "));
            let runs = steps.iter().position(runs).unwrap_or(steps.len());
            assert!(installs.is_some_and(|it| it < runs), "{name}: {job}: no `uses: {action}`");
            found += 1;
        }
        if let Some(image) = example.get("image") {
            assert_eq!(image["name"], format!("ghcr.io/kindlm/kindlm:{VERSION}"), "{name}");
            found += 1;
        }
        if let Some(includes) = example.get("include") {
            let url = includes[0]["remote"].as_str().unwrap();
            let file = format!("/v{VERSION}/.release/gitlab/templates/kindlm.yml");
            assert!(url.ends_with(&file), "{name}: {url}");
            found += 1;
        }
        let pod = &example["spec"]["template"]["spec"];
        for container in ["initContainers", "containers"] {
            for it in pod[container].as_array().into_iter().flatten() {
                assert_eq!(it["image"], format!("ghcr.io/kindlm/kindlm:{VERSION}"), "{name}");
                found += 1;
            }
        }
    }
    assert_eq!(found, 8);
}

/// The pages show the version of this checkout.
#[test]
fn tutorial_shows_this_version() {
    let page = fs::read_to_string(root().join("docs/tutorials/ci.md")).unwrap();
    assert!(page.contains(&format!("uses: kindlm/kindlm@v{VERSION}\n")));
    assert!(page.contains(&format!("/kindlm/v{VERSION}/.release/gitlab/")));
}
