//! Developer tasks of the KindLM workspace: `cargo xtask <task>`.
//!
//! `cargo xtask ci` runs the main checks of CI on the developer's machine.
#![expect(clippy::print_stdout, reason = "a task prints its results")]
#![expect(clippy::print_stderr, reason = "a task prints its errors")]

mod bench;
mod bless;
mod book;
mod circles;
mod dist;
mod entry_uses;
mod fixtures;
mod prices;
mod references;
mod registries;
mod scaffold;
mod tidy;

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, Result, bail};
use clap::{Parser, Subcommand};
use xshell::{Shell, cmd};

/// Developer tasks of the KindLM workspace.
#[derive(Debug, Parser)]
#[command(name = "cargo xtask")]
struct Args {
    #[command(subcommand)]
    task: Task,
}

#[derive(Debug, Subcommand)]
enum Task {
    /// Creates the folder of a new registry entry, and adds its `mod` line and its line in `REGISTRY`.
    New {
        /// The registry.
        kind: registries::Kind,
        /// The id, such as `wordCountMax`; for an assertion with its group, such as `text/word-count`.
        name: String,
    },
    /// Writes the files that are generated from the code: schemas, reference pages, the picture of the README.
    Codegen {
        /// Only checks that the generated files are up to date.
        #[arg(long)]
        check: bool,
    },
    /// Rewrites expected results: examples in pages, CLI cases, snapshots. Review the diff before committing.
    Bless {
        /// The id of an assertion, gate, provider or reporter: runs only the tests of its crate.
        id: Option<String>,
    },
    /// Copies the conformance vectors from a folder.
    Fixtures {
        /// The folder with `kindlm`, `kindlm-core` and `promptfoo`.
        folder: PathBuf,
    },
    /// Replaces the prices of models by those of the file `model_prices_and_context_window.json` of `LiteLLM`.
    Prices {
        /// The file.
        file: PathBuf,
        /// The date of the prices, such as `2026-01-31`.
        #[arg(long)]
        date: String,
    },
    /// Checks rules that the compiler does not check, such as pages, module docs, names in documents and dependencies.
    Tidy,
    /// Runs the benches, prints the results, and writes them to `docs/benchmarks.md`.
    Bench {
        /// Another tool to compare with: `promptfoo=<path>`; repeatable.
        #[arg(long = "peer", value_name = "NAME=PATH")]
        peers: Vec<String>,
    },
    /// Adds the pages of assertions, gates, providers and reporters to the book; `mdbook build docs` runs it.
    #[command(hide = true)]
    Book {
        /// `supports` and a renderer: exits with 0, because every renderer is supported.
        question: Vec<String>,
    },
    /// Builds the release archive for this platform in `target/dist-archive`.
    Dist,
    /// Runs the main checks of CI.
    Ci,
}

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(err) => {
            eprintln!("error: {err:#}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> Result<()> {
    let args = Args::parse();
    let sh = Shell::new()?;
    let root = root();
    sh.change_dir(&root);
    match args.task {
        Task::New { kind, name } => {
            for line in scaffold::new(&root, kind, &name)? {
                println!("{line}");
            }
            Ok(())
        }
        Task::Codegen { check } => codegen(&sh, check),
        Task::Bless { id } => bless::run(&sh, &root, id.as_deref()),
        Task::Fixtures { folder } => {
            println!("{}", fixtures::bring_in(&folder, &root.join("fixtures/conformance"))?);
            Ok(())
        }
        Task::Prices { file, date } => {
            println!("{}", prices::update(&root, &file, &date)?);
            Ok(())
        }
        Task::Tidy => tidy_or_fail(&root),
        Task::Bench { peers } => bench::run(&sh, &root, &peers),
        Task::Book { question } => {
            if question.is_empty() {
                println!("{}", book::run(&root, std::io::stdin().lock())?);
            }
            Ok(())
        }
        Task::Dist => dist::build(&sh, &root),
        Task::Ci => ci(&sh, &root),
    }
}

/// Returns the root of the workspace, or `XTASK_ROOT` if it is set. Tests set `XTASK_ROOT` to a copy of the workspace.
fn root() -> PathBuf {
    if let Some(root) = std::env::var_os("XTASK_ROOT") {
        return root.into();
    }
    let here = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
    here.parent().map_or(here.clone(), PathBuf::from)
}

fn tidy_or_fail(root: &std::path::Path) -> Result<()> {
    let findings = tidy::check(root)?;
    for finding in &findings {
        println!("{finding}");
    }
    if findings.is_empty() { Ok(()) } else { bail!("tidy found {} problem(s)", findings.len()) }
}

/// Writes or checks the generated files, by running a test of `kindlm-cli`.
fn codegen(sh: &Shell, check: bool) -> Result<()> {
    let _bless = (!check).then(|| sh.push_env("KINDLM_BLESS", "1"));
    cmd!(sh, "cargo test -p kindlm-cli --test generated -- --quiet")
        .run()
        .context("generated files are stale: run `cargo xtask codegen` and commit what it writes")
}

fn ci(sh: &Shell, root: &std::path::Path) -> Result<()> {
    cmd!(sh, "cargo fmt --all --check").run()?;
    tidy_or_fail(root)?;
    {
        // A snapshot that differs must fail the test instead of being updated.
        let _insta = sh.push_env("INSTA_UPDATE", "no");
        cmd!(sh, "cargo test --workspace").run()?;
    }
    cmd!(sh, "cargo clippy --workspace --all-targets -- -D warnings").run()?;
    let _docs = sh.push_env("RUSTDOCFLAGS", "-D warnings");
    cmd!(sh, "cargo doc --workspace --no-deps --quiet").run()?;
    Ok(())
}
