//! Which server and which module the tests run.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

/// The server binary: `RL_SERVER`, or `redis-server` on the PATH.
pub fn server_program() -> PathBuf {
    std::env::var_os("RL_SERVER").filter(|v| !v.is_empty()).unwrap_or("redis-server".into()).into()
}

/// A server that is too old for the module, if it has been fetched (`scripts/servers redis-6.2`).
pub fn old_server_program() -> Option<PathBuf> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(".servers/redis-6.2/redis-server");
    path.exists().then_some(path)
}

/// The command that starts the server `binary`: itself, or what `RL_WRAPPER` puts before it, such as
/// `valgrind --quiet` (words divided by blanks).
pub fn server_command(binary: &Path) -> Command {
    let wrapper = std::env::var("RL_WRAPPER").unwrap_or_default();
    let mut words = wrapper.split_whitespace();
    let Some(program) = words.next() else { return Command::new(binary) };
    let mut command = Command::new(program);
    command.args(words).arg(binary);
    command
}

/// Whether servers run inside something that wants to see their end.
pub fn is_wrapped() -> bool {
    std::env::var("RL_WRAPPER").is_ok_and(|wrapper| !wrapper.trim().is_empty())
}

/// By what every deadline is multiplied: `RL_PATIENCE`, for servers that are slow on purpose.
pub fn patience() -> u32 {
    static PATIENCE: OnceLock<u32> = OnceLock::new();
    *PATIENCE.get_or_init(|| {
        std::env::var("RL_PATIENCE").ok().and_then(|factor| factor.parse().ok()).unwrap_or(1)
    })
}

/// The line in which the server names itself: `Redis server v=7.0.15 sha=…`.
fn version_line() -> &'static str {
    static LINE: OnceLock<String> = OnceLock::new();
    LINE.get_or_init(|| {
        let program = server_program();
        match Command::new(&program).arg("--version").output() {
            Ok(out) => String::from_utf8_lossy(&out.stdout).into_owned(),
            Err(e) => panic!(
                "cannot run {}: {e}. Name a Redis or Valkey server in RL_SERVER.",
                program.display()
            ),
        }
    })
}

/// Whether the server under test is Valkey.
pub fn is_valkey() -> bool {
    version_line().to_lowercase().starts_with("valkey")
}

/// The server's own version (of Valkey its own one, not the Redis version it claims to follow).
pub fn version() -> (u32, u32, u32) {
    let line = version_line();
    let digits = line.split("v=").nth(1).and_then(|rest| rest.split(' ').next());
    let mut parts = digits.unwrap_or_default().split('.').map(|part| part.parse().ok());
    match (parts.next().flatten(), parts.next().flatten(), parts.next().flatten()) {
        (Some(major), Some(minor), Some(patch)) => (major, minor, patch),
        _ => panic!("no version in {line:?}"),
    }
}

/// The module: `RL_MODULE`, or the one that cargo built together with this test.
///
/// `cargo test` leaves it beside the test in `target/<profile>/deps`, `cargo build` one folder
/// above; an older one may lie in the other place, so the newest counts.
pub fn module_path() -> PathBuf {
    if let Some(path) = std::env::var_os("RL_MODULE").filter(|v| !v.is_empty()) {
        return std::fs::canonicalize(&path)
            .unwrap_or_else(|e| panic!("RL_MODULE={}: {e}", Path::new(&path).display()));
    }
    let test = std::env::current_exe().expect("the path of this test");
    let folders = test.ancestors().skip(1).take(2);
    let built = folders.map(|folder| folder.join("libredis_limiter.so")).filter_map(|path| {
        let changed = path.metadata().ok()?.modified().ok()?;
        Some((changed, path))
    });
    built.max().expect("libredis_limiter.so beside the test: run by cargo test").1
}
