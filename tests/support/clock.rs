//! A wall clock for servers that stands still until the test moves it.

use super::{Server, is_valkey};
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::os::fd::AsRawFd as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use tempfile::NamedTempFile;

const SHIM: &str = include_str!("clock_shim.c");

/// The time that servers started with [`super::Builder::clock`] see, in µs since the Unix epoch.
#[derive(Debug)]
pub struct Clock {
    file: NamedTempFile,
    cell: &'static AtomicU64,
}

impl Clock {
    /// A clock that shows `start_us` and stands still.
    #[track_caller]
    #[must_use]
    pub fn new(start_us: u64) -> Self {
        let file = NamedTempFile::with_prefix("rl-clock-").expect("a clock file");
        file.as_file().set_len(8).expect("8 bytes");
        let fd = file.as_file().as_raw_fd();
        let rights = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: a fresh shared mapping of 8 bytes of a file that we own and never shorten.
        let map = unsafe { libc::mmap(std::ptr::null_mut(), 8, rights, libc::MAP_SHARED, fd, 0) };
        assert_ne!(map, libc::MAP_FAILED, "{}", std::io::Error::last_os_error());
        // SAFETY: page-aligned, 8 bytes, never unmapped (a test run needs few clocks).
        let cell = unsafe { AtomicU64::from_ptr(map.cast()) };
        let clock = Self { file, cell };
        clock.set_us(start_us);
        clock
    }

    /// What the clock shows.
    #[must_use]
    pub fn now_us(&self) -> u64 {
        self.cell.load(Ordering::SeqCst)
    }

    /// What the clock shows, in whole milliseconds.
    #[must_use]
    pub fn now_ms(&self) -> u64 {
        self.now_us() / 1000
    }

    /// Sets the clock.
    pub fn set_us(&self, us: u64) {
        self.cell.store(us, Ordering::SeqCst);
    }

    /// Sets the clock.
    pub fn set_ms(&self, ms: u64) {
        self.set_us(ms * 1000);
    }

    /// Moves the clock forward.
    pub fn advance_us(&self, us: u64) {
        self.set_us(self.now_us() + us);
    }

    /// Moves the clock forward.
    pub fn advance_ms(&self, ms: u64) {
        self.advance_us(ms * 1000);
    }

    /// Moves the clock forward or, below 0, back: a clock step.
    pub fn step_us(&self, us: i64) {
        self.set_us(self.now_us().checked_add_signed(us).expect("a time after 1970"));
    }

    pub(super) fn file(&self) -> PathBuf {
        self.file.path().to_owned()
    }

    /// The library to preload, built on first use.
    pub(super) fn shim(&self) -> PathBuf {
        static SHIM_PATH: OnceLock<PathBuf> = OnceLock::new();
        SHIM_PATH.get_or_init(build_shim).clone()
    }
}

fn build_shim() -> PathBuf {
    let mut hasher = DefaultHasher::new();
    SHIM.hash(&mut hasher);
    let dir = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let built = dir.join(format!("clock_shim_{:016x}.so", hasher.finish()));
    if built.exists() {
        return built;
    }
    let work = tempfile::tempdir_in(dir).expect("a folder to build in");
    let (source, library) = (work.path().join("clock_shim.c"), work.path().join("clock_shim.so"));
    std::fs::write(&source, SHIM).unwrap();
    let args = ["-std=c11", "-O2", "-Wall", "-Wextra", "-fPIC", "-shared", "-o"];
    let compiler = std::env::var_os("CC").unwrap_or("cc".into());
    let out = Command::new(compiler).args(args).arg(&library).arg(&source).output().expect("cc");
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    // Another test process may have put the same library there: either will do.
    std::fs::rename(&library, &built).unwrap();
    built
}

/// Whether a test can turn this server's clock: asked of the server itself, once. On Redis it must
/// be so; a Valkey that reads the processor's counter keeps real time.
pub fn clock_supported() -> bool {
    static ANSWER: OnceLock<bool> = OnceLock::new();
    *ANSWER.get_or_init(|| {
        let clock = Clock::new(1_000_000_000_000_000);
        let server = Server::builder().without_module().clock(&clock).try_start();
        let turns = server.is_ok_and(|server| {
            let before = server.time_us() == clock.now_us();
            clock.advance_us(1);
            before && server.time_us() == clock.now_us()
        });
        assert!(turns || is_valkey(), "the clock of a Redis server does not turn");
        turns
    })
}
