//! `passRateMin`: the minimum share of passed cases.

use super::floor::{self, Floor, Without};
use super::{Meta, Options, Registration, Threshold};

pub(crate) static REGISTRATION: Registration = Registration {
    meta: Meta {
        id: "passRateMin",
        summary: "The lowest share of test cases that must pass.",
        since: "0.1.0",
        threshold: Threshold::Rate,
        default: Some(0.95),
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
    name: "Pass rate",
    add: |case, scores| {
        if !case.is_unchecked() {
            scores.add_counts(case, u64::from(case.passed()), 1);
        }
    },
    without: Without::Cases,
};
