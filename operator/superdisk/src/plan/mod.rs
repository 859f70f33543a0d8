//! Decides what to do next: [`Spec`] and [`Inventory`] in, [`Decision`] out. Pure.
//!
//! A plan is only as long as one look allows: what it leaves behind is looked at before the next. So a run that
//! was killed anywhere is only another state to plan from, and a plan for a super-disk that is as it shall be
//! is empty.
//!
//! ```text
//!   durable leg   blank ─▶ make the stripe ─▶ make the mirror ─▶ header "creating" ─▶ format ─┐
//!                 a copy of another volume ─▶ new UUID, new name, new header ─▶┐              │
//!                 ours ────────────────────▶ start the mirror from it alone ◀──┘              │
//!                                                 │                                           │
//!                                                 ▼                                           │
//!                    header "in use", next generation ─▶ settings ─▶ mount ◀──────────────────┘
//!                                                                      │
//!   fast leg      same lineage ─▶ mark what its bitmap says ─▶ re-add ◀┤
//!                 anything else ─▶ forget, add: a full copy ◀──────────┘
//! ```
//!
//! The order is what makes it safe. Refusals come first, and nothing is done beside them. The mirror is never
//! started with both legs, so that md copies in one direction only; started from one, md has forgotten what was
//! under way at a power cut, and is told by the other leg's bitmap before that leg comes back. The durable leg is served before the fast
//! leg is touched, so that trouble with the fast leg is never an outage.

mod durable;
mod fast;
mod local;
mod lost_header;
mod mirror;
mod ours;
mod questions;
mod refusals;
mod restored;
mod twins;

pub(crate) use local::is_local;
pub use lost_header::header_by_fast_leg;
pub(crate) use restored::beyond;

use crate::{
    action::{Action, Decision, WaitingOn},
    inventory::Inventory,
    model::{Code, Refusal},
    preflight,
    proof::Blank,
    size,
    spec::Spec,
};
use durable::Durable;

/// What to do next.
#[must_use]
pub fn plan(spec: &Spec, inventory: &Inventory) -> Decision {
    decide(spec, inventory).unwrap_or_else(Decision::Refused)
}

fn decide(spec: &Spec, inventory: &Inventory) -> Result<Decision, Refusal> {
    preflight::kernel(&inventory.kernel).map_or(Ok(()), Err)?;
    let durable = durable::classify(spec, inventory)?;
    match (questions::without_durable(spec, inventory), &durable) {
        (None, _) => {}
        // Its fast leg tells whether it went on alone; if not, it is in the way only.
        (Some((lone, false)), Durable::Ours(ours) | Durable::Copy(ours)) => {
            questions::is_not_ahead(spec, inventory, ours)?;
            return Ok(mirror::stop(lone, "it runs without the durable leg"));
        }
        (Some((lone, _)), _) => {
            return Err(refusals::mirror_without_durable(
                lone,
                &inventory.durable.path,
            ));
        }
    }
    match durable {
        Durable::New(blank) => first_boot(spec, inventory, blank),
        Durable::Copy(copy) => {
            let steps = durable::adopt_copy(spec, inventory, &copy)?;
            // What would refuse it once it is this volume's refuses it while it is still the other's.
            mirror::may_begin(spec, inventory)?;
            Ok(Decision::Do(steps))
        }
        Durable::Ours(ours) => mirror::serve(spec, inventory, &ours),
    }
}

/// What makes a copy of another volume this one, where the durable leg is one.
pub(crate) fn adoption(spec: &Spec, inventory: &Inventory) -> Result<Option<Vec<Action>>, Refusal> {
    match durable::classify(spec, inventory)? {
        Durable::Copy(copy) => durable::adopt_copy(spec, inventory, &copy).map(Some),
        Durable::New(_) | Durable::Ours(_) => Ok(None),
    }
}

/// Whether nothing else writes to the durable leg, as its header tells; with what has to be done first to tell.
/// Whatever else is wrong with it is not asked here.
pub(crate) fn is_alone(spec: &Spec, inventory: &Inventory) -> Result<Option<Action>, Refusal> {
    match durable::classify(spec, inventory) {
        // Nothing but a person can know, and `assemble` has asked for one.
        Ok(Durable::Ours(ours) | Durable::Copy(ours)) if ours.header.is_none() => Ok(None),
        Ok(Durable::Ours(ours) | Durable::Copy(ours)) => questions::is_alone(inventory, &ours),
        Ok(Durable::New(_)) | Err(_) => Ok(None),
    }
}

/// A mirror is never larger than its fast leg can be: so the stripe is made first.
fn first_boot(spec: &Spec, inventory: &Inventory, blank: Blank) -> Result<Decision, Refusal> {
    let stripe = match fast::prepare(spec, inventory)? {
        fast::Stripe::Idle(stripe) => stripe,
        fast::Stripe::Steps(steps) => return Ok(Decision::Do(steps)),
    };
    let kib = size::mirror_kib(stripe.bytes, blank.device().bytes);
    if kib < size::least_kib(spec.filesystem) {
        return Err(refusals::too_small(&blank.device().path, stripe.bytes));
    }
    Ok(Decision::Do(vec![Action::CreateMirror {
        durable: blank,
        array: free_name(inventory),
        name: spec.volume.mirror_name(),
        kib,
    }]))
}

/// What a refusal about the fast leg means once the durable leg can serve.
fn without_fast_leg(refusal: Refusal) -> Decision {
    Decision::WaitingOn(WaitingOn::FastLeg(refusal))
}

/// Whether a refusal may be put up with by serving from the durable leg alone.
fn is_optional(spec: &Spec, refusal: &Refusal) -> bool {
    let fast_leg_is_away = matches!(refusal.code, Code::SsdMissing | Code::SsdBusy);
    fast_leg_is_away && spec.policy.fast_leg_optional
}

/// First number of our arrays: udev and installers count down from 127 and up from 0.
const FIRST_NUMBER: u32 = 200;

/// A name that no array has. Numbers are nothing to tell arrays by.
pub(crate) fn free_name(inventory: &Inventory) -> String {
    let names = (FIRST_NUMBER..).map(|number| format!("md{number}"));
    let taken = |name: &String| inventory.arrays.iter().any(|array| array.name == *name);
    // Endless: there is always one.
    names
        .into_iter()
        .find(|name| !taken(name))
        .unwrap_or_default()
}
