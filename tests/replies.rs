//! The exact bytes of every reply, under RESP2 and RESP3.
#![allow(clippy::unwrap_used, clippy::panic)]

mod lines;
mod support;
use lines::*;
use support::*;

/// The escaped reply to a line.
#[track_caller]
fn ask(raw: &mut Raw, line: &str) -> String {
    let words: Vec<&[u8]> = line.split_ascii_whitespace().map(str::as_bytes).collect();
    escape(&raw.call(&words))
}

/// `integers` as an array.
fn array(integers: &[i64]) -> String {
    let each: String = integers.iter().map(|n| format!(r":{n}\r\n")).collect();
    format!(r"*{}\r\n{each}", integers.len())
}

fn bulk(text: &str) -> String {
    format!(r"${}\r\n{text}\r\n", text.len())
}

/// A raw connection of each protocol, and how that protocol writes null.
fn protocols(server: &Server) -> [(Raw, &'static str); 2] {
    let mut resp3 = server.raw();
    assert!(resp3.call(&[b"HELLO", b"3"]).starts_with(b"%"));
    [(server.raw(), r"$-1\r\n"), (resp3, r"_\r\n")]
}

#[test]
fn five_integers() {
    needs_clock!();
    let still = Still::at_noon();
    for (mut raw, _) in protocols(&still.server) {
        ask(&mut raw, "FLUSHALL");
        let day = 43_200_000;
        for (line, integers) in [
            ("RL.BUCKET k 1/1h 5", [1, 5, 4, 0, 3_600_000]),
            ("RL.BUCKET k 1/1h 5 5", [0, 5, 4, 3_600_000, 3_600_000]),
            ("RL.BUCKET k 1/1h 5 6", [0, 5, 4, -1, 3_600_000]),
            ("RL.BUCKET k 1/1h 5 9 UPTO", [4, 5, 0, 0, 18_000_000]),
            ("RL.WINDOW k 1m 5 FIXED", [1, 5, 4, 0, 60_000]),
            ("RL.QUOTA k day 5", [1, 5, 4, 0, day]),
            (
                "RL.QUOTA k day 9007199254740991",
                [1, 9_007_199_254_740_991, 9_007_199_254_740_989, 0, day],
            ),
        ] {
            assert_eq!(ask(&mut raw, line), array(&integers), "{line}");
        }
    }
}

#[test]
fn acquire_adds_the_id_or_null() {
    needs_clock!();
    let still = Still::at_noon();
    for (mut raw, null) in protocols(&still.server) {
        ask(&mut raw, "FLUSHALL");
        let six = |integers: &[i64], last: &str| array(integers).replacen("*5", "*6", 1) + last;
        let answer = ask(&mut raw, "RL.ACQUIRE k 2 30s 2 ID job-1");
        assert_eq!(answer, six(&[1, 2, 0, 0, 30_000], &bulk("job-1")));
        let answer = ask(&mut raw, "RL.ACQUIRE k 2 30s");
        assert_eq!(answer, six(&[0, 2, 0, 30_000, 30_000], null));
        let answer = ask(&mut raw, "RL.ACQUIRE k 2 30s 0");
        assert_eq!(answer, six(&[1, 2, 0, 0, 30_000], null));
        assert_eq!(ask(&mut raw, "RL.RENEW k job-1 1m"), r":1\r\n");
        assert_eq!(ask(&mut raw, "RL.RENEW k job-2 1m"), r":0\r\n");
        assert_eq!(ask(&mut raw, "RL.RELEASE k job-1 job-2"), r":1\r\n");
        assert_eq!(ask(&mut raw, "RL.RELEASE k job-1 job-2"), r":0\r\n");
        let random = ask(&mut raw, "RL.ACQUIRE k 2 30s");
        assert!(random.starts_with(&six(&[1, 2, 1, 0, 30_000], r"$32\r\n")), "{random}");
    }
}

#[test]
fn layered_calls_answer_six_and_details() {
    needs_clock!();
    let still = Still::at_noon();
    for (mut raw, _) in protocols(&still.server) {
        ask(&mut raw, "FLUSHALL");
        let layers = "BUCKET 50 200 QUOTA day 8";
        let day = 43_200_000;
        assert_eq!(
            ask(&mut raw, &format!("RL.TAKE k COST 5 DETAIL {layers}")),
            array(&[1, 8, 3, 0, day, 1]).replacen("*6", "*7", 1)
                + r"*2\r\n"
                + &array(&[1, 200, 195, 0, 100])
                + &array(&[1, 8, 3, 0, day])
        );
        assert_eq!(
            ask(&mut raw, &format!("RL.TAKE k COST 5 {layers}")),
            array(&[0, 8, 3, day, day, 1])
        );
        assert_eq!(
            ask(&mut raw, &format!("RL.MPEEK COST 5 DETAIL KEY k {layers} KEY l BUCKET 1 0")),
            array(&[0, 0, 0, -1, 0, 2]).replacen("*6", "*7", 1)
                + r"*3\r\n"
                + &array(&[1, 200, 195, 0, 100])
                + &array(&[0, 8, 3, day, day])
                + &array(&[0, 0, 0, -1, 0])
        );
        assert_eq!(
            ask(&mut raw, &format!("RL.REFUND k COST 5 {layers}")),
            array(&[1, 8, 8, 0, day, 1])
        );
    }
}

#[test]
fn info_is_an_array_of_maps() {
    needs_clock!();
    let still = Still::at_noon();
    for ((mut raw, null), map) in protocols(&still.server).into_iter().zip(["*10", "%5"]) {
        ask(&mut raw, "FLUSHALL");
        assert_eq!(ask(&mut raw, "RL.INFO k"), null);
        ask(&mut raw, "RL.BUCKET k 50 200 5");
        let fields: String = [
            bulk("kind") + &bulk("bucket"),
            bulk("name") + null,
            bulk("used") + r":5\r\n",
            bulk("since_ms") + r":1773576000000\r\n",
            bulk("until_ms") + r":1773576000100\r\n",
        ]
        .concat();
        assert_eq!(ask(&mut raw, "RL.INFO k"), format!(r"*1\r\n{map}\r\n{fields}"));
        assert_eq!(ask(&mut raw, "RL.RESET k BUCKET"), r":1\r\n");
        assert_eq!(ask(&mut raw, "RL.RESET k BUCKET"), r":0\r\n");
    }
}

#[test]
fn errors_are_one_line_and_the_connection_stays_in_step() {
    let server = Server::start();
    for (mut raw, _) in protocols(&server) {
        ask(&mut raw, "SET string 1");
        let wrong_type = r"-WRONGTYPE Operation against a key holding the wrong kind of value\r\n";
        for (line, start) in [
            ("RL.BUCKET k", "-ERR wrong number of arguments"),
            ("RL.BUCKET k x 5", "-ERR rate must be"),
            ("RL.BUCKET string 1 5", wrong_type),
            ("RL.TAKE k DETAIL BUCKET 1 5 BUCKET", "-ERR rate must be"),
            ("RL.TAKE string DETAIL BUCKET 1 5", wrong_type),
            ("RL.MTAKE KEY k BUCKET 1 5 KEY string BUCKET 1 5", wrong_type),
            ("RL.INFO string", wrong_type),
            ("RL.ACQUIRE k 5 30", "-ERR ttl must be"),
        ] {
            // Followed at once by another command, which must get its own answer.
            let words: Vec<&[u8]> = line.split_ascii_whitespace().map(str::as_bytes).collect();
            raw.send(&[encode(&words), encode(&[b"PING"])].concat());
            let error = escape(&raw.reply());
            assert!(error.starts_with(start), "{line}: {error}");
            assert_eq!(error.matches(r"\r\n").count(), 1, "{line}: {error}");
            assert_eq!(raw.reply(), b"+PONG\r\n", "{line}");
        }
    }
}

#[test]
fn lua_and_multi_get_the_same_integers() {
    needs_clock!();
    let still = Still::at_noon();
    let mut con = still.server.connection();
    let script = "return redis.call('RL.BUCKET', KEYS[1], '1/1h', 5)";
    assert_eq!(ints(&cmd!(con, "EVAL", script, 1, "k")), [1, 5, 4, 0, 3_600_000]);
    let largest = "local r = redis.call('RL.QUOTA', KEYS[1], 'day', ARGV[1], 0) \
                   return string.format('%.0f', r[3])";
    assert_eq!(plain(&cmd!(con, "EVAL", largest, 1, "k", MAX)), MAX, "held exactly by Lua");
    let read_only = "return redis.call('RL.PEEK', KEYS[1], 'BUCKET', '1/1h', 5)";
    assert_eq!(ints(&cmd!(con, "EVAL_RO", read_only, 1, "k")), [1, 5, 4, 0, 3_600_000, 0]);
    for reading in ["RL.INFO", "RL.PEEK", "RL.MPEEK"] {
        let arguments = match reading {
            "RL.INFO" => "KEYS[1]",
            "RL.PEEK" => "KEYS[1], 'BUCKET', 1, 5",
            _ => "'KEY', KEYS[1], 'BUCKET', 1, 5",
        };
        cmd!(con, "EVAL_RO", format!("return redis.call('{reading}', {arguments})"), 1, "k");
    }
    let error = err!(con, "EVAL_RO", script, 1, "k");
    assert!(error.contains("Write commands are not allowed"), "{error}");
    con.ask("MULTI");
    con.ask("RL.BUCKET k 1/1h 5 3");
    con.ask("RL.BUCKET k 1/1h 5 3");
    con.ask("RL.BUCKET k 1/1h 5 0");
    let redis::Value::Array(replies) = con.ask("EXEC") else { panic!() };
    let replies: Vec<_> = replies.iter().map(five).collect();
    assert_eq!(
        replies,
        [[1, 5, 1, 0, 14_400_000], [0, 5, 1, 7_200_000, 14_400_000], [1, 5, 1, 0, 14_400_000]]
    );
}

#[test]
fn time_stands_still_in_scripts_and_transactions() {
    if !is_valkey() && version() < (7, 2, 0) {
        skipped("before 7.2 modules cannot ask for the command's time");
        return;
    }
    let server = Server::start();
    let mut con = server.connection();
    // 10^6 units a second: each microsecond would show.
    let script = "for i = 1, 20000 do redis.call('RL.BUCKET', KEYS[1], 1000000, 100000) end \
                  return redis.call('RL.BUCKET', KEYS[1], 1000000, 100000, 0)";
    assert_eq!(ints(&cmd!(con, "EVAL", script, 1, "lua"))[2], 80_000);
    con.ask("MULTI");
    for _ in 0..2000 {
        con.ask("RL.BUCKET multi 1000000 100000");
    }
    let redis::Value::Array(replies) = con.ask("EXEC") else { panic!() };
    assert_eq!(five(replies.last().unwrap())[2], 98_000);
}
