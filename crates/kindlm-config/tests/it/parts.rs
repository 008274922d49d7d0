//! Messages with images, sounds and files.

use kindlm_config::{Loaded, import};
use kindlm_engine::{Subject, Suite};
use kindlm_providers::{Kind, REGISTRY};
use kindlm_types::{Message, Prompt};
use serde_json::{Value, json};

use crate::memory::{Memory, brief, load_with};

/// Returns a suite with a prompt that has this content, and with a test that has these variables.
fn suite(content: &str, vars: &str) -> String {
    format!(
        r"
kindlm: 1
project: demo
suite: {{ name: pictures }}
models: [openai:gpt-4o]
prompts:
  ask:
    messages:
      - role: user
        content: {content}
tests:
  - {{ name: asks, prompt: ask, vars: {vars}, expect: {{ output: {{ contains: [cat] }} }} }}
"
    )
}

fn files() -> Memory {
    Memory::from_files([
        ("cat.png", "cat"),
        ("dog.png", "dog"),
        ("hi.mp3", "hi"),
        ("terms.pdf", "pdf"),
        ("notes.txt", "notes"),
        ("provider.py", ""),
    ])
}

fn messages(suite: &Suite) -> Vec<Message> {
    match &suite.cases[0].body.body().unwrap().subject {
        Subject::Prompt { messages } => messages.clone(),
        other => panic!("{other:?}"),
    }
}

/// Returns the body of the request that the codec of a provider makes for the first test.
fn request(provider: &str, suite: &Suite) -> Value {
    let registration = REGISTRY.iter().find(|it| it.meta.id == provider).unwrap();
    let Kind::Http(open) = registration.kind else { panic!("{provider}") };
    let codec = open(&json!({"apiKeyEnv": "KEY"})).unwrap();
    let model = "m".to_owned();
    let prompt = Prompt { model, messages: messages(suite), ..Prompt::default() };
    codec.encode(&prompt).unwrap().json().into_owned()
}

fn loaded(content: &str, vars: &str) -> Suite {
    let loaded = load_with(&suite(content, vars), &files());
    assert_eq!(brief(&loaded.diagnostics), [""; 0]);
    loaded.suite.unwrap()
}

#[test]
fn parts_are_sent_in_the_form_of_the_provider() {
    let content = r#"[{text: "What is {{what}}?"}, {image: file://cat.png}, {audio: "{{sound}}"}, {file: file://terms.pdf}]"#;
    let suite = loaded(content, "{ what: this, sound: file://hi.mp3 }");
    assert_eq!(
        request("openai", &suite)["messages"][0]["content"],
        json!([
            {"type": "text", "text": "What is this?"},
            {"type": "image_url", "image_url": {"url": "data:image/png;base64,Y2F0"}},
            {"type": "input_audio", "input_audio": {"data": "aGk=", "format": "mp3"}},
            {"type": "file", "file": {"filename": "terms.pdf", "file_data": "data:application/pdf;base64,cGRm"}},
        ])
    );
    let message = &messages(&suite)[0];
    let stored = serde_json::to_string(message).unwrap();
    assert!(!stored.contains("Y2F0") && stored.contains("\"size\":3"), "{stored}");
    assert!(message.content.contains("[image cat.png: image/png, 3 bytes, sha256"), "{message:?}");
}

#[test]
fn raw_parts_are_sent_unchanged() {
    let content = r#"[{raw: {type: image_url, image_url: {url: "{{ photo }}", detail: low}}}]"#;
    let suite = loaded(content, "{ photo: file://cat.png }");
    let expected = json!({"type": "image_url", "image_url": {"url": "data:image/png;base64,Y2F0", "detail": "low"}});
    assert_eq!(request("openai", &suite)["messages"][0]["content"], json!([expected]));
}

#[test]
fn a_changed_file_changes_the_digest_of_its_test() {
    let digests = |cat: &str, content: &str, vars: &str| {
        let files = Memory::from_files([("cat.png", cat), ("dog.png", "dog")]);
        let suite = load_with(&suite(content, vars), &files).suite.unwrap();
        (suite.cases[0].digest, suite.cases[0].task_digest)
    };
    let fixed = "[{image: file://cat.png}]";
    let (whole, task) = (digests("a", fixed, "{}"), digests("b", fixed, "{}"));
    assert_ne!(whole.0, task.0);
    assert_eq!(whole.1, task.1, "the image belongs to the prompt");
    for content in ["[{image: \"{{x}}\"}]", "[{raw: {type: image, data: \"{{x}}\"}}]"] {
        let of = |cat: &str| digests(cat, content, "{ x: file://cat.png }");
        assert_ne!(of("a").0, of("b").0, "{content}");
        assert_ne!(of("a").1, of("b").1, "{content}: the image belongs to the task");
        assert_eq!(of("a"), of("a"));
    }
}

#[test]
fn evidence_keeps_no_data_of_variables() {
    let data = "AAAA".repeat(100);
    let vars = format!("{{ a: '{data}', b: {{ c: ['data:image/png;base64,{data}'] }}, d: hi }}");
    let suite = loaded("[{raw: {type: image, data: \"{{a}}\"}}]", &vars);
    let vars = json!(suite.cases[0].body.body().unwrap().vars);
    assert!(!vars.to_string().contains(&data), "{vars}");
    for (pointer, beginning) in [
        ("/a", "(300 bytes, sha256 "),
        ("/b/c/0", "data:image/png;base64,(300 bytes"),
        ("/d", "hi"),
    ] {
        let text = vars.pointer(pointer).unwrap().as_str().unwrap();
        assert!(text.starts_with(beginning), "{pointer}: {text}");
    }
}

#[test]
fn invalid_parts_are_errors_at_their_place() {
    for (content, vars, place, message) in [
        ("[{image: file://bird.png}]", "{}", "file://bird.png", "`bird.png` does not exist"),
        ("[{image: \"{{x}}\"}]", "{ x: file://bird.png }", "file://bird.png }", "does not exist"),
        ("[{image: \"{{x}}\"}]", "{ x: bird }", "bird }", "`bird` names no image"),
        ("[{image: file://terms.pdf}]", "{}", "file://terms.pdf", "is not an image"),
        ("[{file: file://../secret.pdf}]", "{}", "file://../secret.pdf", "outside the folder"),
        ("[{image: \"{{y}}\"}]", "{ x: 1 }", "vars", "`y` has no value"),
        ("[{raw: {url: \"{{y}}\"}}]", "{ x: 1 }", "vars", "`y` has no value"),
        ("[{image: file://cat.png, text: hi}]", "{}", "{image", "at most 1 key"),
        ("[{picture: file://cat.png}]", "{}", "picture", "unknown key `picture`"),
        ("[]", "{}", "[]", ""),
    ] {
        let text = suite(content, vars);
        let Loaded { diagnostics, suite, .. } = load_with(&text, &files());
        assert!(suite.is_none(), "{content}");
        let found = diagnostics.iter().find(|it| it.message.contains(message));
        let found = found.unwrap_or_else(|| panic!("{content}: {:?}", brief(&diagnostics)));
        let shown = &text[found.span.start as usize..];
        assert!(shown.starts_with(place), "{content}: {message}: at {shown:.30}");
    }
    for (part, is_error) in [
        ("{image: file://cat.png}", true),
        ("{raw: {type: image_url, image_url: {url: \"https://e.com\"}}}", true),
        ("{raw: {type: text, text: hi}}", false),
    ] {
        let text = suite(&format!("[{part}]"), "{}").replace("role: user", "role: assistant");
        let found = brief(&load_with(&text, &files()).diagnostics).join("\n");
        let says = found.contains("a message of the assistant has only text");
        assert_eq!(says, is_error, "{part}: {found}");
    }
}

/// Loads a promptfoo config.
fn promptfoo(prompt: &str, provider: &str, vars: &str) -> Loaded {
    let config =
        format!("prompts: ['{prompt}']\nproviders: [{provider}]\ntests: [{{ vars: {vars} }}]\n");
    load_with(&config, &files())
}

#[test]
fn promptfoo_chats_are_sent_as_promptfoo_sends_them() {
    // promptfoo fills in the variables of a chat, and then sends its messages unchanged.
    let chat = r#"[{"role": "user", "content": [{"type": "text", "text": "{{q}}"}, {"type": "image_url", "image_url": {"url": "URL", "detail": "low"}}]}]"#;
    for (url, prompt) in
        [("{{photo}}", chat.to_owned()), ("{{photo}}", chat.replace("\"{{q}}\"", "{{ q | dump }}"))]
    {
        let loaded = promptfoo(
            &prompt.replace("URL", url),
            "openai:gpt-4o",
            "{ q: Who?, photo: file://cat.png }",
        );
        assert_eq!(brief(&loaded.diagnostics), [""; 0], "{prompt}");
        let expected = json!([{"role": "user", "content": [
            {"type": "text", "text": "Who?"},
            {"type": "image_url", "image_url": {"url": "data:image/png;base64,Y2F0", "detail": "low"}},
        ]}]);
        assert_eq!(request("openai", &loaded.suite.unwrap())["messages"], expected, "{prompt}");
    }
}

#[test]
fn promptfoo_lines_with_a_file_are_parts() {
    let prompt = "Look:\n\n{{photo}}\n\nWho is it?";
    let loaded = promptfoo(prompt, "google:gemini-2.0-flash", "{ photo: file://cat.png }");
    assert_eq!(brief(&loaded.diagnostics), [""; 0]);
    let expected = json!([{"role": "user", "parts": [
        {"text": "Look:"}, {"inlineData": {"mimeType": "image/png", "data": "Y2F0"}}, {"text": "Who is it?"},
    ]}]);
    assert_eq!(request("gemini", &loaded.suite.unwrap())["contents"], expected);
}

#[test]
fn promptfoo_files_that_would_be_sent_as_paths_are_refused() {
    for (prompt, provider, vars, expected) in [
        ("Look: {{photo}}", "openai:gpt-4o", "{ photo: file://cat.png }", "inside of a text"),
        (
            "{\"a\": \"{{photo}}\"}",
            "openai:gpt-4o",
            "{ photo: file://cat.png }",
            "inside of a text",
        ),
        ("{{t}}", "openai:gpt-4o", "{ t: file://terms.pdf }", "the text of a PDF"),
        ("Hi", "file://provider.py", "{ photo: file://cat.png }", "gets the variables of a test"),
    ] {
        let found = brief(&promptfoo(prompt, provider, vars).diagnostics);
        assert!(found.iter().any(|it| it.contains(expected)), "{prompt}: {found:?}");
    }
}

#[test]
fn an_import_keeps_the_reference_to_a_file() {
    let config = "prompts: ['[{\"role\": \"user\", \"content\": [{\"type\": \"image_url\", \"image_url\": {\"url\": \"{{photo}}\"}}]}]']\nproviders: [openai:gpt-4o]\ntests: [{ vars: { photo: file://cat.png } }]\n";
    let imported = import("promptfooconfig.yaml", config.as_bytes(), &files(), &|_| None);
    let yaml = imported.yaml.unwrap();
    assert!(yaml.contains("photo: file://cat.png") && !yaml.contains("Y2F0"), "{yaml}");
    let again = load_with(&yaml, &files());
    assert_eq!(brief(&again.diagnostics), [""; 0], "{yaml}");
    let sent = request("openai", &again.suite.unwrap());
    assert_eq!(sent["messages"][0]["content"][0]["image_url"]["url"], "data:image/png;base64,Y2F0");
}
