//! Drops the privileges that a worker does not need, before the first script runs.

/// Sets process limits, and restricts the system calls to a list. Fails if the system refuses a limit or the list.
///
/// On Linux with x86-64 or AArch64, every other system call fails or kills the process. On other Unix systems only the
/// process limits apply, and on all other systems nothing applies. Without the list, isolation depends on the engine,
/// which has no function that opens a file or a connection.
pub(crate) fn lock_down() -> Result<(), String> {
    limits()?;
    system_calls()
}

#[cfg(unix)]
fn limits() -> Result<(), String> {
    use rustix::process::{Resource, Rlimit, setrlimit};

    let limit = |resource, most| {
        setrlimit(resource, Rlimit { current: Some(most), maximum: Some(most) })
            .map_err(|err| format!("limit {resource:?}: {err}"))
    };
    // The worker must not dump memory, write files or, on Linux, start processes.
    limit(Resource::Core, 0)?;
    limit(Resource::Fsize, 0)?;
    #[cfg(target_os = "linux")]
    {
        limit(Resource::Nproc, 0)?;
        // The limits also count memory that is already mapped, such as the reserved memory of the engine.
        for (resource, field) in [(Resource::As, "VmSize:"), (Resource::Data, "VmData:")] {
            if let Some(mapped) = mapped(field) {
                limit(resource, mapped + crate::limits::PROCESS as u64)?;
            }
        }
    }
    Ok(())
}

/// Returns the size of one kind of this process's memory, in bytes. Returns `None` if the system does not report it.
#[cfg(target_os = "linux")]
fn mapped(field: &str) -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix(field))?;
    let kib: u64 = line.trim().split(' ').next()?.parse().ok()?;
    Some(kib << 10)
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
    let apply = |numbers: &[i64], matched, others| -> Result<(), seccompiler::Error> {
        let rules = numbers.iter().map(|number| (*number, Vec::new())).collect();
        let program: BpfProgram = SeccompFilter::new(rules, others, matched, arch)?.try_into()?;
        seccompiler::apply_filter_all_threads(&program)
    };
    // If several filters match, the strictest applies. The allow list comes last, because it forbids adding filters.
    let refuse = SeccompAction::Errno(libc::EPERM.unsigned_abs());
    apply(FATAL, SeccompAction::KillProcess, SeccompAction::Allow)
        .and_then(|()| apply(ALLOWED, SeccompAction::Allow, refuse))
        .map_err(|err| format!("seccomp: {err}"))
}

/// The system calls that send signals or set signal handlers, as `abort` and fault handlers do.
///
/// Each of these calls kills the process. If a call only failed, the process could retry the call forever.
#[cfg(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64")))]
const FATAL: &[i64] = &[
    libc::SYS_kill,
    libc::SYS_tkill,
    libc::SYS_tgkill,
    libc::SYS_rt_sigaction,
    libc::SYS_rt_sigqueueinfo,
    libc::SYS_rt_tgsigqueueinfo,
];

/// The system calls that a worker needs. A worker uses its pipes, allocates memory, reads the clock, waits for its own
/// threads, gets random numbers, and exits.
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
];

#[cfg(not(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64"))))]
#[expect(clippy::unnecessary_wraps, reason = "Linux can fail")]
fn system_calls() -> Result<(), String> {
    Ok(())
}

/// Closes the inherited open files, except stdin, stdout and stderr. Does nothing on systems other than Linux.
///
/// The function must be called before this program opens any file.
pub(crate) fn close_inherited() {
    #[cfg(target_os = "linux")]
    {
        #[expect(
            unsafe_code,
            reason = "this program has opened no file yet, so nothing in it owns the closed files"
        )]
        // SAFETY: the caller guarantees that this program has opened no file yet. The system call takes only numbers.
        let closed = unsafe { libc::syscall(libc::SYS_close_range, 3, libc::c_uint::MAX, 0) };
        // Kernels before 5.9 do not support this call. Inherited files then stay open, and the allow list prevents
        // opening other files.
        let _ = closed;
    }
}
