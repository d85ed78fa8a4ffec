//! What is known of a kernel: made with the rewrite, serialised once, held against the text again by whoever does not
//! believe it, and carried whole to the launch.
//!
//! A module has several *entries* of one kernel where several forms of it are made; the first keeps the kernel's name.
//! Each takes the kernel's own parameters, and in front of them the control block unless it is whole and unfenced.

use crate::control::{CONTROL_ALIGN, CONTROL_BYTES, EXTRA_SHARED_BYTES};
use crate::decode::{Function, LaunchBounds, Param};
use crate::forms::fence::FenceMode;
use crate::forms::{Form, Refusal, Shape};
use serde::{Deserialize, Serialize};

/// One kernel: what its launches pass, what it says of its blocks, and the entries by which it is launched.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Kernel {
    /// Its name in the original.
    pub name: String,
    /// Its own parameters in order, laid out as in the original.
    pub params: Vec<KernelParam>,
    /// Bytes of its own parameters, those between them included.
    pub params_bytes: u32,
    /// What it says of its blocks.
    pub bounds: LaunchBounds,
    /// The entries by which it can be launched: at least one, each of another form.
    pub entries: Vec<Entry>,
    /// Forms that were asked for and that it cannot take.
    pub refusals: Vec<FormRefusal>,
    /// It is a gang: its blocks may wait for each other, so that none ends before all have started.
    pub is_gang: bool,
    /// Why its body is not understood, where it is not; it is whole then.
    pub malformed: Option<String>,
}

/// A parameter of a kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct KernelParam {
    /// Offset in bytes among the kernel's own parameters.
    pub offset: u32,
    /// Size in bytes.
    pub size_bytes: u32,
    /// Alignment in bytes.
    pub align: u32,
    /// It is of an opaque type, as `.texref`, which compilers give no bytes, so that no launch can pass it.
    pub opaque: bool,
}

/// One form of a kernel, as an entry of a module.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry {
    /// The entry's name in the module.
    pub name: String,
    /// How its launches cover the grid.
    pub shape: Shape,
    /// The mode of its fence, when it has one: [`FenceMode::accepts`] tells whether a control block's base and mask go
    /// with it. The module's `.global` variables must then lie in the reservation.
    pub fence: Option<FenceMode>,
    /// Which blocks it may be launched with.
    pub block_rule: BlockRule,
    /// Its blocks write stamps where the control block of their launch says where to.
    pub stamps: bool,
    /// Blocks of a worker's ticket, by the kernel's length (accelOS, section 6.4); at least 1.
    pub chunk: u32,
}

/// A form that a kernel cannot take.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FormRefusal {
    /// The form.
    pub form: Form,
    /// Why not.
    pub refusal: Refusal,
}

/// Which thread blocks an entry was judged for; a launch of another kind needs another one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum BlockRule {
    /// Any.
    Any,
    /// The block's width is a multiple of 32, and the grid is less than 2³¹ threads wide: a warp is then 32 neighbours
    /// in x, which the form relies on.
    WarpRows,
}

impl BlockRule {
    /// Returns whether a launch of that grid and block keeps the rule.
    #[must_use]
    pub fn allows(self, grid: [u32; 3], block: [u32; 3]) -> bool {
        match self {
            Self::Any => true,
            Self::WarpRows => {
                block[0].is_multiple_of(32) && u64::from(grid[0]) * u64::from(block[0]) < 1 << 31
            }
        }
    }
}

/// How an entry in a module's text differs from what is said of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Mismatch {
    /// It should begin with the control block.
    #[error("its first parameter is no control block")]
    Control,
    /// It has other parameters.
    #[error("its parameters are laid out otherwise")]
    Params,
    /// It has other directives about its blocks.
    #[error("it asks for other blocks")]
    Bounds,
}

impl Entry {
    /// Returns a kernel's entry in a module that was not rewritten.
    #[must_use]
    pub fn whole(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            shape: Shape::Whole,
            fence: None,
            block_rule: BlockRule::Any,
            stamps: false,
            chunk: 1,
        }
    }

    /// Returns its form.
    #[must_use]
    pub fn form(&self) -> Form {
        Form {
            shape: self.shape,
            fenced: self.fence.is_some(),
        }
    }

    /// Returns the bytes of the control block in front of the kernel's own parameters; 0 where there is none.
    #[must_use]
    pub fn control_bytes(&self) -> u32 {
        match self.form().has_control() {
            true => CONTROL_BYTES,
            false => 0,
        }
    }

    /// Returns the bytes that a launch adds to the tenant's dynamic shared memory.
    #[must_use]
    pub fn extra_shared_bytes(&self) -> u32 {
        match self.shape {
            Shape::Worker => EXTRA_SHARED_BYTES,
            Shape::Whole | Shape::Slice => 0,
        }
    }
}

impl Kernel {
    /// Describes a kernel that a module defines, with no entry yet.
    pub(crate) fn new(function: &Function) -> Self {
        Self {
            name: function.name.clone(),
            params: described(&function.params, 0).collect(),
            params_bytes: function.params_bytes,
            bounds: function.bounds,
            entries: Vec::new(),
            refusals: Vec::new(),
            is_gang: false,
            malformed: None,
        }
    }

    /// Returns the entry of that shape, fenced or not.
    #[must_use]
    pub fn entry(&self, shape: Shape) -> Option<&Entry> {
        self.entries.iter().find(|entry| entry.shape == shape)
    }

    /// Returns whether it has an entry of that form.
    #[must_use]
    pub fn has(&self, form: Form) -> bool {
        self.entries.iter().any(|entry| entry.form() == form)
    }

    /// Returns the one entry of a kernel for which one form was asked for, or why it cannot take that.
    ///
    /// # Errors
    /// The refusal.
    pub fn into_entry(mut self) -> Result<Entry, Refusal> {
        match self.refusals.pop() {
            Some(refused) => Err(refused.refusal),
            None => Ok(self
                .entries
                .pop()
                .unwrap_or_else(|| Entry::whole(&self.name))),
        }
    }

    /// Returns why it cannot take the form, where somebody asked for that.
    #[must_use]
    pub fn refusal(&self, form: Form) -> Option<&Refusal> {
        let refused = self.refusals.iter().find(|refused| refused.form == form);
        refused.map(|refused| &refused.refusal)
    }

    /// Returns about how many bytes of memory it takes beside its own size.
    #[must_use]
    pub fn heap_bytes(&self) -> usize {
        let entries = self.entries.iter().map(|entry| entry.name.len());
        let texts = self.name.len() + self.malformed.as_ref().map_or(0, String::len);
        size_of_val(&self.params[..])
            + size_of_val(&self.entries[..])
            + size_of_val(&self.refusals[..])
            + entries.sum::<usize>()
            + texts
    }

    /// Returns offset and size in bytes of each parameter of an entry, the control block's first.
    pub fn layout(&self, entry: &Entry) -> impl Iterator<Item = (u32, u32)> {
        let before = entry.control_bytes();
        let own = self.params.iter();
        let own = own.map(move |param| (before + param.offset, param.size_bytes));
        (before != 0).then_some((0, before)).into_iter().chain(own)
    }

    /// Checks that an entry in a text is what is said of it.
    ///
    /// # Errors
    /// [`Mismatch`]: the first difference.
    pub fn check(&self, entry: &Entry, function: &Function) -> Result<(), Mismatch> {
        let before = entry.control_bytes();
        let own = match (before, &function.params[..]) {
            (0, all) => all,
            (_, [first, own @ ..])
                if first.size_bytes == CONTROL_BYTES && first.align == CONTROL_ALIGN =>
            {
                own
            }
            _ => return Err(Mismatch::Control),
        };
        let is_same = described(own, before).eq(self.params.iter().copied())
            && self.params_bytes.checked_add(before) == Some(function.params_bytes);
        if !is_same {
            return Err(Mismatch::Params);
        }
        match self.bounds == function.bounds {
            true => Ok(()),
            false => Err(Mismatch::Bounds),
        }
    }
}

/// Returns the kernel's own parameters, as they stand without the bytes before them.
fn described(own: &[Param], before: u32) -> impl Iterator<Item = KernelParam> {
    own.iter().map(move |param| KernelParam {
        offset: param.offset.saturating_sub(before),
        size_bytes: param.size_bytes,
        align: param.align,
        opaque: param.ty.is_opaque(),
    })
}
