//! Jinja templates over the variables of a test, in prompts, checks and requests.
//!
//! promptfoo renders such templates with nunjucks, a Jinja for JavaScript. This crate renders them in the same way:
//!
//! - Undefined variables are rendered as empty texts.
//! - Values are not escaped, and are printed as in JavaScript.
//! - Texts and lists have `.length` and the common methods of JavaScript.
//!
//! A text without `{{`, `{%` or `{#` stays unchanged.
//!
//! ```
//! use kindlm_template::{Variables, read_names};
//! use serde_json::json;
//!
//! let vars = json!({"name": "Ada", "items": [1, 2]});
//! let variables = Variables::new(vars.as_object().unwrap(), &serde_json::Map::new());
//! assert_eq!(variables.render("{{ name | upper }}: {{ items.length }}").unwrap(), "ADA: 2");
//!
//! let fault = read_names("{{ name | uper }}").unwrap_err();
//! assert_eq!(fault.message, "there is no filter `uper`");
//! assert_eq!(fault.help.unwrap(), "did you mean `upper`?");
//! ```

mod bounded;
mod built_in;
mod defaults;
mod engine;
mod fault;
mod filters;
mod methods;
mod names;
mod read;
mod rendering;
mod scope;
mod steps;
mod syntax;
mod text;
mod tree;
mod variables;
mod walk;

pub use defaults::with_default;
pub use engine::{Filter, Filters};
pub use fault::Fault;
pub use read::{TemplateNames, read_names};
pub use rendering::Missing;
pub use text::printed;
pub use variables::Variables;

use kindlm_types::pointer;
use serde_json::Value;

/// Returns true if a text contains template syntax.
pub fn is_template(text: &str) -> bool {
    ["{{", "{%", "{#"].iter().any(|mark| text.contains(mark))
}

/// Calls `look` with the JSON pointer and the text of each template in a value.
///
/// `at` is the pointer of the value itself; the pointers of its templates start with `at`.
pub fn each_template(value: &Value, at: &str, look: &mut impl FnMut(&str, &str)) {
    match value {
        Value::String(text) if is_template(text) => look(at, text),
        Value::Array(items) => {
            for (index, item) in items.iter().enumerate() {
                each_template(item, &format!("{at}/{index}"), look);
            }
        }
        Value::Object(entries) => {
            for (key, item) in entries {
                let key = pointer::segment(key);
                each_template(item, &format!("{at}/{key}"), look);
            }
        }
        _ => {}
    }
}

/// Makes a template that renders to exactly this text. The text may contain template syntax.
pub fn literal(text: &str) -> String {
    if !is_template(text) {
        return text.to_owned();
    }
    let mut template = String::with_capacity(text.len() + 16);
    let mut rest = text.chars().peekable();
    while let Some(c) = rest.next() {
        template.push(c);
        // Replace the brace by an expression, so that it does not start a delimiter.
        if c == '{' && matches!(rest.peek(), Some('{' | '%' | '#')) {
            template.pop();
            template.push_str("{{ '{' }}");
        }
    }
    template
}

/// Returns each name after `env.` in a text, in order. Names can repeat, and can be empty.
pub fn environment(text: &str) -> impl Iterator<Item = &str> {
    text.match_indices("env.").map(|(at, mark)| {
        let rest = &text[at + mark.len()..];
        let end = rest.find(|it: char| !it.is_ascii_alphanumeric() && it != '_');
        &rest[..end.unwrap_or(rest.len())]
    })
}
