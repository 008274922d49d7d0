//! The binary `kindlm`.

mod allocator;

#[global_allocator]
static ALLOCATOR: allocator::Mimalloc = allocator::Mimalloc;

fn main() -> std::process::ExitCode {
    allocator::give_memory_back_soon();
    // A worker for scripts is this same program: it needs nothing of the rest, and must print nothing.
    if std::env::args_os().nth(1).is_some_and(|arg| arg == kindlm_cli::SCRIPT_WORKER) {
        return kindlm_script::worker::main().into();
    }
    allow_many_files();
    kindlm_cli::run(std::env::args_os(), kindlm_cli::Io::system()).code().into()
}

/// Lets the process have as many files open as it may: a request under way is one, and where nothing else is said a shell
/// allows 256 on macOS. It need not work.
#[cfg(unix)]
fn allow_many_files() {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    /// As many as macOS takes.
    const MANY: u64 = 10_240;
    let limit = getrlimit(Resource::Nofile);
    let most = limit.maximum.map_or(MANY, |it| it.min(MANY));
    if limit.current.is_some_and(|it| it < most) {
        let _ = setrlimit(Resource::Nofile, Rlimit { current: Some(most), maximum: limit.maximum });
    }
}

#[cfg(not(unix))]
fn allow_many_files() {}
