//! A standalone worker, for tests, benches, and programs that do not contain the worker code.

fn main() -> std::process::ExitCode {
    kindlm_script::worker::main().into()
}
