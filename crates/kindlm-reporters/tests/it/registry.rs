//! Tests of properties that every reporter has.

use kindlm_reporters::{REGISTRY, find};
use kindlm_testing::{green_report, sample_report};
use kindlm_types::Report;

use crate::{render, styles};

#[test]
fn ids_are_sorted_unique_and_well_named() {
    let ids: Vec<&str> = REGISTRY.iter().map(|it| it.meta.id).collect();
    let mut sorted = ids.clone();
    sorted.sort_unstable();
    sorted.dedup();
    assert_eq!(ids, sorted, "keep the lines of REGISTRY in the order of the ids, each once");
    for id in ids {
        assert!(
            id.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-'),
            "{id}: write the id in kebab-case, such as `pull-request`"
        );
    }
}

#[test]
fn every_reporter_is_documented() {
    for it in REGISTRY {
        let meta = &it.meta;
        assert!(
            meta.docs.starts_with(&format!("# {}\n", meta.id)),
            "{}: the first line of docs.md must be `# {}`",
            meta.id,
            meta.id
        );
        assert!(
            meta.docs.contains(&format!("--reporter {}", meta.id))
                || meta.docs.contains(&format!("{}=", meta.id)),
            "{}: docs.md does not show its use; add a command with `--reporter {}=FILE`",
            meta.id,
            meta.id
        );
        assert!(
            meta.summary.ends_with('.') && meta.summary.len() < 100,
            "{}: `summary` must be one sentence with a full stop, shorter than 100 bytes",
            meta.id
        );
        assert!(
            !meta.since.is_empty() && !meta.extension.is_empty(),
            "{}: fill in `since` and `extension`",
            meta.id
        );
        assert!(std::ptr::eq(find(meta.id).unwrap(), *it));
    }
    assert!(find("nothing").is_none());
}

#[test]
fn every_reporter_takes_every_report_in_every_style() {
    for (name, report) in [
        ("sample report", sample_report()),
        ("report of a green run", green_report()),
        ("report without cases", Report::default()),
    ] {
        for it in REGISTRY {
            let id = it.meta.id;
            for style in styles() {
                let text = render(id, &report, &style);
                // A stream of lines without a case is empty.
                if id == "jsonl" && report.cases.is_empty() {
                    assert_eq!(text, "");
                    continue;
                }
                let breaks = text.len() - text.trim_end_matches('\n').len();
                assert_eq!(
                    breaks, 1,
                    "{id}: the text of the {name} ends with {breaks} line breaks instead of one; \
                     end the last line with `writeln!`, also if there are no cases ({style:?})"
                );
                let padded = text.lines().find(|line| line.trim_end() != *line);
                assert!(
                    id != "pretty" || padded.is_none(),
                    "{id}: a line of the {name} ends with white space; remove it: {padded:?} ({style:?})"
                );
                assert_eq!(
                    text,
                    render(id, &report, &style),
                    "{id}: the {name} has two different texts; use only the report and the style"
                );
            }
        }
    }
}

#[test]
fn only_the_report_for_people_depends_on_the_style() {
    for it in REGISTRY.iter().filter(|it| it.meta.id != "pretty") {
        let plain = render(it.meta.id, &sample_report(), &styles()[0]);
        for style in styles() {
            assert_eq!(
                render(it.meta.id, &sample_report(), &style),
                plain,
                "{}: only `pretty` may depend on the style; ignore `Style` in `render`",
                it.meta.id
            );
        }
    }
}

#[expect(dead_code, reason = "the test calls what `main` prints")]
#[path = "../../examples/own_reporter.rs"]
mod own_reporter;

#[test]
fn an_own_reporter_is_found_by_its_id() {
    let report = kindlm_testing::sample_report();
    let lines = own_reporter::rendered(&report).unwrap();
    assert_eq!(lines.lines().count(), report.cases.len());
}
