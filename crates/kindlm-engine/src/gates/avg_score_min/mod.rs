//! `avgScoreMin`: the minimum average score of the cases.

use super::floor::{self, Floor, Without};
use super::{Meta, Options, Registration, Threshold};

pub(crate) static REGISTRATION: Registration = Registration {
    meta: Meta {
        id: "avgScoreMin",
        summary: "The lowest average score of the test cases: their shares of passed checks.",
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
    name: "Average score",
    add: |case, scores| scores.add_scores(case, case.passed_share().into_iter()),
    without: Without::Shares,
};
