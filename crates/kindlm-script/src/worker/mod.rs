//! The worker: a process that runs scripts, without any other privileges.

mod arena;
mod builtins;
mod compile;
mod drive;
mod engine;
mod lockdown;
mod modules;
mod native;
mod pure;
mod shared;
mod state;

use std::rc::Rc;

use crate::frame::FromWorker;
use crate::typescript;
use engine::Engine;
use state::State;

/// The stack size of the script thread, in bytes. The engine's own limit is much smaller.
const STACK: usize = 16 << 20;

/// Runs a worker until its stdin ends or it should be replaced. Returns the exit code for the process: 0, or 70 after an
/// error.
///
/// The program must call this function for the arguments that [`HostOptions::args`](crate::HostOptions::args) defines.
/// The program must not print to stdout or open files before this call. With the argument `typescript`, the function
/// converts TypeScript from stdin instead.
pub fn main() -> u8 {
    lockdown::close_inherited();
    if let Some(exit_code) = typescript::convert_stdin() {
        return exit_code;
    }
    let worker = std::thread::Builder::new().name("script".to_owned()).stack_size(STACK);
    let served = match worker.spawn(serve) {
        Ok(served) => served,
        Err(err) => return complain(&err.to_string()),
    };
    match served.join() {
        Ok(Ok(())) => 0,
        Ok(Err(message)) => complain(&message),
        Err(_) => complain("the engine failed"),
    }
}

/// Writes the reason for the worker's end to stderr, which the host reads. Returns the exit code 70.
fn complain(message: &str) -> u8 {
    use std::io::Write as _;
    // If stderr is closed, nothing can be reported; the exit code still shows the failure.
    let _ = writeln!(std::io::stderr(), "script worker: {message}");
    70
}

fn serve() -> Result<(), String> {
    let mut seed = [0; 8];
    getrandom::fill(&mut seed).map_err(|err| format!("random numbers: {err}"))?;
    let state = Rc::new(State::new(u64::from_le_bytes(seed)));
    let mut engine = Engine::new(Rc::clone(&state))?;
    lockdown::lock_down()?;
    state.send(&FromWorker::Ready, &[]).map_err(|err| err.to_string())?;
    while let Some((call, parts)) = state.next_call().map_err(|err| err.to_string())? {
        let (ending, part) = engine.call(&call, &parts);
        let retire = engine.is_bloated();
        let console = state.take_console();
        let answer = FromWorker::Answer { id: call.id, ending, console, retire };
        state.send(&answer, &part).map_err(|err| err.to_string())?;
        if retire {
            break;
        }
        engine.reset();
    }
    Ok(())
}
