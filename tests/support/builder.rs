//! How a server under test is configured.

use super::clock::Clock;
use super::{Server, module_path, server_program};
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};

/// A server to be started. By default: the module loaded without arguments, no RDB save points, no
/// AOF, debug commands allowed, a private port and unix socket on loopback.
#[derive(Clone, Debug)]
pub struct Builder {
    module: Option<PathBuf>,
    module_args: Vec<String>,
    lines: Vec<String>,
    arguments: Vec<&'static str>,
    primary_port: Option<u16>,
    port: Option<u16>,
    clock: Option<(PathBuf, PathBuf)>,
    cluster: bool,
    variables: Vec<(&'static str, PathBuf)>,
    program: PathBuf,
    knows_7_0: bool,
}

impl Builder {
    pub(super) fn new() -> Self {
        Self {
            module: Some(module_path()),
            module_args: Vec::new(),
            lines: Vec::new(),
            arguments: Vec::new(),
            primary_port: None,
            port: None,
            clock: None,
            cluster: false,
            variables: Vec::new(),
            program: server_program(),
            knows_7_0: true,
        }
    }

    /// A further line of the configuration file; the last of several for one setting counts.
    #[must_use]
    pub fn config(mut self, line: impl Into<String>) -> Self {
        self.lines.push(line.into());
        self
    }

    /// Arguments of the module's `loadmodule` line.
    #[must_use]
    pub fn module_args(mut self, args: &[&str]) -> Self {
        self.module_args.extend(args.iter().map(ToString::to_string));
        self
    }

    /// A command-line argument behind the configuration file, such as `--sentinel`.
    #[must_use]
    pub fn argument(mut self, argument: &'static str) -> Self {
        self.arguments.push(argument);
        self
    }

    /// Another server binary than the one under test.
    #[must_use]
    pub fn program(mut self, path: impl Into<PathBuf>) -> Self {
        self.program = path.into();
        self
    }

    /// A server from before Redis 7.0, which stops at settings that came with it.
    #[must_use]
    pub fn old_program(mut self, path: impl Into<PathBuf>) -> Self {
        self.knows_7_0 = false;
        self.program(path)
    }

    /// An environment variable of the server process.
    #[must_use]
    pub fn env(mut self, name: &'static str, value: impl Into<PathBuf>) -> Self {
        self.variables.push((name, value.into()));
        self
    }

    /// A bare server, to compare with or to load the module later.
    #[must_use]
    pub fn without_module(mut self) -> Self {
        self.module = None;
        self
    }

    /// A certain port instead of a free one.
    #[must_use]
    pub fn port(mut self, port: u16) -> Self {
        self.port = Some(port);
        self
    }

    /// An append-only file written to disk on each command, so that `kill9` loses nothing.
    #[must_use]
    pub fn aof(self) -> Self {
        self.config("appendonly yes").config("appendfsync always")
    }

    /// A cluster of one node that owns every slot.
    #[must_use]
    pub fn cluster(mut self) -> Self {
        self.cluster = true;
        self.config("cluster-enabled yes")
    }

    /// Starts as a replica; see [`Server::wait_in_sync`].
    #[must_use]
    pub fn replica_of(mut self, primary: &Server) -> Self {
        self.primary_port = Some(primary.port());
        self
    }

    /// The server's wall clock shows what the test sets. Several servers may share one clock.
    #[must_use]
    pub fn clock(mut self, clock: &Clock) -> Self {
        self.clock = Some((clock.shim(), clock.file()));
        self
    }

    /// Starts the server and waits until it answers; a server that does not start fails the test.
    #[track_caller]
    pub fn start(self) -> Server {
        self.try_start().unwrap_or_else(|log| panic!("the server does not start:\n{log}"))
    }

    /// As [`Builder::start`]; the error is what the server logged before it gave up.
    pub fn try_start(self) -> Result<Server, String> {
        let cluster = self.cluster;
        let server = Server::launch(self)?;
        if cluster {
            server.take_all_slots();
        }
        Ok(server)
    }

    pub(super) fn fixed_port(&self) -> Option<u16> {
        self.port
    }

    pub(super) fn server_program(&self) -> &std::path::Path {
        &self.program
    }

    pub(super) fn arguments(&self) -> &[&'static str] {
        &self.arguments
    }

    /// Environment of the server process.
    pub(super) fn environment(&self) -> Vec<(&'static str, PathBuf)> {
        let clock = self
            .clock
            .iter()
            .flat_map(|(shim, file)| [("LD_PRELOAD", shim.clone()), ("RL_CLOCK", file.clone())]);
        clock.chain(self.variables.iter().cloned()).collect()
    }

    /// The configuration file of a server in `dir` on `port`.
    pub(super) fn config_file(&self, dir: &std::path::Path, port: u16) -> String {
        let dir = dir.display();
        let mut lines = vec![
            "bind 127.0.0.1".to_owned(),
            format!("port {port}"),
            format!("unixsocket \"{dir}/s\""),
            format!("dir \"{dir}\""),
            format!("logfile \"{dir}/server.log\""),
            "save \"\"".to_owned(),
            "repl-diskless-sync-delay 0".to_owned(),
        ];
        if self.knows_7_0 {
            lines.push("enable-debug-command yes".to_owned());
            // A replica or a file that gives us what we cannot apply ends the server.
            lines.push("propagation-error-behavior panic".to_owned());
            // SIGTERM and SHUTDOWN do not wait for replicas that a test has attached by hand.
            lines.push("shutdown-timeout 0".to_owned());
        }
        if self.clock.is_some() {
            // A month may pass between two bytes on a replication link.
            lines.push("repl-timeout 2000000000".to_owned());
        }
        if let Some(module) = &self.module {
            let args = self.module_args.iter().map(|arg| format!(" \"{arg}\"")).collect::<String>();
            lines.push(format!("loadmodule \"{}\"{args}", module.display()));
        }
        if let Some(primary) = self.primary_port {
            lines.push(format!("replicaof 127.0.0.1 {primary}"));
        }
        lines.extend(self.lines.iter().cloned());
        lines.join("\n") + "\n"
    }
}

/// A port of loopback that nobody listens on. Below the range that the kernel gives to outgoing
/// connections, and so that port + 10000 (a cluster's bus) exists too.
pub(super) fn free_port() -> u16 {
    const PORTS: std::ops::Range<u16> = 11_000..21_000;
    static CALLS: AtomicU32 = AtomicU32::new(0);
    let count = u32::from(PORTS.end - PORTS.start);
    // Test processes side by side walk through different ports: the factor is prime to the count.
    let start = std::process::id() % count * 7919;
    for _ in 0..count {
        let offset = (start + CALLS.fetch_add(1, Ordering::Relaxed)) % count;
        let port = PORTS.start + u16::try_from(offset).unwrap();
        if std::net::TcpListener::bind(("127.0.0.1", port)).is_ok() {
            return port;
        }
    }
    panic!("no free port in {PORTS:?}")
}
