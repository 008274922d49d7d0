//! `judgeAvgMin`: the minimum average of the judges' scores.

use super::floor::{self, Floor, Without};
use super::{Meta, Options, Registration, Threshold};

pub(crate) static REGISTRATION: Registration = Registration {
    meta: Meta {
        id: "judgeAvgMin",
        summary: "The lowest average of all judge scores.",
        since: "0.1.0",
        threshold: Threshold::Rate,
        default: None,
        docs: include_str!("docs.md"),
    },
    options: Some(Options {
        are_recorded: true,
        schema: floor::schema,
        build: |object| floor::build(&FLOOR, object),
    }),
    build: |threshold| floor::plain(&FLOOR, threshold),
};

static FLOOR: Floor = Floor {
    id: REGISTRATION.meta.id,
    name: "Judge avg",
    add: |case, scores| {
        let judged = case.scores.iter().filter(|it| it.assertion == "judge");
        scores.add_scores(case, judged.map(|it| it.mean));
    },
    without: Without::Checks { kind: "`judge` check", is_one: |it| it.assertion == "judge" },
};
