//! A worker and nothing else, for tests, benches and programs that do not want to be one themselves.

fn main() -> std::process::ExitCode {
    kindlm_script::worker::main().into()
}
