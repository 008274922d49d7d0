//! The source of the models' answers: requests to providers, or the response store.

use std::path::{Path, PathBuf};

use kindlm_assertions::ScriptSettings;
use kindlm_config::Programs;
use kindlm_providers::{Deciding, runs_scripts, wraps_agent};
use kindlm_store::responses::{Mode, Responses, Tally};
use kindlm_types::Files;
use serde_json::{Map, Value, json};

use crate::secrets::Secrets;
use crate::{Failure, World};

/// The source of the models' answers.
#[derive(Clone, Debug)]
pub struct ResponseSource {
    /// The mode of the response store.
    pub mode: Mode,
    /// The folder of the response store, relative to the working folder. The default is `.kindlm/responses` next to the
    /// suite.
    pub folder: Option<PathBuf>,
}

impl Default for ResponseSource {
    /// Returns a source that requests every answer and stores none.
    fn default() -> Self {
        Self { mode: Mode::Live, folder: None }
    }
}

impl ResponseSource {
    /// Returns true if every answer is requested from the provider.
    pub fn always_asks(&self) -> bool {
        matches!(self.mode, Mode::Live | Mode::Record)
    }

    /// Returns true if an answer may be requested from the provider.
    pub fn may_ask(&self) -> bool {
        self.mode != Mode::Replay
    }

    /// Opens the response store in the folder of the source.
    ///
    /// The default folder is `responses` in `state`.
    ///
    /// # Errors
    ///
    /// Fails if the folder cannot be used.
    pub(crate) fn open(
        &self,
        world: &World,
        state: &Path,
        (providers, scripts, files): (&Map<String, Value>, &ScriptSettings, &dyn Files),
        secrets: &Secrets,
    ) -> Result<Responses, Failure> {
        let named = self.folder.as_ref().map(|it| world.working_dir.join(it));
        let folder = named.unwrap_or_else(|| state.join("responses"));
        let folder =
            folder.strip_prefix(&world.working_dir).map_or(folder.clone(), Path::to_path_buf);
        let mut responses = Responses::new(folder, self.mode).with_secrets(secrets.rules());
        let programs = Programs::new(files);
        for (name, config) in providers {
            if self.mode == Mode::Live {
                break;
            }
            let mut settings = match Deciding::from_config(name, config) {
                Deciding::Settings(own) => own,
                Deciding::Setup(own) | Deciding::Prepared(own) => {
                    responses = responses.with_setup(name, &Value::Object(own).to_string());
                    Map::new()
                }
            };
            if wraps_agent(&world.registries.providers, name, config) {
                responses = responses.with_wrapped_agent(name);
            }
            if runs_scripts(name, config) {
                settings.extend(scripts.deciding().map(|it| ("scripts".to_owned(), it)));
            }
            responses = responses.with_settings(name, settings);
            let files = programs.named_in(config);
            let files = files.iter().map(|(path, digest)| (path.clone(), digest.to_string()));
            responses = responses.with_files(name, files);
        }
        responses.check().map_err(|err| {
            let failure = Failure::input(err.to_string());
            match self.mode {
                Mode::Replay => failure
                    .with_help("run once with `--responses record` or `cache` to record answers"),
                _ => failure,
            }
        })?;
        Ok(responses)
    }
}

/// Returns the settings that affect the provider's answers, with digests of the files that the settings name.
///
/// Returns `None` if the provider only has prepared answers.
///
/// API keys are left out, because they do not change an answer.
pub(crate) fn decided_by(name: &str, config: &Value, programs: &Programs<'_>) -> Option<Value> {
    let (Deciding::Setup(own) | Deciding::Settings(own)) = Deciding::from_config(name, config)
    else {
        return None;
    };
    let files = programs.named_in(config);
    let files = files.iter().map(|(path, digest)| (path.clone(), digest.to_string().into()));
    Some(json!([name, own, files.collect::<Map<_, _>>()]))
}

/// Sends notices about the use of the response store.
///
/// A warning reports answers that could not be stored.
pub(crate) fn report_use(world: &World, responses: &Responses, quiet: bool) {
    if let Some(failure) = responses.failure() {
        world.notify(&format!("warning: answers could not be stored: {failure}"));
    }
    if !quiet && responses.mode() != Mode::Live {
        world.notify(&describe_tally(responses.tally(), &responses.folder().display().to_string()));
    }
}

fn describe_tally(tally: Tally, folder: &str) -> String {
    let Tally { recalled, missing, answered, kept, redacted } = tally;
    let mut parts = Vec::new();
    if recalled > 0 {
        parts.push(format!("{} from `{folder}`", answers(recalled)));
    }
    if missing > 0 {
        parts.push(format!("{} not in `{folder}`", answers(missing)));
    }
    if answered > 0 {
        parts.push(match answered - kept.min(answered) {
            0 => format!("{} requested, and stored in `{folder}`", answers(answered)),
            lost => format!("{} requested, of which {lost} could not be stored", answers(answered)),
        });
    }
    if parts.is_empty() {
        parts.push(format!("no answer was loaded from `{folder}`, and none was requested"));
    }
    let mut text = format!("responses: {}", parts.join("; "));
    if redacted > 0 {
        let s = if redacted == 1 { "" } else { "s" };
        text = format!("{text}; secrets were removed from {redacted} stored answer{s}");
    }
    text
}

fn answers(count: u64) -> String {
    if count == 1 { "1 answer".to_owned() } else { format!("{count} answers") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reports_the_source_of_answers() {
        let tally = |recalled, answered, kept, redacted| Tally {
            recalled,
            answered,
            kept,
            redacted,
            ..Tally::default()
        };
        let missing = Tally { missing: 1, ..tally(2, 0, 0, 0) };
        assert_eq!(
            describe_tally(missing, "d"),
            "responses: 2 answers from `d`; 1 answer not in `d`"
        );
        for (tally, expected) in [
            (tally(0, 0, 0, 0), "responses: no answer was loaded from `d`, and none was requested"),
            (tally(1, 0, 0, 0), "responses: 1 answer from `d`"),
            (
                tally(2, 1, 1, 0),
                "responses: 2 answers from `d`; 1 answer requested, and stored in `d`",
            ),
            (tally(0, 3, 1, 0), "responses: 3 answers requested, of which 2 could not be stored"),
            (
                tally(0, 2, 2, 1),
                "responses: 2 answers requested, and stored in `d`; secrets were removed from 1 stored answer",
            ),
        ] {
            assert_eq!(describe_tally(tally, "d"), expected);
        }
    }
}
