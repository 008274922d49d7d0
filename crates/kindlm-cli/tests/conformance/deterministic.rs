//! The vectors of `deterministic.jsonl` that `kindlm-assertions` cannot run.
//!
//! These vectors need scripts in other languages, webhooks, or groups of checks.

use kindlm_testing::{MockReply, MockServer, installed};
use serde_json::{Value, json};

use crate::workers::{Differences, agree, vectors};

/// Returns the vectors whose ids begin with one of these words, up to a slash.
fn select_vectors(kinds: &[&str]) -> Vec<Value> {
    let all = vectors("deterministic.jsonl");
    let is_one =
        |it: &Value| kinds.contains(&it["id"].as_str().unwrap().split('/').next().unwrap());
    all.into_iter().filter(is_one).collect()
}

#[test]
fn python_agrees() {
    let vectors = select_vectors(&["python"]);
    assert_eq!(vectors.len(), 7);
    if installed("python3") {
        agree(&vectors, &[]);
    }
}

#[test]
fn webhooks_agree_and_are_sent_the_same() {
    let vectors = select_vectors(&["webhook", "not-webhook"]);
    assert_eq!(vectors.len(), 3);
    for mut vector in vectors {
        let reply = vector["hook"]["body"].clone();
        let server = MockServer::answering(move |_| MockReply::json(&reply)).unwrap();
        let url = vector["assertion"]["value"].as_str().unwrap().replace("<HOOK>", &server.url());
        vector["assertion"]["value"] = json!(url);
        vector["assertion"]["scripts"] = json!({"net": ["127.0.0.1"], "timeoutMs": 60_000});
        vector["prompt"] = json!("The prompt");
        agree(&[vector.clone()], &[]);
        let sent: Vec<Value> =
            server.requests().iter().map(kindlm_testing::MockRequest::json).collect();
        assert_eq!(json!(sent), vector["hook_requests"], "{}", vector["id"]);
    }
}

const TOGETHER: Differences<'_> = &[
    ("aggregate/8", "Where nothing has a weight there is no mean, rather than a mean of 0."),
    ("aggregate/9", "Where nothing has a weight there is no mean, rather than a mean of 0."),
    ("aggregate/23", "A check that fails does not make the whole test pass: `purpose` is refused."),
    ("aggregate/25", "`max-score` compares outputs of several models; a test has one output."),
    ("aggregate/29", "Sets may stand in sets."),
];

#[test]
fn several_checks_together_agree() {
    let vectors = select_vectors(&["aggregate"]);
    assert_eq!(vectors.len(), 15);
    agree(&vectors, TOGETHER);
}

/// These vectors need a script host, which `kindlm-assertions` does not have.
#[test]
fn checks_with_a_transform_agree() {
    let mut vectors = vectors("deterministic.jsonl");
    vectors.retain(|it| it.pointer("/assertion/transform").is_some());
    assert_eq!(vectors.len(), 2);
    agree(&vectors, &[]);
}

#[test]
fn a_person_is_no_check_of_a_run() {
    let vectors = select_vectors(&["human"]);
    assert_eq!(vectors.len(), 1);
    agree(&vectors, &[]);
}

/// This test counts the vectors that this module runs; `kindlm-assertions` runs and counts all other vectors.
#[test]
fn every_vector_is_run_by_some_test() {
    let here = select_vectors(&["python", "webhook", "not-webhook", "aggregate", "human"]).len();
    assert_eq!(here, 26);
    assert_eq!(vectors("deterministic.jsonl").len(), here + 306);
}
