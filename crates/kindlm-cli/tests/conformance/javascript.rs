//! Compares the `javascript` assertion with promptfoo's results; real workers run the scripts.

use crate::workers::{Differences, agree, vectors};

/// The intended differences, with the reasons.
const DIFFERENCES: Differences<'_> = &[
    ("aggregate/empty-set", "An empty set checks nothing, so it is a mistake in the suite."),
    ("aggregate/implicit-global-leak", "Each call begins afresh: no global outlives a check."),
    ("body/await-multi", "`await` works in inline code."),
    ("body/await-single", "`await` works in inline code."),
    ("context/keys", "Scripts also see the tool calls and events where all of them are recorded."),
    (
        "context/keys-config-metadata",
        "Scripts also see the tool calls and events where all of them are recorded.",
    ),
    (
        "context/trace-keys",
        "Scripts also see the tool calls and events where all of them are recorded.",
    ),
    (
        "error/throw-undefined",
        "An exception in a file fails that check and keeps the others; there the whole row is an error.",
    ),
    (
        "file/cjs-async-rejects",
        "An exception in a file fails that check and keeps the others; there the whole row is an error.",
    ),
    (
        "file/cjs-load-throws",
        "An exception in a file fails that check and keeps the others; there the whole row is an error.",
    ),
    (
        "file/cjs-named-missing",
        "An exception in a file fails that check and keeps the others; there the whole row is an error.",
    ),
    (
        "file/cjs-named-not-function",
        "An exception in a file fails that check and keeps the others; there the whole row is an error.",
    ),
    (
        "file/cjs-named-object-only-no-name",
        "An exception in a file fails that check and keeps the others; there the whole row is an error.",
    ),
    (
        "file/cjs-object-not-function",
        "An exception in a file fails that check and keeps the others; there the whole row is an error.",
    ),
    (
        "file/cjs-throws",
        "An exception in a file fails that check and keeps the others; there the whole row is an error.",
    ),
    (
        "file/doc-main",
        "An exception in a file fails that check and keeps the others; there the whole row is an error.",
    ),
    (
        "file/mjs-class-default",
        "An exception in a file fails that check and keeps the others; there the whole row is an error.",
    ),
    (
        "file/mjs-named-and-default",
        "An exception in a file fails that check and keeps the others; there the whole row is an error.",
    ),
    (
        "file/mjs-named-no-name",
        "An exception in a file fails that check and keeps the others; there the whole row is an error.",
    ),
    (
        "file-other/contains-fn-name",
        "A script cannot make the value of another type; the suite says so when it is read.",
    ),
    ("file/absolute", "Files outside the folder of the suite are not read unless that is allowed."),
    ("file/mjs-import-builtin", "Scripts have no `fs` unless folders are granted."),
    ("file/require-builtin", "Scripts have no `fs` unless folders are granted."),
    ("file/uppercase-ext", "The ending of a file is read without regard to case."),
    ("global/error-stack", "A stack of QuickJS begins with its frames, without the message."),
    ("global/intl", "QuickJS has no `Intl`."),
    ("global/intl-segmenter", "QuickJS has no `Intl`."),
    ("global/localecompare", "QuickJS has no `Intl`."),
    (
        "return/date",
        "The host reports values as data, in which wrapped primitives are the primitives and dates are texts.",
    ),
    ("return/component-results-garbage", "A part that is no grading result is shown as errored."),
    ("return/component-results-missing", "A part without a score has that of its verdict."),
    ("return/neg-inf", "A score that is no finite number makes the check errored."),
    ("return/score-nan", "A score that is no finite number makes the check errored."),
    ("value/array", "A value that is no text is a mistake in the suite, found when it is read."),
    ("value/bool", "A value that is no text is a mistake in the suite, found when it is read."),
    ("value/missing", "A value that is no text is a mistake in the suite, found when it is read."),
    ("value/object", "A value that is no text is a mistake in the suite, found when it is read."),
];

#[test]
fn javascript_differs_from_promptfoo_on_purpose_only() {
    let vectors = vectors("javascript.jsonl");
    assert_eq!(vectors.len(), 249);
    agree(&vectors, DIFFERENCES);
}
