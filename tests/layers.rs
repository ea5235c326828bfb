//! RL.TAKE, RL.PEEK, RL.REFUND and their forms over several keys, on a server whose clock the test
//! turns.
#![allow(clippy::unwrap_used, clippy::panic)]

mod lines;
mod support;
use lines::*;
use redis::{Connection, Value};
use support::*;

/// What DETAIL adds: the five integers of every layer.
#[track_caller]
fn details(reply: &Value) -> Vec<[i64; 5]> {
    match reply {
        Value::Array(items) if items.len() == 7 => match &items[6] {
            Value::Array(layers) => layers.iter().map(five).collect(),
            other => panic!("no details: {other:?}"),
        },
        other => panic!("no details: {other:?}"),
    }
}

#[track_caller]
fn sixes(con: &mut Connection, script: &[(&str, [i64; 6])]) {
    for (step, (line, answer)) in script.iter().enumerate() {
        assert_eq!(con.six(line), *answer, "step {step}: {line}");
    }
}

const DAY_LEFT: i64 = 43_200_000;
const MONTH_LEFT: i64 = 1_425_600_000;

#[test]
fn charges_all_layers_or_none() {
    needs_clock!();
    let still = Still::at_noon();
    let mut con = still.server.connection();
    let call = "RL.TAKE k COST 5 DETAIL BUCKET 50 200 QUOTA day 8";
    let reply = con.ask(call);
    assert_eq!(five(&reply), [1, 8, 3, 0, DAY_LEFT]);
    assert_eq!(details(&reply), [[1, 200, 195, 0, 100], [1, 8, 3, 0, DAY_LEFT]]);
    let before = (still.server.digest("k"), still.server.pexpiretime("k"));
    let reply = con.ask(call);
    assert_eq!(five(&reply), [0, 8, 3, DAY_LEFT, DAY_LEFT]);
    assert_eq!(details(&reply), [[1, 200, 195, 0, 100], [0, 8, 3, DAY_LEFT, DAY_LEFT]]);
    assert_eq!((still.server.digest("k"), still.server.pexpiretime("k")), before);
    // A refused first call makes no key.
    let refused = "RL.TAKE none BUCKET 1 5 WINDOW 1m 5 QUOTA day 5 LEASE 0 1m ID x";
    sixes(&mut con, &[(refused, [0, 0, 0, -1, 0, 3])]);
    assert_eq!(con.number("EXISTS none"), 0);
}

#[test]
fn every_kind_can_refuse_alone() {
    needs_clock!();
    let still = Still::at_noon();
    let mut con = still.server.connection();
    let layers = [
        "BUCKET 1/1m 9",
        "WINDOW 1m 9",
        "WINDOW 1m 9 FIXED",
        "WINDOW 1m 9 LOG",
        "QUOTA hour 9",
        "LEASE 9 1m ID x",
    ];
    for full in 0..layers.len() {
        con.ask("DEL k");
        let limit_1 = layers[full].replace(" 9", " 1");
        con.ask(&format!("RL.TAKE k {}", limit_1.replace("ID x", "ID first")));
        let mut all = layers.map(str::to_owned);
        all[full] = limit_1;
        let call = format!("RL.TAKE k DETAIL {}", all.join(" "));
        let before = still.server.digest("k");
        let reply = con.ask(&call);
        assert_eq!(con.six(&call)[5], i64::try_from(full).unwrap(), "{call}");
        for (layer, answer) in details(&reply).iter().enumerate() {
            assert_eq!(answer[0] == 0, layer == full, "{call}: {reply:?}");
        }
        assert_eq!(still.server.digest("k"), before, "{call}");
        still.keeps_promise(&mut con, &call);
    }
}

#[test]
fn names_the_deciding_layer() {
    needs_clock!();
    let still = Still::at_noon();
    let mut con = still.server.connection();
    sixes(
        &mut con,
        &[
            // 39 more such calls, 19,999 and 999,999.
            (
                "RL.TAKE a COST 5 BUCKET 50 200 QUOTA day 100000 QUOTA month 1000000 COST 1",
                [1, 200, 195, 0, 100, 0],
            ),
            // 3 ÷ 2 and 2 ÷ 1 further calls: 1 and 2.
            ("RL.TAKE b QUOTA day 3 QUOTA month 5 COST 2", [1, 5, 3, 0, MONTH_LEFT, 1]),
            // A tie goes to the first.
            ("RL.TAKE c QUOTA month 9 QUOTA day 9", [1, 9, 8, 0, MONTH_LEFT, 0]),
            (
                "RL.TAKE c2 QUOTA month 9 QUOTA day 4 COST 3 AS t BUCKET 1 1",
                [1, 4, 1, 0, DAY_LEFT, 1],
            ),
            // LEAVE counts as not there: (8 − 7) ÷ 1 against (5 − 0) ÷ 1.
            ("RL.TAKE d QUOTA day 6 QUOTA month 9 LEAVE 7", [1, 9, 8, 0, MONTH_LEFT, 1]),
            // A layer of cost 0 comes last, even if nothing is left in it.
            ("RL.TAKE e QUOTA month 1", [1, 1, 0, 0, MONTH_LEFT, 0]),
            ("RL.TAKE e QUOTA month 1 COST 0 QUOTA day 99", [1, 99, 98, 0, DAY_LEFT, 1]),
            ("RL.TAKE e QUOTA month 1 COST 0 QUOTA year 2 COST 0", [1, 1, 0, 0, MONTH_LEFT, 0]),
            // Refused: the longest wait, -1 is the longest, ties go to the first.
            ("RL.TAKE f QUOTA day 1 QUOTA month 1", [1, 1, 0, 0, DAY_LEFT, 0]),
            ("RL.TAKE f QUOTA day 1 QUOTA month 1", [0, 1, 0, MONTH_LEFT, MONTH_LEFT, 1]),
            ("RL.TAKE f QUOTA month 1 QUOTA day 1", [0, 1, 0, MONTH_LEFT, MONTH_LEFT, 0]),
            ("RL.TAKE f QUOTA month 1 BUCKET 1 5 COST 6", [0, 5, 5, -1, 0, 1]),
            ("RL.TAKE f BUCKET 1 5 COST 6 QUOTA month 0", [0, 5, 5, -1, 0, 0]),
            ("RL.TAKE f QUOTA day 1 QUOTA day 1 AS free", [0, 1, 0, DAY_LEFT, DAY_LEFT, 0]),
        ],
    );
}

#[test]
fn a_layer_is_the_limit_of_the_command_of_its_kind() {
    needs_clock!();
    let still = Still::at_noon();
    let mut con = still.server.connection();
    for (command, layer) in [
        ("RL.BUCKET k 1 9 4", "BUCKET 1 9"),
        ("RL.BUCKET k 1 9 4 AS x", "BUCKET 1 9 AS x"),
        ("RL.WINDOW k 1m 9 4", "WINDOW 60s 9 SLIDING"),
        ("RL.WINDOW k 1m 9 4 FIXED AS x", "WINDOW 1m 9 AS x FIXED"),
        ("RL.WINDOW k 1m 9 4 LOG", "WINDOW 1m 9 LOG"),
        ("RL.QUOTA k day 9 4 AS x", "QUOTA day 9 AS x"),
        ("RL.QUOTA k month 9 4 TZ Asia/Tokyo", "QUOTA month 9 TZ Asia/Tokyo"),
        ("RL.ACQUIRE k 9 1m 4", "LEASE 9 1m"),
        ("RL.ACQUIRE k 9 1m 4 AS x", "LEASE 9 1m AS x"),
    ] {
        assert_eq!(con.five(command)[2], 5, "{command}");
        assert_eq!(con.six(&format!("RL.PEEK k {layer}"))[2], 5, "{layer}");
        let id = if layer.starts_with("LEASE") { " ID y" } else { "" };
        assert_eq!(con.six(&format!("RL.TAKE k {layer}{id} COST 2"))[2], 3, "{layer}");
    }
}

#[test]
fn force_charges_every_layer() {
    needs_clock!();
    let still = Still::at_noon();
    let mut con = still.server.connection();
    con.ask("RL.TAKE k COST 3 BUCKET 1 3 WINDOW 1m 3 QUOTA day 3 LEASE 1 1m ID a");
    let reply =
        con.ask("RL.TAKE k COST 2 FORCE DETAIL BUCKET 1 3 WINDOW 1m 3 QUOTA day 3 LEASE 1 1m ID b");
    assert_eq!(
        details(&reply),
        [[1, 3, 0, 0, 5000], [1, 3, 0, 0, 63_750], [1, 3, 0, 0, DAY_LEFT], [1, 1, 0, 0, 60_000]]
    );
    let reply = con.ask("RL.PEEK k COST 0 DETAIL BUCKET 1 3 WINDOW 1m 3 QUOTA day 3 LEASE 1 1m");
    let waits: Vec<_> = details(&reply).iter().map(|answer| (answer[0], answer[3])).collect();
    assert_eq!(waits, [(0, 2000), (0, 63_750), (0, DAY_LEFT), (0, 60_000)]);
    assert!(con.error("RL.TAKE k FORCE BUCKET 1 5 LEAVE 1").starts_with("ERR FORCE charges"));
}

#[test]
fn a_lease_layer_takes_one_slot() {
    needs_clock!();
    let still = Still::at_noon();
    let mut con = still.server.connection();
    sixes(
        &mut con,
        &[
            // The call's COST does not apply to it.
            ("RL.TAKE k COST 9 BUCKET 1 90 LEASE 3 1m ID a", [1, 3, 2, 0, 60_000, 1]),
            ("RL.TAKE k BUCKET 1 90 LEASE 3 1m ID b COST 2", [1, 3, 0, 0, 60_000, 1]),
            ("RL.TAKE k BUCKET 1 90 LEASE 3 1m ID c", [0, 3, 0, 60_000, 60_000, 1]),
            // A held id takes nothing and is renewed.
            ("RL.TAKE k BUCKET 1 90 LEASE 3 2m ID a", [1, 3, 0, 0, 120_000, 1]),
            ("RL.PEEK k BUCKET 1 90 LEASE 3 1m ID a", [1, 3, 0, 0, 120_000, 1]),
            ("RL.PEEK k BUCKET 1 90 LEASE 3 1m", [0, 3, 0, 60_000, 120_000, 1]),
            ("RL.TAKE k LEASE 3 1m ID d COST 0", [1, 3, 0, 0, 120_000, 0]),
        ],
    );
    assert_eq!(con.number("RL.RELEASE k a b c d"), 2);
    assert!(con.error("RL.TAKE k LEASE 3 1m").starts_with("ERR a LEASE layer needs an ID"));
    assert!(con.error("RL.TAKE k LEASE 3 1m ID a NX").starts_with("ERR syntax error"));
}

#[test]
fn thirty_two_layers_and_no_more() {
    let server = Server::start();
    let mut con = server.connection();
    let layers =
        |count: usize| -> String { (0..count).map(|n| format!(" BUCKET 1 9 AS b{n}")).collect() };
    let reply = con.ask(&format!("RL.TAKE k DETAIL{}", layers(32)));
    assert_eq!(details(&reply), [[1, 9, 8, 0, 1000]; 32]);
    for command in ["RL.TAKE", "RL.PEEK", "RL.REFUND"] {
        let error = con.error(&format!("{command} k{}", layers(33)));
        assert!(error.starts_with("ERR a call has at most 32 layers"), "{error}");
        for nothing in ["", "COST 5", "DETAIL"] {
            let error = con.error(&format!("{command} k {nothing}"));
            assert!(error.starts_with("ERR "), "{error}");
        }
    }
    let over_keys: String = (0..33).map(|n| format!(" KEY k{n} BUCKET 1 9")).collect();
    for command in ["RL.MTAKE", "RL.MPEEK", "RL.MREFUND"] {
        let error = con.error(&format!("{command}{over_keys}"));
        assert!(error.starts_with("ERR a call has at most 32 layers"), "{error}");
    }
    assert_eq!(con.number("EXISTS k0"), 0);
}

#[test]
fn two_layers_for_the_same_limit_are_an_error() {
    let server = Server::start();
    let mut con = server.connection();
    for (one, other) in [
        ("BUCKET 1 9", "BUCKET 2 8"),
        ("BUCKET 1 9 AS x", "BUCKET 2 8 COST 3 AS x"),
        ("WINDOW 1m 9", "WINDOW 60s 5 SLIDING"),
        ("QUOTA week 9", "QUOTA week 9 ANCHOR sun"),
        ("LEASE 5 1s ID x", "LEASE 5 1s ID y"),
    ] {
        for call in ["RL.TAKE k", "RL.PEEK k", "RL.MTAKE KEY k", "RL.MPEEK KEY k"] {
            let error = con.error(&format!("{call} {one} {other}"));
            assert!(error.starts_with("ERR two layers name the same limit"), "{call}: {error}");
        }
    }
    assert_eq!(con.number("EXISTS k"), 0);
    assert_eq!(con.six("RL.MTAKE KEY a BUCKET 1 9 KEY b BUCKET 1 9 COST 2")[0], 1);
}

#[test]
fn peek_predicts_what_take_answers() {
    needs_clock!();
    let still = Still::at_us(NOON_MS * 1000 + 333);
    let mut con = still.server.connection();
    let layers = "BUCKET 7/s 9 WINDOW 2s 9 WINDOW 900ms 5 LOG COST 1 WINDOW 3s 20 FIXED LEAVE 3 \
                  QUOTA minute 60";
    let (mut refused, mut step_us) = (0, 1_u64);
    for _ in 0..600 {
        step_us = step_us * 48_271 % 2_147_483_647;
        let cost = step_us % 4;
        let peek = con.six(&format!("RL.PEEK k COST {cost} {layers}"));
        let take = con.six(&format!("RL.TAKE k COST {cost} {layers}"));
        assert_eq!((peek[0], peek[3]), (take[0], take[3]), "{peek:?} {take:?}");
        if take[0] == 0 {
            assert_eq!(peek, take, "a refusal reads the same from both");
            refused += 1;
            if refused % 7 == 0 {
                still.keeps_promise(&mut con, &format!("RL.TAKE k COST {cost} {layers}"));
            }
        } else {
            assert_eq!(peek[5], take[5], "the deciding layer: {peek:?} {take:?}");
        }
        still.clock.advance_us(step_us % 400_000);
    }
    assert!((50..550).contains(&refused), "{refused}");
}

#[test]
fn peek_shows_the_layers_uncharged() {
    needs_clock!();
    let still = Still::at_noon();
    let mut con = still.server.connection();
    sixes(&mut con, &[("RL.PEEK k BUCKET 1/1h 5", [1, 5, 5, 0, 0, 0])]);
    con.ask("RL.BUCKET k 1/1h 5 4");
    let before = still.server.digest("k");
    sixes(
        &mut con,
        &[
            ("RL.PEEK k BUCKET 1/1h 5", [1, 5, 1, 0, 14_400_000, 0]),
            ("RL.PEEK k COST 3 BUCKET 1/1h 5", [0, 5, 1, 7_200_000, 14_400_000, 0]),
            ("RL.MPEEK COST 3 KEY k BUCKET 1/1h 5", [0, 5, 1, 7_200_000, 14_400_000, 0]),
        ],
    );
    assert_eq!(still.server.digest("k"), before);
}

#[test]
fn refund_undoes_a_take() {
    needs_clock!();
    let still = Still::at_us(NOON_MS * 1000 + 333);
    let mut con = still.server.connection();
    let layers =
        "BUCKET 7/s 90 WINDOW 2m 90 WINDOW 90s 90 FIXED QUOTA month 90 QUOTA day 90 COST 2";
    // On an unused key nothing is left behind.
    con.ask(&format!("RL.TAKE k COST 5 {layers} WINDOW 9s 9 LOG"));
    let answer = con.six(&format!("RL.REFUND k COST 5 {layers} WINDOW 9s 9 LOG"));
    assert_eq!(answer[0], 1);
    assert_eq!(con.number("EXISTS k"), 0);
    // On a used key it is as if the charge had not been.
    con.ask(&format!("RL.TAKE k COST 7 {layers}"));
    still.clock.advance_ms(10);
    con.ask(&format!("RL.TAKE k COST 7 {layers}"));
    let before = con.ask(&format!("RL.PEEK k DETAIL {layers}"));
    con.ask(&format!("RL.TAKE k COST 5 {layers}"));
    assert_ne!(con.ask(&format!("RL.PEEK k DETAIL {layers}")), before);
    con.ask(&format!("RL.REFUND k COST 5 {layers}"));
    assert_eq!(con.ask(&format!("RL.PEEK k DETAIL {layers}")), before);
    // LEAVE is ignored, LEASE is an error.
    con.ask(&format!("RL.REFUND k COST 90 {layers} LEAVE 90"));
    assert_eq!(con.six("RL.PEEK k QUOTA day 90")[2], 88, "that layer has a cost of its own");
    con.ask("RL.REFUND k COST 2 QUOTA day 90");
    assert_eq!(con.number("EXISTS k"), 0);
    let error = con.error("RL.REFUND k LEASE 1 1m ID x");
    assert!(error.starts_with("ERR a LEASE layer cannot be refunded"), "{error}");
    assert!(con.error("RL.REFUND k FORCE BUCKET 1 5").starts_with("ERR syntax"));
    assert!(con.error("RL.TAKE k AGE 1s BUCKET 1 5").starts_with("ERR syntax"));
}

#[test]
fn refund_lifts_nothing_above_unused() {
    needs_clock!();
    let still = Still::at_noon();
    let mut con = still.server.connection();
    sixes(
        &mut con,
        &[
            ("RL.REFUND none BUCKET 1 5 QUOTA day 9", [1, 5, 5, 0, 0, 0]),
            ("RL.TAKE k COST 4 BUCKET 1 9 WINDOW 1m 9", [1, 9, 5, 0, 4000, 0]),
            ("RL.REFUND k COST 3 BUCKET 1 9", [1, 9, 8, 0, 1000, 0]),
            ("RL.REFUND k COST 3 BUCKET 1 9", [1, 9, 9, 0, 0, 0]),
            ("RL.REFUND k COST 3 BUCKET 1 9", [1, 9, 9, 0, 0, 0]),
            ("RL.REFUND k WINDOW 1m 9 COST 0", [1, 9, 5, 0, 63_750, 0]),
            (&format!("RL.REFUND k WINDOW 1m 9 COST {MAX}"), [0, 9, 9, -1, 0, 0]),
        ],
    );
    assert_eq!(con.number("EXISTS none k"), 0);
}

#[test]
fn windows_give_back_the_oldest_units_first() {
    needs_clock!();
    for mode in ["SLIDING", "LOG"] {
        let still = Still::at_noon();
        let mut con = still.server.connection();
        let call = |cost: u64| format!("RL.TAKE k COST {cost} WINDOW 16s 10 {mode}");
        con.ask(&call(4));
        still.clock.advance_ms(8_000);
        con.ask(&call(6));
        con.ask(&format!("RL.REFUND k COST 4 WINDOW 16s 10 {mode}"));
        con.ask(&call(4));
        // Had the newest been given back, 4 units would be free when the first charge is 16 s old.
        let extra = if mode == "SLIDING" { 1000 } else { 0 };
        let answer = con.six(&call(1));
        assert_eq!(answer, [0, 10, 0, 16_000 + extra, 16_000 + extra, 0], "{mode}");
    }
}

#[test]
fn a_refund_does_not_reach_what_opened_since() {
    needs_clock!();
    let still = Still::at_ms(NOON_MS - 1000 + 43_200_000);
    let mut con = still.server.connection();
    let layers = "QUOTA day 9 WINDOW 10s 9 FIXED WINDOW 8s 9 WINDOW 8s 9 LOG BUCKET 1/1m 9";
    // Charged before midnight, refunded after it.
    con.ask(&format!("RL.TAKE k COST 2 {layers}"));
    still.clock.advance_ms(15_000);
    con.ask(&format!("RL.TAKE k COST 3 {layers}"));
    let left = |con: &mut Connection| -> Vec<i64> {
        let reply = con.ask(&format!("RL.PEEK k DETAIL {layers}"));
        details(&reply).iter().map(|answer| answer[2]).collect()
    };
    assert_eq!(left(&mut con), [6, 6, 6, 6, 4]);
    con.ask(&format!("RL.REFUND k COST 2 AGE 15s {layers}"));
    assert_eq!(left(&mut con), [6, 6, 6, 6, 6], "only the bucket still held that charge");
    con.ask(&format!("RL.REFUND k COST 2 {layers}"));
    assert_eq!(left(&mut con), [8, 8, 8, 8, 8]);
    still.clock.advance_ms(5_000);
    con.ask(&format!("RL.REFUND k COST 1 AGE 5001ms {layers}"));
    assert_eq!(left(&mut con)[0..2], [9, 8], "one ms before it opened");
    con.ask(&format!("RL.TAKE k COST 1 {layers}"));
    con.ask(&format!("RL.REFUND k COST 1 AGE 14001ms {layers}"));
    assert_eq!(left(&mut con)[0], 9, "the day was 19 s old");
    assert!(con.error("RL.REFUND k AGE 5 BUCKET 1 5").starts_with("ERR AGE"));
    assert_eq!(con.six("RL.REFUND k AGE 0 BUCKET 1 5 COST 0")[0], 1);
}

#[test]
fn several_keys_are_charged_all_or_none() {
    needs_clock!();
    let still = Still::at_noon();
    let mut con = still.server.connection();
    let call = "RL.MTAKE COST 5 DETAIL KEY {a}:k BUCKET 50 200 KEY {a} QUOTA month 9";
    let reply = con.ask(call);
    assert_eq!(details(&reply), [[1, 200, 195, 0, 100], [1, 9, 4, 0, MONTH_LEFT]]);
    let before = still.server.digest_all();
    sixes(&mut con, &[(call, [0, 9, 4, MONTH_LEFT, MONTH_LEFT, 1])]);
    assert_eq!(still.server.digest_all(), before);
    sixes(
        &mut con,
        &[
            (
                "RL.MPEEK COST 5 KEY {a}:k BUCKET 50 200 KEY {a} QUOTA month 9",
                [0, 9, 4, MONTH_LEFT, MONTH_LEFT, 1],
            ),
            (
                "RL.MTAKE COST 5 FORCE KEY {a}:k BUCKET 50 200 KEY {a} QUOTA month 9",
                [1, 9, 0, 0, MONTH_LEFT, 1],
            ),
            (
                "RL.MREFUND COST 10 KEY {a}:k BUCKET 50 200 KEY {a} QUOTA month 9",
                [0, 9, 9, -1, MONTH_LEFT, 1],
            ),
        ],
    );
    assert_eq!(con.number("DBSIZE"), 0);
    // A refusal of a later key makes no earlier one.
    let refused = "RL.MTAKE KEY x BUCKET 1 5 KEY y BUCKET 1 0";
    sixes(&mut con, &[(refused, [0, 0, 0, -1, 0, 1])]);
    assert_eq!(con.number("DBSIZE"), 0);
    for (line, text) in [
        ("RL.MTAKE KEY a BUCKET 1 5 KEY a QUOTA day 5", "ERR each key may stand only once"),
        ("RL.MPEEK KEY a BUCKET 1 5 KEY a QUOTA day 5", "ERR each key may stand only once"),
        ("RL.MTAKE KEY a KEY b BUCKET 1 5", "ERR "),
        ("RL.MTAKE KEY a BUCKET 1 5 KEY b", "ERR "),
        ("RL.MTAKE a BUCKET 1 5 KEY b BUCKET 1 5", "ERR each key must be introduced by KEY"),
        ("RL.MTAKE COST 5 BUCKET 1 5 KEY b BUCKET 1 5", "ERR each key must be introduced by KEY"),
    ] {
        let error = con.error(line);
        assert!(error.starts_with(text), "{line}: {error}");
    }
    assert_eq!(con.number("DBSIZE"), 0);
}

#[test]
fn keys_may_look_like_keywords() {
    needs_clock!();
    let still = Still::at_noon();
    let mut con = still.server.connection();
    sixes(
        &mut con,
        &[
            ("RL.TAKE COST COST 2 BUCKET 1 9", [1, 9, 7, 0, 2000, 0]),
            ("RL.MTAKE KEY KEY BUCKET 1 9 COST 3 KEY COST BUCKET 1 9", [1, 9, 6, 0, 3000, 0]),
            ("RL.PEEK COST BUCKET 1 9", [1, 9, 6, 0, 3000, 0]),
            ("RL.TAKE k BUCKET 1 9 AS BUCKET COST 2 BUCKET 1 9 AS KEY", [1, 9, 7, 0, 2000, 0]),
            (
                "RL.MTAKE KEY k BUCKET 1 9 AS KEY COST 2 KEY l LEASE 9 1m ID KEY",
                [1, 9, 6, 0, 3000, 0],
            ),
        ],
    );
    assert_eq!(con.number("EXISTS KEY COST k l"), 4);
}

#[test]
fn one_wrong_key_of_several_stops_all() {
    let server = Server::start();
    let mut con = server.connection();
    con.ask("SET s 1");
    let before = server.digest_all();
    for command in ["RL.MTAKE", "RL.MPEEK", "RL.MREFUND"] {
        for keys in ["KEY a BUCKET 1 5 KEY s BUCKET 1 5", "KEY s BUCKET 1 5 KEY a BUCKET 1 5"] {
            assert!(con.error(&format!("{command} {keys}")).starts_with("WRONGTYPE"));
        }
    }
    assert_eq!(server.digest_all(), before);
}

#[test]
fn the_64_limits_of_a_key() {
    needs_clock!();
    let still = Still::at_noon();
    let mut con = still.server.connection();
    for n in 0..60 {
        con.ask(&format!("RL.BUCKET k 1/1h 9 1 AS b{n}"));
    }
    con.ask("RL.TAKE k WINDOW 1m 9 WINDOW 1m 9 LOG WINDOW 1m 9 FIXED LEASE 5 1m ID x");
    let before = still.server.digest("k");
    for line in [
        "RL.BUCKET k 1 9",
        "RL.WINDOW k 2m 9",
        "RL.WINDOW k 2m 9 FIXED",
        "RL.WINDOW k 2m 9 LOG",
        "RL.QUOTA k day 9",
        "RL.ACQUIRE k 9 1m AS more",
        "RL.TAKE k WINDOW 1m 9 BUCKET 1 9",
        "RL.MTAKE KEY other BUCKET 1 9 KEY k BUCKET 1 9",
        "RL.BUCKET k 1 9 1 FORCE",
    ] {
        let error = con.error(line);
        assert!(error.starts_with("ERR a key holds at most 64 limits"), "{line}: {error}");
    }
    assert_eq!(still.server.digest("k"), before);
    assert_eq!(con.number("EXISTS other"), 0);
    // Refusals and looking need no room.
    assert_eq!(con.five("RL.BUCKET k 1 9 10")[3], -1);
    assert_eq!(con.five("RL.PEEK k BUCKET 1 9")[0], 1);
    assert_eq!(con.five("RL.BUCKET k 1/1h 9 1 AS b7")[2], 7);
    // What has ended makes room.
    still.clock.advance_ms(60_000);
    assert_eq!(con.five("RL.BUCKET k 1 9")[0], 1);
    assert_eq!(con.number("RL.RESET k BUCKET AS b7"), 1);
    assert_eq!(con.five("RL.QUOTA k day 9")[0], 1);
}
