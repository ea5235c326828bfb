//! The wire protocol byte by byte.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

/// A command as a client sends it.
pub fn encode(args: &[&[u8]]) -> Vec<u8> {
    let mut bytes = format!("*{}\r\n", args.len()).into_bytes();
    for arg in args {
        bytes.extend_from_slice(format!("${}\r\n", arg.len()).as_bytes());
        bytes.extend_from_slice(arg);
        bytes.extend_from_slice(b"\r\n");
    }
    bytes
}

/// Bytes for a person to read and a test to compare: `\x00`, `\r\n`.
pub fn escape(bytes: &[u8]) -> String {
    bytes.escape_ascii().to_string()
}

/// A connection without a client library: shows exactly what the server sends.
#[derive(Debug)]
pub struct Raw {
    reader: BufReader<UnixStream>,
}

impl Raw {
    /// Connects to a unix socket.
    pub(super) fn try_unix(path: &Path) -> io::Result<Self> {
        let stream = UnixStream::connect(path)?;
        stream.set_read_timeout(Some(Duration::from_secs(30) * super::patience()))?;
        Ok(Self { reader: BufReader::new(stream) })
    }

    /// Sends bytes as they are: pipelines, inline commands, broken protocol.
    #[track_caller]
    pub fn send(&mut self, bytes: &[u8]) {
        self.reader.get_mut().write_all(bytes).expect("sent");
    }

    /// The bytes of the next reply, whole.
    #[track_caller]
    pub fn reply(&mut self) -> Vec<u8> {
        self.try_reply().expect("a reply")
    }

    fn try_reply(&mut self) -> io::Result<Vec<u8>> {
        let mut bytes = Vec::new();
        read_reply(&mut self.reader, &mut bytes)?;
        Ok(bytes)
    }

    /// Sends one command and returns the bytes of its reply.
    #[track_caller]
    pub fn call(&mut self, args: &[&[u8]]) -> Vec<u8> {
        self.try_call(args).expect("a reply")
    }

    /// As [`Raw::call`], where the connection may end.
    pub fn try_call(&mut self, args: &[&[u8]]) -> io::Result<Vec<u8>> {
        self.reader.get_mut().write_all(&encode(args))?;
        self.try_reply()
    }

    /// Whether the server has closed the connection or does so now.
    pub fn is_closed(&mut self) -> bool {
        matches!(self.reader.fill_buf(), Ok([]))
    }
}

/// Appends one reply, with all that it nests, to `bytes`.
fn read_reply(reader: &mut impl BufRead, bytes: &mut Vec<u8>) -> io::Result<()> {
    let start = bytes.len();
    if reader.read_until(b'\n', bytes)? == 0 {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    let line = &bytes[start..];
    let count = || std::str::from_utf8(&line[1..]).ok()?.trim_end().parse::<i64>().ok();
    match line[0] {
        b'$' | b'!' | b'=' => match count() {
            Some(length @ 0..) => {
                // The two bytes after the data are the line's end.
                let length = u64::try_from(length).unwrap_or(0) + 2;
                if reader.take(length).read_to_end(bytes)? as u64 != length {
                    return Err(io::ErrorKind::UnexpectedEof.into());
                }
                Ok(())
            }
            _ => Ok(()),
        },
        b'*' | b'~' | b'>' => (0..count().unwrap_or(0)).try_for_each(|_| read_reply(reader, bytes)),
        b'%' => (0..2 * count().unwrap_or(0)).try_for_each(|_| read_reply(reader, bytes)),
        // Attributes stand before the reply that they belong to.
        b'|' => (0..=2 * count().unwrap_or(0)).try_for_each(|_| read_reply(reader, bytes)),
        _ => Ok(()),
    }
}

/// Reads one command of a replication stream. `length` grows by the bytes that it took.
pub(super) fn read_command(
    reader: &mut BufReader<TcpStream>,
    length: &mut u64,
) -> io::Result<Vec<Vec<u8>>> {
    let bad = |line: &[u8]| io::Error::other(format!("not a command: {}", escape(line)));
    let mut number = |reader: &mut BufReader<TcpStream>, mark: u8| -> io::Result<u64> {
        let mut line = Vec::new();
        loop {
            *length += reader.read_until(b'\n', &mut line)? as u64;
            match line.as_slice() {
                [] => return Err(io::ErrorKind::UnexpectedEof.into()),
                // A lone newline keeps the link alive.
                b"\n" => line.clear(),
                [first, rest @ ..] if *first == mark => {
                    let text = std::str::from_utf8(rest).map_err(|_| bad(rest))?;
                    return text.trim_end().parse().map_err(|_| bad(&line));
                }
                _ => return Err(bad(&line)),
            }
        }
    };
    let count = number(reader, b'*')?;
    let mut args = Vec::new();
    for _ in 0..count {
        let size = usize::try_from(number(reader, b'$')?).map_err(io::Error::other)?;
        let mut arg = vec![0; size + 2];
        reader.read_exact(&mut arg)?;
        arg.truncate(size);
        args.push(arg);
    }
    // Each argument's own bytes, counted after the closure's borrow of `length` has ended.
    *length += args.iter().map(|arg| arg.len() as u64 + 2).sum::<u64>();
    Ok(args)
}
