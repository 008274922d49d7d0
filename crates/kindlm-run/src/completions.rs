//! The names that a shell completes: test cases, tags and models of a suite, stored runs, baselines, reporters, topics.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use kindlm_config::Sources;
use kindlm_engine::Suite;
use kindlm_reporters::one_line;
use kindlm_store::{Baselines, Folder};

use crate::project::CONFIG;
use crate::secrets::Secrets;
use crate::{SuiteFolder, World, explain, stored_runs};

/// The maximum number of runs that are offered.
const RUNS: usize = 100;

/// A kind of names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Names {
    /// The names of the test cases.
    Tests,
    /// The tags of the test cases. If the typed text begins with `!`, each tag has `!` in front.
    Tags,
    /// The ids of the models and agents.
    Models,
    /// The ids of the stored runs, newest first.
    Runs,
    /// The labels of the baselines.
    Baselines,
    /// The arguments of `kindlm compare`: the labels of the baselines, then the ids of the stored runs.
    Sides,
    /// The ids of the reporters.
    Reporters,
    /// The topics of `kindlm explain`.
    Topics,
}

impl Names {
    /// Returns the kind of names for the command-line argument with this id; `None` if the argument takes no names.
    pub fn of_argument(id: &str) -> Option<Self> {
        Some(match id {
            "test" | "tests" | "patterns" | "only" => Self::Tests,
            "tags" => Self::Tags,
            "model" | "models" => Self::Models,
            "run" | "resume" => Self::Runs,
            "before" | "after" => Self::Sides,
            "baseline" | "label" => Self::Baselines,
            "reporters" => Self::Reporters,
            "topic" => Self::Topics,
            _ => return None,
        })
    }
}

/// Returns the names that begin with `typed`, each with a short description, which may be empty.
///
/// Names with line breaks or control characters are left out. No program is run, so a suite whose test cases come from
/// programs has no names. A missing suite, or a suite with errors, has no names either, because a shell cannot show
/// errors.
pub fn names(world: &World, config: &Path, kind: Names, typed: &str) -> Vec<(String, String)> {
    let place = SuiteFolder::new(world, config);
    let mut found: Vec<(String, String)> = match kind {
        Names::Tests | Names::Tags | Names::Models => {
            let Some(suite) = suite(world, &place) else { return Vec::new() };
            of_suite(&suite, kind, typed)
        }
        Names::Runs => runs(&place),
        Names::Baselines => baselines(&place),
        Names::Sides => baselines(&place).into_iter().chain(runs(&place)).collect(),
        Names::Reporters => {
            let summary = |it: &&kindlm_reporters::Registration| it.meta.summary.to_owned();
            let all = kindlm_reporters::REGISTRY.iter();
            all.map(|it| (it.meta.id.to_owned(), summary(it))).collect()
        }
        Names::Topics => topics(typed),
    };
    found.retain(|(name, _)| name.starts_with(typed) && one_line(name) == *name);
    found
}

/// Loads the suite without its programs; `None` if the suite has errors.
fn suite(world: &World, place: &SuiteFolder) -> Option<Suite> {
    let bytes = place.read_config().ok()?;
    let files = Folder::open(&place.folder).ok()?;
    let env = |name: &str| (world.env)(name);
    let sources = Sources {
        reporters: world.registries.reporters.ids().collect(),
        assertions: std::sync::Arc::clone(&world.registries.assertions),
        gates: world.registries.gates.clone(),
        providers: world.registries.providers.clone(),
        ..Sources::new(&files, &env)
    };
    let mut suite = kindlm_config::load_with(&place.name, &bytes, &sources).suite?;
    Secrets::new(world, &suite.providers).redact_names(&mut suite);
    Some(suite)
}

fn of_suite(suite: &Suite, kind: Names, typed: &str) -> Vec<(String, String)> {
    let place = |case: &kindlm_engine::TestCase| {
        let source = case.source.as_ref();
        source.map_or_else(String::new, |it| format!("{}:{}", one_line(&it.file), it.line))
    };
    let mut found: Vec<(String, String)> = match kind {
        Names::Tests => suite.cases.iter().map(|it| (it.name.clone(), place(it))).collect(),
        Names::Tags => {
            let exclude = if typed.starts_with('!') { "!" } else { "" };
            let tags = suite.cases.iter().flat_map(|it| it.tags.iter());
            tags.map(|it| (format!("{exclude}{it}"), String::new())).collect()
        }
        _ => suite.models.iter().map(|it| (it.id.clone(), it.provider.clone())).collect(),
    };
    let mut seen = std::collections::HashSet::new();
    found.retain(|(name, _)| seen.insert(name.clone()));
    found
}

fn baselines(place: &SuiteFolder) -> Vec<(String, String)> {
    let labels = Baselines::new(place.state()).list().unwrap_or_default();
    labels.into_iter().map(|it| (it, String::new())).collect()
}

fn runs(place: &SuiteFolder) -> Vec<(String, String)> {
    let runs = stored_runs::newest(place, None, RUNS).map(|(runs, _)| runs).unwrap_or_default();
    let about = |it: &stored_runs::StoredRun| {
        let suite = it.suite.as_deref().map(one_line).unwrap_or_default();
        format!("{} {suite}", it.outcome.word()).trim_end().to_owned()
    };
    runs.into_iter().map(|it| (it.id.clone(), about(&it))).collect()
}

/// Returns the topics. Keys of `kindlm.yaml` with more dots than the typed text are left out.
fn topics(typed: &str) -> Vec<(String, String)> {
    let depth = typed.matches('.').count();
    let is_near = |it: &String| it.matches('.').count() <= depth;
    explain::topics().into_iter().filter(is_near).map(|it| (it, String::new())).collect()
}

/// Returns the config file that an unfinished command line names, or else the default config file.
pub fn config(args: impl Iterator<Item = OsString>) -> PathBuf {
    named_config(args).unwrap_or_else(|| CONFIG.into())
}

fn named_config(args: impl Iterator<Item = OsString>) -> Option<PathBuf> {
    let mut words = args.map(unquoted);
    let word = words.find(|it| {
        it == "-c" || it == "--config" || it.to_string_lossy().starts_with("--config=")
    })?;
    match word.to_string_lossy().split_once('=') {
        Some((_, path)) => Some(path.into()),
        None => words.next().map(PathBuf::from),
    }
}

/// Puts a backslash before each character that has a meaning in bash.
pub fn quoted(text: &str) -> String {
    let mut quoted = String::with_capacity(text.len());
    for it in text.chars() {
        if " \t'\"\\$`&|;<>()*?[]#!{}".contains(it) {
            quoted.push('\\');
        }
        quoted.push(it);
    }
    quoted
}

/// Removes the quotes of a word that was typed into a shell, also if the last quote is still missing.
pub fn unquoted(word: OsString) -> OsString {
    let Some(text) = word.to_str() else { return word };
    let mut plain = String::with_capacity(text.len());
    let (mut chars, mut quote) = (text.chars(), None);
    while let Some(it) = chars.next() {
        match it {
            '\\' if quote != Some('\'') => plain.extend(chars.next()),
            '\'' | '"' if quote == Some(it) => quote = None,
            '\'' | '"' if quote.is_none() => quote = Some(it),
            _ => plain.push(it),
        }
    }
    plain.into()
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::sync::Arc;

    use super::*;

    const SUITE: &str = "kindlm: 1\nproject: p\nsuite: { name: s }\nproviders: { echo: {} }\n\
        models: [{ id: small, provider: echo, model: m }]\nprompts: { a: { user: hi } }\ntests:\n\
        - { name: refunds a mug, prompt: a, tags: [orders, smoke], expect: { output: { contains: [x] } } }\n\
        - { name: \"odd\\nname\", prompt: a, tags: [orders], expect: { output: { contains: [x] } } }\n";

    fn found(kind: Names, typed: &str, suite: &str) -> Vec<String> {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("kindlm.yaml"), suite).unwrap();
        let world = World::new(folder.path(), Arc::new(|_| None));
        let all = names(&world, Path::new("kindlm.yaml"), kind, typed);
        assert!(!folder.path().join(".kindlm").exists(), "nothing is written");
        all.into_iter().map(|(name, _)| name).collect()
    }

    #[test]
    fn names_of_the_suite_begin_with_the_typed_text() {
        for (kind, typed, expected) in [
            (Names::Tests, "", &["refunds a mug"][..]),
            (Names::Tests, "refunds a", &["refunds a mug"]),
            (Names::Tests, "mug", &[]),
            (Names::Tags, "", &["orders", "smoke"]),
            (Names::Tags, "!s", &["!smoke"]),
            (Names::Models, "s", &["small"]),
            (Names::Runs, "", &[]),
            (Names::Reporters, "ju", &["junit"]),
            (Names::Topics, "defaults.rep", &["defaults.repeat"]),
            (Names::Topics, "CONFIG_SY", &["CONFIG_SYNTAX"]),
        ] {
            assert_eq!(found(kind, typed, SUITE), expected, "{kind:?} {typed}");
        }
        assert!(!found(Names::Topics, "def", SUITE).contains(&"defaults.repeat".to_owned()));
    }

    #[test]
    fn damaged_baseline_hides_no_runs() {
        let folder = tempfile::tempdir().unwrap();
        let world = World::new(folder.path(), Arc::new(|_| None));
        let state = SuiteFolder::new(&world, Path::new("kindlm.yaml")).state();
        kindlm_store::Runs::new(&state).save("20261120-1", "{}").unwrap();
        kindlm_store::write(&Baselines::new(&state).path("main").unwrap(), b"{").unwrap();
        let all = names(&world, Path::new("kindlm.yaml"), Names::Runs, "");
        assert_eq!(all.iter().map(|(name, _)| &**name).collect::<Vec<_>>(), ["20261120-1"]);
    }

    #[test]
    fn a_suite_with_errors_has_no_names() {
        for suite in ["", "tests: [", "kindlm: 1\n"] {
            assert!(found(Names::Tests, "", suite).is_empty());
        }
    }

    #[test]
    fn words_of_a_shell_lose_their_quotes() {
        for (word, plain) in [
            ("refunds\\ a", "refunds a"),
            ("'refunds a", "refunds a"),
            ("\"it's\"", "it's"),
            ("a\\'b", "a'b"),
        ] {
            assert_eq!(unquoted(word.into()), plain);
            assert_eq!(unquoted(quoted(plain).into()), plain);
        }
        let config_of = |line: &str| config(line.split(' ').map(OsString::from));
        assert_eq!(config_of("kindlm test --config=other/x.yaml a"), Path::new("other/x.yaml"));
        assert_eq!(config_of("kindlm test -c other -v"), Path::new("other"));
        assert_eq!(config_of("kindlm test -v"), Path::new("kindlm.yaml"));
    }
}
