//! A server under test.

use super::builder::{Builder, free_port};
use super::resp::Raw;
use super::{SOON, eventually, process};
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, ExitStatus, Stdio};
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// A running server in a folder of its own. It is killed when this value goes; if the test fails,
/// the end of its log is printed and its folder kept. A server that ended unasked fails the test.
#[derive(Debug)]
pub struct Server {
    builder: Builder,
    /// Taken out when the folder is to be kept.
    dir: Option<TempDir>,
    path: PathBuf,
    port: u16,
    /// `None` while stopped on request.
    child: Option<Child>,
}

impl Server {
    /// What a server can be started with.
    #[must_use]
    pub fn builder() -> Builder {
        Builder::new()
    }

    /// A server with the module and default settings.
    #[track_caller]
    #[must_use]
    pub fn start() -> Self {
        Self::builder().start()
    }

    pub(super) fn launch(builder: Builder) -> Result<Self, String> {
        let mut attempts = 5;
        loop {
            let dir = tempfile::Builder::new().prefix("rl-").tempdir().expect("a temporary folder");
            let path = dir.path().to_owned();
            let port = builder.fixed_port().unwrap_or_else(free_port);
            let mut server =
                Self { builder: builder.clone(), dir: Some(dir), path, port, child: None };
            match server.try_start_again() {
                Ok(()) => return Ok(server),
                // Somebody took the port between our look and the server's.
                Err(log) if log.contains("Address already in use") && attempts > 0 => attempts -= 1,
                Err(log) => return Err(log),
            }
        }
    }

    fn try_start_again(&mut self) -> Result<(), String> {
        assert!(self.child.is_none(), "the server is running");
        let config = self.path.join("redis.conf");
        std::fs::write(&config, self.builder.config_file(&self.path, self.port)).unwrap();
        let console =
            File::options().append(true).create(true).open(self.path.join("console.log")).unwrap();
        let program = self.builder.server_program();
        let mut command = super::binaries::server_command(program);
        command
            .arg(&config)
            .args(self.builder.arguments())
            .envs(self.builder.environment())
            .stdin(Stdio::null())
            .stdout(console.try_clone().unwrap())
            .stderr(console);
        let child = process::spawn(command).map_err(|e| format!("{}: {e}", program.display()))?;
        self.child = Some(child);
        self.wait_until_ready().inspect_err(|_| {
            self.end(libc::SIGKILL);
        })
    }

    fn wait_until_ready(&mut self) -> Result<(), String> {
        let end = Instant::now() + SOON * super::patience();
        loop {
            let child = self.child.as_mut().expect("a started server");
            if let Some(status) = child.try_wait().expect("the server's state") {
                return Err(format!("{status}\n{}", self.log_tail()));
            }
            // Any answer will do (a password may be asked for) unless data are still being read.
            let answer = Raw::try_unix(&self.socket()).and_then(|mut raw| raw.try_call(&[b"PING"]));
            if answer.is_ok_and(|reply| !reply.starts_with(b"-LOADING")) {
                return Ok(());
            }
            if Instant::now() > end {
                return Err(format!("no answer within {SOON:?}\n{}", self.log_tail()));
            }
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    pub(super) fn take_all_slots(&self) {
        super::cmd!(self.connection(), "CLUSTER", "ADDSLOTSRANGE", 0, 16383);
        eventually(SOON, || {
            super::plain(&super::cmd!(self.connection(), "CLUSTER", "INFO"))
                .contains("cluster_state:ok")
        });
    }

    /// Starts a stopped server again: same folder, port and settings.
    #[track_caller]
    pub fn start_again(&mut self) {
        if let Err(log) = self.try_start_again() {
            panic!("the server does not start again:\n{log}");
        }
    }

    /// Stops in good order (without save points nothing is saved, an AOF is completed) and starts.
    #[track_caller]
    pub fn restart(&mut self) {
        self.terminate();
        self.start_again();
    }

    /// Stops in good order, as `systemctl stop` does.
    pub fn terminate(&mut self) -> ExitStatus {
        self.end(libc::SIGTERM)
    }

    /// Ends the server at once, as a power cut would.
    pub fn kill9(&mut self) {
        self.end(libc::SIGKILL);
    }

    /// Saves an RDB file and stops.
    pub fn shutdown_save(&mut self) {
        // The connection ends without a reply.
        let _ = self.raw().try_call(&[b"SHUTDOWN", b"SAVE"]);
        self.end(0);
        assert!(self.file("dump.rdb").exists(), "SHUTDOWN SAVE left no dump.rdb");
    }

    /// Waits for the server's end after an optional signal (0: none).
    fn end(&mut self, signal: libc::c_int) -> ExitStatus {
        let mut child = self.child.take().expect("a running server");
        process::signal(&child, signal);
        let end = Instant::now() + SOON * super::patience();
        loop {
            if let Some(status) = child.try_wait().expect("the server's state") {
                return status;
            }
            if Instant::now() > end {
                process::signal(&child, libc::SIGKILL);
                let _ = child.wait();
                panic!("the server does not stop:\n{}", self.log_tail());
            }
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    /// Whether the process is there. A crashed server is gone.
    pub fn is_running(&mut self) -> bool {
        self.child.as_mut().is_some_and(|child| child.try_wait().is_ok_and(|end| end.is_none()))
    }

    /// Process id of the running server.
    pub fn pid(&self) -> u32 {
        self.child.as_ref().expect("a running server").id()
    }

    /// TCP port on 127.0.0.1.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Path of the unix socket.
    #[must_use]
    pub fn socket(&self) -> PathBuf {
        self.path.join("s")
    }

    /// A file in the server's folder, such as `dump.rdb`.
    #[must_use]
    pub fn file(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }

    /// All that the server wrote to its log and console since its first start.
    #[must_use]
    pub fn log(&self) -> String {
        let read = |name: &str| std::fs::read(self.file(name)).unwrap_or_default();
        let bytes = [read("server.log"), read("console.log")].concat();
        String::from_utf8_lossy(&bytes).into_owned()
    }

    fn log_tail(&self) -> String {
        let log = self.log();
        let lines: Vec<&str> = log.lines().collect();
        lines[lines.len().saturating_sub(60)..].join("\n")
    }

    /// Waits until `text` stands in the log.
    #[track_caller]
    pub fn wait_for_log(&self, text: &str) {
        eventually(SOON, || self.log().contains(text));
    }

    /// A socket for exact bytes.
    #[track_caller]
    #[must_use]
    pub fn raw(&self) -> Raw {
        Raw::try_unix(&self.socket()).expect("a connection")
    }

    /// A client under RESP2.
    #[track_caller]
    #[must_use]
    pub fn connection(&self) -> redis::Connection {
        super::client::connect(&self.socket(), redis::ProtocolVersion::RESP2)
    }

    /// A client under RESP3.
    #[track_caller]
    #[must_use]
    pub fn connection3(&self) -> redis::Connection {
        super::client::connect(&self.socket(), redis::ProtocolVersion::RESP3)
    }

    /// The folder of the server: its configuration, data and log.
    #[must_use]
    pub fn dir(&self) -> &Path {
        &self.path
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let ended = self.child.as_mut().and_then(|child| child.try_wait().ok().flatten());
        if self.child.is_some() && ended.is_none() {
            // What a server is wrapped in reports at an orderly end only.
            self.end(if super::is_wrapped() { libc::SIGTERM } else { libc::SIGKILL });
        }
        let fault = match ended {
            Some(status) => Some(format!("the server ended by itself: {status}")),
            // It may have been killed while it still wrote its report.
            None if self.log().contains("BUG REPORT START") => Some("the server crashed".into()),
            None => None,
        };
        let failed = std::thread::panicking();
        if failed || fault.is_some() {
            eprintln!("--- log of the server on port {}:\n{}", self.port, self.log_tail());
            if let Some(dir) = self.dir.take() {
                eprintln!("--- its folder: {}", dir.keep().display());
            }
        }
        if let (Some(fault), false) = (fault, failed) {
            panic!("{fault}");
        }
    }
}
