//! The arguments of `kindlm evaluate`.

use std::path::PathBuf;

use clap::Args;

use crate::args::ResponsesArgs;
use crate::values;

/// Checks recorded outputs: one record, or a series of them
///
/// Reads one JSON object, or one per line with `--jsonl`, and writes one result for each, in the same order. No model
/// under test is called, and only questions to judges use the network. For an invalid line, the result is an object
/// with `error` and `line`, and the next line follows.
#[derive(Debug, Args)]
#[command(
    after_help = "A record:\n  {\"id\": \"1\", \"agent_output\": \"Your order has shipped.\", \"tool_calls\": [], \"expect\": {\"output\": {\"contains\": [\"shipped\"]}}}\n\nExamples:\n  echo '{\"agent_output\": \"hi\", \"expect\": {\"output\": {\"maxLength\": 5}}}' | kindlm evaluate\n  kindlm evaluate --jsonl < outputs.jsonl > results.jsonl\n  kindlm evaluate --judge openai:gpt-4o-mini record.json\n  kindlm evaluate --judge openai:my-model --base-url http://localhost:8000/v1 --api-key-env MY_KEY record.json\n  kindlm evaluate -c kindlm.yaml --jsonl logs.jsonl --output results.jsonl --resume --summary summary.json\n\nExit codes: 0 all held, 1 some failed or could not be judged, 2 a line is malformed, 3 a judge could not be reached, 130 interrupted (the results so far are in `--output`)"
)]
#[expect(clippy::struct_excessive_bools, reason = "each is a flag of the command line")]
pub(crate) struct EvaluateArgs {
    /// The file with the records [default: stdin]
    #[arg(value_name = "FILE")]
    pub(crate) file: Option<PathBuf>,

    /// Read one record per line
    #[arg(long)]
    pub(crate) jsonl: bool,

    /// Print JSON also on a terminal, where the results are text by default
    #[arg(long)]
    pub(crate) json: bool,

    /// The folder that paths inside `expect` are relative to [default: the working directory]
    #[arg(long, value_name = "DIR")]
    pub(crate) base: Option<PathBuf>,

    /// Let records refer to files outside that folder
    #[arg(long)]
    pub(crate) allow_outside: bool,

    /// The judge model, such as `openai:gpt-4o-mini`
    #[arg(long, value_name = "PROVIDER:MODEL", conflicts_with = "config")]
    pub(crate) judge: Option<String>,

    /// The URL of the judge's API, such as `http://localhost:8000/v1` [default: the provider's]
    #[arg(long, value_name = "URL", requires = "judge")]
    pub(crate) base_url: Option<String>,

    /// The environment variable with the judge's key [default: the provider's]
    #[arg(long, value_name = "NAME", requires = "judge")]
    pub(crate) api_key_env: Option<String>,

    /// The suite with the judge models; a file with `kindlm`, `providers` and `models` is sufficient
    #[arg(short, long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,

    #[command(flatten)]
    pub(crate) responses: ResponsesArgs,

    /// Copy the extra keys of a record into its result, under `input`
    #[arg(long)]
    pub(crate) echo: bool,

    /// Write the results to a file; a file with results is not changed without `--resume`
    #[arg(long, value_name = "FILE", requires = "jsonl")]
    pub(crate) output: Option<PathBuf>,

    /// Resume a stopped evaluation: evaluate only the records whose result in `--output` is missing, errored or
    /// outdated
    ///
    /// A result is outdated if its record, its checks, their files or the judge changed. Records and results are
    /// matched by order and id, so keep the records in the same order.
    #[arg(long, requires = "output")]
    pub(crate) resume: bool,

    /// Write the totals of all records as JSON: counts, the average score, and the pass rate of each prompt assertion
    ///
    /// Missing folders are created.
    #[arg(long, value_name = "FILE")]
    pub(crate) summary: Option<PathBuf>,

    /// The maximum cost of judges, in US dollars; records that would exceed it are errored
    #[arg(long, value_name = "USD", value_parser = values::usd)]
    pub(crate) budget_usd: Option<f64>,

    /// Allow a budget although the price of the judge is unknown; its cost is not counted
    #[arg(long)]
    pub(crate) allow_unpriced: bool,

    /// The maximum number of records that are judged concurrently
    #[arg(short = 'j', long, value_name = "N", default_value_t = 8, value_parser = values::count::<256>)]
    pub(crate) concurrency: u32,
}
