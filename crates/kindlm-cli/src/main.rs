//! The binary `kindlm`.

/// Most of the work of a run is making and dropping small texts.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> std::process::ExitCode {
    give_memory_back_soon();
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

/// Lets the allocator keep memory that nobody uses for 50 ms instead of a second. Reading a suite of 100,000 tests then
/// takes a tenth less memory, at no cost that can be measured.
#[expect(unsafe_code, reason = "the allocator's options can only be set by a call into C")]
fn give_memory_back_soon() {
    /// `mi_option_purge_delay` in `mimalloc.h`, in milliseconds; the bindings have no name for it.
    const PURGE_DELAY: libmimalloc_sys::mi_option_t = 15;
    // SAFETY: it writes one number into a table of the allocator, which checks the index; no other thread runs yet.
    unsafe { libmimalloc_sys::mi_option_set(PURGE_DELAY, 50) };
}
