//! How well the dispatcher holds each element of a plan on a stock device, which it can only give launches.
//!
//! The mediator's devices place blocks as stock hardware does and say where, if at all, when these have ended, to those
//! who trace blocks. So the dispatcher takes a row's caps and a tenant's limits as totals over the device, and one SM
//! may hold more than its group's cap. It goes by arrival, and by strict head of line, only where every group says so.
//! It switches no block out, but hands nothing more over until slices have ended, and it does not see issue weights.
//! Blocks of a worse rank that were handed over already start between two rounds of a better one, because the hardware
//! runs what it was given in order of arrival. Its `Blocks` events say `GroupId::UNKNOWN`, and `Sample` never comes
//! from it. Plan mode of the SM model obeys all of this by SM.

use gridmux_policy::contract::{Element, Enforcement};

/// Returns how well the dispatcher samples kernels.
#[must_use]
pub fn samples() -> Enforcement {
    Enforcement::No("a stock device counts nothing of blocks while they run")
}

/// Returns how well the dispatcher holds an element of a plan.
#[must_use]
pub fn enforces(element: Element) -> Enforcement {
    match element {
        Element::Cap => Enforcement::Approximate(
            "caps are summed over groups: the hardware places blocks; where blocks are short, as many more are handed \
             over as are on their way to their start, up to eight times the cap, and where the plan lends room two \
             slices of about 0.1 ms whatever the cap; a kernel that cannot be cut goes whole, and before a block of a \
             row has ended it gets one small window",
        ),
        Element::DeviceLimit => Enforcement::Approximate("as for caps"),
        Element::GroupLimit => {
            Enforcement::Approximate("group limits are summed to a limit on the device")
        }
        Element::Order => Enforcement::Approximate(
            "launches are issued in the plan's order, each above what it outranks and what waits on the device, as far \
             as that has levels; on one level what was handed over already starts first",
        ),
        Element::HeadOfLine => Enforcement::Approximate(
            "only where every group says so, and for launches, not for copies",
        ),
        Element::Preemption => Enforcement::Approximate(
            "slices and windows end as a whole, whatever way of leaving the plan asks for",
        ),
        Element::Budget => Enforcement::Exact,
        Element::Weight => Enforcement::No("a stock device does not share issue slots"),
        Element::Surplus => Enforcement::Approximate(
            "on a device with at least two levels of queues: what is lent runs below, in windows of up to 190 us, and \
             ends with its blocks; the last in order fills, others only while nobody within his own waits; a device with \
             one level keeps room empty",
        ),
        Element::Stop => Enforcement::Approximate(
            "ahead: windows of about 190 us, two on the device; checked: at most four slices, together no more than \
             the device holds",
        ),
    }
}
