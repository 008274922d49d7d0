//! `kindlm assertions`: lists the assertions.

use std::fmt::Write as _;

use kindlm_assertions::{Meta, assertions};
use kindlm_types::{Class, ExitStatus};
use serde_json::{Value, json};

use super::schema::pretty;
use crate::args::{AssertionsArgs, Format};
use crate::{Io, print};
use kindlm_run::Outcome;

pub(crate) fn run(args: &AssertionsArgs, io: &mut Io) -> Outcome {
    let text = match args.format {
        Format::Text => table(),
        Format::Json => pretty(&assertions().map(|it| entry(&it.meta)).collect::<Value>()),
    };
    print(io, &text)?;
    Ok(ExitStatus::Success)
}

fn table() -> String {
    let width = assertions().map(|it| it.meta.id.len()).max().unwrap_or(0);
    let mut text = String::new();
    for meta in assertions().map(|it| &it.meta) {
        let _ = writeln!(text, "{:width$}  {:8}  {}", meta.id, judged_by(meta), meta.summary);
    }
    text.push_str("\n`kindlm explain <id>` shows the page of an assertion.\n");
    text
}

fn judged_by(meta: &Meta) -> &'static str {
    match meta.class {
        Class::Deterministic => "by rules",
        Class::Probabilistic => "by model",
    }
}

fn entry(meta: &Meta) -> Value {
    json!({
        "id": meta.id,
        "path": meta.path.map(|it| it.pointer),
        "class": meta.class,
        "summary": meta.summary,
        "since": meta.since,
        "codes": meta.codes.iter().map(|it| it.code.as_str()).collect::<Vec<_>>(),
    })
}
