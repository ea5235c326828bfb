//! Nothing that was answered is lost: RDB, AOF, DUMP, COPY and MIGRATE.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod support;
mod workload;
use support::*;
use workload::{
    Run, Snapshot, Workload, assert_no_propagation_error, rewrite_aof, say, wait_for_job,
};

use redis::{Connection, Value};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Plays a load, does something to the server that must lose nothing, and goes on.
#[track_caller]
fn keeps(mut run: Run, act: impl Fn(&mut Server)) {
    for _ in 0..2 {
        let before = run.snapshot();
        act(&mut run.server);
        assert_eq!(run.snapshot(), before);
        run.play(200);
    }
    assert_no_propagation_error(&run.server);
}

#[test]
fn shutdown_save_keeps_everything() {
    keeps(Run::start(1, |b| b), |server| {
        server.shutdown_save();
        server.start_again();
    });
}

#[test]
fn what_bgsave_saved_survives_kill_9() {
    keeps(Run::start(2, |b| b), |server| {
        cmd!(server.connection(), "BGSAVE");
        wait_for_job(server, "rdb_bgsave_in_progress", "rdb_last_bgsave_status");
        server.kill9();
        server.start_again();
    });
}

#[test]
fn debug_reload_keeps_everything() {
    keeps(Run::start(3, |b| b), |server| {
        cmd!(server.connection(), "DEBUG", "RELOAD");
    });
}

#[test]
fn an_aof_survives_kill_9() {
    keeps(Run::start(4, Builder::aof), |server| {
        server.kill9();
        server.start_again();
    });
}

#[test]
fn a_replayed_aof_is_exact_in_place() {
    keeps(Run::start(5, Builder::aof), |server| {
        cmd!(server.connection(), "DEBUG", "LOADAOF");
    });
}

#[test]
fn a_rewritten_aof_is_the_same_with_rdb_preamble() {
    keeps(Run::start(6, |b| b.aof().config("aof-use-rdb-preamble yes")), |server| {
        rewrite_aof(server);
        server.kill9();
        server.start_again();
    });
}

#[test]
fn a_rewritten_aof_is_the_same_without_rdb_preamble() {
    keeps(Run::start(7, |b| b.aof().config("aof-use-rdb-preamble no")), |server| {
        rewrite_aof(server);
        server.kill9();
        server.start_again();
    });
}

/// The file is rewritten while the load goes on, and ends with what came meanwhile and afterwards.
fn keeps_what_comes_during_a_rewrite(seed: u64, config: &str) {
    let mut run = Run::start(seed, |b| b.aof().config(config));
    for _ in 0..2 {
        let mut con = run.server.connection();
        // A child that rests after every key, so that the load is sure to meet it.
        cmd!(con, "CONFIG", "SET", "rdb-key-save-delay", 250_000 * patience());
        cmd!(con, "BGREWRITEAOF");
        let is_going =
            |server: &Server| server.info("aof_rewrite_in_progress").as_deref() == Some("1");
        eventually(SOON, || is_going(&run.server));
        let mut met = 0;
        while is_going(&run.server) {
            run.play(10);
            met += 10;
        }
        assert!(met >= 20, "the rewrite met {met} calls");
        wait_for_job(&run.server, "aof_rewrite_in_progress", "aof_last_bgrewrite_status");
        run.play(50);
        let before = run.snapshot();
        run.server.kill9();
        run.server.start_again();
        assert_eq!(run.snapshot(), before);
    }
    assert_no_propagation_error(&run.server);
}

#[test]
fn an_aof_rewritten_during_load_is_the_same_with_rdb_preamble() {
    keeps_what_comes_during_a_rewrite(16, "aof-use-rdb-preamble yes");
}

#[test]
fn an_aof_rewritten_during_load_is_the_same_without_rdb_preamble() {
    keeps_what_comes_during_a_rewrite(17, "aof-use-rdb-preamble no");
}

/// The bytes of a freshly rewritten AOF.
fn base_aof(server: &Server) -> Vec<u8> {
    rewrite_aof(server);
    let files = std::fs::read_dir(server.file("appendonlydir")).unwrap();
    let mut paths = files.map(|entry| entry.unwrap().path());
    let base = paths.find(|path| path.to_string_lossy().ends_with(".base.aof")).unwrap();
    std::fs::read(base).unwrap()
}

/// Sends an AOF as a client does: `redis-cli --pipe`.
fn replay(server: &Server, aof: &[u8]) {
    let mut raw = server.raw();
    raw.send(aof);
    raw.send(b"PING\r\n");
    loop {
        let reply = raw.reply();
        assert!(!reply.starts_with(b"-"), "{}", escape(&reply));
        if reply.starts_with(b"+PONG") {
            return;
        }
    }
}

#[test]
fn an_aof_can_be_replayed_through_a_client() {
    let run = Run::start(8, |b| b.aof().config("aof-use-rdb-preamble no"));
    let other = run.another(|b| b);
    replay(&other, &base_aof(&run.server));
    assert_eq!(run.snapshot_of(&other), run.snapshot());
}

#[test]
fn dump_restores_under_another_key_and_on_another_server() {
    let run = Run::start(9, |b| b);
    let other = run.another(|b| b);
    let (mut con, mut there) = (run.server.connection(), other.connection());
    for key in &run.load.keys {
        let (key, copy) = (&key[..], [&key[..], b":copy"].concat());
        let expires_ms = run.server.pexpiretime(key);
        let Value::BulkString(dump) = cmd!(con, "DUMP", key) else { panic!("no dump") };
        cmd!(con, "RESTORE", &copy[..], expires_ms, &dump[..], "ABSTTL");
        assert_eq!(run.server.digest(&copy[..]), run.server.digest(key));
        assert_eq!(run.server.pexpiretime(&copy[..]), expires_ms);
        assert_eq!(cmd!(con, "DUMP", &copy[..]), Value::BulkString(dump.clone()));
        cmd!(con, "DEL", &copy[..]);
        cmd!(there, "RESTORE", key, expires_ms, &dump[..], "ABSTTL", "FREQ", 1);
        cmd!(there, "RESTORE", key, expires_ms, &dump[..], "ABSTTL", "REPLACE");
    }
    assert_eq!(run.snapshot_of(&other), run.snapshot());
}

/// The RDB version that a dump says it is of; after it comes a checksum of 8 bytes.
fn rdb_version(con: &mut Connection, key: &[u8]) -> u16 {
    let Value::BulkString(dump) = cmd!(con, "DUMP", key) else { panic!("no dump") };
    let at = dump.len() - 10;
    u16::from_le_bytes([dump[at], dump[at + 1]])
}

/// Other servers on this machine: `RL_OTHER_SERVERS` (paths with `:` between), or those fetched.
fn other_servers() -> Vec<PathBuf> {
    if let Some(paths) = std::env::var_os("RL_OTHER_SERVERS") {
        return std::env::split_paths(&paths).collect();
    }
    let fetched = concat!(env!("CARGO_MANIFEST_DIR"), "/.servers");
    let folders = std::fs::read_dir(fetched).into_iter().flatten().flatten();
    let binaries = |folder: std::fs::DirEntry| {
        ["redis-server", "valkey-server"].map(|name| folder.path().join(name))
    };
    let mut paths: Vec<PathBuf> = folders.flat_map(binaries).filter(|p| p.is_file()).collect();
    paths.retain(|path| old_server_program().as_ref() != Some(path));
    paths.push("redis-server".into());
    paths
}

/// Starts one of them. Only the `redis-server` of the PATH may be missing or older than 7.0.
#[track_caller]
fn start_other(builder: Builder, path: &Path) -> Option<Server> {
    match builder.program(path).try_start() {
        Ok(server) => Some(server),
        Err(_) if path == Path::new("redis-server") => None,
        Err(log) => panic!("{}: {log}", path.display()),
    }
}

#[test]
fn dump_restores_on_other_servers_that_take_the_payload() {
    let run = Run::start(14, |b| b);
    let mut con = run.server.connection();
    for path in other_servers() {
        // Real time there and perhaps another one here: so the keys are compared, not the answers.
        let Some(other) = start_other(Server::builder(), &path) else { continue };
        let mut there = other.connection();
        cmd!(there, "SET", "own", "x");
        let (ours, theirs) =
            (rdb_version(&mut con, &run.load.keys[0]), rdb_version(&mut there, b"own"));
        // The server's own rule: from older to newer, and not between newer vendors. What both
        // vendors had before they went their own ways is taken by all that are newer.
        let must = ours == theirs || (ours <= 11 && ours < theirs);
        for key in &run.load.keys {
            let Value::BulkString(dump) = cmd!(con, "DUMP", &key[..]) else { panic!("no dump") };
            match try_cmd!(there, "RESTORE", &key[..], 1_000_000_000, &dump[..]) {
                Ok(_) => assert_eq!(other.digest(&key[..]), run.server.digest(&key[..])),
                Err(e) => {
                    assert!(error_text(&e).contains("version"), "{}", error_text(&e));
                    assert!(!must, "{}: RDB {ours} to {theirs}", path.display());
                }
            }
        }
        let restored = int(&cmd!(there, "DBSIZE")) - 1;
        println!("{}: RDB {ours} to {theirs}: {restored} keys restored", path.display());
    }
}

#[test]
fn an_aof_without_preamble_moves_limits_to_any_other_server() {
    let run = Run::start(15, |b| b.aof().config("aof-use-rdb-preamble no"));
    let base = base_aof(&run.server);
    for path in other_servers() {
        let clocked = workload::with_clock(Server::builder(), run.clock.as_ref());
        let Some(other) = start_other(clocked, &path) else { continue };
        if run.clock.is_some() && other.time_us().abs_diff(run.server.time_us()) > 10_000_000 {
            continue; // A server whose clock does not turn would end the limits of another time.
        }
        replay(&other, &base);
        // That server's time may go on: its answers are not compared.
        let stored = |server| Snapshot::take(server, &run.load.keys, false);
        assert_eq!(stored(&other), stored(&run.server), "{}", path.display());
    }
}

#[test]
fn a_restored_key_without_expiry_gets_one_by_its_next_charge() {
    let server = Server::start();
    let mut con = server.connection();
    say(&mut con, "RL.TAKE k BUCKET 1/1h 10 WINDOW 1h 10 QUOTA month 10");
    let Value::BulkString(dump) = cmd!(con, "DUMP", "k") else { panic!("no dump") };
    cmd!(con, "RESTORE", "k", 0, &dump[..], "REPLACE");
    assert_eq!(server.pexpiretime("k"), -1);
    say(&mut con, "RL.PEEK k BUCKET 1/1h 10");
    say(&mut con, "RL.BUCKET k 1/1h 10 11");
    assert_eq!(server.pexpiretime("k"), -1, "a refusal writes nothing");
    say(&mut con, "RL.BUCKET k 1/1h 10");
    assert!(server.pexpiretime("k") > 0);
}

#[test]
fn copies_are_equal_and_go_their_own_ways() {
    let mut run = Run::start(10, |b| b);
    let mut con = run.server.connection();
    let key = run.load.keys[0].clone();
    for copy in [&b"copy"[..], b"other-db"] {
        let db = i32::from(copy == b"other-db");
        assert_eq!(int(&cmd!(con, "COPY", &key[..], copy, "DB", db)), 1);
        cmd!(con, "SELECT", db);
        let digest = cmd!(con, "DEBUG", "DIGEST-VALUE", copy);
        let Value::Array(digests) = &digest else { panic!("{digest:?}") };
        assert_eq!(plain(&digests[0]), run.server.digest(&key[..]));
        assert_eq!(int(&cmd!(con, "PEXPIRETIME", copy)), run.server.pexpiretime(&key[..]));
        cmd!(con, "SELECT", 0);
    }
    let before = run.server.digest("copy");
    run.play(300);
    assert_eq!(run.server.digest("copy"), before, "the original is not the copy");
    let original = run.server.digest(&key[..]);
    cmd!(con, "RL.BUCKET", "copy", 1, 1, 1, "FORCE", "AS", "own");
    assert_ne!(run.server.digest("copy"), before);
    assert_eq!(run.server.digest(&key[..]), original, "the copy is not the original");
    cmd!(con, "RENAME", "copy", "renamed");
    assert_ne!(run.server.digest("renamed"), before);
}

#[test]
fn migrate_moves_limits_to_another_server() {
    let run = Run::start(11, |b| b);
    let other = run.another(|b| b);
    let before = run.snapshot();
    let expiries: Vec<i64> = run.load.keys.iter().map(|k| run.server.pexpiretime(&k[..])).collect();
    let digest = run.server.digest_all();
    let keys: Vec<&[u8]> = run.load.keys.iter().map(Vec::as_slice).collect();
    let mut con = run.server.connection();
    let reply = cmd!(con, "MIGRATE", "127.0.0.1", other.port(), "", 0, 5000, "KEYS", &keys);
    assert_eq!(plain(&reply), "OK");
    assert_eq!(int(&cmd!(con, "DBSIZE")), 0);
    assert_eq!(other.digest_all(), digest);
    for (key, expires_ms) in run.load.keys.iter().zip(expiries) {
        // The time to live travels, so the expiry moves by what the way takes.
        assert!((other.pexpiretime(&key[..]) - expires_ms).abs() < 1000);
    }
    if run.clock.is_some() {
        assert_eq!(run.snapshot_of(&other), before);
    }
}

/// Limits that ended while the server was down are gone when it comes back.
#[test]
fn what_ended_in_between_is_gone() {
    needs_clock!();
    let mut run = Run::start(12, Builder::aof);
    run.server.terminate();
    run.clock.as_ref().unwrap().advance_ms(400 * 86_400_000);
    run.server.start_again();
    let mut con = run.server.connection();
    for key in &run.load.keys {
        assert_eq!(cmd!(con, "RL.INFO", &key[..]), Value::Nil);
    }
    eventually(SOON, || int(&cmd!(con, "DBSIZE")) == 0);
}

mod fixture {
    //! A file written by version 0.1.0 on Redis 7.0, which every later version must read. The keys
    //! are without expiry, so that the servers keep them for ever; `eternal` has the latest expiry.
    use super::*;
    use workload::{START_US, with_clock};

    const DIR: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures");

    /// What the file holds; the answers only where the clock can be set back to when it was written.
    fn contents(server: &Server, keys: &[Vec<u8>], answers: bool) -> String {
        let mut con = server.connection();
        let mut text = String::new();
        for key in keys {
            text += &format!("{} {} ", key.escape_ascii(), server.digest(&key[..]));
            text += &format!("{}\n", server.pexpiretime(&key[..]));
            if answers {
                let info = cmd!(con, "RL.INFO", &key[..]);
                text += &format!("  {}\n", plain(&info));
            }
        }
        text
    }

    fn keys() -> Vec<Vec<u8>> {
        let mut keys = Workload::new(0).keys;
        keys.push(b"eternal".to_vec());
        keys
    }

    /// Writes the fixture: `cargo test --test persistence -- --ignored write_the_fixture`.
    #[test]
    #[ignore = "writes into the source tree; run once a stored format, on Redis 7.0"]
    fn write_the_fixture() {
        let mut run = Run::start(2026, |b| b.config("rdbcompression yes"));
        let mut con = run.server.connection();
        for key in &run.load.keys {
            cmd!(con, "PERSIST", &key[..]);
        }
        say(&mut con, "RL.BUCKET eternal 1/366d 9007199254740991 9007199254740000");
        let clock = run.clock.as_ref().unwrap();
        clock.set_us(START_US + 10_000_000);
        let keys = keys();
        let text = [contents(&run.server, &keys, false), contents(&run.server, &keys, true)];
        run.server.shutdown_save();
        std::fs::create_dir_all(DIR).unwrap();
        std::fs::copy(run.server.file("dump.rdb"), Path::new(DIR).join("v0.1.0.rdb")).unwrap();
        std::fs::write(Path::new(DIR).join("v0.1.0.txt"), text.join("---\n")).unwrap();
        run.server.start_again();
    }

    #[test]
    fn a_file_of_version_0_1_0_loads() {
        let clock = clock_supported().then(|| Clock::new(START_US + 10_000_000));
        let mut server = with_clock(Server::builder(), clock.as_ref()).start();
        server.terminate();
        std::fs::copy(Path::new(DIR).join("v0.1.0.rdb"), server.file("dump.rdb")).unwrap();
        server.start_again();
        let text = std::fs::read_to_string(Path::new(DIR).join("v0.1.0.txt")).unwrap();
        let (stored, answers) = text.split_once("---\n").unwrap();
        assert_eq!(contents(&server, &keys(), false), stored);
        if clock.is_some() {
            assert_eq!(contents(&server, &keys(), true), answers);
        }
    }
}

#[test]
fn snapshots_can_differ() {
    let mut run = Run::start(13, |b| b);
    let before: Snapshot = run.snapshot();
    run.play(50);
    assert_ne!(run.snapshot(), before);
    std::thread::sleep(Duration::from_millis(1));
    assert_eq!(run.snapshot(), run.snapshot());
}
