//! The link from the Markdown report to the full report.

use std::fs;
use std::process::Command;

use kindlm_testing::green_report;
use kindlm_wire::v1;

use crate::binary;

#[test]
fn ci_gives_the_link_to_the_full_report() {
    let github = [
        ("GITHUB_ACTIONS", "true"),
        ("GITHUB_SERVER_URL", "https://github.com"),
        ("GITHUB_REPOSITORY", "acme/shop"),
        ("GITHUB_RUN_ID", "4711"),
    ];
    let gitlab = [("GITLAB_CI", "true"), ("CI_JOB_URL", "https://gitlab.com/acme/shop/-/jobs/42")];
    let folder = tempfile::tempdir().unwrap();
    let json = serde_json::to_vec(&v1::Report::borrowing(&green_report())).unwrap();
    fs::write(folder.path().join("report.json"), json).unwrap();
    let foot = |vars: &[(&str, &str)]| {
        let mut kindlm = Command::new(binary());
        kindlm.args(["report", "report.json", "--reporter", "markdown"]);
        for (name, _) in github.iter().chain(&gitlab) {
            kindlm.env_remove(name);
        }
        let output = kindlm.envs(vars.iter().copied()).current_dir(folder.path()).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let text = String::from_utf8(output.stdout).unwrap();
        let line = text.lines().last().unwrap().strip_prefix("<sub>").unwrap();
        line.split_once(" · ").unwrap().0.to_owned()
    };
    let none = foot(&[]);
    assert!(none.starts_with("run "), "{none}");
    let own = ("KINDLM_REPORT_URL", "https://reports.example/1?a=b");
    for (vars, expected) in [
        (&github[..], "[full report](https://github.com/acme/shop/actions/runs/4711#artifacts)"),
        (&gitlab, "[full report](https://gitlab.com/acme/shop/-/jobs/42/artifacts/browse)"),
        (&[github[0], own], "[full report](https://reports.example/1?a=b)"),
        // Incomplete variables, and a URL that would end the link, give no link.
        (&github[..3], none.as_str()),
        (&[("KINDLM_REPORT_URL", "https://a/) @all")], none.as_str()),
        (&[("KINDLM_REPORT_URL", "javascript:alert(1)")], none.as_str()),
    ] {
        assert_eq!(foot(vars), expected, "{vars:?}");
    }
}
