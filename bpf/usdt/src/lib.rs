//! Emitting a USDT probe: `nop; nop5`, a `.note.stapsdt` that describes it, and a semaphore.
//!
//! Format: SystemTap, "UserSpaceProbeImplementation". A tracer finds the note in the executable, raises the
//! semaphore and puts a breakpoint on the `nop`. libbpf recognises `nop; nop5` and patches the five-byte one
//! instead, which Linux 6.18 turns into a direct call: half the cost of a breakpoint.
//!
//! Rules:
//! - A semaphore is alone with its like in section `.probes`. The kernel raises it in the file's mapping, so that
//!   its page must not be shared with a read-only segment: link with `-z separate-loadable-segments`.
//! - Each probe has one site, in a function that is neither inlined nor merged (its name stands in the assembly).
//! - On other machines than x86-64 a site is empty, and no probe exists.

// Not the shim's: the kernel writes it, and loom cannot.
use core::sync::atomic::{AtomicU16, Ordering};

/// Counts the tracers of one probe; the kernel raises and lowers it in this process's memory.
#[repr(transparent)]
#[derive(Debug)]
pub struct Semaphore(AtomicU16);

impl Semaphore {
    /// Returns a semaphore that nobody raised. It must stand in section `.probes`.
    #[allow(clippy::new_without_default)] // It is only of use as a static.
    pub const fn new() -> Self {
        Self(AtomicU16::new(0))
    }

    /// Returns whether somebody traces the probe now.
    #[inline(always)]
    pub fn is_traced(&self) -> bool {
        // Relaxed: the partner is the kernel, which orders nothing else by it; a hit missed while attaching is no loss.
        self.0.load(Ordering::Relaxed) != 0
    }
}

/// One argument's descriptor in the note: size, `@`, register.
#[doc(hidden)]
#[macro_export]
macro_rules! usdt_argument {
    (u16) => {
        "2@%{:x}"
    };
    (u32) => {
        "4@%{:e}"
    };
    (u64) => {
        "8@%{:r}"
    };
}

/// Emits a probe site at this place; `semaphore` is the path of a static [`Semaphore`], `function` that of the
/// function in which this stands: the note is linked to it, or a linker that drops an unused function would leave
/// a note without an address, over which libbpf refuses every probe of the provider.
///
/// Arguments are written `type expression`, where the type is `u16`, `u32` or `u64`. A name must not have two
/// sites with different arguments. Put the site into a function of its own that is `#[inline(never)]`.
#[cfg(target_arch = "x86_64")]
#[macro_export]
macro_rules! usdt_site {
    (
        $provider:literal, $name:literal, $semaphore:path, $function:path,
        $first_type:tt $first:expr $(, $type:tt $value:expr)* $(,)?
    ) => {
        // SAFETY: the instructions are two no-operations that change nothing; everything else goes to sections
        // that are not executed. The label numbers are local, so that copies of this block do not clash.
        unsafe {
            ::core::arch::asm!(
                concat!(
                    "990: .byte 0x90\n",
                    ".byte 0x0f, 0x1f, 0x44, 0x00, 0x00\n",
                    ".pushsection .note.stapsdt, \"o\", @note, {function}\n",
                    ".balign 4\n",
                    ".4byte 992f - 991f, 994f - 993f, 3\n",
                    "991: .asciz \"stapsdt\"\n",
                    "992: .balign 4\n",
                    "993: .8byte 990b\n",
                    ".8byte _.stapsdt.base\n",
                    ".8byte {semaphore}\n",
                    ".asciz \"", $provider, "\"\n",
                    ".asciz \"", $name, "\"\n",
                    ".asciz \"", $crate::usdt_argument!($first_type), $(" ", $crate::usdt_argument!($type),)* "\"\n",
                    "994: .balign 4\n",
                    ".popsection\n",
                    ".ifndef _.stapsdt.base\n",
                    ".pushsection .stapsdt.base, \"aG\", @progbits, .stapsdt.base, comdat\n",
                    ".weak _.stapsdt.base\n",
                    ".hidden _.stapsdt.base\n",
                    "_.stapsdt.base: .space 1\n",
                    ".size _.stapsdt.base, 1\n",
                    ".popsection\n",
                    ".endif",
                ),
                in(reg) $first,
                $(in(reg) $value,)*
                semaphore = sym $semaphore,
                function = sym $function,
                options(nostack, preserves_flags),
            )
        }
    };
}

/// Emits nothing: the site is described for x86-64 only.
#[cfg(not(target_arch = "x86_64"))]
#[macro_export]
macro_rules! usdt_site {
    ($provider:literal, $name:literal, $semaphore:path, $function:path, $($type:tt $value:expr),+ $(,)?) => {{
        $(let _ = $value;)+
    }};
}
