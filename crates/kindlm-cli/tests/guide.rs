//! The suites in the guide and the README's promises about them hold.

use std::path::Path;

use kindlm_config::load;
use kindlm_types::NoFiles;

#[test]
fn every_suite_in_the_guide_loads_without_a_complaint() {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/guide.md");
    let page = std::fs::read_to_string(page).unwrap();
    let suites: Vec<_> = kindlm_testing::examples::parse(&page)
        .into_iter()
        .filter(|it| it.language == "yaml" && it.info == "suite")
        .collect();
    assert!(suites.len() >= 5, "found {} suites in the guide", suites.len());
    for suite in suites {
        let loaded = load("kindlm.yaml", suite.text.as_bytes(), &NoFiles, &|_| None);
        let said: Vec<String> =
            loaded.diagnostics.iter().map(|it| kindlm_config::render(it, false)).collect();
        assert!(
            loaded.suite.is_some() && said.is_empty(),
            "docs/guide.md:{}:\n{}",
            suite.line,
            said.join("\n")
        );
    }
}
