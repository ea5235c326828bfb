//! What a server tells its replicas.

use super::resp::{encode, escape, read_command};
use super::{SOON, Server, eventually};
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::time::Duration;

/// Channel of the messages that mark a place in the stream. They reach replicas in order with the
/// data and change none.
const SENTINELS: &[u8] = b"replica-tap";

/// One command of the stream: its name and arguments.
pub type Effect = Vec<Vec<u8>>;

/// A replica without data: shows the exact commands that a primary sends, and so also what it
/// writes to its AOF.
#[derive(Debug)]
pub struct ReplicaTap {
    reader: BufReader<TcpStream>,
    /// Replication offset up to which the stream was read.
    offset: u64,
    /// Sentinels sent, to tell them apart.
    sentinels: u32,
}

impl ReplicaTap {
    /// Attaches; the first snapshot comes through the socket.
    #[track_caller]
    #[must_use]
    pub fn attach(primary: &Server) -> Self {
        Self::attach_with(primary, &[b"eof", b"psync2"])
    }

    /// Attaches as an old replica does, which gets the snapshot as a file.
    #[track_caller]
    #[must_use]
    pub fn attach_by_file(primary: &Server) -> Self {
        Self::attach_with(primary, &[b"psync2"])
    }

    fn attach_with(primary: &Server, abilities: &[&[u8]]) -> Self {
        let stream = TcpStream::connect(("127.0.0.1", primary.port())).expect("a connection");
        stream.set_read_timeout(Some(SOON)).expect("a timeout");
        let mut tap = Self { reader: BufReader::new(stream), offset: 0, sentinels: 0 };
        for ability in abilities {
            tap.send(&[b"REPLCONF", b"capa", ability]);
            assert_eq!(tap.line(), "+OK");
        }
        tap.send(&[b"PSYNC", b"?", b"-1"]);
        let answer = tap.line();
        let offset = answer.strip_prefix("+FULLRESYNC ").and_then(|rest| rest.split(' ').nth(1));
        tap.offset = offset.and_then(|n| n.parse().ok()).unwrap_or_else(|| panic!("{answer}"));
        tap.skip_snapshot();
        tap.await_stream(primary);
        tap
    }

    /// After a snapshot through the socket the stream starts with the first acknowledgement that
    /// reaches the primary when it has done its part, so it is repeated until something comes.
    fn await_stream(&mut self, primary: &Server) {
        let pause = |tap: &Self, time| tap.reader.get_ref().set_read_timeout(Some(time)).unwrap();
        super::cmd!(primary.connection(), "PUBLISH", SENTINELS, "start");
        pause(self, Duration::from_millis(10));
        eventually(SOON, || {
            self.acknowledge();
            self.reader.fill_buf().is_ok_and(|bytes| !bytes.is_empty())
        });
        pause(self, SOON);
        self.read_until(b"start");
    }

    fn read_until(&mut self, mark: &[u8]) -> Vec<Effect> {
        let mut effects = Vec::new();
        loop {
            let effect = read_command(&mut self.reader, &mut self.offset).expect("a command");
            if effect.last().is_some_and(|last| last == mark) {
                self.acknowledge();
                return effects;
            }
            effects.push(effect);
        }
    }

    fn send(&mut self, args: &[&[u8]]) {
        self.reader.get_mut().write_all(&encode(args)).expect("sent");
    }

    /// The next line that is not empty (empty ones keep the link alive), without its end.
    fn line(&mut self) -> String {
        loop {
            let mut line = Vec::new();
            let read = self.reader.read_until(b'\n', &mut line).expect("a line");
            assert_ne!(read, 0, "the primary closed the link");
            let line = escape(line.trim_ascii());
            if !line.is_empty() {
                return line;
            }
        }
    }

    fn skip_snapshot(&mut self) {
        let head = self.line();
        if let Some(mark) = head.strip_prefix("$EOF:") {
            let mut snapshot = Vec::new();
            // The mark is 40 random hex digits: read up to its last byte, then look for all of it.
            let last = mark.as_bytes()[mark.len() - 1];
            while !snapshot.ends_with(mark.as_bytes()) {
                let read = self.reader.read_until(last, &mut snapshot).expect("the snapshot");
                assert_ne!(read, 0, "the snapshot ended early");
            }
            return;
        }
        let size = head.strip_prefix('$').and_then(|n| n.parse::<u64>().ok());
        let mut rest = (&mut self.reader).take(size.unwrap_or_else(|| panic!("{head}")));
        std::io::copy(&mut rest, &mut std::io::sink()).expect("the snapshot");
    }

    /// Tells the primary how far the stream was read, so that WAIT counts this replica.
    pub fn acknowledge(&mut self) {
        let offset = self.offset.to_string();
        self.send(&[b"REPLCONF", b"ACK", offset.as_bytes()]);
    }

    /// All that the primary has sent since the last call: data effects only, without SELECT, the
    /// link's own PING and REPLCONF. MULTI and EXEC are kept.
    #[track_caller]
    pub fn commands(&mut self, primary: &Server) -> Vec<Effect> {
        let own = |effect: &Effect| {
            let name = effect[0].to_ascii_uppercase();
            let link = [&b"SELECT"[..], b"PING", b"REPLCONF"].contains(&name.as_slice());
            let sentinel = effect.get(1).is_some_and(|channel| channel == SENTINELS);
            !link && !sentinel
        };
        self.commands_raw(primary).into_iter().filter(own).collect()
    }

    /// As [`ReplicaTap::commands`], with everything.
    #[track_caller]
    pub fn commands_raw(&mut self, primary: &Server) -> Vec<Effect> {
        self.sentinels += 1;
        let mark = format!("end-{}-{}", self.offset, self.sentinels);
        super::cmd!(primary.connection(), "PUBLISH", SENTINELS, &mark);
        self.read_until(mark.as_bytes())
    }

    /// The stream's bytes read so far, as the primary counts them (`master_repl_offset`).
    #[must_use]
    pub fn offset(&self) -> u64 {
        self.offset
    }
}

/// Commands as lines, with escapes for what is not printable: `["SET k v"]`.
pub fn text(effects: &[Effect]) -> Vec<String> {
    let line = |effect: &Effect| effect.iter().map(|arg| escape(arg)).collect::<Vec<_>>().join(" ");
    effects.iter().map(line).collect()
}

impl Server {
    /// A replica of this server, in sync.
    #[track_caller]
    #[must_use]
    pub fn replica(&self) -> Server {
        let replica = Server::builder().replica_of(self).start();
        replica.wait_in_sync(self);
        replica
    }

    /// Waits until this replica has all that `primary` has written up to now.
    #[track_caller]
    pub fn wait_in_sync(&self, primary: &Server) {
        let number = |text: Option<String>| text.and_then(|n| n.parse::<u64>().ok());
        eventually(SOON, || {
            self.info("master_link_status").as_deref() == Some("up")
                && number(self.info("slave_repl_offset"))
                    >= Some(number(primary.info("master_repl_offset")).expect("an offset"))
        });
    }

    /// Makes a replica a primary.
    #[track_caller]
    pub fn promote(&self) {
        super::cmd!(self.connection(), "REPLICAOF", "NO", "ONE");
    }

    /// Fails unless this server and `other` hold the same value under `key`, to the byte and to
    /// the millisecond of its expiry.
    #[track_caller]
    pub fn assert_same(&self, other: &Server, key: &str) {
        assert_eq!(self.digest(key), other.digest(key), "digest of {key}");
        assert_eq!(self.pexpiretime(key), other.pexpiretime(key), "expiry of {key}");
    }
}
