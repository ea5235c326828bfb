//! Rate limiting with redis-rs, for any web framework.

use std::time::Duration;

use redis::cluster::{ClusterClient, ClusterConnection, cluster_pipe};
use redis::{Client, Cmd, Connection, ConnectionLike, ErrorKind, RedisError, RedisResult};

/// The server cannot decide now. Every other error reply (`ERR`, `WRONGTYPE`, `NOPERM`, …) is a bug
/// or a wrong set-up and is returned: neither open nor closed would show it.
const NO_VERDICT: [&str; 9] = [
    "LOADING",
    "CLUSTERDOWN",
    "MASTERDOWN",
    "READONLY",
    "MISCONF",
    "NOREPLICAS",
    "OOM",
    "TRYAGAIN",
    "BUSY",
];

/// The answer to one call.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Verdict {
    pub allowed: bool,
    pub limit: u64,
    pub remaining: u64,
    /// `None`: this call will never succeed.
    pub retry_after_ms: Option<u64>,
    pub reset_after_ms: u64,
}

/// What to do without a verdict.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum WhenDown {
    /// Let the request through.
    Open,
    /// Refuse it.
    Closed,
}

/// An HTTP answer. Status 200 means: go on and send the headers along.
#[derive(Debug, PartialEq)]
pub struct Answer {
    pub status: u16,
    pub headers: Vec<(&'static str, String)>,
    pub sentence: String,
}

enum Server {
    Single(Client),
    Cluster(ClusterClient),
}

enum Link {
    Single(Connection),
    Cluster(Box<ClusterConnection>),
}

/// One connection, opened at the first check. Give each thread its own, or keep them in a pool.
pub struct Limiter {
    server: Server,
    timeout: Duration,
    link: Option<Link>,
}

impl Limiter {
    /// `url` is like `redis://127.0.0.1:6379`.
    pub fn new(url: &str, timeout: Duration) -> RedisResult<Self> {
        let server = Server::Single(Client::open(url)?);
        Ok(Self { server, timeout, link: None })
    }

    pub fn new_cluster(urls: &[&str], timeout: Duration) -> RedisResult<Self> {
        let client = ClusterClient::builder(urls.iter().copied())
            .connection_timeout(timeout)
            .response_timeout(timeout)
            .build()?;
        Ok(Self { server: Server::Cluster(client), timeout, link: None })
    }

    fn open(&self) -> RedisResult<Link> {
        Ok(match &self.server {
            Server::Single(client) => {
                let connection = client.get_connection_with_timeout(self.timeout)?;
                connection.set_read_timeout(Some(self.timeout))?;
                connection.set_write_timeout(Some(self.timeout))?;
                Link::Single(connection)
            }
            Server::Cluster(client) => Link::Cluster(Box::new(client.get_connection()?)),
        })
    }

    /// Runs `call` on the connection. After a failure the connection is dropped: an answer that
    /// comes late must not be taken for the next one's.
    fn with<T>(&mut self, call: impl FnOnce(&mut Link) -> RedisResult<T>) -> RedisResult<T> {
        let mut link = match self.link.take() {
            Some(link) => link,
            None => self.open()?,
        };
        let result = call(&mut link);
        if !matches!(&result, Err(error) if error.code().is_none()) {
            self.link = Some(link);
        }
        result
    }

    /// `check(redis::cmd("RL.BUCKET").arg("user:42").arg("50").arg(200))`. `None`: no verdict.
    pub fn check(&mut self, command: &Cmd) -> RedisResult<Option<Verdict>> {
        let reply = self.with(|link| {
            let connection: &mut dyn ConnectionLike = match link {
                Link::Single(connection) => connection,
                Link::Cluster(connection) => &mut **connection,
            };
            command.query::<Vec<redis::Value>>(connection)
        });
        verdict_or_none(reply)
    }

    /// Many calls in one round trip (of a cluster: one for each node).
    pub fn check_many(&mut self, commands: &[Cmd]) -> RedisResult<Vec<Option<Verdict>>> {
        let replies = self.with(|link| match link {
            Link::Single(connection) => {
                let mut pipe = redis::pipe();
                for command in commands {
                    pipe.add_command(command.clone());
                }
                pipe.ignore_errors().query::<Vec<RedisResult<Vec<redis::Value>>>>(connection)
            }
            Link::Cluster(connection) => {
                let mut pipe = cluster_pipe();
                for command in commands {
                    pipe.add_command(command.clone());
                }
                let replies = pipe.query::<Vec<Vec<redis::Value>>>(connection)?;
                Ok(replies.into_iter().map(Ok).collect())
            }
        });
        match replies {
            Ok(replies) => replies.into_iter().map(verdict_or_none).collect(),
            Err(error) if is_no_verdict(&error) => Ok(vec![None; commands.len()]),
            Err(error) => Err(error),
        }
    }
}

/// The HTTP answer to a verdict, or to none.
pub fn answer(verdict: Option<Verdict>, when_down: WhenDown) -> Answer {
    let Some(verdict) = verdict else {
        return match when_down {
            WhenDown::Open => Answer { status: 200, headers: vec![], sentence: String::new() },
            WhenDown::Closed => Answer {
                status: 503,
                headers: vec![("Retry-After", "5".into())],
                sentence: "We cannot check your request limit right now. Please try again in a few seconds."
                    .into(),
            },
        };
    };
    let mut headers = vec![
        ("X-RateLimit-Limit", verdict.limit.to_string()),
        ("X-RateLimit-Remaining", verdict.remaining.to_string()),
        ("X-RateLimit-Reset", seconds(verdict.reset_after_ms).to_string()),
    ];
    if verdict.allowed {
        return Answer { status: 200, headers, sentence: String::new() };
    }
    let Some(retry_after_ms) = verdict.retry_after_ms else {
        let sentence = format!(
            "This request exceeds your limit of {}. Trying again will not help.",
            verdict.limit
        );
        return Answer { status: 429, headers, sentence };
    };
    let wait = seconds(retry_after_ms);
    headers.push(("Retry-After", wait.to_string()));
    let sentence = format!("You have sent too many requests. Please try again in {}.", words(wait));
    Answer { status: 429, headers, sentence }
}

fn verdict_or_none(reply: RedisResult<Vec<redis::Value>>) -> RedisResult<Option<Verdict>> {
    let reply = match reply {
        Ok(reply) => reply,
        Err(error) if is_no_verdict(&error) => return Ok(None),
        Err(error) => return Err(error),
    };
    // RL.TAKE answers more than five.
    let mut fields = reply.into_iter().map(redis::from_redis_value::<i64>);
    let mut next = || match fields.next() {
        Some(field) => field.map_err(RedisError::from),
        None => Err((ErrorKind::UnexpectedReturnType, "fewer than five integers").into()),
    };
    Ok(Some(Verdict {
        allowed: next()? > 0,
        limit: next()?.unsigned_abs(),
        remaining: next()?.unsigned_abs(),
        retry_after_ms: next()?.try_into().ok(),
        reset_after_ms: next()?.unsigned_abs(),
    }))
}

fn is_no_verdict(error: &RedisError) -> bool {
    match error.code() {
        Some(code) => NO_VERDICT.contains(&code),
        None => matches!(error.kind(), ErrorKind::Io | ErrorKind::ClusterConnectionNotFound),
    }
}

/// Rounded up: who comes back early is refused again.
fn seconds(ms: u64) -> u64 {
    ms.div_ceil(1000)
}

fn words(wait: u64) -> String {
    let (size, unit) = [(86_400, "day"), (3600, "hour"), (60, "minute")]
        .into_iter()
        .find(|(size, _)| wait >= 2 * size)
        .unwrap_or((1, "second"));
    let count = wait.div_ceil(size);
    format!("{count} {unit}{}", if count == 1 { "" } else { "s" })
}
