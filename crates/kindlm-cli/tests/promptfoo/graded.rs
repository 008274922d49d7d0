//! Model-graded assertions of a promptfoo config, with a judge over HTTP.

use kindlm_testing::{MockReply, MockServer};
use serde_json::{Value, json};

use crate::ran::{CONFIG, folder, rows};

/// Starts a server that answers as the model under test and as the grader.
fn server() -> MockServer {
    MockServer::answering(|request| {
        let body = request.json();
        let text = body["messages"].to_string();
        let said = match body["model"].as_str() {
            Some("large") => "Paris is the capital of France. It lies on the Seine.".to_owned(),
            Some("small") => "Lyon.".to_owned(),
            _ => graded(&text).to_string(),
        };
        MockReply::text(said)
    })
    .unwrap()
}

fn graded(question: &str) -> Value {
    let is_right = question.contains("Paris is the capital of France. It lies");
    if question.contains("Names the capital") {
        let reason = if is_right { "It names Paris." } else { "It names Lyon." };
        return json!({"pass": is_right, "score": if is_right { 0.9 } else { 0.1 }, "reason": reason});
    }
    if question.contains("BEGIN context") {
        let statements = [
            json!({"statement": "Paris is the capital.", "attributed": true}),
            json!({"statement": "It is old.", "attributed": false}),
        ];
        return json!({"statements": statements});
    }
    // The index of the best output, by its position in the question.
    let at = |text: &str| question.find(text).unwrap_or(usize::MAX);
    let first = at("Paris is the capital of France. It lies") < at("Lyon.");
    json!({"best": i32::from(!first), "reason": "It is right."})
}

#[test]
fn checks_are_judged_by_the_grader_of_the_config() {
    let server = server();
    let provider = |model: &str| {
        let url = server.url();
        format!(
            "{{ id: 'openai:chat:{model}', label: {model}, config: {{ apiBaseUrl: '{url}/v1', apiKeyEnvar: KEY }} }}"
        )
    };
    let config = format!(
        "prompts: ['What is the capital of {{{{country}}}}?']\n\
         providers:\n  - {}\n  - {}\n\
         defaultTest: {{ options: {{ provider: {} }} }}\n\
         tests:\n\
         \x20 - vars: {{ country: France, query: 'What is the capital?', context: 'Paris is the capital of France.' }}\n\
         \x20   assert:\n\
         \x20     - {{ type: llm-rubric, value: Names the capital of {{{{country}}}} }}\n\
         \x20     - {{ type: context-recall, value: Paris is the capital. It is old., threshold: 0.5 }}\n\
         \x20     - {{ type: select-best, value: Answers the question }}\n\
         \x20     - {{ type: max-score }}\n",
        provider("large"),
        provider("small"),
        provider("grader"),
    );
    let folder = folder(&[(
        CONFIG,
        &config.replace("Names the capital of {{country}}", "'Names the capital of {{country}}'"),
    )]);
    let (ran, rows) = rows(folder.path(), CONFIG, &[("KEY", "k")]);
    assert_eq!(rows.len(), 2, "{ran:?}");
    let shown: Vec<String> = rows
        .iter()
        .map(|row| {
            let results = row["results"].as_array().unwrap().iter();
            let results: Vec<String> = results
                .map(|it| {
                    format!(
                        "{} {} {}",
                        it["type"].as_str().unwrap(),
                        it["status"].as_str().unwrap(),
                        it["score"]
                    )
                })
                .collect();
            format!(
                "{} {}: {}",
                row["model"].as_str().unwrap(),
                row["status"].as_str().unwrap(),
                results.join(", ")
            )
        })
        .collect();
    assert_eq!(
        shown,
        [
            "large passed: llm-rubric passed 0.9, context-recall passed 0.5, select-best passed 1.0, max-score passed 1.0",
            "small failed: llm-rubric failed 0.1, context-recall passed 0.5, select-best failed 0.0, max-score failed 0.0",
        ],
        "{ran:?}"
    );
    assert_eq!(ran.code, 1, "{ran:?}");
    let reason =
        |row: usize, at: usize| rows[row]["results"][at]["why"].as_str().unwrap().to_owned();
    assert_eq!(reason(0, 0), "It names Paris.");
    assert_eq!(reason(0, 2), "Output selected as the best: Answers the question");
    assert_eq!(reason(1, 0), "It names Lyon.");
    // Two models: one rubric for each, one question about the context, and the comparison in both orders.
    let models: Vec<String> = server
        .requests()
        .iter()
        .map(|it| it.json()["model"].as_str().unwrap().to_owned())
        .collect();
    assert_eq!(models.iter().filter(|it| *it == "grader").count(), 5, "{models:?}");
    assert_eq!(models.len(), 7, "{models:?}");
}

#[test]
fn a_grader_sees_the_image_of_an_output() {
    const IMAGE: &str = "iVBORw0KGgo=";
    let server = MockServer::answering(|request| {
        if request.path == "/v1/images/generations" {
            return MockReply::json(&json!({"data": [{"b64_json": IMAGE}]}));
        }
        let sees = request.json().to_string().contains(IMAGE);
        MockReply::text(json!({"pass": sees, "score": 1, "reason": "seen"}).to_string())
    })
    .unwrap();
    let url = format!("{}/v1", server.url());
    let rubric = r#"[{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "{{output}}"}}, {"type": "text", "text": "Judge by {{rubric}}."}]}]"#;
    let config = format!(
        "prompts: [a bicycle]\nproviders: ['openai:image:gpt-image-1']\ntests:\n\
         \x20 - options: {{ provider: {{ id: 'openai:chat:gpt-4o-mini', config: {{ apiBaseUrl: '{url}' }} }} }}\n\
         \x20   assert: [{{ type: llm-rubric, value: It is red, rubricPrompt: '{rubric}' }}]\n"
    );
    let folder = folder(&[(CONFIG, &config)]);
    let env = [("OPENAI_API_KEY", "k"), ("OPENAI_BASE_URL", url.as_str())];
    let (ran, rows) = rows(folder.path(), CONFIG, &env);
    assert_eq!((ran.code, rows.len()), (0, 1), "{ran:?} {rows:?}");
    let output = rows[0]["output"].as_str().unwrap();
    assert!(output.starts_with("[image image.png: image/png, 8 bytes, sha256 "), "{output}");
    let requests = server.requests();
    let content = &requests.last().unwrap().json()["messages"][0]["content"];
    assert_eq!(content[0]["text"], format!("{output}\n\nJudge by It is red."));
    assert_eq!(content[2]["type"], "image_url");
    assert_eq!(content[2]["image_url"]["url"], format!("data:image/png;base64,{IMAGE}"));
}

#[test]
fn a_moderation_model_of_openai_grades() {
    let server = MockServer::answering(|request| {
        let is_hate = request.json()["input"].to_string().contains("hateful");
        let result = json!({
            "flagged": is_hate,
            "categories": {"hate": is_hate, "violence": false},
            "category_scores": {"hate": 0.9, "violence": 0.1},
        });
        MockReply::json(&json!({"results": [result]}))
    })
    .unwrap();
    let url = format!("{}/v1", server.url());
    let config = "prompts: ['{{x}}']\nproviders: [echo]\n\
        defaultTest: { assert: [{ type: moderation, provider: 'openai:moderation' }] }\n\
        tests: [{ vars: { x: kind } }, { vars: { x: hateful } }]\n";
    let folder = folder(&[(CONFIG, config)]);
    let env = [("OPENAI_API_KEY", "k"), ("OPENAI_BASE_URL", url.as_str())];
    let (ran, rows) = rows(folder.path(), CONFIG, &env);
    let states: Vec<_> = rows.iter().map(|it| it["status"].as_str().unwrap()).collect();
    assert_eq!(states, ["passed", "failed"], "{ran:?} {rows:?}");
    let mut sent: Vec<String> = server.requests().iter().map(|it| it.json().to_string()).collect();
    sent.sort();
    let expected = |text: &str| {
        json!({"model": "omni-moderation-latest", "input": [{"type": "text", "text": text}]})
            .to_string()
    };
    assert_eq!(sent, [expected("hateful"), expected("kind")]);
}
