//! Tests of models that share a client.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use kindlm_providers::{Client, ClientOptions, Limits};
use kindlm_types::{Message, Models, NoFiles, Prompt, Role, Unlimited};
use serde_json::{from_value, json};

fn prompt(model: &str) -> Prompt {
    from_value(json!({ "model": model, "messages": [Message::new(Role::User, "hi")] })).unwrap()
}

/// Five waiting calls of a sequential model do not delay the calls of another model.
#[tokio::test(start_paused = true)]
async fn calls_that_wait_for_their_turn_keep_no_place_from_others() {
    let providers = from_value(json!({ "scripted": { "replies": [
        { "when": { "model": "slow" }, "text": "slow", "latencyMs": 10_000 },
        { "text": "fast", "latencyMs": 10 },
    ] } }))
    .unwrap();
    let one = Limits { concurrency: 1.try_into().ok(), ..Limits::default() };
    let options = ClientOptions::new(Arc::new(|_| None), ".")
        .with_concurrency(2)
        .with_limits("scripted", "slow", Limits::default())
        .with_limits("scripted", "slow", one);
    let client = Arc::new(Client::new(&providers, &NoFiles, options).unwrap());
    assert!(client.limits_calls());
    let order = Arc::new(Mutex::new(Vec::new()));
    let models = ["slow"; 5].into_iter().chain(["fast"; 5]);
    let calls = models.map(|model| {
        let (client, order) = (Arc::clone(&client), Arc::clone(&order));
        tokio::spawn(async move {
            let minute = Duration::from_mins(1);
            Models::complete(&*client, "scripted", &prompt(model), minute, &Unlimited)
                .await
                .unwrap();
            order.lock().unwrap().push(model);
        })
    });
    for call in calls.collect::<Vec<_>>() {
        call.await.unwrap();
    }
    let expected: Vec<&str> = ["fast"; 5].into_iter().chain(["slow"; 5]).collect();
    assert_eq!(*order.lock().unwrap(), expected);
}
