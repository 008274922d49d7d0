//! `kindlm compare`: compares two runs.

use kindlm_reporters::comparison_text;
use kindlm_run::Outcome;
use kindlm_run::compare::{self, Side};
use kindlm_run::suites::SuiteKey;
use kindlm_run::{Failure, SuiteFolder};
use kindlm_wire::v1::ComparisonDocument;

use crate::args::{CompareArgs, CompareOptions};
use crate::commands::schema::pretty;
use crate::{Io, print};

pub(crate) fn run(args: &CompareArgs, io: &mut Io) -> Outcome {
    let place = SuiteFolder::new(io, args.place.config());
    let suite = SuiteKey::named(io, args.place.config.as_deref())?;
    let words = [args.before.as_str(), args.after.as_str()];
    let [before, after] = compare::find_both(io, &place, words, suite.as_ref())?;
    show(io, &before, &after, args.how)
}

/// Compares two sides, and prints the result.
pub(crate) fn show(io: &mut Io, before: &Side, after: &Side, how: CompareOptions) -> Outcome {
    let comparison = compare::compare(before, after, how.margin);
    let text = if how.json {
        let document = serde_json::to_value(ComparisonDocument::borrowing(&comparison));
        pretty(&document.map_err(|err| Failure::internal(err.to_string()))?)
    } else {
        comparison_text(&comparison)
    };
    print(io, &text)?;
    Ok(compare::status(&comparison, how.margin.is_some()))
}
