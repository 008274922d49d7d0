//! The binary `kindlm`.

fn main() -> std::process::ExitCode {
    kindlm_cli::run(std::env::args_os(), kindlm_cli::Io::system()).code().into()
}
