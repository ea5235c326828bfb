//! The plain client, and what tests read out of its replies.

use super::Server;
use redis::{Client, Connection, ConnectionAddr, IntoConnectionInfo as _, RedisError, Value};
use std::path::Path;
use std::sync::Barrier;
use std::time::Duration;

#[track_caller]
pub(super) fn connect(socket: &Path, protocol: redis::ProtocolVersion) -> Connection {
    let address = ConnectionAddr::Unix(socket.to_owned()).into_connection_info().expect("address");
    // CLIENT SETINFO is an error on Redis 7.0 and would show in its statistics.
    let settings = address.redis_settings().clone().set_protocol(protocol).set_skip_set_lib_name();
    let client = Client::open(address.set_redis_settings(settings)).expect("a client");
    let connection = client.get_connection().expect("a connection");
    // A server that hangs fails the test instead of hanging it.
    connection
        .set_read_timeout(Some(Duration::from_secs(30) * super::patience()))
        .expect("a timeout");
    connection
}

/// An error reply as the server sent it: `ERR wrong number of arguments …`.
pub fn error_text(error: &RedisError) -> String {
    match (error.code(), error.detail()) {
        (Some(code), Some(detail)) => format!("{code} {detail}"),
        (Some(code), None) => code.to_owned(),
        _ => error.to_string(),
    }
}

/// An integer reply.
#[track_caller]
pub fn int(value: &Value) -> i64 {
    match value {
        Value::Int(n) => *n,
        other => panic!("not an integer: {other:?}"),
    }
}

/// A reply that is an array of integers only.
#[track_caller]
pub fn ints(value: &Value) -> Vec<i64> {
    match value {
        Value::Array(items) => items.iter().map(int).collect(),
        other => panic!("not an array: {other:?}"),
    }
}

/// The five integers that open the reply of every limiting command; more elements may follow.
#[track_caller]
pub fn five(value: &Value) -> [i64; 5] {
    match value {
        Value::Array(items) if items.len() >= 5 => std::array::from_fn(|i| int(&items[i])),
        other => panic!("not five integers: {other:?}"),
    }
}

/// A string, status or integer as text; nil is `"(nil)"`, arrays and maps are `[a, b]`.
pub fn plain(value: &Value) -> String {
    let join = |items: &mut dyn Iterator<Item = &Value>| {
        format!("[{}]", items.map(plain).collect::<Vec<_>>().join(", "))
    };
    match value {
        Value::Nil => "(nil)".to_owned(),
        Value::Okay => "OK".to_owned(),
        Value::Int(n) => n.to_string(),
        Value::SimpleString(text) => text.clone(),
        Value::BulkString(bytes) => String::from_utf8_lossy(bytes).into_owned(),
        Value::Array(items) | Value::Set(items) => join(&mut items.iter()),
        Value::Map(pairs) => join(&mut pairs.iter().flat_map(|(name, value)| [name, value])),
        other => format!("{other:?}"),
    }
}

/// A field of a map reply, which RESP2 sends as a flat array of names and values.
#[track_caller]
pub fn field(map: &Value, name: &str) -> Option<Value> {
    match map {
        Value::Map(pairs) => {
            pairs.iter().find(|(key, _)| plain(key) == name).map(|(_, value)| value.clone())
        }
        Value::Array(items) => items
            .chunks(2)
            .find(|pair| plain(&pair[0]) == name)
            .and_then(|pair| pair.get(1).cloned()),
        other => panic!("not a map: {other:?}"),
    }
}

/// Runs `job` on `count` connections at once, all let go at the same moment; its results in the
/// order of the connections.
pub fn parallel<T: Send>(
    server: &Server,
    count: usize,
    job: impl Fn(&mut Connection, usize) -> T + Sync,
) -> Vec<T> {
    let connections: Vec<_> = (0..count).map(|_| server.connection()).collect();
    let start = Barrier::new(count);
    let run = |mut connection: Connection, index| {
        start.wait();
        job(&mut connection, index)
    };
    std::thread::scope(|scope| {
        let spawn = |(index, connection)| scope.spawn(move || run(connection, index));
        let threads: Vec<_> = connections.into_iter().enumerate().map(spawn).collect();
        threads.into_iter().map(|thread| thread.join().expect("a thread's result")).collect()
    })
}

impl Server {
    /// The server's digest of one value: equal data, equal digest. 40 zeros for a missing key.
    #[track_caller]
    pub fn digest<K: redis::ToRedisArgs>(&self, key: K) -> String {
        match super::cmd!(self.connection(), "DEBUG", "DIGEST-VALUE", key) {
            Value::Array(digests) => plain(&digests[0]),
            other => panic!("not a digest: {other:?}"),
        }
    }

    /// The digest of all data.
    #[track_caller]
    pub fn digest_all(&self) -> String {
        plain(&super::cmd!(self.connection(), "DEBUG", "DIGEST"))
    }

    /// When a key expires (Unix ms); −1 never, −2 no such key.
    #[track_caller]
    pub fn pexpiretime<K: redis::ToRedisArgs>(&self, key: K) -> i64 {
        int(&super::cmd!(self.connection(), "PEXPIRETIME", key))
    }

    /// A field of INFO, from all sections including those of modules.
    #[track_caller]
    pub fn info(&self, name: &str) -> Option<String> {
        let all = plain(&super::cmd!(self.connection(), "INFO", "EVERYTHING"));
        let line = all.lines().find(|line| line.split_once(':').is_some_and(|(n, _)| n == name));
        line.and_then(|line| line.split_once(':')).map(|(_, value)| value.trim_end().to_owned())
    }

    /// The server's own clock: Unix µs.
    #[track_caller]
    pub fn time_us(&self) -> u64 {
        let value = super::cmd!(self.connection(), "TIME");
        let Value::Array(parts) = &value else { panic!("not a time: {value:?}") };
        let number = |part: &Value| plain(part).parse::<u64>().expect("digits");
        number(&parts[0]) * 1_000_000 + number(&parts[1])
    }
}
