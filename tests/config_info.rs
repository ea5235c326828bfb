//! Options of the module, and what INFO counts.
#![allow(clippy::unwrap_used, clippy::panic)]

mod lines;
mod support;
use lines::*;
use support::*;

/// All `limiter_` fields of INFO.
fn counters(server: &Server) -> Vec<(String, u64)> {
    let info = plain(&cmd!(server.connection(), "INFO", "modules"));
    let fields = info.lines().filter_map(|line| line.trim_end().strip_prefix("limiter_"));
    fields
        .map(|field| {
            let (name, value) = field.split_once(':').unwrap();
            (name.to_owned(), value.parse().unwrap_or_else(|_| panic!("{field} is no number")))
        })
        .collect()
}

fn counter(server: &Server, name: &str) -> u64 {
    let all = counters(server);
    all.iter().find(|(known, _)| known == name).unwrap_or_else(|| panic!("{name}: {all:?}")).1
}

#[test]
fn options_are_listed_and_have_defaults() {
    let server = Server::start();
    let mut con = server.connection();
    assert_eq!(plain(&con.ask("CONFIG GET limiter.cl-throttle")), "[limiter.cl-throttle, yes]");
    let all = plain(&con.ask("CONFIG GET limiter.*"));
    assert_eq!(all, "[limiter.cl-throttle, yes]", "each option is tested here");
}

#[test]
fn options_are_set_in_the_file_and_by_arguments() {
    let value = |server: &Server| {
        plain(&server.connection().ask("CONFIG GET limiter.cl-throttle"))
            .replace("[limiter.cl-throttle, ", "")
    };
    let server = Server::builder().config("limiter.cl-throttle no").start();
    assert_eq!(value(&server), "no]");
    for args in [["cl-throttle", "no"], ["limiter.cl-throttle", "NO"], ["CL-THROTTLE", "no"]] {
        let server = Server::builder().module_args(&args).start();
        assert_eq!(value(&server), "no]", "{args:?}");
    }
    // What the module is given itself wins.
    let server = Server::builder()
        .config("limiter.cl-throttle yes")
        .module_args(&["cl-throttle", "no"])
        .start();
    assert_eq!(value(&server), "no]");
}

#[test]
fn options_read_at_load_cannot_be_changed_later() {
    let server = Server::start();
    let mut con = server.connection();
    let error = con.error("CONFIG SET limiter.cl-throttle no");
    assert!(error.contains("immutable"), "{error}");
    assert_eq!(con.five("RL.BUCKET k 1 5")[0], 1);
}

#[test]
fn a_wrong_option_stops_the_start_and_says_why() {
    for args in [
        &["cl-throttle"][..],
        &["cl-throttle", "maybe"],
        &["cl-throttle", ""],
        &["no-such-option", "1"],
        &["limiter."],
        &[""],
        &["canary7f3a\\xff", "1"],
    ] {
        let log = Server::builder().module_args(args).try_start();
        let Err(log) = log else { panic!("{args:?} is accepted") };
        assert!(log.contains("loadmodule"), "{args:?}: {log}");
        assert!(!log.contains("BUG REPORT"), "{args:?}: {log}");
    }
    for line in ["limiter.cl-throttle maybe", "limiter.no-such-option 1"] {
        assert!(Server::builder().config(line).try_start().is_err(), "{line}");
    }
}

#[test]
fn info_sections_are_numbers() {
    let server = Server::start();
    let mut con = server.connection();
    let info = plain(&con.ask("INFO everything"));
    assert!(info.lines().any(|line| line.starts_with("# limiter_")), "{info}");
    assert_eq!(counters(&server).iter().filter(|(_, value)| *value > 0).count(), 0);
    let named = plain(&con.ask("INFO limiter_stats"));
    assert!(named.contains("limiter_calls:"), "{named}");
    let plain_info = plain(&con.ask("INFO"));
    assert!(!plain_info.contains("limiter_calls"), "a plain INFO is the server's own");
}

#[test]
fn info_counts_each_kind() {
    let server = Server::start();
    let mut con = server.connection();
    let mut expected = std::collections::BTreeMap::new();
    for (name, line, times) in [
        ("bucket_admitted", "RL.BUCKET b 1/1h 5", 5),
        ("bucket_refused", "RL.BUCKET b 1/1h 5", 2),
        ("bucket_admitted", "RL.BUCKET b 1/1h 9 0", 1),
        ("window_admitted", "RL.WINDOW w 1h 3", 3),
        ("window_refused", "RL.WINDOW w 1h 3", 4),
        ("window_admitted", "RL.WINDOW w 1h 2 LOG", 2),
        ("window_refused", "RL.WINDOW w 1h 2 LOG", 1),
        ("quota_admitted", "RL.QUOTA q year 1", 1),
        ("quota_refused", "RL.QUOTA q year 1", 3),
        ("lease_admitted", "RL.ACQUIRE l 2 1h", 2),
        ("lease_refused", "RL.ACQUIRE l 2 1h", 1),
        ("layered_admitted", "RL.TAKE t BUCKET 1/1h 2 QUOTA year 9", 2),
        ("layered_refused", "RL.TAKE t BUCKET 1/1h 2 QUOTA year 9", 1),
        ("layered_admitted", "RL.MTAKE KEY t1 BUCKET 1/1h 1 KEY t2 BUCKET 1/1h 1", 1),
        ("layered_refused", "RL.MTAKE KEY t1 BUCKET 1/1h 1 KEY t2 BUCKET 1/1h 1", 1),
        ("errors", "RL.BUCKET b nan 5", 1),
        ("errors", "RL.MTAKE KEY a x 1 2 3", 1),
        ("errors", "RL.E k x", 1),
        ("errors", "RL.INFO s", 1),
        ("none", "RL.PEEK b BUCKET 1/1h 5", 1),
        ("none", "RL.INFO b", 1),
        ("none", "RL.REFUND none BUCKET 1 5", 1),
        ("none", "RL.RELEASE none a", 1),
    ] {
        if name == "errors" {
            con.ask("SET s 1");
        }
        for _ in 0..times {
            assert_eq!(con.try_ask(line).is_err(), name == "errors", "{line}");
        }
        *expected.entry(name).or_insert(0) += times;
        expected.remove("none");
        for (name, value) in &expected {
            assert_eq!(counter(&server, name), *value, "{name} after {line}");
        }
    }
    assert_eq!(counter(&server, "keys_created"), 7, "b w q l t t1 t2, and none for refusals");
    con.ask("CONFIG RESETSTAT");
    assert_eq!(counter(&server, "bucket_admitted"), 6, "they count since the start");
}

#[test]
fn replicas_count_effects_not_verdicts() {
    let server = Server::start();
    let replica = server.replica();
    let mut con = server.connection();
    for _ in 0..3 {
        con.ask("RL.BUCKET k 1/1h 2");
    }
    replica.wait_in_sync(&server);
    assert_eq!(counter(&replica, "effects_applied"), 2);
    assert_eq!(counter(&replica, "bucket_admitted"), 0);
    assert_eq!(counter(&replica, "calls"), 2, "RL.E is a call, too");
    assert_eq!(counter(&server, "effects_applied"), 0);
    assert_eq!(counter(&server, "calls"), 3);
}

#[test]
fn commandstats_and_errorstats_are_the_servers() {
    let server = Server::start();
    let mut con = server.connection();
    con.ask("RL.BUCKET k 1/1h 1");
    con.ask("RL.BUCKET k 1/1h 1");
    con.error("RL.BUCKET k x 1");
    let stats = server.info("cmdstat_rl.bucket").unwrap();
    assert!(stats.starts_with("calls=3,"), "{stats}");
    assert!(stats.ends_with("failed_calls=1"), "{stats}");
    assert_eq!(server.info("errorstat_ERR").as_deref(), Some("count=1"));
}
