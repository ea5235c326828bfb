//! Run by scripts/test-clients; prints a line for each test.

mod limiter;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::{Duration, Instant, SystemTime};

use limiter::{Limiter, Verdict, WhenDown, answer};
use redis::{Cmd, cmd};

const PATIENT: Duration = Duration::from_secs(5);

fn limiter(port: &str, timeout: Duration) -> Limiter {
    let port = std::env::var(port).unwrap();
    Limiter::new(&format!("redis://127.0.0.1:{port}"), timeout).unwrap()
}

struct Run {
    limiter: Limiter,
    id: u128,
}

impl Run {
    fn bucket(&self, subject: &str, cost: u64) -> Cmd {
        let key = format!("{}:{subject}", self.id);
        cmd("RL.BUCKET").arg(key).arg("1/1h").arg(5).arg(cost).take()
    }

    fn check(&mut self, command: &Cmd) -> Verdict {
        self.limiter.check(command).unwrap().unwrap()
    }
}

fn allowed(verdicts: Vec<Option<Verdict>>) -> Vec<bool> {
    verdicts.into_iter().map(|verdict| verdict.unwrap().allowed).collect()
}

fn header<'a>(answer: &'a limiter::Answer, name: &str) -> Option<&'a str> {
    answer.headers.iter().find(|(n, _)| *n == name).map(|(_, value)| value.as_str())
}

fn admitted(run: &mut Run) {
    let call = run.bucket("allowed", 1);
    let answer = answer(Some(run.check(&call)), WhenDown::Open);
    assert_eq!(answer.status, 200);
    let expected =
        [("X-RateLimit-Limit", "5"), ("X-RateLimit-Remaining", "4"), ("X-RateLimit-Reset", "3600")];
    assert_eq!(answer.headers, expected.map(|(name, value)| (name, value.to_owned())));
}

fn refused(run: &mut Run) {
    let call = run.bucket("refused", 1);
    let verdicts: Vec<_> = (0..6).map(|_| Some(run.check(&call))).collect();
    let answer = answer(verdicts[5], WhenDown::Open);
    assert_eq!(allowed(verdicts), [true, true, true, true, true, false]);
    assert_eq!(answer.status, 429);
    assert_eq!(header(&answer, "X-RateLimit-Remaining"), Some("0"));
    assert_eq!(header(&answer, "Retry-After"), Some("3600"));
    assert_eq!(answer.sentence, "You have sent too many requests. Please try again in 60 minutes.");
}

fn never(run: &mut Run) {
    let call = run.bucket("never", 6);
    let answer = answer(Some(run.check(&call)), WhenDown::Open);
    assert_eq!((answer.status, header(&answer, "Retry-After")), (429, None));
    assert_eq!(
        answer.sentence,
        "This request exceeds your limit of 5. Trying again will not help."
    );
}

fn rounding(_: &mut Run) {
    for (ms, seconds, words) in [
        (1, "1", "1 second"),
        (1000, "1", "1 second"),
        (1250, "2", "2 seconds"),
        (119_001, "120", "2 minutes"),
        (172_800_000, "172800", "2 days"),
    ] {
        let refusal = Verdict {
            allowed: false,
            limit: 5,
            remaining: 0,
            retry_after_ms: Some(ms),
            reset_after_ms: ms,
        };
        let answer = answer(Some(refusal), WhenDown::Open);
        assert_eq!(header(&answer, "Retry-After"), Some(seconds));
        assert_eq!(header(&answer, "X-RateLimit-Reset"), Some(seconds));
        assert!(answer.sentence.ends_with(&format!(" {words}.")), "{}", answer.sentence);
    }
}

fn layers(run: &mut Run) {
    let layers = ["COST", "5", "BUCKET", "50", "200", "QUOTA", "day", "7"];
    let take = cmd("RL.TAKE").arg(format!("{}:layers", run.id)).arg(&layers).take();
    let (first, second) = (run.check(&take), run.check(&take));
    assert_eq!((first.allowed, first.limit, first.remaining), (true, 7, 2));
    assert!(!second.allowed);
    assert!((1..=86_400_000).contains(&second.retry_after_ms.unwrap()));
}

fn pipelined(run: &mut Run) {
    let mut calls = vec![run.bucket("pipelined", 1); 8];
    calls.push(run.bucket("another", 1));
    let verdicts = run.limiter.check_many(&calls).unwrap();
    assert_eq!(allowed(verdicts), [true, true, true, true, true, false, false, false, true]);
}

fn down_and_silent(run: &mut Run) {
    let call = run.bucket("x", 1);
    for port in ["RL_DOWN_PORT", "RL_SILENT_PORT"] {
        let mut other = limiter(port, Duration::from_millis(100));
        let started = Instant::now();
        assert_eq!(other.check(&call).unwrap(), None);
        assert_eq!(other.check_many(&[call.clone(), call.clone()]).unwrap(), [None, None]);
        assert!(started.elapsed() < Duration::from_secs(3));
    }
    assert_eq!(answer(None, WhenDown::Open).status, 200);
    let closed = answer(None, WhenDown::Closed);
    assert_eq!((closed.status, header(&closed, "Retry-After")), (503, Some("5")));
    assert!(closed.sentence.contains("try again"));
}

fn no_verdict_errors(run: &mut Run) {
    let call = run.bucket("x", 1);
    let mut replica = limiter("RL_REPLICA_PORT", PATIENT);
    assert_eq!(replica.check(&call).unwrap(), None); // READONLY
    assert_eq!(replica.check_many(&[call]).unwrap(), [None]);
}

fn wrong_call_is_an_error(run: &mut Run) {
    let wrong = cmd("RL.BUCKET").arg("x").arg("fast").arg(5).take();
    assert!(run.limiter.check(&wrong).is_err());
    assert!(run.limiter.check_many(&[wrong]).is_err());
}

fn cluster(run: &mut Run) {
    let url = format!("redis://127.0.0.1:{}", std::env::var("RL_CLUSTER_PORT").unwrap());
    let mut cluster = Limiter::new_cluster(&[&url], PATIENT).unwrap();
    // Their slots lie on all nodes.
    for n in 0..20 {
        let call = run.bucket(&n.to_string(), 3);
        let verdicts = (0..2).map(|_| cluster.check(&call).unwrap()).collect();
        assert_eq!(allowed(verdicts), [true, false]);
    }
    let calls: Vec<_> = (0..40).map(|n| run.bucket(&(n % 20).to_string(), 2)).collect();
    let verdicts = cluster.check_many(&calls).unwrap();
    assert_eq!(allowed(verdicts), [[true; 20], [false; 20]].concat());
}

type Test = (&'static str, fn(&mut Run));

fn main() {
    let id = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap().as_nanos();
    let mut run = Run { limiter: limiter("RL_PORT", PATIENT), id };
    let tests: [Test; 10] = [
        ("allowed", admitted),
        ("refused", refused),
        ("never", never),
        ("rounding", rounding),
        ("layers", layers),
        ("pipelined", pipelined),
        ("down and silent", down_and_silent),
        ("no verdict errors", no_verdict_errors),
        ("wrong call is an error", wrong_call_is_an_error),
        ("cluster", cluster),
    ];
    let mut failed = false;
    for (name, test) in tests {
        let passed = catch_unwind(AssertUnwindSafe(|| test(&mut run))).is_ok();
        println!("{} {name}", if passed { "ok" } else { "FAILED" });
        failed |= !passed;
    }
    println!("client redis-rs 1.8.1");
    std::process::exit(failed.into());
}
