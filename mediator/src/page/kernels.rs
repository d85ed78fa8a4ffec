//! The kernels of tenants, as a page holds them: what is known of each row of the plan.
//!
//! Rules: there are at most [`KERNELS`], each with texts of at most [`TEXT_BYTES`], so that the page has room for all
//! of them; they are those of one reading, whose time they have with them.

use super::plan::PlanSnapshot;
use super::snapshot::plain;
use crate::dispatch::reading::RowReading;
use gridmux_ptx::Kernel;
use gridmux_ptx::forms::{Form, Shape};
use serde::{Deserialize, Serialize};

/// Most rows of a reading.
pub const KERNELS: usize = 1024;
/// Most bytes of a kernel's name, and of why it cannot be cut.
const TEXT_BYTES: usize = 200;
/// Bytes of a copy for each row: two texts, the tenant's name, the names of forms, and numbers.
pub(super) const KERNEL_BYTES: usize = 2 * TEXT_BYTES + 32 + 64 + 192;

/// A reading of all rows.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct KernelsSnapshot {
    /// When it was taken, in nanoseconds of the machine's monotonic clock; 0 before any was.
    pub at_ns: u64,
    /// Time that the thread that submits takes for a piece, in nanoseconds of the device's clock; 0 where pieces do not
    /// wait for each other.
    pub submission_ns: u64,
    /// How long slices of short blocks are to last, in nanoseconds of the device's clock.
    pub slice_ns: u64,
    /// There are more rows than a reading holds.
    pub has_more: bool,
    /// The rows.
    pub kernels: Vec<KernelSnapshot>,
    /// The plan in force when the reading came to its end.
    pub plan: PlanSnapshot,
}

/// A reading of one row.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct KernelSnapshot {
    /// Name of its tenant.
    pub tenant: String,
    /// What is known of the kernel's text; none of a spill row, and where that is forgotten.
    pub kernel: Option<KernelFacts>,
    /// Mean residence of a block by the kernel's profile, in nanoseconds.
    pub profile_ns: Option<u64>,
    /// Blocks that stand behind the profile.
    pub profile_blocks: u32,
    /// Blocks of it that an empty SM holds.
    pub fits: u16,
    /// What the dispatcher says.
    pub row: RowReading,
}

/// What is known of a kernel's text.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct KernelFacts {
    /// Its name in its module, cut where it is long.
    pub name: String,
    /// The forms by which it can be launched.
    pub entries: Vec<Form>,
    /// Why it cannot be cut into slices, if so.
    pub uncut: Option<String>,
}

impl KernelFacts {
    /// Takes what a description says.
    #[must_use]
    pub fn of(kernel: &Kernel) -> Self {
        Self {
            name: short(&kernel.name),
            entries: kernel.entries.iter().map(|entry| entry.form()).collect(),
            uncut: uncut(kernel).as_deref().map(short),
        }
    }

    fn settle(&mut self) {
        self.name = short(&plain(&self.name));
        self.entries.truncate(Form::ALL.len());
        self.uncut = self.uncut.as_deref().map(|why| short(&plain(why)));
    }
}

/// Returns why launches of a kernel cannot be cut, if so.
#[must_use]
pub fn uncut(kernel: &Kernel) -> Option<String> {
    if kernel.entry(Shape::Slice).is_some() {
        return None;
    }
    let forms = [Form::SLICE, Form::FENCE_SLICE, Form::FENCE];
    let why = forms.into_iter().find_map(|form| kernel.refusal(form));
    let why = why.map(ToString::to_string);
    Some(why.unwrap_or_else(|| "the kernel was not rewritten".to_owned()))
}

impl KernelsSnapshot {
    /// Takes out what no host can mean: control characters, long texts, and more rows than there are.
    pub(super) fn settle(&mut self) {
        self.kernels.truncate(KERNELS);
        for kernel in &mut self.kernels {
            kernel.kernel.iter_mut().for_each(KernelFacts::settle);
        }
        self.plan.settle();
    }
}

/// Returns the beginning of a text.
fn short(text: &str) -> String {
    text[..text.floor_char_boundary(TEXT_BYTES)].to_owned()
}

#[cfg(test)]
mod tests {
    use super::{KERNEL_BYTES, KERNELS, KernelFacts, KernelSnapshot, KernelsSnapshot, TEXT_BYTES};
    use crate::dispatch::reading::{Role, RowReading};
    use crate::dispatch::rows::LastPiece;
    use gridmux_policy::ids::{KernelKey, ProfileKey, RowId, TenantId};
    use gridmux_policy::shape::BlockShape;
    use gridmux_ptx::forms::Form;

    fn largest(text: &str) -> KernelSnapshot {
        KernelSnapshot {
            tenant: "t".repeat(32),
            kernel: Some(KernelFacts {
                name: text.to_owned(),
                entries: Form::ALL.to_vec(),
                uncut: Some(text.to_owned()),
            }),
            profile_ns: Some(u64::MAX),
            profile_blocks: u32::MAX,
            fits: u16::MAX,
            row: RowReading {
                id: RowId(u32::MAX),
                tenant: TenantId(u32::MAX),
                key: KernelKey(u64::MAX),
                profile: ProfileKey(u64::MAX),
                spill: true,
                block: BlockShape {
                    threads: u32::MAX,
                    registers: u32::MAX,
                    shared_bytes: u32::MAX,
                },
                mean_ns: u64::MAX,
                lasts_ns: u64::MAX,
                is_proven: true,
                ended: u64::MAX,
                live: u32::MAX,
                waiting: u64::MAX,
                level: Some(u8::MAX),
                role: Some(Role::Whole),
                piece: Some(LastPiece {
                    blocks: u32::MAX,
                    launch_blocks: u64::MAX,
                    work_ns: u64::MAX,
                }),
            },
        }
    }

    #[test]
    fn the_largest_rows_have_room_and_what_no_host_can_mean_is_taken_out() {
        let mut snapshot = KernelsSnapshot {
            kernels: vec![largest(&"\u{1b}é".repeat(1000)); KERNELS + 1],
            ..KernelsSnapshot::default()
        };
        snapshot.settle();
        assert_eq!(snapshot.kernels.len(), KERNELS);
        let facts = snapshot.kernels[0].kernel.as_ref().unwrap();
        assert!(facts.name.starts_with("\u{fffd}é") && facts.name.len() <= TEXT_BYTES);
        assert_eq!(facts.uncut.as_ref(), Some(&facts.name));
        let bytes = postcard::to_allocvec(&snapshot.kernels).unwrap().len();
        assert!(bytes <= KERNELS * KERNEL_BYTES, "{bytes} bytes");
    }
}
