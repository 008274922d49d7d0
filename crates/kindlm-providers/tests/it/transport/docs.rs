//! Checks the examples in the documentation pages of the providers without a codec.

use kindlm_providers::find;
use kindlm_providers::scripted::Script;

use super::*;

/// Returns the fenced blocks of a page with this info string.
fn blocks<'a>(page: &'a str, info: &'a str) -> impl Iterator<Item = &'a str> {
    page.split("\n```").filter_map(move |block| block.strip_prefix(info)?.strip_prefix('\n'))
}

#[test]
fn configurations_in_the_pages_are_valid() {
    let replies = blocks(find("scripted").unwrap().meta.docs, "yaml replies").next().unwrap();
    let files = Memory(Box::leak(Box::new([("./replies.yaml", &*replies.to_owned().leak())])));
    for id in ["command", "echo", "mcp", "scripted"] {
        let page = find(id).unwrap().meta.docs;
        let examples: Vec<&str> = blocks(page, "yaml providers").collect();
        assert!(!examples.is_empty(), "{id}");
        for example in examples {
            let config: Value = serde_yaml::from_str(example).unwrap();
            Client::new(&providers(config), &files, client_options()).unwrap();
        }
    }
}

#[test]
fn the_scripted_page_works() {
    let replies = blocks(find("scripted").unwrap().meta.docs, "yaml replies").next().unwrap();
    let replies: Vec<_> = serde_yaml::from_str(replies).unwrap();
    let script = Script::new("the page", replies);
    let reply = |text: &str| script.reply("scripted", &prompt(text)).result;
    assert_eq!(reply("where is order 12345?").unwrap().tool_calls[0].name, "lookup_order");
    assert_eq!(reply("be flaky").unwrap_err().message, "try again");
    assert_eq!(reply("be flaky").unwrap().text, "How can I help?");
}

#[test]
fn the_prompt_in_the_command_page_is_a_prompt() {
    let page = find("command").unwrap().meta.docs;
    let example = blocks(page, "json prompt").next().unwrap();
    let read: Prompt = serde_json::from_str(example).unwrap();
    let expected: Value = serde_json::from_str(example).unwrap();
    assert_eq!(serde_json::to_value(read).unwrap(), expected);
}
