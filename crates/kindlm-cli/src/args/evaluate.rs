//! The arguments of `kindlm evaluate`.

use std::path::PathBuf;

use clap::Args;

use crate::args::ResponsesArgs;
use crate::values;

/// Checks recorded outputs, one or a stream of them
///
/// Reads one JSON object, or one on each line with `--jsonl`, and writes one result for each, in the same order. No
/// model under test is called. Only questions to judges leave the machine. A line that cannot be read gives an
/// object with `error` and `line`, and the stream continues.
#[derive(Debug, Args)]
#[command(
    after_help = "A record:\n  {\"id\": \"1\", \"agent_output\": \"Your order has shipped.\", \"tool_calls\": [], \"expect\": {\"output\": {\"contains\": [\"shipped\"]}}}\n\nExamples:\n  echo '{\"agent_output\": \"hi\", \"expect\": {\"output\": {\"maxLength\": 5}}}' | kindlm evaluate\n  kindlm evaluate --jsonl < outputs.jsonl > results.jsonl\n  kindlm evaluate --judge openai:gpt-4o-mini record.json\n  kindlm evaluate --judge openai:my-model --base-url http://localhost:8000/v1 --api-key-env MY_KEY record.json\n  kindlm evaluate -c kindlm.yaml --jsonl logs.jsonl --output results.jsonl --resume --summary summary.json\n\nExit codes: 0 all held, 1 some failed or could not be judged, 2 a line is malformed, 3 a judge could not be reached, 130 interrupted (what was found out is in `--output`)"
)]
#[expect(clippy::struct_excessive_bools, reason = "each is a flag of the command line")]
pub(crate) struct EvaluateArgs {
    /// The records [default: stdin]
    #[arg(value_name = "FILE")]
    pub(crate) file: Option<PathBuf>,

    /// One record on each line
    #[arg(long)]
    pub(crate) jsonl: bool,

    /// The folder that paths inside `expect` are relative to [default: the working directory]
    #[arg(long, value_name = "DIR")]
    pub(crate) base: Option<PathBuf>,

    /// Let records refer to files outside that folder
    #[arg(long)]
    pub(crate) allow_outside: bool,

    /// The model that judges, such as `openai:gpt-4o-mini`
    #[arg(long, value_name = "PROVIDER:MODEL", conflicts_with = "config")]
    pub(crate) judge: Option<String>,

    /// The address of the judge's API, such as `http://localhost:8000/v1` [default: the provider's]
    #[arg(long, value_name = "URL", requires = "judge")]
    pub(crate) base_url: Option<String>,

    /// The environment variable that holds the judge's key [default: the provider's]
    #[arg(long, value_name = "NAME", requires = "judge")]
    pub(crate) api_key_env: Option<String>,

    /// A suite whose models may judge; a file with `kindlm`, `providers` and `models` is enough
    #[arg(short, long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,

    #[command(flatten)]
    pub(crate) responses: ResponsesArgs,

    /// Copy the extra keys of a record into its result, under `input`
    #[arg(long)]
    pub(crate) echo: bool,

    /// Write the results to a file; a file that has results is not changed unless `--resume` is given
    #[arg(long, value_name = "FILE", requires = "jsonl")]
    pub(crate) output: Option<PathBuf>,

    /// Resume the `--output` of an evaluation that was stopped: only records whose result is missing or errored are
    /// evaluated
    ///
    /// Records and results are matched by their order and ids: give the same records.
    #[arg(long, requires = "output")]
    pub(crate) resume: bool,

    /// Write the totals of all records as JSON: counts, the average score, and the pass rate of each prompt assertion
    ///
    /// Missing folders are made, as for the files of reporters.
    #[arg(long, value_name = "FILE")]
    pub(crate) summary: Option<PathBuf>,

    /// The most that judges may cost, in US dollars; records that would cost more are errored
    #[arg(long, value_name = "USD", value_parser = values::usd)]
    pub(crate) budget_usd: Option<f64>,

    /// Allow a budget although the price of the judge is not known; its cost is not counted
    #[arg(long)]
    pub(crate) allow_unpriced: bool,

    /// How many records are judged at once
    #[arg(long, value_name = "N", default_value_t = 8, value_parser = values::count::<256>)]
    pub(crate) concurrency: u32,
}
