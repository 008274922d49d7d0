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
        assert!(id.chars().all(|c| c.is_ascii_lowercase() || c == '-'), "{id}");
    }
}

#[test]
fn every_reporter_is_documented() {
    for it in REGISTRY {
        let meta = &it.meta;
        assert!(
            meta.docs.starts_with(&format!("# {}\n", meta.id)),
            "{}: docs.md begins with `# id`",
            meta.id
        );
        assert!(
            meta.docs.contains(&format!("--reporter {}", meta.id))
                || meta.docs.contains(&format!("{}=", meta.id)),
            "{}: docs.md shows its use",
            meta.id
        );
        assert!(
            meta.summary.ends_with('.') && meta.summary.len() < 100,
            "{}: one sentence",
            meta.id
        );
        assert!(!meta.since.is_empty() && !meta.extension.is_empty(), "{}", meta.id);
        assert!(std::ptr::eq(find(meta.id).unwrap(), *it));
    }
    assert!(find("nothing").is_none());
}

#[test]
fn every_reporter_takes_every_report_in_every_style() {
    for report in [sample_report(), green_report(), Report::default()] {
        for it in REGISTRY {
            for style in styles() {
                let text = render(it.meta.id, &report, &style);
                assert!(text.ends_with('\n') && !text.ends_with("\n\n"), "{}", it.meta.id);
                assert!(text.lines().all(|line| line.trim_end() == line || it.meta.id != "pretty"));
                assert_eq!(
                    text,
                    render(it.meta.id, &report, &style),
                    "the same report, the same text"
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
            assert_eq!(render(it.meta.id, &sample_report(), &style), plain, "{}", it.meta.id);
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
