//! Server processes that never outlive the tests.

use std::io;
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Mutex, OnceLock};

type Job = (Command, Sender<io::Result<Child>>);

/// Starts `command` so that the kernel ends it with the test process, however that ends.
///
/// The kernel ties a child to the *thread* that started it, and a test's thread may end before a
/// server that it shares or hands on. So one thread that lives as long as the process starts all.
pub fn spawn(mut command: Command) -> io::Result<Child> {
    static STARTER: OnceLock<Mutex<Sender<Job>>> = OnceLock::new();
    // SAFETY: the closure runs between fork and exec and makes one async-signal-safe system call.
    unsafe {
        command.pre_exec(|| match libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) {
            0 => Ok(()),
            _ => Err(io::Error::last_os_error()),
        });
    }
    let starter = STARTER.get_or_init(|| {
        let (jobs, queue) = channel::<Job>();
        std::thread::spawn(move || {
            for (mut command, answer) in queue {
                // Whoever asked may be gone by now.
                let _ = answer.send(command.spawn());
            }
        });
        Mutex::new(jobs)
    });
    let (answer, child) = channel();
    starter.lock().expect("the starter").send((command, answer)).expect("the starter thread");
    child.recv().expect("the starter's answer")
}

/// Sends a signal to a child that has not been waited for yet, so its id is still its own.
pub fn signal(child: &Child, signal: libc::c_int) {
    let pid = libc::pid_t::try_from(child.id()).expect("a process id");
    // SAFETY: kill has no memory effects; the child is not reaped, so the id names it.
    let _ = unsafe { libc::kill(pid, signal) };
}
