//! A server of our own: started on a unix socket in a temporary folder, pinned to a core, ended with
//! the benchmark.

use crate::Result;
use std::fs::{self, File};
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// What the server keeps or sends besides answering.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Durability {
    None,
    Replica,
    Aof,
}

impl Durability {
    pub const fn name(self) -> &'static str {
        match self {
            Self::None => "no replica, no AOF",
            Self::Replica => "one replica",
            Self::Aof => "AOF everysec",
        }
    }
}

/// Which server, with which modules.
#[derive(Clone, Debug)]
pub struct Setup {
    pub program: PathBuf,
    /// In the order of loading: a peer first, so that it gets the names it wants.
    pub modules: Vec<PathBuf>,
    /// Further lines of configuration.
    pub config: Vec<String>,
}

/// A child process that is killed when dropped.
struct Process(Child);

/// A running server.
pub struct Server {
    process: Process,
    dir: TempDir,
    client: BufReader<UnixStream>,
}

impl Server {
    /// Starts it on core 0.
    pub fn start(setup: &Setup, durability: Durability) -> Result<Self> {
        Self::start_in(setup, durability, tempfile::Builder::new().prefix("rl-bench-").tempdir()?)
    }

    fn start_in(setup: &Setup, durability: Durability, dir: TempDir) -> Result<Self> {
        let path = dir.path().display();
        let mut config = format!(
            "port 0\nunixsocket \"{path}/s\"\ndir \"{path}\"\nsave \"\"\nappendfsync everysec\n\
             auto-aof-rewrite-percentage 0\nenable-debug-command yes\n"
        );
        if durability == Durability::Aof {
            config += "appendonly yes\n";
        }
        for module in &setup.modules {
            config += &format!("loadmodule \"{}\"\n", module.display());
        }
        for line in &setup.config {
            config += &format!("{line}\n");
        }
        fs::write(dir.path().join("conf"), config)?;
        let log = File::create(dir.path().join("log"))?;
        let mut command = Command::new(&setup.program);
        command.arg(dir.path().join("conf")).stdin(Stdio::null());
        command.stdout(log.try_clone()?).stderr(log);
        // SAFETY: only system calls between fork and exec.
        unsafe {
            command.pre_exec(|| {
                libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
                pin(0);
                Ok(())
            });
        }
        let spawned = command.spawn().map_err(|e| format!("{}: {e}", setup.program.display()))?;
        let mut process = Process(spawned);
        let client = await_ready(&mut process.0, dir.path())?;
        let mut server = Self { process, dir, client };
        if durability == Durability::Replica {
            server.attach_replica()?;
        }
        Ok(server)
    }

    /// Where clients connect.
    pub fn socket(&self) -> PathBuf {
        self.dir.path().join("s")
    }

    /// The process id.
    pub fn pid(&self) -> u32 {
        self.process.0.id()
    }

    /// Sends one command; the reply as text, one line an element.
    pub fn ask(&mut self, words: &[&[u8]]) -> Result<String> {
        let mut bytes = format!("*{}\r\n", words.len()).into_bytes();
        for word in words {
            bytes.extend(format!("${}\r\n", word.len()).bytes());
            bytes.extend_from_slice(word);
            bytes.extend(b"\r\n");
        }
        self.client.get_mut().write_all(&bytes)?;
        read_reply(&mut self.client)
    }

    /// The same with words separated by spaces.
    pub fn say(&mut self, line: &str) -> Result<String> {
        let words: Vec<&[u8]> = line.split_whitespace().map(str::as_bytes).collect();
        self.ask(&words)
    }

    /// A number of INFO.
    pub fn info_number(&mut self, section: &str, field: &str) -> Result<u64> {
        let info = self.say(&format!("INFO {section}"))?;
        let value = info.lines().find_map(|line| line.strip_prefix(field)?.strip_prefix(':'));
        Ok(value.ok_or(format!("no {field} in INFO"))?.trim().parse()?)
    }

    /// Calls and microseconds of the commands named, since CONFIG RESETSTAT.
    pub fn command_stats(&mut self, names: &[String]) -> Result<(u64, u64)> {
        let info = self.say("INFO commandstats")?;
        let mut sum = (0, 0);
        for name in names {
            let prefix = format!("cmdstat_{name}:");
            let Some(line) = info.lines().find_map(|line| line.strip_prefix(&prefix)) else {
                continue;
            };
            let number = |field: &str| {
                line.split(',')
                    .find_map(|part| part.strip_prefix(field)?.trim().parse::<u64>().ok())
            };
            sum.0 += number("calls=").unwrap_or(0);
            sum.1 += number("usec=").unwrap_or(0);
        }
        Ok(sum)
    }

    /// Nanoseconds that the main thread has run on a processor.
    pub fn cpu_ns(&self) -> Result<u64> {
        let pid = self.pid();
        let text = fs::read_to_string(format!("/proc/{pid}/task/{pid}/schedstat"))?;
        Ok(text.split(' ').next().unwrap_or_default().parse()?)
    }

    /// Seconds that loading `dump.rdb` takes a fresh server.
    pub fn restart(self, setup: &Setup) -> Result<(Self, f64)> {
        let Self { process, dir, client } = self;
        drop((client, process));
        fs::remove_file(dir.path().join("s"))?;
        let server = Self::start_in(setup, Durability::None, dir)?;
        let log = fs::read_to_string(server.dir.path().join("log"))?;
        let seconds = log.lines().find_map(|line| {
            line.split("loaded from disk: ").nth(1)?.split(' ').next()?.parse().ok()
        });
        Ok((server, seconds.ok_or("the log does not tell how long loading took")?))
    }

    /// Bytes of `dump.rdb`.
    pub fn rdb_bytes(&self) -> Result<u64> {
        Ok(fs::metadata(self.dir.path().join("dump.rdb"))?.len())
    }

    /// A replica that reads the stream and throws it away: the primary's cost of having one.
    fn attach_replica(&mut self) -> Result<()> {
        self.say("CONFIG SET repl-diskless-sync-delay 0")?;
        let mut stream = UnixStream::connect(self.socket())?;
        stream.write_all(b"*1\r\n$4\r\nSYNC\r\n")?;
        thread::spawn(move || {
            let mut buffer = vec![0; 1 << 20];
            while stream.read(&mut buffer).is_ok_and(|len| len > 0) {
                // Let it pile up a little: reading often would cost the load generator its core.
                thread::sleep(Duration::from_millis(2));
            }
        });
        let end = Instant::now() + Duration::from_secs(20);
        while !self.say("INFO replication")?.contains("state=online") {
            if Instant::now() > end {
                return Err("the replica does not get online".into());
            }
            thread::sleep(Duration::from_millis(10));
        }
        Ok(())
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Pins the calling thread to a core, where there are several.
pub fn pin(core: usize) {
    // SAFETY: a zeroed set is an empty one; the core is checked against its size.
    unsafe {
        let cores = libc::sysconf(libc::_SC_NPROCESSORS_ONLN);
        if usize::try_from(cores).is_ok_and(|cores| core < cores.min(1024)) {
            let mut set: libc::cpu_set_t = std::mem::zeroed();
            libc::CPU_SET(core, &mut set);
            libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), &raw const set);
        }
    }
}

fn await_ready(child: &mut Child, dir: &Path) -> Result<BufReader<UnixStream>> {
    let end = Instant::now() + Duration::from_secs(300);
    while Instant::now() < end {
        if child.try_wait()?.is_some() {
            let log = fs::read_to_string(dir.join("log")).unwrap_or_default();
            return Err(format!("the server did not start:\n{log}").into());
        }
        if let Ok(stream) = UnixStream::connect(dir.join("s")) {
            stream.set_read_timeout(Some(Duration::from_secs(300)))?;
            let mut client = BufReader::new(stream);
            client.get_mut().write_all(b"*1\r\n$4\r\nPING\r\n")?;
            if read_reply(&mut client).is_ok_and(|reply| reply == "PONG") {
                return Ok(client);
            }
        }
        thread::sleep(Duration::from_millis(10));
    }
    Err("the server does not answer".into())
}

fn read_reply(client: &mut BufReader<UnixStream>) -> Result<String> {
    let mut line = String::new();
    if client.read_line(&mut line)? == 0 {
        return Err("the server closed the connection".into());
    }
    let line = line.trim_end();
    let (kind, rest) = line.split_at_checked(1).ok_or("an empty reply")?;
    match kind {
        "+" | ":" => Ok(rest.to_owned()),
        "-" => Err(rest.into()),
        "$" => {
            let Ok(len) = usize::try_from(rest.parse::<i64>()?) else { return Ok(String::new()) };
            let mut bytes = vec![0; len + 2];
            client.read_exact(&mut bytes)?;
            Ok(String::from_utf8_lossy(&bytes[..len]).into_owned())
        }
        "*" => {
            let count = rest.parse::<i64>()?.max(0);
            let parts: Result<Vec<String>> = (0..count).map(|_| read_reply(client)).collect();
            Ok(parts?.join("\n"))
        }
        _ => Err(format!("not a RESP2 reply: {line}").into()),
    }
}
