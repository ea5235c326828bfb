//! What clients, proxies and ACLs learn of the commands.
#![allow(clippy::unwrap_used, clippy::panic)]

mod lines;
mod support;
use lines::*;
use redis::{Connection, Value};
use support::*;

struct Known {
    name: &'static str,
    arity: i64,
    writes: bool,
    many_keys: bool,
}

const fn one_key(name: &'static str, arity: i64, writes: bool) -> Known {
    Known { name, arity, writes, many_keys: false }
}

const fn many_keys(name: &'static str, arity: i64, writes: bool) -> Known {
    Known { name, arity, writes, many_keys: true }
}

/// Every command but RL.E.
const COMMANDS: [Known; 14] = [
    one_key("rl.bucket", -4, true),
    one_key("rl.window", -4, true),
    one_key("rl.quota", -4, true),
    one_key("rl.acquire", -4, true),
    one_key("rl.release", -3, true),
    one_key("rl.renew", 4, true),
    one_key("rl.take", -5, true),
    one_key("rl.peek", -5, false),
    one_key("rl.refund", -5, true),
    many_keys("rl.mtake", -6, true),
    many_keys("rl.mpeek", -6, false),
    many_keys("rl.mrefund", -6, true),
    one_key("rl.info", 2, false),
    one_key("rl.reset", -3, true),
];

/// Whether the server lets modules put commands into categories.
fn has_categories() -> bool {
    is_valkey() || version() >= (7, 2, 0)
}

fn items(value: &Value) -> &[Value] {
    match value {
        Value::Array(items) | Value::Set(items) => items,
        other => panic!("not an array: {other:?}"),
    }
}

fn texts(value: &Value) -> Vec<String> {
    items(value).iter().map(plain).collect()
}

/// The reply of COMMAND INFO for one command.
fn command_info(con: &mut Connection, name: &str) -> Vec<Value> {
    items(&items(&cmd!(con, "COMMAND", "INFO", name))[0]).to_vec()
}

/// Every command of ours that the server lists.
fn listed(con: &mut Connection) -> Vec<String> {
    let mut names = texts(&cmd!(con, "COMMAND", "LIST", "FILTERBY", "PATTERN", "rl.*"));
    names.sort_unstable();
    names
}

#[test]
fn all_commands_are_known_here() {
    let server = Server::start();
    let mut known: Vec<_> = COMMANDS.iter().map(|command| command.name.to_owned()).collect();
    known.push("rl.e".to_owned());
    known.sort_unstable();
    assert_eq!(listed(&mut server.connection()), known);
    let of_module = cmd!(server.connection(), "COMMAND", "LIST", "FILTERBY", "MODULE", "limiter");
    let of_module: Vec<_> =
        texts(&of_module).into_iter().filter(|n| !n.starts_with("cl.")).collect();
    assert_eq!(of_module.len(), known.len(), "{of_module:?}");
}

#[test]
fn command_info_is_right() {
    let server = Server::start();
    let mut con = server.connection();
    for command in &COMMANDS {
        let info = command_info(&mut con, command.name);
        let name = command.name;
        assert_eq!(plain(&info[0]), name);
        assert_eq!(int(&info[1]), command.arity, "{name}");
        let flags = texts(&info[2]);
        let has = |flag: &str| flags.iter().any(|known| known == flag);
        assert_eq!((has("write"), has("readonly")), (command.writes, !command.writes), "{name}");
        assert!(!has("denyoom") && !has("admin") && !has("noscript"), "{name}: {flags:?}");
        assert!(has("module") && has("fast"), "{name}: {flags:?}");
        // Keys: cluster clients route by the first argument, without asking, where they can.
        assert_eq!(has("movablekeys"), command.many_keys, "{name}: {flags:?}");
        let range: Vec<_> = info[3..6].iter().map(int).collect();
        assert_eq!(range, if command.many_keys { [0, 0, 0] } else { [1, 1, 1] }, "{name}");
        let specs = items(&info[8]);
        assert_eq!(specs.len(), 1, "{name}");
        let mut key_flags = texts(&field(&specs[0], "flags").unwrap());
        key_flags.sort_unstable();
        let right =
            if command.writes { vec!["RW", "access", "update"] } else { vec!["RO", "access"] };
        let incomplete = key_flags.iter().any(|flag| flag == "incomplete");
        key_flags.retain(|flag| flag != "incomplete");
        assert_eq!(key_flags, right, "{name}");
        assert!(!incomplete || command.many_keys, "{name}");
        let tips = texts(&info[7]);
        let varies = tips.iter().any(|tip| tip == "nondeterministic_output");
        assert!(varies || command.writes, "{name}: {tips:?}");
    }
    let info = command_info(&mut con, "rl.e");
    assert_eq!(int(&info[1]), 3);
    let flags = texts(&info[2]);
    assert!(flags.iter().any(|flag| flag == "write"), "{flags:?}");
    assert!(!flags.iter().any(|flag| flag == "denyoom"), "{flags:?}");
    assert_eq!(info[3..6].iter().map(int).collect::<Vec<_>>(), [1, 1, 1]);
}

#[test]
fn command_docs_are_complete() {
    let server = Server::start();
    let mut con = server.connection();
    for name in listed(&mut con) {
        let docs = field(&cmd!(con, "COMMAND", "DOCS", &name), &name).unwrap();
        let text = |what: &str| plain(&field(&docs, what).unwrap_or(Value::Nil));
        assert!(text("summary").len() > 10, "{name}: {}", text("summary"));
        assert_eq!(text("since"), "0.1.0", "{name}");
        assert!(text("complexity").starts_with("O("), "{name}");
        assert_eq!(text("group"), "module", "{name}");
        let arguments = field(&docs, "arguments").unwrap();
        let each = items(&arguments);
        assert!(!each.is_empty(), "{name}");
        if !name.starts_with("rl.m") {
            assert_eq!(plain(&field(&each[0], "name").unwrap()), "key", "{name}");
            assert_eq!(plain(&field(&each[0], "type").unwrap()), "key", "{name}");
            assert_eq!(field(&each[0], "key_spec_index"), Some(Value::Int(0)), "{name}");
        }
    }
    // Every option is there.
    for (name, tokens) in [
        ("rl.bucket", "AS FORCE UPTO MAXWAIT LEAVE"),
        ("rl.window", "SLIDING FIXED LOG AS FORCE UPTO LEAVE"),
        ("rl.quota", "MINUTE HOUR DAY WEEK MONTH YEAR TZ ANCHOR AS FORCE UPTO LEAVE"),
        ("rl.acquire", "ID NX AS"),
        ("rl.take", "COST FORCE DETAIL BUCKET WINDOW SLIDING QUOTA TZ ANCHOR LEASE ID AS LEAVE"),
        ("rl.peek", "COST DETAIL BUCKET WINDOW QUOTA LEASE ID AS LEAVE"),
        ("rl.refund", "COST AGE DETAIL BUCKET WINDOW QUOTA AS"),
        ("rl.mtake", "COST FORCE DETAIL KEY BUCKET WINDOW QUOTA LEASE"),
        ("rl.mpeek", "COST DETAIL KEY BUCKET WINDOW QUOTA LEASE"),
        ("rl.mrefund", "COST AGE DETAIL KEY BUCKET WINDOW QUOTA"),
        ("rl.reset", "BUCKET WINDOW QUOTA LEASE FIXED MONTH AS"),
    ] {
        let docs = plain(&cmd!(con, "COMMAND", "DOCS", name));
        for token in tokens.split(' ') {
            assert!(docs.contains(&format!("token, {token}")), "{name} {token}: {docs}");
        }
    }
}

fn keys_of(con: &mut Connection, line: &str) -> Vec<String> {
    texts(&con.ask(&format!("COMMAND GETKEYS {line}")))
}

#[test]
fn keys_are_found() {
    let server = Server::start();
    let mut con = server.connection();
    for (line, keys) in [
        ("RL.BUCKET a 1 5", "a"),
        ("RL.TAKE a COST 5 BUCKET 1 5 QUOTA day 9 AS KEY", "a"),
        ("RL.PEEK KEY BUCKET 1 5", "KEY"),
        ("RL.REFUND a AGE 1s BUCKET 1 5", "a"),
        ("RL.RELEASE a id KEY b", "a"),
        ("RL.E a x", "a"),
        ("RL.MTAKE KEY a BUCKET 1 5 KEY b QUOTA day 9", "a b"),
        ("RL.MTAKE COST 5 FORCE DETAIL key a BUCKET 1 5 Key b QUOTA day 9", "a b"),
        ("RL.MPEEK KEY KEY BUCKET 1 5 KEY AS QUOTA day 9", "KEY AS"),
        (
            "RL.MTAKE KEY a BUCKET 1 5 AS KEY COST 2 KEY b BUCKET 1 5 AS AS KEY c LEASE 1 1s ID KEY",
            "a b c",
        ),
        ("RL.MREFUND AGE 1s KEY a WINDOW 1m 5 LOG AS x KEY b BUCKET 1 5", "a b"),
        ("RL.MTAKE KEY a QUOTA day 5 TZ KEY KEY b BUCKET 1 5", "a b"),
        // Malformed calls have keys as far as they can be seen.
        ("RL.MTAKE KEY a KEY b KEY c KEY", "a b c"),
        ("RL.MTAKE x x x KEY a", "a"),
    ] {
        assert_eq!(keys_of(&mut con, line).join(" "), keys, "{line}");
    }
    for line in ["RL.MTAKE x x x x x", "RL.MTAKE KEY", "RL.MTAKE COST 1 AS x KEY", "RL.INFO"] {
        assert!(con.error(&format!("COMMAND GETKEYS {line}")).starts_with("ERR "), "{line}");
    }
    for (line, flags) in [
        ("RL.BUCKET a 1 5", "[RW, access, update]"),
        ("RL.PEEK a BUCKET 1 5", "[RO, access]"),
        ("RL.INFO a", "[RO, access]"),
        ("RL.MTAKE KEY a BUCKET 1 5", "[RW, access, update]"),
        ("RL.MREFUND KEY a BUCKET 1 5", "[RW, access, update]"),
        ("RL.MPEEK KEY a BUCKET 1 5", "[RO, access]"),
    ] {
        let found = plain(&con.ask(&format!("COMMAND GETKEYSANDFLAGS {line}")));
        assert_eq!(found, format!("[[a, {flags}]]"), "{line}");
    }
}

/// No call may touch a key that the server was not told of: ACLs and clusters rely on it.
#[test]
fn no_key_is_hidden() {
    let server = Server::start();
    let mut con = server.connection();
    let mut state = 7_u64;
    let mut below = |bound: usize| {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(state >> 33).unwrap() % bound
    };
    // Words that are keyword, key, name and id in turn.
    const TRICKY: [&str; 12] =
        ["KEY", "key", "AS", "ID", "COST", "TZ", "AGE", "LEAVE", "BUCKET", "DETAIL", "FORCE", "a"];
    const LAYERS: [&str; 5] =
        ["BUCKET 1/1h 9", "WINDOW 1h 9 LOG", "QUOTA year 9 TZ UTC", "LEASE 9 1h ID", "KEY"];
    let (mut admitted, mut keys_used) = (0, 0);
    for _ in 0..6_000 {
        let mut words = vec!["RL.MTAKE"];
        for option in ["COST 1", "DETAIL", "FORCE"] {
            if below(4) == 0 {
                words.push(option);
            }
        }
        for _ in 0..=below(3) {
            words.extend(["KEY", TRICKY[below(TRICKY.len())]]);
            for _ in 0..=below(2) {
                let layer = LAYERS[if below(12) == 0 { 4 } else { below(4) }];
                words.push(layer);
                if layer.ends_with("ID") || below(3) == 0 {
                    words.push(TRICKY[below(TRICKY.len())]);
                }
                if below(2) == 0 {
                    words.extend(["AS", TRICKY[below(TRICKY.len())]]);
                }
                if below(3) == 0 {
                    words.extend(["COST", "1"]);
                }
                if below(12) == 0 {
                    words.push(TRICKY[below(TRICKY.len())]);
                }
            }
        }
        con.ask("FLUSHALL");
        let line = words.join(" ");
        if con.try_ask(&line).is_ok() {
            let mut used = texts(&con.ask("KEYS *"));
            let mut told = keys_of(&mut con, &line);
            keys_used += used.len();
            used.sort_unstable();
            told.sort_unstable();
            assert_eq!(used, told, "{line}");
            admitted += 1;
        } else {
            assert_eq!(con.number("DBSIZE"), 0, "{line}");
        }
    }
    assert!(admitted > 300 && keys_used > admitted, "{admitted} admitted, {keys_used} keys");
}

#[test]
fn keys_of_one_call_share_a_slot() {
    let server = Server::builder().cluster().start();
    let mut con = server.connection();
    for command in ["RL.MTAKE", "RL.MPEEK", "RL.MREFUND"] {
        let error = con.error(&format!("{command} KEY a BUCKET 1 5 KEY b BUCKET 1 5"));
        assert!(error.starts_with("CROSSSLOT"), "{command}: {error}");
        assert_eq!(con.six(&format!("{command} KEY {{a}}1 BUCKET 1 5 KEY {{a}} BUCKET 1 5"))[0], 1);
    }
}

#[test]
fn acl_categories() {
    if !has_categories() {
        skipped("Redis 7.0 does not let modules put commands into categories");
        return;
    }
    let server = Server::start();
    let mut con = server.connection();
    let mut ours = |category: &str| {
        let mut names = texts(&cmd!(con, "ACL", "CAT", category));
        names.retain(|name| name.starts_with("rl."));
        names.sort_unstable();
        names
    };
    let pick = |choose: &dyn Fn(&Known) -> bool| {
        let mut names: Vec<_> =
            COMMANDS.iter().filter(|c| choose(c)).map(|c| c.name.to_owned()).collect();
        names.sort_unstable();
        names
    };
    assert_eq!(ours("ratelimit"), pick(&|_| true));
    assert_eq!(ours("read"), pick(&|command| !command.writes));
    assert_eq!(ours("write"), pick(&|command| command.writes));
    assert_eq!(ours("admin"), ["rl.e"]);
    assert_eq!(ours("dangerous"), ["rl.e"]);
}

/// A connection as a user with these rights.
fn login(server: &Server, rights: &str) -> Connection {
    let mut con = server.connection();
    con.ask(&format!("ACL SETUSER u reset on >p {rights}"));
    con.ask("AUTH u p");
    con
}

fn every_limiting_command() -> String {
    COMMANDS.iter().map(|command| format!(" +{}", command.name)).collect()
}

#[test]
fn users_are_held_to_their_keys() {
    let server = Server::start();
    let by_name = every_limiting_command();
    let commands = if has_categories() { " +@ratelimit" } else { by_name.as_str() };
    let mut con = login(&server, &format!("resetkeys ~rl:* -@all +@connection{commands}"));
    let mut admin = server.connection();
    for (own, foreign) in [
        ("RL.BUCKET rl:a 1 5", "RL.BUCKET x 1 5"),
        ("RL.WINDOW rl:a 1m 5", "RL.WINDOW x 1m 5"),
        ("RL.QUOTA rl:a day 5", "RL.QUOTA x day 5"),
        ("RL.ACQUIRE rl:a 5 1m ID i", "RL.ACQUIRE x 5 1m ID i"),
        ("RL.RENEW rl:a i 1m", "RL.RENEW x i 1m"),
        ("RL.RELEASE rl:a i", "RL.RELEASE x i"),
        ("RL.TAKE rl:a BUCKET 1 5", "RL.TAKE x BUCKET 1 5"),
        ("RL.PEEK rl:a BUCKET 1 5", "RL.PEEK x BUCKET 1 5"),
        ("RL.REFUND rl:a BUCKET 1 5", "RL.REFUND x BUCKET 1 5"),
        ("RL.INFO rl:a", "RL.INFO x"),
        ("RL.RESET rl:a BUCKET", "RL.RESET x BUCKET"),
        ("RL.MTAKE KEY rl:a BUCKET 1 5", "RL.MTAKE KEY rl:a BUCKET 1 5 AS KEY KEY x BUCKET 1 5"),
        ("RL.MPEEK KEY rl:a BUCKET 1 5", "RL.MPEEK KEY x BUCKET 1 5 KEY rl:a BUCKET 1 5"),
        ("RL.MREFUND KEY rl:a BUCKET 1 5", "RL.MREFUND KEY rl:a BUCKET 1 5 KEY x BUCKET 1 5"),
    ] {
        con.ask(own);
        let before = server.digest_all();
        let error = con.error(foreign);
        assert!(error.starts_with("NOPERM"), "{foreign}: {error}");
        assert_eq!(server.digest_all(), before, "{foreign}");
    }
    assert_eq!(admin.number("EXISTS x"), 0);
    for other in ["GET rl:a", "DEL rl:a", "RL.E rl:a x", "DUMP rl:a"] {
        let error = con.error(other);
        assert!(error.starts_with("NOPERM"), "{other}: {error}");
    }
}

#[test]
fn readers_only_read() {
    let server = Server::start();
    server.connection().ask("RL.BUCKET rl:a 1/1h 5");
    // Rights to read the keys, all commands: what writes is refused for the key's sake.
    let mut rights =
        vec!["resetkeys %R~rl:* +@all", "resetkeys ~* -@all +rl.peek +rl.mpeek +rl.info"];
    if has_categories() {
        rights.push("resetkeys ~* -@all +@read");
    }
    for rights in rights {
        let mut con = login(&server, rights);
        let before = server.digest_all();
        assert_eq!(con.six("RL.PEEK rl:a BUCKET 1/1h 5")[2], 4, "{rights}");
        assert_eq!(con.six("RL.MPEEK KEY rl:a BUCKET 1/1h 5")[2], 4, "{rights}");
        con.ask("RL.INFO rl:a");
        for writing in [
            "RL.BUCKET rl:a 1 5",
            "RL.BUCKET rl:a 1 0",
            "RL.TAKE rl:a BUCKET 1 5",
            "RL.MTAKE KEY rl:a BUCKET 1 5",
            "RL.REFUND rl:a BUCKET 1 5",
            "RL.RESET rl:a BUCKET",
            "RL.E rl:a x",
        ] {
            let error = con.error(writing);
            assert!(error.starts_with("NOPERM"), "{rights}: {writing}: {error}");
        }
        assert_eq!(server.digest_all(), before);
    }
}

#[test]
fn the_effect_command_is_for_administrators() {
    let server = Server::start();
    // Redis 7.0 knows no categories of module commands: there it is denied by name.
    let rights = if has_categories() { "~* +@all -@dangerous" } else { "~* +@all -rl.e" };
    let mut con = login(&server, rights);
    assert_eq!(con.five("RL.BUCKET k 1/1h 5")[0], 1);
    let error = con.error("RL.E k x");
    assert!(error.starts_with("NOPERM"), "{error}");
    if has_categories() {
        let mut con = login(&server, "~* +@all -@admin");
        assert!(con.error("RL.E k x").starts_with("NOPERM"));
        let mut con = login(&server, "~* -@all +@write");
        assert!(con.error("RL.E k x").starts_with("NOPERM"));
        assert_eq!(con.five("RL.BUCKET k 1/1h 5")[0], 1);
    }
    // Whoever may do everything may replay an AOF through a client.
    assert!(server.connection().error("RL.E k x").starts_with("ERR not a valid effect"));
}
