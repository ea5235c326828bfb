//! What the fuzzer takes for an answer.

use crate::workload::Call;
use redis::Value;

/// 2^53 − 1: no integer of a reply is larger.
const MAX: i64 = 9_007_199_254_740_991;

/// Whether a reply is one that the command may have; why not.
pub fn check(call: &Call, reply: &Value) -> Result<(), String> {
    match reply {
        Value::ServerError(error) => return check_error(call, error),
        Value::SimpleString(text) if text == "QUEUED" => return Ok(()),
        _ => {}
    }
    let name = call[0].to_ascii_uppercase();
    match (name.as_slice(), reply) {
        (b"RL.BUCKET" | b"RL.WINDOW" | b"RL.QUOTA", Value::Array(items)) if items.len() == 5 => {
            five(items, name == b"RL.BUCKET")
        }
        (b"RL.ACQUIRE", Value::Array(items)) if items.len() == 6 => {
            let id = matches!(items[5], Value::Nil | Value::BulkString(_));
            if id { five(items, false) } else { Err("no lease id".into()) }
        }
        (
            b"RL.TAKE" | b"RL.PEEK" | b"RL.REFUND" | b"RL.MTAKE" | b"RL.MPEEK" | b"RL.MREFUND",
            Value::Array(items),
        ) if items.len() == 6 || items.len() == 7 => {
            let layers = match items.get(6) {
                Some(Value::Array(layers)) => layers.as_slice(),
                Some(_) => return Err("no details".into()),
                None => &[],
            };
            for layer in layers {
                let Value::Array(layer) = layer else { return Err("no layer".into()) };
                five(layer, false)?;
            }
            let Value::Int(index @ 0..32) = &items[5] else { return Err("no layer index".into()) };
            match layers.get(usize::try_from(*index).unwrap_or(0)) {
                None if items.len() == 7 => Err("no such layer".into()),
                Some(Value::Array(deciding)) if deciding[..] != items[..5] => {
                    Err("the deciding layer has other integers".into())
                }
                _ => five(items, false),
            }
        }
        (b"RL.RELEASE" | b"RL.RENEW" | b"RL.RESET", Value::Int(0..=64)) => Ok(()),
        (b"RL.INFO", Value::Nil) => Ok(()),
        (b"RL.INFO", Value::Array(limits)) if (1..=64).contains(&limits.len()) => {
            limits.iter().try_for_each(shown)
        }
        // A script answers what its call answered.
        (b"EVAL", _) if call.len() > 3 => check(&call[3..].to_vec(), reply),
        (b"CL.THROTTLE", Value::Array(items)) => match items.as_slice() {
            [
                Value::Int(0 | 1),
                Value::Int(0..),
                Value::Int(0..),
                Value::Int(-1..),
                Value::Int(0..),
            ] => Ok(()),
            _ => Err("not five integers of CL.THROTTLE".into()),
        },
        (b"RL.E", Value::Okay) => Ok(()),
        (name, _) if name.starts_with(b"RL.") || name == b"CL.THROTTLE" => {
            Err("not a reply of this command".into())
        }
        _ => Ok(()),
    }
}

fn check_error(call: &Call, error: &redis::ServerError) -> Result<(), String> {
    let text = format!("{} {}", error.code(), error.details().unwrap_or_default());
    if text.contains("internal") {
        return Err("an internal error".into());
    }
    let own = call[0].to_ascii_uppercase().starts_with(b"RL.");
    let known = ["ERR", "WRONGTYPE", "OOM"].contains(&error.code());
    if own && !(known && text.is_ascii()) {
        return Err(format!("not an error of this command: {text}"));
    }
    Ok(())
}

fn text(value: &Value) -> Result<&str, String> {
    match value {
        Value::BulkString(bytes) => std::str::from_utf8(bytes).map_err(|e| e.to_string()),
        Value::SimpleString(text) => Ok(text),
        other => Err(format!("not a text: {other:?}")),
    }
}

/// One limit of RL.INFO: a map, flat under RESP2.
fn shown(limit: &Value) -> Result<(), String> {
    let flat: Vec<&Value> = match limit {
        Value::Map(pairs) => pairs.iter().flat_map(|(name, value)| [name, value]).collect(),
        Value::Array(items) => items.iter().collect(),
        _ => return Err("no map".into()),
    };
    let (mut names, mut kind, mut times) = (Vec::new(), "", Vec::new());
    for pair in flat.chunks(2) {
        let &[name, value] = pair else { return Err("a name without a value".into()) };
        let name = text(name)?;
        match (name, value) {
            ("kind", value) => kind = text(value)?,
            ("mode", value) if ["sliding", "fixed", "log"].contains(&text(value)?) => {}
            ("period", value)
                if "minute hour day week month year".split(' ').any(|p| text(value) == Ok(p)) => {}
            ("name", Value::Nil | Value::BulkString(_)) => {}
            ("since_ms" | "until_ms", Value::Int(at @ 0..=MAX)) => times.push(*at),
            ("used" | "length_ms" | "holders" | "slots" | "next_end_ms", Value::Int(1..=MAX)) => {}
            _ => return Err(format!("{name}: {value:?}")),
        }
        names.push(name);
    }
    let wanted = match kind {
        "bucket" => "kind name used since_ms until_ms",
        "window" => "kind mode length_ms name used since_ms until_ms",
        "quota" => "kind period name used since_ms until_ms",
        "lease" => "kind name holders slots next_end_ms",
        _ => return Err("no kind".into()),
    };
    if names.join(" ") == wanted && times.is_sorted() {
        Ok(())
    } else {
        Err("the fields of this kind are others".into())
    }
}

/// allowed, limit, remaining, retry_after_ms, reset_after_ms.
fn five(items: &[Value], maxwait: bool) -> Result<(), String> {
    let mut n = [0; 5];
    for (n, item) in n.iter_mut().zip(items) {
        let Value::Int(value) = item else { return Err("not an integer".into()) };
        *n = *value;
    }
    let [allowed, limit, remaining, retry_ms, reset_ms] = n;
    let amounts = [allowed, limit, remaining, reset_ms].iter().all(|n| (0..=MAX).contains(n));
    let wait = match retry_ms {
        0 => allowed > 0,
        -1 => allowed == 0,
        1..=MAX => allowed == 0 || maxwait,
        _ => false,
    };
    if amounts && wait && remaining <= limit && items.len() >= 5 {
        Ok(())
    } else {
        Err("five integers that do not fit together".into())
    }
}
