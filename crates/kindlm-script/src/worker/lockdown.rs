//! Gives up every power that a worker does not need, before it runs the first script.

/// Address space beyond what is in use when the worker starts, in bytes. The engine has its own, lower limit;
/// this one bounds what surrounds it.
#[cfg(unix)]
const ADDRESS_SPACE: u64 = 1 << 30;

/// Limits of the process, and a list of the only system calls that it may make.
///
/// On Linux any other call fails; on other systems the limits hold, and isolation rests on the engine, which has
/// no function that opens a file or a connection.
pub(crate) fn lock_down() -> Result<(), String> {
    limits()?;
    system_calls()
}

#[cfg(unix)]
fn limits() -> Result<(), String> {
    use rustix::process::{Resource, Rlimit, setrlimit};

    let limit = |most| Rlimit { current: Some(most), maximum: Some(most) };
    // No files are written, no processes started, no memory dumped.
    for (resource, most) in [
        #[cfg(not(any(target_os = "openbsd", target_os = "macos")))]
        (Resource::As, ADDRESS_SPACE),
        (Resource::Core, 0),
        (Resource::Fsize, 0),
    ] {
        setrlimit(resource, limit(most)).map_err(|err| format!("limit {resource:?}: {err}"))?;
    }
    #[cfg(target_os = "linux")]
    setrlimit(Resource::Nproc, limit(0)).map_err(|err| format!("limit processes: {err}"))?;
    Ok(())
}

#[cfg(not(unix))]
#[expect(clippy::unnecessary_wraps, reason = "other systems can fail")]
fn limits() -> Result<(), String> {
    Ok(())
}

#[cfg(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64")))]
fn system_calls() -> Result<(), String> {
    use seccompiler::{BpfProgram, SeccompAction, SeccompFilter, TargetArch};

    let arch =
        TargetArch::try_from(std::env::consts::ARCH).map_err(|err| format!("seccomp: {err}"))?;
    let allowed = ALLOWED.iter().map(|number| (*number, Vec::new())).collect();
    let refuse = SeccompAction::Errno(libc::EPERM.unsigned_abs());
    let filter = SeccompFilter::new(allowed, refuse, SeccompAction::Allow, arch)
        .map_err(|err| format!("seccomp: {err}"))?;
    let program: BpfProgram = filter.try_into().map_err(|err| format!("seccomp: {err}"))?;
    seccompiler::apply_filter_all_threads(&program).map_err(|err| format!("seccomp: {err}"))
}

/// What a worker does: it reads and writes its two pipes, takes and gives back memory, looks at the clock, waits
/// for its own threads, and ends.
#[cfg(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64")))]
const ALLOWED: &[i64] = &[
    libc::SYS_read,
    libc::SYS_write,
    libc::SYS_mmap,
    libc::SYS_munmap,
    libc::SYS_mremap,
    libc::SYS_mprotect,
    libc::SYS_madvise,
    libc::SYS_brk,
    libc::SYS_futex,
    libc::SYS_clock_gettime,
    libc::SYS_gettimeofday,
    libc::SYS_exit,
    libc::SYS_exit_group,
    libc::SYS_rt_sigreturn,
    libc::SYS_rt_sigprocmask,
    libc::SYS_sigaltstack,
    libc::SYS_getrandom,
    libc::SYS_sched_yield,
    // To see that the host is gone.
    libc::SYS_ppoll,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_poll,
];

#[cfg(not(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64"))))]
#[expect(clippy::unnecessary_wraps, reason = "Linux can fail")]
fn system_calls() -> Result<(), String> {
    Ok(())
}
