//! The pages: every example shows what its `results` block says.

use kindlm_assertions::REGISTRY;
use kindlm_testing::examples;

use crate::support;

#[test]
fn every_example_shows_what_its_page_says() {
    let mut failures = Vec::new();
    let mut count = 0;
    for registration in REGISTRY {
        match examples::check(&support::page(registration), |case| Ok(support::run(case)?.0)) {
            Ok(examples) => count += examples,
            Err(message) => failures.push(message),
        }
    }
    assert!(failures.is_empty(), "\n{}", failures.join("\n"));
    assert!(count > REGISTRY.len(), "only {count} examples");
}
