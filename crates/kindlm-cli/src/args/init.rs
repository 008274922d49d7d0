//! The arguments of `kindlm init`.

use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use clap::{Args, ValueEnum};
use kindlm_run::init::Provider;

/// Creates a first suite that runs at once
///
/// Writes `kindlm.yaml` to the working directory. Its first line gives editors completion. The templates use scripted
/// models, so `kindlm test` works without a key; with `--provider`, the suite uses a real model. Adds runs and `.env`
/// to `.gitignore`.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  kindlm init\n  kindlm init --template agent && kindlm test\n  kindlm init --provider openai --ci github"
)]
pub(crate) struct InitArgs {
    /// The template [default: basic]
    #[arg(short, long, value_enum, conflicts_with = "provider")]
    pub(crate) template: Option<Template>,

    /// Use a model of this provider instead of scripted models; replace any `MODEL` and `JUDGE_MODEL` in the suite
    #[arg(short, long, value_parser = provider())]
    pub(crate) provider: Option<Provider>,

    /// Also write a CI job; without `--template` and `--provider`, an existing suite is not changed
    #[arg(long, value_enum)]
    pub(crate) ci: Option<Ci>,

    /// Replace existing files
    #[arg(short, long)]
    pub(crate) force: bool,
}

/// A template for the suite.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Template {
    /// Two prompts with checks of words, personal data, JSON and a judge
    Basic,
    /// An agent that calls tools, with simulated answers
    Agent,
    /// A suite with tags, gates and a report for the EU AI Act
    Compliance,
}

/// Returns the parser of a provider. Its possible values are all providers.
fn provider() -> impl TypedValueParser<Value = Provider> {
    let value = |it: Provider| {
        let value = PossibleValue::new(it.name()).help(it.summary());
        if it == Provider::Google { value.alias("gemini") } else { value }
    };
    PossibleValuesParser::new(Provider::all().map(value))
        .try_map(|name| Provider::find(&name).ok_or("unknown provider"))
}

/// A CI service.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Ci {
    /// `.github/workflows/kindlm.yml`
    Github,
    /// `.gitlab-ci.yml`
    Gitlab,
}
