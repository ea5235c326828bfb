//! The load generator: prepared pipelines over a few connections, and a reply counter.
//!
//! It must be faster than the server. So the bytes of a pipeline are made once, and only the key
//! numbers in them change; replies are counted, not parsed.

use crate::Result;
use std::io::{Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::{Duration, Instant};

/// Stands for the key's number in a command; as many digits replace it.
pub const KEY: &str = "0000000000";

/// Commands that are sent together, with the places of the key's number in them.
#[derive(Clone, Debug)]
pub struct Call {
    /// The commands, encoded.
    bytes: Vec<u8>,
    key_at: Vec<usize>,
    /// How many commands it is.
    pub commands: usize,
}

impl Call {
    /// Commands as a person would type them: words separated by spaces.
    pub fn new(lines: &[String]) -> Self {
        let mut bytes = Vec::new();
        for line in lines {
            let words: Vec<&str> = line.split_whitespace().collect();
            bytes.extend(format!("*{}\r\n", words.len()).bytes());
            for word in words {
                bytes.extend(format!("${}\r\n{word}\r\n", word.len()).bytes());
            }
        }
        let is_key = |at: &usize| bytes[*at..].starts_with(KEY.as_bytes());
        let key_at = (0..bytes.len()).filter(is_key).collect();
        Self { bytes, key_at, commands: lines.len() }
    }
}

/// Which keys the calls of a pipeline go to.
#[derive(Debug)]
pub enum Keys {
    /// Always number 0.
    Hot,
    /// Random ones below `count`.
    Random { count: u64, seed: u64 },
    /// One after the other.
    Each { next: u64 },
}

impl Keys {
    fn next(&mut self) -> u64 {
        match self {
            Self::Hot => 0,
            Self::Random { count, seed } => {
                // SplitMix64; the bias of the remainder is far below what can be measured.
                *seed = seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
                let mut mixed = *seed;
                mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
                mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
                (mixed ^ (mixed >> 31)) % *count
            }
            Self::Each { next } => {
                *next += 1;
                *next - 1
            }
        }
    }
}

/// `depth` calls ready to be sent.
struct Pipeline {
    bytes: Vec<u8>,
    stride: usize,
    depth: usize,
    key_at: Vec<usize>,
    replies: usize,
}

impl Pipeline {
    fn new(call: &Call, depth: usize) -> Self {
        Self {
            bytes: call.bytes.repeat(depth),
            stride: call.bytes.len(),
            depth,
            key_at: call.key_at.clone(),
            replies: depth * call.commands,
        }
    }

    fn aim(&mut self, keys: &mut Keys) {
        if matches!(keys, Keys::Hot) {
            return;
        }
        for index in 0..self.depth {
            let digits = decimal(keys.next());
            for at in &self.key_at {
                let at = index * self.stride + at;
                self.bytes[at..at + KEY.len()].copy_from_slice(&digits);
            }
        }
    }
}

fn decimal(mut number: u64) -> [u8; KEY.len()] {
    let mut digits = [b'0'; KEY.len()];
    for digit in digits.iter_mut().rev() {
        *digit = b'0' + (number % 10) as u8;
        number /= 10;
    }
    digits
}

/// What a slice of load did.
#[derive(Clone, Copy, Debug)]
pub struct Done {
    pub calls: u64,
    pub elapsed: Duration,
}

/// Several connections that are kept busy by one thread.
pub struct Load {
    connections: Vec<Connection>,
}

impl Load {
    /// Connects `count` times.
    pub fn connect(socket: &Path, count: usize) -> Result<Self> {
        let connections = (0..count).map(|_| Connection::open(socket)).collect::<Result<_>>()?;
        Ok(Self { connections })
    }

    /// Sends pipelines of `depth` calls for `duration`.
    pub fn run(
        &mut self,
        call: &Call,
        depth: usize,
        keys: &mut Keys,
        duration: Duration,
    ) -> Result<Done> {
        let mut pipeline = Pipeline::new(call, depth);
        let start = Instant::now();
        for connection in &mut self.connections {
            connection.send(&mut pipeline, keys)?;
        }
        let mut calls = 0;
        while start.elapsed() < duration {
            for connection in &mut self.connections {
                connection.receive(pipeline.replies)?;
                calls += depth as u64;
                connection.send(&mut pipeline, keys)?;
            }
        }
        let elapsed = start.elapsed();
        for connection in &mut self.connections {
            connection.receive(pipeline.replies)?;
        }
        Ok(Done { calls, elapsed })
    }

    /// Sends one call to each key below `count`.
    pub fn fill(&mut self, call: &Call, count: u64) -> Result<()> {
        let mut keys = Keys::Each { next: 0 };
        let depth = count.clamp(1, 256);
        let mut pipeline = Pipeline::new(call, usize::try_from(depth)?);
        let connection = self.connections.first_mut().ok_or("no connection")?;
        for _ in 0..count.div_ceil(depth) {
            connection.send(&mut pipeline, &mut keys)?;
            connection.receive(pipeline.replies)?;
        }
        Ok(())
    }
}

struct Connection {
    stream: UnixStream,
    buffer: Vec<u8>,
    counter: Counter,
}

impl Connection {
    fn open(socket: &Path) -> Result<Self> {
        let stream = UnixStream::connect(socket)?;
        stream.set_read_timeout(Some(Duration::from_secs(60)))?;
        Ok(Self { stream, buffer: vec![0; 1 << 16], counter: Counter::default() })
    }

    fn send(&mut self, pipeline: &mut Pipeline, keys: &mut Keys) -> Result<()> {
        pipeline.aim(keys);
        Ok(self.stream.write_all(&pipeline.bytes)?)
    }

    fn receive(&mut self, replies: usize) -> Result<()> {
        while self.counter.replies < replies {
            let len = self.stream.read(&mut self.buffer)?;
            if len == 0 {
                return Err("the server closed the connection".into());
            }
            self.counter.eat(&self.buffer[..len])?;
        }
        self.counter.replies -= replies;
        Ok(())
    }
}

/// Counts the replies in a stream of RESP2 that arrives in pieces.
#[derive(Default)]
struct Counter {
    replies: usize,
    /// Elements that the reply under way still lacks.
    missing: i64,
    /// The line under way, without its end.
    kind: Option<u8>,
    number: i64,
    negative: bool,
    /// Bytes of a bulk string, its end included, that are still to come.
    skip: usize,
}

impl Counter {
    fn eat(&mut self, mut bytes: &[u8]) -> Result<()> {
        if bytes.first() == Some(&b'-') && self.kind.is_none() && self.skip == 0 {
            return Err(String::from_utf8_lossy(&bytes[..bytes.len().min(200)]).into());
        }
        while !bytes.is_empty() {
            if self.skip > 0 {
                let skipped = self.skip.min(bytes.len());
                self.skip -= skipped;
                bytes = &bytes[skipped..];
                if self.skip == 0 {
                    self.element();
                }
                continue;
            }
            let byte = bytes[0];
            bytes = &bytes[1..];
            match (self.kind, byte) {
                (None, kind) => {
                    self.kind = Some(kind);
                    self.number = 0;
                    self.negative = false;
                }
                (Some(kind), b'\n') => self.line(kind)?,
                (Some(b'*' | b'$'), b'-') => self.negative = true,
                (Some(b'*' | b'$'), b'0'..=b'9') => {
                    self.number = self.number * 10 + i64::from(byte - b'0');
                }
                // Of other lines only the end matters.
                _ => {
                    let end = bytes.iter().position(|&byte| byte == b'\n').unwrap_or(bytes.len());
                    bytes = &bytes[end..];
                }
            }
        }
        Ok(())
    }

    fn line(&mut self, kind: u8) -> Result<()> {
        self.kind = None;
        match kind {
            b'*' if !self.negative && self.number > 0 => {
                self.missing += self.number - i64::from(self.missing > 0);
            }
            b'$' if !self.negative => self.skip = usize::try_from(self.number)? + 2,
            b'-' => return Err("a call was answered with an error".into()),
            _ => self.element(),
        }
        Ok(())
    }

    fn element(&mut self) {
        self.missing = (self.missing - 1).max(0);
        self.replies += usize::from(self.missing == 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_replies_however_they_are_cut() {
        let stream =
            b"*2\r\n:1\r\n*2\r\n:-1\r\n$-1\r\n+OK\r\n$5\r\na\r\nb\n\r\n*0\r\n:7\r\n*-1\r\n";
        for piece in 1..stream.len() {
            let mut counter = Counter::default();
            stream.chunks(piece).for_each(|bytes| counter.eat(bytes).unwrap());
            assert_eq!(counter.replies, 6, "pieces of {piece}");
        }
    }

    #[test]
    fn a_call_knows_where_its_key_is() {
        let call = Call::new(&[format!("SET k{KEY} 1"), format!("GET k{KEY}")]);
        let mut pipeline = Pipeline::new(&call, 2);
        pipeline.aim(&mut Keys::Each { next: 41 });
        let text = String::from_utf8(pipeline.bytes).unwrap();
        assert_eq!(text.matches("k0000000041").count(), 2);
        assert_eq!(text.matches("k0000000042").count(), 2);
    }
}
