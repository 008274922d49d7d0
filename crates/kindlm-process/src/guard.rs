//! Ends all started programs if KindLM is killed.

#[cfg(unix)]
pub(crate) use unix::Entry;
#[cfg(unix)]
pub use unix::Guard;

#[cfg(unix)]
mod unix {
    use std::io::Write as _;
    use std::os::unix::process::CommandExt as _;
    use std::process::{Child, Command, Stdio};
    use std::sync::{Arc, Mutex, PoisonError};

    use rustix::process::Pid;

    /// The guard script. It tracks process groups, and ends them when its stdin closes, for example because KindLM is
    /// killed. On Linux, if any group is still registered, the script also ends marked processes outside of the groups.
    const SCRIPT: &str = r#"
trap '' HUP INT TERM
all=' '
while read -r op id; do
  case $op$all in
    +*) all="$all$id " ;;
    -*" $id "*) all="${all%% $id *} ${all#* $id }" ;;
  esac
done
for signal in TERM KILL; do
  left=
  for id in $all; do kill -s $signal -- "-$id" && left=1; done
  [ -z "$left" ] || [ $signal = KILL ] || sleep 1
done
[ "$all" = ' ' ] || for environ in /proc/[0-9]*/environ; do
  tr '\0' '\n' <"$environ" | grep -q "^KINDLM_PROCESS=$1-" || continue
  id=${environ%/environ}
  kill -s KILL "${id##*/}"
done
"#;

    /// A guard that ends process groups if KindLM is killed. The guard is a shell process that starts with the first
    /// group. If the shell cannot start, the groups are not guarded.
    #[derive(Clone, Debug, Default)]
    pub struct Guard(Arc<Mutex<State>>);

    #[derive(Debug, Default)]
    enum State {
        #[default]
        Asleep,
        Awake(Child),
        Gone,
    }

    /// A process group that is guarded until the entry is dropped.
    #[derive(Debug)]
    pub(crate) struct Entry {
        guard: Guard,
        id: Pid,
    }

    impl Guard {
        /// Starts the guard process, unless this guard has already started it. `Group::spawn` calls this function
        /// before it starts a program, so that the new group can be registered immediately.
        pub fn wake(&self) {
            Self::awake(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner));
        }

        fn awake(state: &mut State) {
            if matches!(*state, State::Asleep) {
                *state = start().map_or(State::Gone, State::Awake);
            }
        }

        /// Guards the group of a child until the entry is dropped. Returns `None` if the child has already ended, so
        /// that there is nothing to guard.
        pub(crate) fn add(&self, child: &tokio::process::Child) -> Option<Entry> {
            let id = child.id().and_then(|id| i32::try_from(id).ok()).and_then(Pid::from_raw)?;
            self.send('+', id);
            Some(Entry { guard: self.clone(), id })
        }

        fn send(&self, op: char, id: Pid) {
            let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            Self::awake(&mut state);
            let State::Awake(Child { stdin: Some(stdin), .. }) = &mut *state else { return };
            if stdin.write_all(format!("{op} {}\n", id.as_raw_nonzero()).as_bytes()).is_err() {
                *state = State::Gone;
            }
        }
    }

    impl Entry {
        /// Returns the id of the group.
        pub(crate) fn id(&self) -> Pid {
            self.id
        }
    }

    impl Drop for Entry {
        fn drop(&mut self) {
            self.guard.send('-', self.id);
        }
    }

    impl Drop for State {
        fn drop(&mut self) {
            if let Self::Awake(child) = self {
                // `wait` closes the child's stdin, which ends the guard.
                let _ = child.wait();
            }
        }
    }

    /// Starts the guard in its own process group, so that no terminal key ends it. Returns `None` if the shell cannot
    /// start.
    fn start() -> Option<Child> {
        let mut command = Command::new("sh");
        command
            .args(["-c", SCRIPT, "sh", &std::process::id().to_string()])
            .current_dir("/")
            .process_group(0);
        command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
        command.spawn().ok()
    }
}

/// A guard without effect, for systems without process groups.
#[cfg(not(unix))]
#[derive(Clone, Debug, Default)]
pub struct Guard;

#[cfg(not(unix))]
impl Guard {
    pub fn wake(&self) {}
}
