//! `RL.INFO key`

use super::specs;
use crate::entry::Command;
use crate::error::Error;
use crate::server::{Access, Args, Ctx, KeySpec, KeyView, Kind, Spec, now_us};
use redis_limiter_core::info::{Entry, EntryUsage, entries};
use redis_limiter_core::limit::Which;
use redis_limiter_core::subject::Subject;

/// RL.INFO.
pub struct Info;

impl Command for Info {
    const SPEC: Spec = Spec {
        name: c"rl.info",
        flags: c"readonly fast",
        acl: c"read fast",
        keys: KeySpec::First(Access::Read),
        arity: 2,
        summary: c"Shows the limits that a key holds, and what is used of each",
        since: c"0.1.0",
        complexity: c"O(n) with the number of limits",
        tips: c"nondeterministic_output",
        args: &[specs::KEY],
    };

    fn run(ctx: &mut Ctx<'_>, args: &Args<'_>) -> Result<(), Error> {
        let name = args.get(1).ok_or(Error::LAYER)?;
        let key = KeyView::<Subject>::open(ctx, name);
        let entries: Vec<Entry> = match key.kind() {
            Kind::Foreign => return Err(Error::WRONG_TYPE),
            Kind::Empty => Vec::new(),
            Kind::Ours(subject) => entries(subject, now_us()).collect(),
        };
        if entries.is_empty() {
            ctx.reply_null();
        } else {
            ctx.reply_array_len(entries.len());
            entries.iter().for_each(|entry| reply(ctx, entry));
        }
        Ok(())
    }
}

fn reply(ctx: &Ctx<'_>, entry: &Entry) {
    let which = entry.identity.which;
    // Always kind, name and three numbers.
    let own_fields = match which {
        Which::Window { .. } => 2,
        Which::Quota(_) => 1,
        Which::Bucket | Which::Lease => 0,
    };
    ctx.reply_map_len(5 + own_fields);
    text(ctx, "kind", which.kind());
    match which {
        Which::Window { mode, length_ms } => {
            text(ctx, "mode", mode.name());
            number(ctx, "length_ms", length_ms);
        }
        Which::Quota(period) => text(ctx, "period", period.name()),
        Which::Bucket | Which::Lease => {}
    }
    ctx.reply_bulk(b"name");
    match entry.identity.name {
        Some(name) => ctx.reply_bulk(name),
        None => ctx.reply_null(),
    }
    match entry.usage {
        EntryUsage::Units { used, since_ms, until_ms } => {
            number(ctx, "used", used);
            number(ctx, "since_ms", since_ms);
            number(ctx, "until_ms", until_ms);
        }
        EntryUsage::Leases(leases) => {
            number(ctx, "holders", leases.holders);
            number(ctx, "slots", leases.slots);
            number(ctx, "next_end_ms", leases.next_end_ms);
        }
    }
}

fn text(ctx: &Ctx<'_>, name: &str, value: &str) {
    ctx.reply_bulk(name.as_bytes());
    ctx.reply_bulk(value.as_bytes());
}

fn number(ctx: &Ctx<'_>, name: &str, value: u64) {
    ctx.reply_bulk(name.as_bytes());
    ctx.reply_int(i64::try_from(value).unwrap_or(i64::MAX));
}
