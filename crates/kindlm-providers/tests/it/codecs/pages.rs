//! Runs the examples in the documentation pages of the providers with a codec.
//!
//! A `yaml providers` block is a configuration. A `json prompt` block leads to a `json request` block, and a `json
//! response` block to a `json reply` or `json error` block.

use kindlm_providers::{Kind, REGISTRY};
use kindlm_testing::examples;
use serde_json::{Value, json};

use super::{exchange, normal};

#[test]
fn every_exchange_of_a_page_works() {
    for provider in REGISTRY.iter().filter(|it| matches!(it.kind, Kind::Http(_))) {
        let (id, mut played) = (provider.meta.id, 0);
        let mut exchange = json!({"config": {}});
        for block in examples::parse(provider.meta.docs) {
            let place = format!("{id}/docs.md:{}", block.line);
            match (block.language.as_str(), block.info.as_str()) {
                ("yaml", "providers") => {
                    let providers: Value = serde_yaml::from_str(&block.text).expect(&place);
                    exchange["config"] = providers[id].clone();
                    assert!(exchange["config"].is_object(), "{place}: configures `{id}`");
                    super::codec(id, &exchange["config"]);
                }
                ("json", "prompt") => {
                    exchange["prompt"] = serde_json::from_str(&block.text).expect(&place);
                }
                ("json", "response") => {
                    exchange["response"] = serde_json::from_str(&block.text).expect(&place);
                }
                ("json", part @ ("request" | "reply" | "error")) => {
                    let expected: Value = serde_json::from_str(&block.text).expect(&place);
                    let found = &exchange::play(id, &exchange)[part];
                    assert_eq!(
                        normal(found),
                        normal(&expected),
                        "{place}: the {part} is\n{found:#}"
                    );
                    played += 1;
                }
                _ => {}
            }
        }
        assert!(played >= 2, "{id}: the page has no example of a request and a reply");
    }
}
