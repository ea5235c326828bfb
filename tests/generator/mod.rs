//! A load generator: many connections, one thread, a fixed rate. Latency counts from the instant at
//! which a request was due, not from the one at which it could be sent: so a server that stalls is
//! charged for all that queued up meanwhile.
// Helpers may end a test by panicking.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::collections::VecDeque;
use std::io::{self, Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::{Duration, Instant};

/// A request, ready to be sent, and the lines of its whole reply.
pub struct Request {
    /// In the wire protocol.
    pub bytes: Vec<u8>,
    /// How many lines the reply has.
    pub lines: usize,
}

struct Connection {
    stream: UnixStream,
    /// Lines still to come, and when the request was due.
    lines: usize,
    due: Instant,
}

/// Connections to one server.
pub struct Generator {
    poll: libc::c_int,
    connections: Vec<Connection>,
    idle: VecDeque<usize>,
    buffer: Vec<u8>,
}

/// Lets this process, and the servers it starts from now on, open so many files.
pub fn allow_files(count: u64) -> bool {
    // SAFETY: both calls only read or write the struct given.
    unsafe {
        let mut limit: libc::rlimit = std::mem::zeroed();
        if libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit) != 0 || limit.rlim_max < count {
            return false;
        }
        limit.rlim_cur = limit.rlim_cur.max(count);
        libc::setrlimit(libc::RLIMIT_NOFILE, &raw const limit) == 0
    }
}

impl Generator {
    /// Connects `count` times.
    pub fn connect(socket: &Path, count: usize) -> Self {
        // SAFETY: no memory is involved.
        let poll = unsafe { libc::epoll_create1(libc::EPOLL_CLOEXEC) };
        assert!(poll >= 0, "{}", io::Error::last_os_error());
        let connections: Vec<_> = (0..count)
            .map(|index| {
                let stream = UnixStream::connect(socket).expect("a connection");
                stream.set_nonblocking(true).unwrap();
                watch(poll, &stream, index);
                Connection { stream, lines: 0, due: Instant::now() }
            })
            .collect();
        let idle = (0..count).collect();
        Self { poll, connections, idle, buffer: vec![0; 1 << 20] }
    }

    /// Sends `per_second` requests a second for `time`, over all connections in turn. The latencies
    /// of all, sorted, in µs.
    pub fn run(
        &mut self,
        time: Duration,
        per_second: u32,
        mut request: impl FnMut() -> Request,
    ) -> Vec<u64> {
        let gap = Duration::from_secs(1) / per_second;
        let (mut due, end) = (Instant::now(), Instant::now() + time);
        let mut latencies_us = Vec::new();
        while due < end || self.idle.len() < self.connections.len() {
            while due < end && due <= Instant::now() {
                let Some(index) = self.idle.pop_front() else { break };
                self.send(index, due, &request());
                due += gap;
            }
            self.receive(&mut latencies_us);
            assert!(Instant::now() < end + Duration::from_secs(60), "the server hangs");
        }
        latencies_us.sort_unstable();
        latencies_us
    }

    fn send(&mut self, index: usize, due: Instant, request: &Request) {
        let connection = &mut self.connections[index];
        connection.lines = request.lines;
        connection.due = due;
        let mut rest = &request.bytes[..];
        while !rest.is_empty() {
            match connection.stream.write(rest) {
                Ok(count) => rest = &rest[count..],
                // A long pipeline: the server reads it as it comes.
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => std::thread::yield_now(),
                Err(e) => panic!("{e}"),
            }
        }
    }

    fn receive(&mut self, latencies_us: &mut Vec<u64>) {
        const EVENTS: usize = 512;
        let mut events = [libc::epoll_event { events: 0, u64: 0 }; EVENTS];
        // SAFETY: the kernel writes at most as many events as there is room for. It waits up to
        // 1 ms, no longer than a request may be late.
        let count = unsafe { libc::epoll_wait(self.poll, events.as_mut_ptr(), 512, 1) };
        for event in &events[..usize::try_from(count).unwrap_or(0)] {
            let index = usize::try_from(event.u64).unwrap();
            let connection = &mut self.connections[index];
            match connection.stream.read(&mut self.buffer) {
                Ok(0) => panic!("the server closed a connection"),
                Ok(count) => {
                    let bytes = &self.buffer[..count];
                    assert!(bytes[0] != b'-', "{}", bytes.escape_ascii());
                    let lines = bytes.iter().filter(|&&byte| byte == b'\n').count();
                    connection.lines -= lines;
                }
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => continue,
                Err(e) => panic!("{e}"),
            }
            if connection.lines == 0 {
                latencies_us.push(u64::try_from(connection.due.elapsed().as_micros()).unwrap());
                self.idle.push_back(index);
            }
        }
    }
}

impl Drop for Generator {
    fn drop(&mut self) {
        // SAFETY: opened by `connect`, closed once.
        unsafe { libc::close(self.poll) };
    }
}

fn watch(poll: libc::c_int, stream: &UnixStream, index: usize) {
    let events = libc::EPOLLIN.cast_unsigned();
    let mut event = libc::epoll_event { events, u64: index as u64 };
    // SAFETY: the event is only read.
    let added =
        unsafe { libc::epoll_ctl(poll, libc::EPOLL_CTL_ADD, stream.as_raw_fd(), &raw mut event) };
    assert_eq!(added, 0, "{}", io::Error::last_os_error());
}
