//! The binary `kindlm`.

mod allocator;

#[global_allocator]
static ALLOCATOR: allocator::Mimalloc = allocator::Mimalloc;

fn main() -> std::process::ExitCode {
    allocator::give_memory_back_soon();
    keep_files_from_children();
    // Script workers are processes of this program. They need no other set-up, and must not print anything.
    if std::env::args_os().nth(1).is_some_and(|arg| arg == kindlm_cli::SCRIPT_WORKER) {
        return kindlm_script::worker::main().into();
    }
    if let Some(is_complete) = kindlm_cli::complete() {
        return u8::from(!is_complete).into();
    }
    allow_many_files();
    kindlm_cli::run(std::env::args_os(), kindlm_cli::Io::system()).code().into()
}

/// Prevents child processes from inheriting files that the caller left open.
///
/// An agent could write to these files. Files that this process opens are not inherited by default.
#[cfg(unix)]
fn keep_files_from_children() {
    use rustix::io::{FdFlags, fcntl_getfd, fcntl_setfd};
    use std::os::fd::BorrowedFd;

    // Systems without this folder do not list open files, so nothing is done.
    let Ok(open) = std::fs::read_dir("/dev/fd") else { return };
    let names = open.flatten().map(|it| it.file_name());
    for number in names.filter_map(|it| it.to_str()?.parse().ok()).filter(|it| *it > 2) {
        #[expect(
            unsafe_code,
            reason = "there is no other way to name a file that the caller opened"
        )]
        // SAFETY: the file is open, and nothing closes it meanwhile, because no other thread runs yet.
        let file = unsafe { BorrowedFd::borrow_raw(number) };
        if let Ok(flags) = fcntl_getfd(file) {
            let _ = fcntl_setfd(file, flags | FdFlags::CLOEXEC);
        }
    }
}

#[cfg(not(unix))]
fn keep_files_from_children() {}

/// Raises the limit of open files to at most 10,240, and ignores errors.
///
/// Each in-flight request is an open file. The default limit of a shell on macOS is 256.
#[cfg(unix)]
fn allow_many_files() {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    /// The maximum limit that macOS accepts.
    const MANY: u64 = 10_240;
    let limit = getrlimit(Resource::Nofile);
    let most = limit.maximum.map_or(MANY, |it| it.min(MANY));
    if limit.current.is_some_and(|it| it < most) {
        let _ = setrlimit(Resource::Nofile, Rlimit { current: Some(most), maximum: limit.maximum });
    }
}

#[cfg(not(unix))]
fn allow_many_files() {}
