//! `probabilisticPassRate`: the minimum pass rate of the checks that a model judges.

use kindlm_types::Class;

use super::floor::{self, Floor, Without};
use super::{Meta, Options, Registration, Threshold};

pub(crate) static REGISTRATION: Registration = Registration {
    meta: Meta {
        id: "probabilisticPassRate",
        summary: "The lowest share of checks judged by a model that must pass, over all repeats.",
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
    name: "Probabilistic pass rate",
    add: |case, scores| {
        let checks = case.checks;
        scores.add_counts(case, checks.probabilistic_passed, checks.probabilistic_total);
    },
    without: Without::Checks {
        kind: "probabilistic check",
        is_one: |it| it.class == Class::Probabilistic && it.parts().is_empty() && it.is_check(),
    },
};
