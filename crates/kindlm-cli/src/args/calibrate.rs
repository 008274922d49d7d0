//! The arguments of `kindlm calibrate`.

use std::path::PathBuf;

use clap::Args;

use crate::args::ResponsesArgs;
use crate::values;

/// Measures how well a judge agrees with people
///
/// Reads outputs that people have labelled, and lets the judge rate them as `kindlm test` and `kindlm evaluate` would.
/// Shows the share of equal answers, Cohen's kappa with its interval, the best threshold, and the differing answers.
/// The result is stored in `.kindlm/calibrations` next to the suite, where the gate `judgeKappaMin` reads it.
///
/// The judge is asked twice about each labelled output, so that its own noise is known. With `--watch`, the judge is
/// asked again later about some of these outputs. If more verdicts differ than its own noise explains, or if another
/// model answers, the judge has changed: the exit code is 1, and `judgeKappaMin` is violated until the judge is
/// calibrated again.
///
/// Outputs without a label are judged, too. Their pass rate, and with `--report` that of a run, is corrected for the
/// judge's errors, to estimate the pass rate by people.
#[derive(Debug, Args)]
#[command(
    after_help = "A table:\n  input,output,criteria,label\n  Where is my order?,It has shipped.,Answers the question,pass\n\nExamples:\n  kindlm calibrate labels.csv --judge openai:gpt-4o-mini\n  kindlm calibrate labels.jsonl -c kindlm.yaml --criteria 'Stays polite' --responses cache\n  kindlm calibrate labels.csv -c kindlm.yaml --assertions rules.json\n  kindlm calibrate labels.csv -c kindlm.yaml --watch\n  kindlm calibrate -c kindlm.yaml --report 20261120-140912-345-7f3a\n\nExit codes: 0 done and stored, 1 some outputs could not be judged and nothing is stored, or `--watch` found a change, 2 a file or an argument is invalid and nothing was sent, 3 the judge could not be reached",
    after_long_help = "A file of labels is .csv, .tsv or .jsonl. Its columns, or the keys of its objects:\n  output        the output of the agent (required)\n  label         pass or fail, 1 or 0, or a score from 0 to 1; empty if there is no label\n  input         the input of the agent\n  criteria      the criterion as text (check `judge`)\n  assertion     the id of a rule of `--assertions`; with `instruction` and `criteria`, a new rule\n  labels.<id>   the label for each rule of a set, instead of `label`\n  check         an entry of the list form, as JSON\n  vars.<name>   variables of the test, for checks that use them\n\nA row asks one question: `check`, `assertions`, or one or both of `criteria` and `instruction`.\n\nExamples:\n  kindlm calibrate labels.csv --judge openai:gpt-4o-mini\n  kindlm calibrate labels.jsonl -c kindlm.yaml --criteria 'Stays polite' --responses cache\n  kindlm calibrate labels.csv -c kindlm.yaml --assertions rules.json\n  kindlm calibrate labels.csv -c kindlm.yaml --check '{\"type\": \"llm-rubric\", \"value\": \"Is short\"}'\n  kindlm calibrate -c kindlm.yaml --report 20261120-140912-345-7f3a\n\nExit codes: 0 done and stored, 1 some outputs could not be judged and nothing is stored, or `--watch` found a change, 2 a file or an argument is invalid and nothing was sent, 3 the judge could not be reached"
)]
#[expect(clippy::struct_excessive_bools, reason = "each is a flag of the command line")]
pub(crate) struct CalibrateArgs {
    /// The outputs with the labels of people: a table, or JSON lines [default: the stored calibration]
    #[arg(value_name = "LABELS", required_unless_present = "report")]
    pub(crate) labels: Option<PathBuf>,

    /// The judge: `provider:model`, or with `-c` the id of a model [default: the suite's judge]
    #[arg(long, value_name = "PROVIDER:MODEL|ID")]
    pub(crate) judge: Option<String>,

    /// The suite with the judge model; the result is stored next to it
    #[arg(short, long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,

    /// Let the suite refer to files outside its folder
    #[arg(long)]
    pub(crate) allow_outside: bool,

    /// The criterion for rows without one, as text
    #[arg(long, value_name = "TEXT", conflicts_with_all = ["assertions", "check"])]
    pub(crate) criteria: Option<String>,

    /// A JSON file with a set of rules, for rows without a criterion; one request judges all rules
    #[arg(long, value_name = "FILE", conflicts_with = "check")]
    pub(crate) assertions: Option<PathBuf>,

    /// A check as JSON, like an entry of the list `expect.assert`, for rows without a criterion
    #[arg(long, value_name = "JSON")]
    pub(crate) check: Option<String>,

    /// The minimum score that passes a criterion [default: 0.7, as for the check `judge`]
    #[arg(long, value_name = "SCORE", value_parser = values::score)]
    pub(crate) min_score: Option<f64>,

    /// The minimum label that counts as passed, if labels are scores
    #[arg(long, value_name = "SCORE", default_value_t = 0.5, value_parser = values::score)]
    pub(crate) label_threshold: f64,

    /// Correct the judge's pass rate of this run: an id, or the file of a report
    #[arg(long, value_name = "ID|FILE")]
    pub(crate) report: Option<String>,

    /// Ask about each output once; the judge's own noise stays unknown, and `--watch` cannot be used later
    #[arg(long)]
    pub(crate) once: bool,

    /// Ask a calibrated judge again about a sample of its calibration, to detect that it has changed
    #[arg(long, requires = "labels", conflicts_with_all = ["report", "once", "no_save", "label_threshold"])]
    pub(crate) watch: bool,

    /// The number of outputs that `--watch` asks about
    #[arg(long, value_name = "N", default_value_t = 50, value_parser = values::count::<1_000_000>, requires = "watch")]
    pub(crate) canaries: u32,

    /// Print one JSON object
    #[arg(long)]
    pub(crate) json: bool,

    /// Also write the JSON object to a file
    #[arg(short, long, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,

    /// Do not store the result
    #[arg(long)]
    pub(crate) no_save: bool,

    #[command(flatten)]
    pub(crate) responses: ResponsesArgs,

    /// The maximum cost of the judge, in US dollars
    #[arg(long, value_name = "USD", value_parser = values::usd)]
    pub(crate) budget_usd: Option<f64>,

    /// Allow a budget although the price of the judge is unknown; its cost is not counted
    #[arg(long)]
    pub(crate) allow_unpriced: bool,

    /// The maximum number of outputs that are judged concurrently
    #[arg(short = 'j', long, value_name = "N", default_value_t = 8, value_parser = values::count::<256>)]
    pub(crate) concurrency: u32,
}
