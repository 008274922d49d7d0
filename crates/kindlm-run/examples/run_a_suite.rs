//! Runs a suite with a journal, prints progress, writes a JUnit report, and resumes.
//!
//! `cargo run -p kindlm-run --example run_a_suite -- kindlm.yaml junit.xml [--resume]`
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "an example shows its progress")]

use std::path::Path;
use std::sync::Arc;

use kindlm_run::{
    Failure, OpenOptions, Prepared, Progress, Project, Purpose, RunConfig, RunProgress, Style,
    World, reporter, resume, write_file,
};

struct Lines;

impl Progress for Lines {
    fn on(&self, event: RunProgress<'_>) {
        if let RunProgress::ExecutionFinished(result) = event {
            println!("{:?}", result.outcome);
        }
    }

    fn show_notice(&self, text: &str) {
        println!("{text}");
    }
}

fn run(suite: &str, junit: &Path, go_on: bool) -> Result<u8, Failure> {
    let folder = std::env::current_dir().unwrap_or_default();
    let mut world = World::new(folder, Arc::new(|name| std::env::var(name).ok()));
    world.variables = std::env::vars().map(|(name, _)| name).collect();
    world.notices = Arc::new(|text| eprintln!("{text}"));

    let project = Project::open(&world, &OpenOptions::new(suite), Purpose::Run)?;
    let newest = || resume::find(&world, &project.place, &project.suite, None);
    let past = go_on.then(newest).transpose()?;
    let Some(prepared) = Prepared::new(&world, project, RunConfig::default(), past)? else {
        return Ok(0);
    };
    let status = prepared.run(&world, Box::new(Lines), &mut |report| {
        write_file(junit, reporter("junit")?, report, &Style::default())
    })?;
    Ok(status.code())
}

fn main() -> std::process::ExitCode {
    let mut args = std::env::args().skip(1);
    let (suite, junit) = (args.next().unwrap_or_default(), args.next().unwrap_or_default());
    match run(&suite, Path::new(&junit), args.any(|it| it == "--resume")) {
        Ok(code) => code.into(),
        Err(failure) => {
            eprintln!("{}", failure.render(false).unwrap_or_default());
            failure.status.code().into()
        }
    }
}
