//! `tags`: the minimum pass rate of the cases with a tag.

use super::named::{self, Counts, PerName, Subject};
use super::{Meta, Options, Registration, Threshold};

pub(crate) static REGISTRATION: Registration = Registration {
    meta: Meta {
        id: "tags",
        summary: "The lowest share of test cases with a tag that must pass.",
        since: "0.1.0",
        threshold: Threshold::Names,
        default: None,
        docs: include_str!("docs.md"),
    },
    options: Some(Options {
        are_recorded: true,
        schema: named::schema,
        build: |object| named::build(&PER_NAME, object),
    }),
    build: |threshold| named::nameless(REGISTRATION.meta.id, threshold),
};

static PER_NAME: PerName = PerName {
    id: "tags",
    noun: "Tag",
    missing: "no case with the tag was judged, so the gate cannot hold",
    subject: |name| Subject::Tag(name),
    count: |case, name| {
        if case.is_unchecked() || !case.tags.iter().any(|it| it == name) {
            return Counts::default();
        }
        Counts { passed: u64::from(case.passed()), judged: 1, errored: 0 }
    },
};
