//! Shows runs in a browser, with a read-only server on 127.0.0.1.
//!
//! The page without data is public. Each request for data needs the token of the server. So other users of the machine,
//! and pages of other sites, cannot read a run.

mod answer;
mod editor;
mod library;

use std::io::ErrorKind;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;

use data_encoding::HEXLOWER;
use kindlm_store::{Runs, journal};
use kindlm_types::ExitStatus;
use tokio::net::TcpListener;

use self::answer::Server;
use self::library::LazyLibrary;
use crate::suites::SuiteKey;
use crate::{Failure, Outcome, SuiteFolder, World, http};

/// The settings of the server.
#[derive(Clone, Debug, Default)]
pub struct ViewConfig {
    /// The run to show: an id or its beginning, a report, the folder of a run, or a folder with runs.
    ///
    /// The default is the newest run of the suite.
    pub run: Option<String>,
    /// The port to listen on; 0 is any free port.
    pub port: u16,
    /// The editor that opens the source locations of tests: `vscode` or another known name, or a URL with `{file}` and
    /// `{line}`.
    ///
    /// The default is the variable `KINDLM_EDITOR`; without both, the page has no such links.
    pub editor: Option<String>,
}

/// Serves a run and the other runs of its suite until an interrupt. `ready` receives the URL of the page.
///
/// For a folder without runs, the page shows instructions until there is a first run.
///
/// # Errors
///
/// Fails if the run does not exist or cannot be read, if the editor is unknown, if the port is not free, or if `ready`
/// fails.
pub fn view(
    world: &World,
    place: SuiteFolder,
    of: Option<&SuiteKey>,
    config: &ViewConfig,
    ready: &mut dyn FnMut(&str) -> Result<(), Failure>,
) -> Outcome {
    let (place, run) = match config.run.as_deref() {
        Some(named) => match folder_of_runs(world, named) {
            Some(place) => (place, None),
            None => (place, Some(named)),
        },
        None => (place, None),
    };
    let editor = editor::link_of(world, config.editor.as_deref())?;
    let library = LazyLibrary::new(world, place, of, run)?.with_editor(editor);
    let token = new_token()?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|err| Failure::internal(format!("cannot start: {err}")))?;
    let served = runtime.block_on(async {
        let listener = bind(config.port).await?;
        let port = listener.local_addr().map_err(|err| cannot_listen(config.port, &err))?.port();
        let server = Arc::new(Server::new(library, port, token));
        // The signal handlers can only be installed inside the runtime.
        let mut interrupts = (world.interrupts)();
        ready(&server.url())?;
        let answer = move |request| Arc::clone(&server).answer(request);
        tokio::select! {
            _ = interrupts.next() => Ok(ExitStatus::Success),
            never = http::serve(&listener, answer) => match never {},
        }
    });
    // A request that still reads a report must not delay the end.
    runtime.shutdown_background();
    served
}

/// Opens the URL in the browser of the user.
///
/// # Errors
///
/// Fails if the program that opens URLs cannot be started.
pub fn open_browser(url: &str) -> Result<(), Failure> {
    let (program, args): (_, &[&str]) = match std::env::consts::OS {
        "macos" => ("open", &[]),
        "windows" => ("rundll32", &["url.dll,FileProtocolHandler"]),
        _ => ("xdg-open", &[]),
    };
    let mut command = Command::new(program);
    command.args(args).arg(url);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let mut child = command.spawn().map_err(|err| {
        let why = kindlm_store::describe_io_error(&err);
        Failure::internal(format!("cannot open a browser with `{program}`: {why}"))
            .with_help("open the link yourself, and leave out `--open`")
    })?;
    std::thread::spawn(move || child.wait());
    Ok(())
}

/// Returns the folder of a suite if `named` is a folder. Returns `None` for a file and for the folder of one run.
fn folder_of_runs(world: &World, named: &str) -> Option<SuiteFolder> {
    let folder = world.working_dir.join(named);
    let is_run = [Runs::REPORT, journal::FILE].iter().any(|it| folder.join(it).is_file());
    (folder.is_dir() && !is_run).then(|| SuiteFolder::new(world, Path::new(named)))
}

fn new_token() -> Result<String, Failure> {
    let mut bytes = [0; 32];
    getrandom::fill(&mut bytes)
        .map_err(|err| Failure::internal(format!("cannot make a token: {err}")))?;
    Ok(HEXLOWER.encode(&bytes))
}

async fn bind(port: u16) -> Result<TcpListener, Failure> {
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    TcpListener::bind(address).await.map_err(|err| cannot_listen(port, &err))
}

fn cannot_listen(port: u16, err: &std::io::Error) -> Failure {
    let why = kindlm_store::describe_io_error(err);
    let failure = Failure::input(format!("cannot listen on port {port} of 127.0.0.1: {why}"));
    if err.kind() == ErrorKind::AddrInUse {
        failure.with_help(
            "another program listens there; choose another port, or leave out `--port` for a free one",
        )
    } else {
        failure
    }
}

#[cfg(test)]
mod tests;
