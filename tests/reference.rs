//! Every example of the documentation gives the reply that stands below it.
#![allow(clippy::unwrap_used, clippy::panic)]

mod lines;
mod support;
use lines::*;
use redis::Value;
use std::path::{Path, PathBuf};
use support::*;

const PROMPT: &str = "127.0.0.1:6379> ";

/// A block of calls and replies, as redis-cli shows them.
struct Example {
    /// For a person to find it: file and line.
    place: String,
    /// When it is meant to happen, Unix ms.
    now_ms: u64,
    /// How often its call was made before.
    calls_before: usize,
    text: Vec<String>,
}

fn documents() -> Vec<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut files = vec![root.join("README.md")];
    for folder in ["docs", "docs/commands"] {
        let entries = std::fs::read_dir(root.join(folder)).unwrap();
        files.extend(entries.map(|entry| entry.unwrap().path()));
    }
    files.retain(|file| file.extension().is_some_and(|extension| extension == "md"));
    files.sort();
    files
}

/// The instant that the text before an example names; noon on the day of the others if none.
fn instant_ms(before: &str) -> u64 {
    let day_ms = NOON_MS - 43_200_000;
    let Some(at) = before.rfind("At ") else { return NOON_MS };
    let words: Vec<&str> = before[at..].split_whitespace().collect();
    let (date, time) = match words[1..] {
        [date, time, "UTC" | "UTC," | "UTC." | "UTC:", ..] => (date, time),
        [time, "UTC" | "UTC," | "UTC." | "UTC:", ..] => ("2026-03-15", time),
        _ => return NOON_MS,
    };
    let day: u64 = date.strip_prefix("2026-03-").and_then(|day| day.parse().ok()).unwrap();
    // Fractions of a second are not told apart.
    let parts: Vec<u64> =
        time.split([':', '.']).take(3).map(|part| part.parse().unwrap()).collect();
    let ms = parts[0] * 3_600_000 + parts[1] * 60_000 + parts[2] * 1000;
    day_ms + (day - 15) * 86_400_000 + ms
}

fn examples(file: &Path) -> Vec<Example> {
    let text = std::fs::read_to_string(file).unwrap();
    let (mut found, mut block, mut paragraph) = (Vec::new(), None::<Vec<String>>, String::new());
    for (number, line) in text.lines().enumerate() {
        match (&mut block, line.trim_end()) {
            (Some(lines), "```") => {
                if lines.iter().any(|line| line.starts_with(PROMPT)) {
                    let place = format!("{}:{}", file.display(), number + 1 - lines.len());
                    let calls_before = if paragraph.contains("After five calls") { 5 } else { 0 };
                    found.push(Example {
                        calls_before,
                        place,
                        now_ms: instant_ms(&paragraph),
                        text: lines.clone(),
                    });
                }
                block = None;
                paragraph.clear();
            }
            (Some(lines), line) => lines.push(line.to_owned()),
            (None, fence) if fence.starts_with("```") => block = Some(Vec::new()),
            (None, line) => paragraph = format!("{paragraph} {line}"),
        }
    }
    found
}

/// The reply as redis-cli prints it on a terminal.
fn shown(value: &Value, indent: usize) -> String {
    match value {
        Value::Int(n) => format!("(integer) {n}\n"),
        Value::Nil => "(nil)\n".to_owned(),
        Value::BulkString(bytes) => format!("\"{}\"\n", String::from_utf8_lossy(bytes)),
        Value::Array(items) => {
            let digits = items.len().to_string().len();
            let mut text = String::new();
            for (index, item) in items.iter().enumerate() {
                let before = if index == 0 { 0 } else { indent };
                text += &format!("{:before$}{:>digits$}) ", "", index + 1);
                text += &shown(item, indent + digits + 2);
            }
            text
        }
        other => format!("{}\n", plain(other)),
    }
}

/// Ids that the server makes differ each time: all 32 hex digits read the same.
fn without_random_ids(text: &str) -> String {
    let random = |word: &str| word.len() == 32 && word.bytes().all(|byte| byte.is_ascii_hexdigit());
    text.split('"')
        .map(|word| if random(word) { "<random id>" } else { word })
        .collect::<Vec<_>>()
        .join("\"")
}

#[test]
fn every_example_is_true() {
    needs_clock!();
    let still = Still::at_noon();
    let mut con = still.server.connection();
    let (mut count, mut wrong) = (0, String::new());
    for example in documents().iter().flat_map(|file| examples(file)) {
        con.ask("FLUSHALL");
        still.clock.set_ms(example.now_ms);
        let mut calls = example.text.iter().filter_map(|line| line.strip_prefix(PROMPT)).peekable();
        for _ in 0..example.calls_before {
            con.ask(calls.peek().unwrap());
        }
        let mut answered = String::new();
        for call in calls {
            answered += &format!("{PROMPT}{call}\n");
            answered += &match con.try_ask(call) {
                Ok(reply) => shown(&reply, 0),
                Err(e) => format!("(error) {}\n", error_text(&e)),
            };
            count += 1;
        }
        let written = example.text.join("\n") + "\n";
        if without_random_ids(&answered) != without_random_ids(&written) {
            wrong += &format!("{}: it answers\n{answered}\n", example.place);
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
    assert!(count > 30, "{count} calls");
}

#[test]
fn every_command_has_a_page_with_its_sections() {
    let server = Server::start();
    let names = cmd!(server.connection(), "COMMAND", "LIST", "FILTERBY", "PATTERN", "rl.*");
    let Value::Array(names) = &names else { panic!("{names:?}") };
    let pages = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/commands");
    let index = std::fs::read_to_string(pages.join("README.md")).unwrap();
    for name in names.iter().map(plain) {
        let page = std::fs::read_to_string(pages.join(format!("{name}.md"))).unwrap();
        assert!(page.starts_with(&format!("# {}\n", name.to_uppercase())), "{name}");
        assert!(index.contains(&format!("({name}.md)")), "{name} is missing in the index");
        for section in ["## Arguments", "## Reply", "## Errors", "## Complexity", "## See also"] {
            assert!(page.contains(section), "{name}: {section}");
        }
        let example = page.contains("## Example") && page.contains(PROMPT);
        assert!(example || name == "rl.e", "{name}: no example");
    }
}
