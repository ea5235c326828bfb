//! What RL.TAKE, RL.PEEK, RL.REFUND and their many-key forms share: check all, then charge all or
//! none, and one reply. All lists are of at most [`MAX_LAYERS`] elements, so they are on the stack.

use crate::args::{Cursor, words};
use crate::calendar::ServerCalendar;
use crate::error::Error;
use crate::layers::{Call, Form, Layers, read_layers};
use crate::server::{Arg, Args, Ctx, KeyPositions, KeyView, Kind, now_us};
use crate::stats::STATS;
use crate::store::{Store, announce};
use arrayvec::ArrayVec;
use redis_limiter_core::law::Outcome;
use redis_limiter_core::layers::{Changes, Plan};
use redis_limiter_core::limit::{Layer, MAX_LAYERS, Params};
use redis_limiter_core::state::View;
use redis_limiter_core::subject::{Change, Subject};
use redis_limiter_core::verdict::Verdict;
use std::ffi::CStr;
use std::ops::Range;

type Stores<'k> = ArrayVec<Store<'k>, MAX_LAYERS>;

/// A key and where its layers are among those of the call.
struct Group<'a> {
    name: Arg<'a>,
    layers: Range<usize>,
}

/// A call: its options, its keys with their layers, and which of the family it is. Filled and used in
/// place: with room for all layers it is too large to be moved about.
struct LayeredCall<'a> {
    call: Call,
    form: Form,
    groups: ArrayVec<Group<'a>, MAX_LAYERS>,
    layers: Layers<'a>,
}

/// Runs `key [options] layer [layer …]`.
pub fn run_one_key(
    ctx: &mut Ctx<'_>,
    args: &Args<'_>,
    form: Form,
    event: &'static CStr,
) -> Result<(), Error> {
    let name = args.key()?;
    let mut cursor = Cursor::new(*args, 2);
    let mut call = LayeredCall::new(Call::read(&mut cursor, form)?, form);
    call.read_layers(&mut cursor, name)?;
    cursor.finish(Error::LAYER)?;
    call.run(ctx, event)
}

/// Runs `[options] KEY key layer [layer …] [KEY key layer …] …`.
pub fn run_many_keys(
    ctx: &mut Ctx<'_>,
    args: &Args<'_>,
    form: Form,
    event: &'static CStr,
) -> Result<(), Error> {
    let mut cursor = Cursor::new(*args, 1);
    let mut call = LayeredCall::new(Call::read(&mut cursor, form)?, form);
    while cursor.keyword(words::KEY) {
        let name = args.get(cursor.index()).ok_or(Error::KEY)?;
        cursor.take();
        call.read_layers(&mut cursor, name)?;
    }
    cursor.finish(if call.groups.is_empty() { Error::KEY } else { Error::LAYER })?;
    if call.groups.is_empty() {
        return Err(Error::KEY);
    }
    call.run(ctx, event)
}

impl<'a> LayeredCall<'a> {
    #[inline(always)]
    fn new(call: Call, form: Form) -> Self {
        Self { call, form, groups: ArrayVec::new(), layers: ArrayVec::new() }
    }

    fn read_layers(&mut self, cursor: &mut Cursor<'a>, name: Arg<'a>) -> Result<(), Error> {
        let first = self.layers.len();
        read_layers(cursor, self.form, &self.call, &mut self.layers)?;
        self.groups.push(Group { name, layers: first..self.layers.len() });
        Ok(())
    }

    /// Decides, stores, replicates, replies.
    fn run(&self, ctx: &mut Ctx<'_>, event: &'static CStr) -> Result<(), Error> {
        let mut answer = Answer::default();
        match self.form {
            Form::Peek => self.peek(ctx, &mut answer)?,
            Form::Take => self.take(ctx, event, &mut answer)?,
            Form::Refund => self.refund(ctx, event, &mut answer)?,
        }
        answer.reply(ctx, self.call.detail);
        Ok(())
    }

    fn peek(&self, ctx: &Ctx<'_>, answer: &mut Answer) -> Result<(), Error> {
        let now_us = now_us();
        for (index, group) in self.groups.iter().enumerate() {
            if self.groups[..index].iter().any(|other| other.name.bytes() == group.name.bytes()) {
                return Err(Error::SAME_KEY);
            }
        }
        let open = |group: &Group<'a>| KeyView::<Subject>::open(ctx, group.name);
        let keys: ArrayVec<_, MAX_LAYERS> = self.groups.iter().map(open).collect();
        let mut plan = Plan::default();
        for (key, group) in keys.iter().zip(&self.groups) {
            let subject = match key.kind() {
                Kind::Foreign => return Err(Error::WRONG_TYPE),
                Kind::Empty => None,
                Kind::Ours(subject) => Some(subject),
            };
            plan.ask(subject, self.layers_of(group), now_us, &mut ServerCalendar)?;
        }
        self.decide(&mut plan, answer);
        answer.verdicts.extend(plan.verdicts(&self.layers, answer.shown.clone()));
        Ok(())
    }

    fn take(
        &self,
        ctx: &mut Ctx<'_>,
        event: &'static CStr,
        answer: &mut Answer,
    ) -> Result<(), Error> {
        let now_us = now_us();
        let mut stores = self.open(ctx, now_us)?;
        let mut plan = Plan::default();
        self.ask_all(&mut plan, &stores, now_us)?;
        let admitted = plan.admits();
        let mut changes = KeyChanges::default();
        for (group, store) in self.groups.iter().zip(&stores) {
            let (first, layers) = (group.layers.start, self.layers_of(group));
            if admitted {
                plan.charge(first, layers, &mut changes.all);
            } else {
                plan.settle(first, layers, &mut changes.all);
            }
            let of_key = changes.end_key();
            if admitted && !of_key.is_empty() {
                store.check_room(of_key, plan.grows(first, layers))?;
            }
        }
        self.decide(&mut plan, answer);
        let shown = plan.outcomes().skip(answer.shown.start).take(answer.shown.len());
        let outcomes: ArrayVec<_, MAX_LAYERS> = shown.collect();
        drop(plan);
        changes.apply(&mut stores)?;
        self.look_again(&stores, &outcomes, now_us, answer);
        drop(stores);
        self.announce(ctx, &changes, event);
        let counter = if admitted { &STATS.layered.admitted } else { &STATS.layered.refused };
        counter.count();
        Ok(())
    }

    fn refund(
        &self,
        ctx: &mut Ctx<'_>,
        event: &'static CStr,
        answer: &mut Answer,
    ) -> Result<(), Error> {
        let now_us = now_us();
        let mut stores = self.open(ctx, now_us)?;
        let mut plan = Plan::default();
        self.ask_all(&mut plan, &stores, now_us)?;
        let mut changes = KeyChanges::default();
        for group in &self.groups {
            let age_us = self.call.age_us;
            plan.refund(group.layers.start, self.layers_of(group), age_us, &mut changes.all);
            changes.end_key();
        }
        drop(plan);
        changes.apply(&mut stores)?;
        let mut plan = Plan::default();
        self.ask_all(&mut plan, &stores, now_us)?;
        self.decide(&mut plan, answer);
        answer.verdicts.extend(plan.verdicts(&self.layers, answer.shown.clone()));
        drop(plan);
        drop(stores);
        self.announce(ctx, &changes, event);
        Ok(())
    }

    fn open<'k>(&self, ctx: &'k mut Ctx<'_>, now_us: u64) -> Result<Stores<'k>, Error>
    where
        'a: 'k,
    {
        Store::open_all(ctx, self.groups.iter().map(|group| group.name), now_us)?.collect()
    }

    fn layers_of(&self, group: &Group<'a>) -> &[Layer<'a>] {
        &self.layers[group.layers.clone()]
    }

    fn ask_all<'s>(
        &self,
        plan: &mut Plan<'s>,
        stores: &'s [Store<'_>],
        now_us: u64,
    ) -> Result<(), Error> {
        for (group, store) in self.groups.iter().zip(stores) {
            plan.ask(store.subject(), self.layers_of(group), now_us, &mut ServerCalendar)?;
        }
        Ok(())
    }

    /// Which layer decides and which are shown; a refusal is made to hold as long as it promises.
    fn decide(&self, plan: &mut Plan, answer: &mut Answer) {
        // Only leases can end before they are needed.
        let is_lease = |layer: &Layer| matches!(layer.params, Params::Lease { .. });
        if self.layers.iter().any(is_lease) {
            plan.look_ahead(&self.layers);
        }
        answer.deciding = plan.deciding(&self.layers);
        answer.shown = match self.call.detail {
            true => 0..self.layers.len(),
            false => answer.deciding..answer.deciding + 1,
        };
    }

    /// The integers of the layers shown, as things stand after the call.
    fn look_again(&self, stores: &[Store], outcomes: &[Outcome], now_us: u64, answer: &mut Answer) {
        for (group, store) in self.groups.iter().zip(stores) {
            let Range { start, end } = group.layers;
            for index in start.max(answer.shown.start)..end.min(answer.shown.end) {
                let (layer, guess) = (&self.layers[index], index - start);
                let view = View::new(store.subject(), guess, layer, now_us, &mut ServerCalendar);
                let outcome = outcomes[index - answer.shown.start];
                answer.verdicts.push(view.verdict(layer, outcome));
            }
        }
    }

    fn announce(&self, ctx: &mut Ctx<'_>, changes: &KeyChanges, event: &'static CStr) {
        for (index, group) in self.groups.iter().enumerate() {
            if !changes.of_key(index).is_empty() {
                announce(ctx, group.name, event, changes.gone[index]);
            }
        }
    }
}

/// What a call changes, key after key.
#[derive(Default)]
struct KeyChanges<'a> {
    all: Changes<'a>,
    /// Where those of each key end.
    ends: ArrayVec<usize, MAX_LAYERS>,
    /// Whether the key is gone then.
    gone: ArrayVec<bool, MAX_LAYERS>,
}

impl<'a> KeyChanges<'a> {
    /// All that was added since the last end belongs to one key.
    fn end_key(&mut self) -> &[Change<'a>] {
        self.ends.push(self.all.len());
        self.of_key(self.ends.len() - 1)
    }

    fn of_key(&self, index: usize) -> &[Change<'a>] {
        let start = if index == 0 { 0 } else { self.ends[index - 1] };
        &self.all[start..self.ends[index]]
    }

    fn apply(&mut self, stores: &mut [Store]) -> Result<(), Error> {
        for (index, store) in stores.iter_mut().enumerate() {
            let changes = self.of_key(index);
            let gone = !changes.is_empty() && store.apply(changes)?;
            self.gone.push(gone);
        }
        Ok(())
    }
}

/// What is answered, of all layers of all keys from left to right.
#[derive(Default)]
struct Answer {
    /// The index of the deciding layer.
    deciding: usize,
    /// Whose integers are shown: all with DETAIL, else only those of the deciding layer.
    shown: Range<usize>,
    /// Of the layers shown.
    verdicts: ArrayVec<Verdict, MAX_LAYERS>,
}

impl Answer {
    /// The five integers of the deciding layer, its index, and with DETAIL those of every layer.
    fn reply(&self, ctx: &Ctx<'_>, detail: bool) {
        ctx.reply_array_len(if detail { 7 } else { 6 });
        reply_each(ctx, &self.verdicts[self.deciding - self.shown.start]);
        ctx.reply_int(i64::try_from(self.deciding).unwrap_or(i64::MAX));
        if detail {
            ctx.reply_array_len(self.verdicts.len());
            for verdict in &self.verdicts {
                ctx.reply_array_len(5);
                reply_each(ctx, verdict);
            }
        }
    }
}

fn reply_each(ctx: &Ctx<'_>, verdict: &Verdict) {
    for value in verdict.integers() {
        ctx.reply_int(value);
    }
}

/// Finds the keys of a many-key call, which may be malformed: whatever follows a KEY where a layer
/// or an option could stand.
pub fn find_keys(args: &Args<'_>, found: &mut KeyPositions<'_>) {
    let mut at = 1;
    while let Some(word) = args.get(at) {
        let word = word.bytes();
        if word.eq_ignore_ascii_case(b"KEY") {
            found.add(at + 1);
            at += 2;
        } else {
            // The value of an option may be the word KEY itself.
            let valued = [&b"AS"[..], b"COST", b"LEAVE", b"TZ", b"ANCHOR", b"ID", b"AGE"];
            at += if valued.iter().any(|known| word.eq_ignore_ascii_case(known)) { 2 } else { 1 };
        }
    }
}
