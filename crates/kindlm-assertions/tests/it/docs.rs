//! The reference pages: every example must give the results of its `results` block.

use kindlm_assertions::{REGISTRY, assertions};
use kindlm_testing::examples;

use crate::support;

#[test]
fn every_example_gives_the_results_of_its_page() {
    let mut failures = Vec::new();
    let mut count = 0;
    for (group, registration) in
        REGISTRY.iter().flat_map(|it| it.assertions.iter().map(|entry| (it.name, entry)))
    {
        let page = support::page(group, registration);
        match examples::check(&page, |case| Ok(support::run(case)?.0)) {
            Ok(examples) => count += examples,
            Err(message) => failures.push(message),
        }
    }
    assert!(failures.is_empty(), "\n{}", failures.join("\n"));
    assert!(count > assertions().count(), "only {count} examples");
}
