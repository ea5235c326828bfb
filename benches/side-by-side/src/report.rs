//! What is printed: a table for people, the bars, and JSON for machines.

use crate::cases::{self, Spread};
use crate::measure::Cell;
use crate::scale::Row;
use crate::server::Durability;
use std::fmt::Write as _;

/// All cells as Markdown tables, one a group and condition.
pub fn tables(cells: &[Cell]) -> String {
    let mut text = String::new();
    let mut seen: Vec<(&str, Spread, Durability)> = Vec::new();
    for cell in cells {
        let table = (cell.group, cell.spread, cell.durability);
        if seen.contains(&table) {
            continue;
        }
        seen.push(table);
        let of_table: Vec<&Cell> = cells
            .iter()
            .filter(|other| (other.group, other.spread, other.durability) == table)
            .collect();
        let _ = writeln!(
            text,
            "\n### {}, {}, {}\n",
            cell.group,
            cell.spread.name(),
            cell.durability.name()
        );
        text += &one_table(&of_table);
    }
    text
}

fn one_table(cells: &[&Cell]) -> String {
    let mut depths: Vec<usize> = cells.iter().map(|cell| cell.depth).collect();
    depths.sort_unstable();
    depths.dedup();
    let deepest = depths.last().copied().unwrap_or(0);
    let mut text = String::from("| call |");
    for depth in &depths {
        let _ = write!(text, " k/s, P={depth} |");
    }
    text += " of SET | µs in the command | µs of the server |\n| --- |";
    text += &" ---: |".repeat(depths.len() + 3);
    text += "\n";
    let set = cells.iter().find(|cell| cell.case == cases::SET && cell.depth == deepest);
    for cell in cells.iter().filter(|cell| cell.depth == deepest) {
        let _ = write!(text, "| {} |", cell.case);
        for depth in &depths {
            let at = cells.iter().find(|other| other.case == cell.case && other.depth == *depth);
            let _ = write!(text, " {:.0} |", at.map_or(f64::NAN, |at| at.kcalls));
        }
        let of_set = set.map_or(f64::NAN, |set| cell.kcalls / set.kcalls);
        let _ = writeln!(text, " {of_set:.2} | {:.2} | {:.2} |", cell.usec, cell.cpu_ns / 1000.0);
    }
    text
}

/// How one figure relates to its bar.
pub struct Bar {
    pub what: String,
    pub value: f64,
    pub bar: f64,
    pub stretch: Option<f64>,
    /// Whether less is better.
    pub below: bool,
}

impl Bar {
    /// Whether the bar is met.
    pub fn is_met(&self) -> bool {
        self.reaches(self.bar)
    }

    fn reaches(&self, aim: f64) -> bool {
        if self.below { self.value <= aim } else { self.value >= aim }
    }

    fn line(&self) -> String {
        let sign = if self.below { '≤' } else { '≥' };
        let verdict = match (self.is_met(), self.stretch) {
            (false, _) => "**missed**",
            (true, Some(stretch)) if self.reaches(stretch) => "met, stretch too",
            (true, _) => "met",
        };
        let stretch = self.stretch.map_or(String::new(), |stretch| format!("{sign} {stretch:.2}"));
        let (what, value, bar) = (&self.what, self.value, self.bar);
        format!("| {what} | {value:.2} | {sign} {bar:.2} | {stretch} | {verdict} |")
    }
}

/// A table of bars.
pub fn bar_table(bars: &[Bar]) -> String {
    let mut text = String::from(
        "| ratio | measured | bar | stretch | |\n| --- | ---: | ---: | ---: | --- |\n",
    );
    for bar in bars {
        text += &bar.line();
        text.push('\n');
    }
    text
}

/// Every bar that the cells allow to compute. Throughput at the deepest pipeline, or time in the
/// command.
pub fn bars(cells: &[Cell]) -> Vec<Bar> {
    let mut bars = Vec::new();
    for spread in [Spread::Hot, Spread::Random] {
        let find = |durability, case, beside: Option<&Cell>| {
            let fits = move |cell: &&Cell| {
                (cell.spread, cell.durability, cell.case) == (spread, durability, case)
                    // The references are measured in every group.
                    && beside.is_none_or(|other| other.group == cell.group)
            };
            cells.iter().filter(fits).max_by_key(|cell| cell.depth)
        };
        let mut add = |durability: Durability, ours, theirs, usec: bool, bar, stretch| {
            let a = find(durability, ours, None);
            if let (Some(a), Some(b)) = (a, find(durability, theirs, a)) {
                let (unit, value) =
                    if usec { ("µs", a.usec / b.usec) } else { ("calls/s", a.kcalls / b.kcalls) };
                let (spread, durability) = (spread.name(), durability.name());
                let what = format!("{unit}: {ours} ÷ {theirs} ({spread}, {durability})");
                bars.push(Bar { what, value, bar, stretch, below: usec });
            }
        };
        let hot = spread == Spread::Hot;
        add(Durability::None, cases::REFUSED, cases::BARE, false, 0.85, Some(0.95));
        add(Durability::None, cases::REFUSED, cases::BARE_SAME, false, 0.85, Some(0.95));
        add(Durability::None, cases::ADMITTED, cases::SET, false, 0.65, Some(0.85));
        add(Durability::None, cases::REFUSED, cases::SET, false, 0.90, None);
        let aof_bar = if hot { 0.90 } else { 0.80 };
        add(Durability::Aof, cases::ADMITTED, cases::SET, false, aof_bar, Some(1.0));
        add(Durability::Aof, cases::REFUSED, cases::SET, false, 1.3, None);
        add(Durability::None, cases::ADMITTED, cases::PEER_ADMITTED, true, 0.50, Some(0.35));
        add(Durability::None, cases::REFUSED, cases::PEER_REFUSED, true, 0.65, Some(0.35));
        add(Durability::None, cases::ADMITTED, cases::LUA_GCRA, false, 5.0, Some(7.0));
        add(Durability::None, cases::TAKE_FOUR, cases::FOUR_CALLS, true, 0.45, Some(0.35));
        add(Durability::None, cases::TAKE_FOUR_DETAIL, cases::FOUR_CALLS, true, 0.75, Some(0.35));
    }
    bars
}

/// The growth with keys.
pub fn key_table(rows: &[Row]) -> String {
    let mut text = String::from(
        "| keys | number | µs in the command | µs of the server | bytes a key | RDB bytes a key | \
         save s | load s |\n| --- |",
    );
    text += &" ---: |".repeat(7);
    text.push('\n');
    for row in rows {
        let Some(s) = row.storage else { continue };
        let _ = writeln!(
            text,
            "| {} | {} | {:.2} | {:.2} | {:.1} | {:.1} | {:.2} | {:.2} |",
            row.what,
            row.size,
            row.usec,
            row.cpu_ns / 1000.0,
            s.bytes_per_key,
            s.rdb_bytes_per_key,
            s.save_s,
            s.load_s
        );
    }
    text
}

/// The growth with entries and leases.
pub fn size_table(rows: &[Row]) -> String {
    let mut text =
        String::from("| call | entries or leases | µs in the command |\n| --- | ---: | ---: |\n");
    for row in rows.iter().filter(|row| row.storage.is_none()) {
        let _ = writeln!(text, "| {} | {} | {:.2} |", row.what, row.size, row.usec);
    }
    text
}

/// The bars of memory and of growth.
pub fn scale_bars(rows: &[Row]) -> Vec<Bar> {
    let mut bars = Vec::new();
    let keys: Vec<&Row> = rows.iter().filter(|row| row.storage.is_some()).collect();
    let bytes = |row: &Row| row.storage.map_or(f64::NAN, |storage| storage.bytes_per_key);
    let largest = keys.iter().map(|row| row.size).max().unwrap_or(0);
    let smallest = keys.iter().map(|row| row.size).min().unwrap_or(0);
    let find = |what: &str, size| keys.iter().find(|row| row.what == what && row.size == size);
    if let (Some(ours), Some(set)) = (find("RL.BUCKET", largest), find("SET … PX", largest)) {
        bars.push(Bar {
            what: format!("bytes a key: RL.BUCKET − SET ({largest} keys)"),
            value: bytes(ours) - bytes(set),
            bar: 24.0,
            stretch: Some(8.0),
            below: true,
        });
    }
    if let (Some(many), Some(few)) = (find("RL.BUCKET", largest), find("RL.BUCKET", smallest)) {
        bars.push(Bar {
            what: format!("µs: RL.BUCKET at {largest} keys ÷ at {smallest}"),
            value: many.usec / few.usec,
            bar: 1.5,
            stretch: None,
            below: true,
        });
    }
    bars
}
