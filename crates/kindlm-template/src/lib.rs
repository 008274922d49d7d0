//! Templates over the variables of a test: Jinja, in prompts, in values of checks, in requests.
//!
//! promptfoo renders them with nunjucks, a Jinja for JavaScript. Settings are those under which the two agree: what
//! is not defined is an empty text, nothing is escaped, values are printed as JavaScript prints them, texts and lists
//! have a `.length` and the common methods. A text without `{{`, `{%` or `{#` is never touched.
//!
//! ```
//! use kindlm_template::{Variables, read};
//! use serde_json::json;
//!
//! let vars = json!({"name": "Ada", "items": [1, 2]});
//! let variables = Variables::new(vars.as_object().unwrap(), &serde_json::Map::new());
//! assert_eq!(variables.render("{{ name | upper }}: {{ items.length }}").unwrap(), "ADA: 2");
//!
//! let fault = read("{{ name | uper }}").unwrap_err();
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
pub use read::{Read, read};
pub use steps::Missing;
pub use variables::Variables;

use kindlm_types::pointer;
use serde_json::Value;

/// True if a text is a template.
pub fn is_template(text: &str) -> bool {
    ["{{", "{%", "{#"].iter().any(|mark| text.contains(mark))
}

/// Looks at each template in a value, with its pointer.
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

/// A text as a template that renders to it, whatever marks of templates are in it.
pub fn literal(text: &str) -> String {
    if !is_template(text) {
        return text.to_owned();
    }
    let mut template = String::with_capacity(text.len() + 16);
    let mut rest = text.chars().peekable();
    while let Some(c) = rest.next() {
        template.push(c);
        // An empty expression between the two keeps them from being a mark.
        if c == '{' && matches!(rest.peek(), Some('{' | '%' | '#')) {
            template.pop();
            template.push_str("{{ '{' }}");
        }
    }
    template
}

/// The environment variables that a template names, as `env.NAME`, in its order; one may be named several times.
pub fn environment(text: &str) -> impl Iterator<Item = &str> {
    text.match_indices("env.").map(|(at, mark)| {
        let rest = &text[at + mark.len()..];
        let end = rest.find(|it: char| !it.is_ascii_alphanumeric() && it != '_');
        &rest[..end.unwrap_or(rest.len())]
    })
}
