//! What RL.TAKE, RL.PEEK, RL.REFUND and their many-key forms share: check all, then charge all or
//! none, and one reply.

use crate::args::Cursor;
use crate::calendar::ServerCalendar;
use crate::error::Error;
use crate::few::Few;
use crate::layers::{Call, Form, read_layers};
use crate::server::{Arg, Args, Ctx, KeyPositions, KeyView, Kind, now_us};
use crate::stats::STATS;
use crate::store::{Store, announce};
use redis_limiter_core::law::Outcome;
use redis_limiter_core::layers::{Plan, first_least, look_ahead};
use redis_limiter_core::limit::{Layer, MAX_LAYERS, Params};
use redis_limiter_core::state::View;
use redis_limiter_core::subject::{Change, Subject};
use redis_limiter_core::verdict::Verdict;
use std::ffi::CStr;
use std::ops::Range;

/// A key and its layers.
struct Group<'a> {
    name: Arg<'a>,
    layers: Vec<Layer<'a>>,
}

/// A call: its options, its keys, and which of the family it is.
pub struct LayeredCall<'a> {
    call: Call,
    form: Form,
    groups: Few<Group<'a>>,
}

impl<'a> LayeredCall<'a> {
    /// Reads `key [options] layer [layer …]`.
    pub fn read_one_key(args: &Args<'a>, form: Form) -> Result<Self, Error> {
        let name = args.key()?;
        let mut cursor = Cursor::new(*args, 2);
        let call = Call::read(&mut cursor, form)?;
        let layers = read_layers(&mut cursor, form, &call, MAX_LAYERS)?;
        cursor.finish(Error::LAYER)?;
        Ok(Self { call, form, groups: Few::One(Group { name, layers }) })
    }

    /// Reads `[options] KEY key layer [layer …] [KEY key layer …] …`.
    pub fn read_many_keys(args: &Args<'a>, form: Form) -> Result<Self, Error> {
        let mut cursor = Cursor::new(*args, 1);
        let call = Call::read(&mut cursor, form)?;
        let (mut groups, mut room): (Vec<Group>, _) = (Vec::new(), MAX_LAYERS);
        while cursor.keyword(b"KEY") {
            let name = args.get(cursor.index()).ok_or(Error::KEY)?;
            cursor.take();
            let layers = read_layers(&mut cursor, form, &call, room)?;
            room -= layers.len();
            groups.push(Group { name, layers });
        }
        cursor.finish(if groups.is_empty() { Error::KEY } else { Error::LAYER })?;
        if groups.is_empty() {
            return Err(Error::KEY);
        }
        Ok(Self { call, form, groups: groups.into_iter().collect() })
    }

    /// Decides, stores, replicates, replies.
    pub fn run(&self, ctx: &mut Ctx<'_>, event: &'static CStr) -> Result<(), Error> {
        let answer = match self.form {
            Form::Peek => self.peek(ctx)?,
            Form::Take => self.take(ctx, event)?,
            Form::Refund => self.refund(ctx, event)?,
        };
        answer.reply(ctx, self.call.detail);
        Ok(())
    }

    fn peek(&self, ctx: &Ctx<'_>) -> Result<Answer, Error> {
        let now_us = now_us();
        for (index, group) in self.groups.iter().enumerate() {
            if self.groups[..index].iter().any(|other| other.name.bytes() == group.name.bytes()) {
                return Err(Error::SAME_KEY);
            }
        }
        let open = |group: &Group<'a>| KeyView::<Subject>::open(ctx, group.name);
        let keys: Few<_> = self.groups.iter().map(open).collect();
        let subjects = keys.iter().map(|key| match key.kind() {
            Kind::Foreign => Err(Error::WRONG_TYPE),
            Kind::Empty => Ok(None),
            Kind::Ours(subject) => Ok(Some(subject)),
        });
        Ok(self.answer(&mut self.check_all(subjects, now_us)?))
    }

    fn take(&self, ctx: &mut Ctx<'_>, event: &'static CStr) -> Result<Answer, Error> {
        let now_us = now_us();
        let mut stores = self.open(ctx, now_us)?;
        let mut plans = self.check_all(subjects(&stores), now_us)?;
        let admitted = plans.iter().all(Plan::admits);
        let each = plans.iter().zip(&*self.groups).zip(&*stores);
        let changes = each.map(|((plan, group), store)| {
            if !admitted {
                return Ok(plan.settle(&group.layers));
            }
            let charges = plan.charge(&group.layers);
            if !charges.is_empty() {
                store.check_room(&charges, plan.grows(&group.layers))?;
            }
            Ok(charges)
        });
        let changes = changes.collect::<Result<Few<Vec<Change>>, Error>>()?;
        // The integers of an admitted call are those after it.
        let mut answer = if admitted { self.unanswered(&plans) } else { self.answer(&mut plans) };
        let outcomes: Few<Outcome> =
            answer.shown_of(plans.iter().flat_map(Plan::outcomes)).collect();
        drop(plans);
        let gone = self.apply(&mut stores, &changes)?;
        if admitted {
            answer.verdicts = self.verdicts_after(&stores, &answer, &outcomes, now_us);
        }
        drop(stores);
        self.announce(ctx, &changes, &gone, event);
        let counter = if admitted { &STATS.layered.admitted } else { &STATS.layered.refused };
        counter.count();
        Ok(answer)
    }

    fn refund(&self, ctx: &mut Ctx<'_>, event: &'static CStr) -> Result<Answer, Error> {
        let now_us = now_us();
        let mut stores = self.open(ctx, now_us)?;
        let plans = self.check_all(subjects(&stores), now_us)?;
        let changes: Few<Vec<Change>> = plans
            .iter()
            .zip(&*self.groups)
            .map(|(plan, group)| plan.refund(&group.layers, self.call.age_us))
            .collect();
        drop(plans);
        let gone = self.apply(&mut stores, &changes)?;
        let answer = self.answer(&mut self.check_all(subjects(&stores), now_us)?);
        drop(stores);
        self.announce(ctx, &changes, &gone, event);
        Ok(answer)
    }

    fn open<'k>(&self, ctx: &'k mut Ctx<'_>, now_us: u64) -> Result<Few<Store<'k>>, Error>
    where
        'a: 'k,
    {
        Store::open_all(ctx, self.groups.iter().map(|group| group.name), now_us)
    }

    fn check_all<'s>(
        &self,
        subjects: impl Iterator<Item = Result<Option<&'s Subject>, Error>>,
        now_us: u64,
    ) -> Result<Few<Plan<'s>>, Error> {
        let each = subjects.zip(&*self.groups);
        each.map(|(subject, group)| {
            Ok(Plan::check(subject?, &group.layers, now_us, &mut ServerCalendar)?)
        })
        .collect()
    }

    /// What the layers say as things stand, and whether a refusal holds as long as they promise.
    fn answer(&self, plans: &mut [Plan]) -> Answer {
        let mut layers = self.groups.iter().flat_map(|group| &group.layers);
        // Only leases can end before they are needed.
        if layers.any(|layer| matches!(layer.params, Params::Lease { .. })) {
            let layers: Vec<&[Layer]> = self.groups.iter().map(|group| &group.layers[..]).collect();
            look_ahead(plans, &layers);
        }
        let plans = &*plans;
        let mut answer = self.unanswered(plans);
        let each = plans.iter().zip(&*self.groups).flat_map(|(plan, group)| {
            group.layers.iter().enumerate().map(move |(index, layer)| (plan, index, layer))
        });
        let shown = answer.shown_of(each);
        answer.verdicts =
            shown.filter_map(|(plan, index, layer)| plan.verdict(index, layer)).collect();
        answer
    }

    /// Which layer decides and which are shown, without their integers yet.
    fn unanswered(&self, plans: &[Plan]) -> Answer {
        let admitted = plans.iter().all(Plan::admits);
        let each = plans.iter().zip(&*self.groups);
        let deciding =
            first_least(each.flat_map(|(plan, group)| plan.leeways(&group.layers, admitted)));
        let shown = if self.call.detail { 0..MAX_LAYERS } else { deciding..deciding + 1 };
        Answer { deciding, shown, verdicts: Few::Many(Vec::new()) }
    }

    /// Answers which keys are gone then.
    fn apply(&self, stores: &mut [Store], changes: &[Vec<Change>]) -> Result<Few<bool>, Error> {
        let each = stores.iter_mut().zip(changes);
        each.map(|(store, changes)| Ok(!changes.is_empty() && store.apply(changes)?)).collect()
    }

    fn announce(
        &self,
        ctx: &mut Ctx<'_>,
        changes: &[Vec<Change>],
        gone: &[bool],
        event: &'static CStr,
    ) {
        let each = self.groups.iter().zip(changes).zip(gone);
        for ((group, _), &gone) in each.filter(|((_, changes), _)| !changes.is_empty()) {
            announce(ctx, group.name, event, gone);
        }
    }

    fn verdicts_after(
        &self,
        stores: &[Store],
        answer: &Answer,
        outcomes: &[Outcome],
        now_us: u64,
    ) -> Few<Verdict> {
        let each = stores
            .iter()
            .zip(&*self.groups)
            .flat_map(|(store, group)| group.layers.iter().map(|layer| (store.subject(), layer)));
        let shown = answer.shown_of(each).zip(outcomes);
        shown
            .map(|((subject, layer), outcome)| {
                View::new(subject, layer, now_us, &mut ServerCalendar).verdict(layer, *outcome)
            })
            .collect()
    }
}

fn subjects<'s>(
    stores: &'s [Store<'_>],
) -> impl Iterator<Item = Result<Option<&'s Subject>, Error>> {
    stores.iter().map(|store| Ok(store.subject()))
}

/// What is answered, of all layers of all keys from left to right.
struct Answer {
    /// The index of the deciding layer.
    deciding: usize,
    /// Whose integers are shown: all with DETAIL, else only those of the deciding layer.
    shown: Range<usize>,
    /// Of the layers shown.
    verdicts: Few<Verdict>,
}

impl Answer {
    /// What belongs to the layers that are shown.
    fn shown_of<T>(&self, each: impl Iterator<Item = T>) -> impl Iterator<Item = T> {
        each.skip(self.shown.start).take(self.shown.len())
    }

    /// The five integers of the deciding layer, its index, and with DETAIL those of every layer.
    fn reply(&self, ctx: &Ctx<'_>, detail: bool) {
        ctx.reply_array_len(if detail { 7 } else { 6 });
        reply_each(ctx, &self.verdicts[self.deciding - self.shown.start]);
        ctx.reply_int(i64::try_from(self.deciding).unwrap_or(i64::MAX));
        if detail {
            ctx.reply_array_len(self.verdicts.len());
            for verdict in self.verdicts.iter() {
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
