//! `openai`: the chat completions and embeddings of OpenAI, and of every compatible server.

use crate::dialect::openai::{Config, OpenAi};
use crate::dialect::settings;
use crate::{Kind, Meta, Registration};

pub(crate) static REGISTRATION: Registration = Registration {
    meta: Meta {
        id: "openai",
        summary: "Chat completions of OpenAI, and of every server with the same API.",
        since: "0.1.0",
        key_variable: Some("OPENAI_API_KEY"),
        shorthand: true,
        wraps_agent: false,
        docs: include_str!("docs.md"),
    },
    schema: |it| it.reference::<Config>(),
    kind: Kind::Http(|config| Ok(Box::new(OpenAi::new(settings::parse_config(config)?, BASE)?))),
};

const BASE: &str = "https://api.openai.com/v1";
