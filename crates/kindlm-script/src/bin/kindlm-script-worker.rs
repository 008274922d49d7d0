//! A standalone worker, for tests, benches, and programs without a worker.

fn main() -> std::process::ExitCode {
    kindlm_script::worker::main().into()
}
