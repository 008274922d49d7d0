//! The GitLab component: its lines run with the environment of a GitLab runner.

use std::collections::BTreeMap;
use std::fs;

use kindlm_testing::installed;
use serde::Deserialize as _;
use serde_json::Value;

use crate::release::{Api, VERSION, copy_quickstart, release, root, sh, sha256, text};

const COMPONENT: &str = ".release/gitlab/templates/kindlm.yml";

/// Reads the inputs and the job of the component.
fn component() -> (Value, Value) {
    let text = fs::read_to_string(root().join(COMPONENT)).unwrap();
    let parts = serde_yaml::Deserializer::from_str(&text);
    let parts: Vec<Value> = parts.map(|it| Value::deserialize(it).unwrap()).collect();
    let [spec, jobs] = parts.as_slice() else { panic!("{COMPONENT}: not two documents") };
    let job = jobs["$[[ inputs.job-name ]]"].clone();
    (spec["spec"]["inputs"].clone(), job)
}

/// The component pins the digest of the script, so that another script is rejected.
#[test]
fn component_pins_version_and_script() {
    let path = root().join(COMPONENT);
    let text = fs::read_to_string(&path).unwrap();
    let digest = sha256(&fs::read(root().join(".release/ci/run.sh")).unwrap());
    let pinned = regex::Regex::new(r"[0-9a-f]{64}").unwrap();
    if std::env::var_os("KINDLM_BLESS").is_some() {
        fs::write(&path, &*pinned.replace_all(&text, &digest)).unwrap();
        return;
    }
    let found: Vec<&str> = pinned.find_iter(&text).map(|it| it.as_str()).collect();
    assert_eq!(found, [digest], "{COMPONENT}: run again with KINDLM_BLESS=1");
    let (inputs, _) = component();
    assert_eq!(inputs["version"]["default"], VERSION);
    let url =
        format!("https://raw.githubusercontent.com/kindlm/kindlm/v{VERSION}/.release/ci/run.sh");
    assert_eq!(inputs["script-url"]["default"], url);
}

#[test]
fn component_installs_runs_and_comments() {
    if !["curl", "jq", "sha256sum"].into_iter().all(installed) {
        return;
    }
    let releases = release();
    let api = Api::start(Vec::new());
    let folder = tempfile::tempdir().unwrap();
    let checkout = folder.path().join("checkout");
    fs::create_dir(&checkout).unwrap();
    copy_quickstart(&checkout);
    let temp = folder.path().display().to_string();
    let script = format!("file://{}/.release/ci/run.sh", root().display());
    let download = format!("file://{}", releases.path().display());

    let (inputs, job) = component();
    let run = |given: &[(&str, &str)], token: &str, script_key: &str| {
        let value = |name: &str| {
            let given = given.iter().find(|it| it.0 == name).map(|it| it.1.to_owned());
            given.unwrap_or_else(|| inputs[name]["default"].as_str().unwrap().to_owned())
        };
        let mut environment = BTreeMap::from([
            ("CI_API_V4_URL".to_owned(), api.server.url()),
            ("CI_PROJECT_ID".to_owned(), "3".to_owned()),
            ("GITLAB_CI".to_owned(), "true".to_owned()),
            ("CI_MERGE_REQUEST_IID".to_owned(), "7".to_owned()),
            ("KINDLM_CI_TOKEN".to_owned(), token.to_owned()),
        ]);
        for (name, template) in job["variables"].as_object().unwrap() {
            let template = template.as_str().unwrap();
            let input = template.strip_prefix("$[[ inputs.").and_then(|it| it.strip_suffix(" ]]"));
            let value = input.map_or_else(|| template.replace("/tmp/", &format!("{temp}/")), value);
            environment.insert(name.clone(), value);
        }
        let lines: Vec<&str> =
            job[script_key].as_array().unwrap().iter().map(|it| it.as_str().unwrap()).collect();
        let lines = format!("set -e\n{}", lines.join("\n").replace("/tmp/", &format!("{temp}/")));
        let output = sh(&lines, &checkout, &environment);
        (output.status.code().unwrap(), text(&output.stdout) + &text(&output.stderr))
    };
    let given =
        [("script-url", script.as_str()), ("download-url", &download), ("config", "broken.yaml")];

    let (code, log) = run(&given, "may-write", "before_script");
    assert_eq!(code, 0, "{log}");
    assert!(log.contains(&format!("kindlm {VERSION}")), "{log}");
    let (code, log) = run(&given, "may-write", "script");
    assert_eq!(code, 1, "{log}");
    for path in job["artifacts"]["paths"].as_array().unwrap() {
        assert!(checkout.join(path.as_str().unwrap()).is_dir());
    }
    for kind in ["junit", "codequality"] {
        assert!(checkout.join(job["artifacts"]["reports"][kind].as_str().unwrap()).is_file());
    }

    for (token, expected) in [
        (
            "",
            "kindlm: notice: no comment: no token that may write comments; the report is in the artifact \"kindlm\"\n",
        ),
        ("may-write", "wrote a comment\n"),
        ("may-write", "updated comment 1000\n"),
    ] {
        let (code, log) = run(&given, token, "after_script");
        assert_eq!((code, log.as_str()), (0, expected));
    }
    assert_eq!(api.comments().len(), 1);

    // Another script is not executed.
    let other = folder.path().join("other.sh");
    fs::write(&other, "echo executed\n").unwrap();
    let other = format!("file://{}", other.display());
    let (code, log) =
        run(&[("script-url", &other), ("download-url", &download)], "", "before_script");
    assert!(code != 0 && !log.contains("executed"), "{log}");
}
