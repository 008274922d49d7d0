//! Starts the server for `kindlm serve`: [`serve`].

use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

#[cfg(not(unix))]
use kindlm_types::ExitStatus;

use crate::{Failure, Outcome, World};

/// The name of the program, without the suffix of the system.
const PROGRAM: &str = "kindlm-server";

/// Runs the server with these arguments.
///
/// The server program is in the folder of this program, or in a folder of `PATH`. The server gets the variables of the
/// environment files too. On Unix, the server replaces this process, so that signals and the exit code belong to the
/// server.
///
/// # Errors
///
/// Fails if the program is not installed or cannot be started.
pub fn serve(world: &World, args: &[String]) -> Outcome {
    let mut command = server_command(world, args)?;
    let not_started = |err: &io::Error| {
        let why = kindlm_store::describe_io_error(err);
        Failure::internal(format!("cannot start `{PROGRAM}`: {why}"))
    };
    #[cfg(unix)]
    {
        use std::os::unix::process::CommandExt as _;
        // `exec` returns only if the program cannot be started.
        Err(not_started(&command.exec()))
    }
    #[cfg(not(unix))]
    {
        let status = command.status().map_err(|err| not_started(&err))?;
        Ok(if status.success() { ExitStatus::Success } else { ExitStatus::InvalidInput })
    }
}

fn server_command(world: &World, args: &[String]) -> Result<Command, Failure> {
    let name = format!("{PROGRAM}{}", std::env::consts::EXE_SUFFIX);
    let beside = world.script_worker.0.parent().filter(|it| !it.as_os_str().is_empty());
    let path = world.var("PATH").unwrap_or_default();
    let folders = beside.map(Path::to_owned).into_iter().chain(std::env::split_paths(&path));
    let mut programs = folders.map(|it| it.join(&name));
    let program: PathBuf = programs.find(|it| it.is_file()).ok_or_else(|| {
        Failure::input(format!("`{PROGRAM}` is not installed")).with_help(format!(
            "install it with `cargo install --path crates/{PROGRAM}` in the repository of KindLM, or put it beside `kindlm`"
        ))
    })?;
    let mut command = Command::new(program);
    let variables = world.variables.iter().filter_map(|it| Some((it, world.var(it)?)));
    command.args(args).current_dir(&world.working_dir).envs(variables);
    Ok(command)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    #[test]
    fn server_beside_this_program_wins_over_the_path() {
        let folder = tempfile::tempdir().unwrap();
        let name = format!("kindlm-server{}", std::env::consts::EXE_SUFFIX);
        let (beside, path) = (folder.path().join("beside"), folder.path().join("path"));
        for place in [&beside, &path] {
            std::fs::create_dir(place).unwrap();
        }
        let searched = path.to_str().unwrap().to_owned();
        let env = Arc::new(move |name: &str| (name == "PATH").then(|| searched.clone()));
        let mut world = World::new(folder.path(), env);
        world.script_worker.0 = beside.join("kindlm");
        let found = |world: &World| server_command(world, &["--listen".to_owned()]);
        let failure = found(&world).unwrap_err();
        assert_eq!(failure.message.unwrap(), "`kindlm-server` is not installed");
        assert!(failure.help.unwrap().contains("cargo install"));
        for place in [&path, &beside] {
            std::fs::write(place.join(&name), "").unwrap();
            let command = found(&world).unwrap();
            assert_eq!(Path::new(command.get_program()), place.join(&name));
            assert_eq!(command.get_args().collect::<Vec<_>>(), ["--listen"]);
        }
    }
}
