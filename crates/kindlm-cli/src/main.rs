//! The binary `kindlm`.

fn main() -> std::process::ExitCode {
    // A worker for scripts is this same program: it needs nothing of the rest, and must print nothing.
    if std::env::args_os().nth(1).is_some_and(|arg| arg == kindlm_cli::SCRIPT_WORKER) {
        return kindlm_script::worker::main().into();
    }
    kindlm_cli::run(std::env::args_os(), kindlm_cli::Io::system()).code().into()
}
