//! The binary `kindlm`.

mod allocator;

#[global_allocator]
static ALLOCATOR: allocator::Mimalloc = allocator::Mimalloc;

fn main() -> std::process::ExitCode {
    allocator::give_memory_back_soon();
    keep_files_from_children();
    // A worker for scripts is this same program: it needs nothing of the rest, and must print nothing.
    if std::env::args_os().nth(1).is_some_and(|arg| arg == kindlm_cli::SCRIPT_WORKER) {
        return kindlm_script::worker::main().into();
    }
    allow_many_files();
    kindlm_cli::run(std::env::args_os(), kindlm_cli::Io::system()).code().into()
}

/// Keeps files that the caller left open from every program that is started here: an agent could write to them. The
/// files that this process opens itself are not inherited anyway.
#[cfg(unix)]
fn keep_files_from_children() {
    use rustix::io::{FdFlags, fcntl_getfd, fcntl_setfd};
    use std::os::fd::BorrowedFd;

    // Systems without this folder have no list of open files.
    let Ok(open) = std::fs::read_dir("/dev/fd") else { return };
    let names = open.flatten().map(|it| it.file_name());
    for number in names.filter_map(|it| it.to_str()?.parse().ok()).filter(|it| *it > 2) {
        #[expect(
            unsafe_code,
            reason = "there is no other way to name a file that the caller opened"
        )]
        // SAFETY: it is open, and nothing closes it meanwhile: no other thread runs yet.
        let file = unsafe { BorrowedFd::borrow_raw(number) };
        if let Ok(flags) = fcntl_getfd(file) {
            let _ = fcntl_setfd(file, flags | FdFlags::CLOEXEC);
        }
    }
}

#[cfg(not(unix))]
fn keep_files_from_children() {}

/// Raises the limit of open files as far as allowed. Each request under way is an open file, and a shell on macOS
/// allows 256 by default. A failure is ignored.
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
