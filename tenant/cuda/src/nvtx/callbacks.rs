//! The functions that NVTX calls.
//!
//! Rule: what a program gives is looked at only where somebody traces, or to be kept.

use super::Function;
use super::names::Name;
use super::probes::{mark, range_end, range_pop, range_push, range_start};
use std::ffi::{c_char, c_int, c_uint, c_void};
use std::sync::atomic::{AtomicU64, Ordering};

/// What a push and a pop return where nobody counts them (`NVTX_NO_PUSH_POP_TRACKING`).
const NOT_TRACKED: c_int = -2;
/// How an event's message is given (`nvtxMessageType_t`).
const ASCII: i32 = 1;
const UNICODE: i32 = 2;
const REGISTERED: i32 = 3;

/// A domain or a registered string: null, or the address of a copy of its name.
type Handle = *const c_void;
/// A wide string.
type Wide = *const u32;

/// What a program says of an event (`nvtxEventAttributes_t`, version 2).
#[repr(C)]
#[derive(Clone, Copy)]
struct Attributes {
    version: u16,
    /// Its bytes, as the program was compiled.
    size: u16,
    category: u32,
    color_type: i32,
    color: u32,
    payload_type: i32,
    reserved: i32,
    payload: u64,
    message_type: i32,
    message: *const c_void,
}

const _: () = assert!(size_of::<Attributes>() == 48);

/// A function as it is put into a table.
#[derive(Clone, Copy)]
pub(super) struct Callback(pub(super) Function);

/// Makes a function one without parameters, as tables hold them.
macro_rules! callback {
    ($function:expr, $type:ty) => {
        // SAFETY: pointers of functions have one size; NVTX calls it with the parameters of its number, which are those
        // of the type here.
        Callback(unsafe { std::mem::transmute::<$type, Function>($function) })
    };
}

type OfEvent<R> = unsafe extern "C" fn(*const Attributes) -> R;
type OfBytes<R> = unsafe extern "C" fn(*const c_char) -> R;
type OfWide<R> = unsafe extern "C" fn(Wide) -> R;
type OfDomain<R> = unsafe extern "C" fn(Handle, *const Attributes) -> R;
type OfRange = unsafe extern "C" fn(u64);
type OfDomainsRange = unsafe extern "C" fn(Handle, u64);
type Pop = unsafe extern "C" fn() -> c_int;
type DomainPop = unsafe extern "C" fn(Handle) -> c_int;
type Register<T> = unsafe extern "C" fn(Handle, T) -> Handle;

/// Modules, by their names in NVTX (`NVTX_CB_MODULE_...`).
#[repr(u32)]
enum Module {
    Core = 1,
    Core2 = 5,
}

/// Functions of the first one, by their names in NVTX (`NVTX_CBID_CORE_...`).
#[repr(u32)]
enum Core {
    MarkEx = 1,
    MarkA = 2,
    MarkW = 3,
    RangeStartEx = 4,
    RangeStartA = 5,
    RangeStartW = 6,
    RangeEnd = 7,
    RangePushEx = 8,
    RangePushA = 9,
    RangePushW = 10,
    RangePop = 11,
}

/// Functions of the second one, by their names in NVTX (`NVTX_CBID_CORE2_...`).
#[repr(u32)]
enum Core2 {
    DomainMarkEx = 1,
    DomainRangeStartEx = 2,
    DomainRangeEnd = 3,
    DomainRangePushEx = 4,
    DomainRangePop = 5,
    DomainRegisterStringA = 10,
    DomainRegisterStringW = 11,
    DomainCreateA = 12,
    DomainCreateW = 13,
}

/// The functions of a module, by their numbers in it.
type Functions = &'static [(c_uint, Callback)];

/// The modules, and in each the functions.
pub(super) const MODULES: [(c_uint, Functions); 2] = [
    (Module::Core as c_uint, &CORE),
    (Module::Core2 as c_uint, &CORE2),
];

const CORE: [(c_uint, Callback); 11] = [
    (Core::MarkEx as c_uint, callback!(mark_ex, OfEvent<()>)),
    (Core::MarkA as c_uint, callback!(mark_a, OfBytes<()>)),
    (Core::MarkW as c_uint, callback!(mark_w, OfWide<()>)),
    (
        Core::RangeStartEx as c_uint,
        callback!(start_ex, OfEvent<u64>),
    ),
    (
        Core::RangeStartA as c_uint,
        callback!(start_a, OfBytes<u64>),
    ),
    (Core::RangeStartW as c_uint, callback!(start_w, OfWide<u64>)),
    (Core::RangeEnd as c_uint, callback!(end, OfRange)),
    (
        Core::RangePushEx as c_uint,
        callback!(push_ex, OfEvent<c_int>),
    ),
    (
        Core::RangePushA as c_uint,
        callback!(push_a, OfBytes<c_int>),
    ),
    (Core::RangePushW as c_uint, callback!(push_w, OfWide<c_int>)),
    (Core::RangePop as c_uint, callback!(pop, Pop)),
];

const CORE2: [(c_uint, Callback); 9] = [
    (
        Core2::DomainMarkEx as c_uint,
        callback!(domain_mark, OfDomain<()>),
    ),
    (
        Core2::DomainRangeStartEx as c_uint,
        callback!(domain_start, OfDomain<u64>),
    ),
    (
        Core2::DomainRangeEnd as c_uint,
        callback!(domain_end, OfDomainsRange),
    ),
    (
        Core2::DomainRangePushEx as c_uint,
        callback!(domain_push, OfDomain<c_int>),
    ),
    (
        Core2::DomainRangePop as c_uint,
        callback!(domain_pop, DomainPop),
    ),
    (
        Core2::DomainRegisterStringA as c_uint,
        callback!(register_a, Register<*const c_char>),
    ),
    (
        Core2::DomainRegisterStringW as c_uint,
        callback!(register_w, Register<Wide>),
    ),
    (
        Core2::DomainCreateA as c_uint,
        callback!(domain_a, OfBytes<Handle>),
    ),
    (
        Core2::DomainCreateW as c_uint,
        callback!(domain_w, OfWide<Handle>),
    ),
];

/// What a program gives with an event, in which its name is.
trait Given {
    /// Finds the name.
    ///
    /// # Safety
    /// The pointer is null, or one of what its type says that stays during the call.
    unsafe fn name(self) -> Name;
}

impl Given for *const Attributes {
    unsafe fn name(self) -> Name {
        if self.is_null() {
            return Name::NONE;
        }
        // SAFETY: every version of them begins with these two fields.
        let size = unsafe { (&raw const (*self).size).read_unaligned() };
        if usize::from(size) < size_of::<Attributes>() {
            return Name::NONE;
        }
        // SAFETY: they are as long as this declaration of them.
        let of = unsafe { self.read_unaligned() };
        match of.message_type {
            ASCII | REGISTERED => Name::of_bytes(of.message.cast()),
            UNICODE => Name::of_wide(of.message.cast()),
            _ => Name::NONE,
        }
    }
}

impl Given for *const c_char {
    unsafe fn name(self) -> Name {
        Name::of_bytes(self)
    }
}

impl Given for Wide {
    unsafe fn name(self) -> Name {
        Name::of_wide(self)
    }
}

#[inline(always)]
fn pushed(domain: Handle, name: impl FnOnce() -> Name) -> c_int {
    if range_push::is_traced() {
        range_push::fire(&name(), number(domain), 0);
    }
    NOT_TRACKED
}

#[inline(always)]
fn popped(domain: Handle) -> c_int {
    if range_pop::is_traced() {
        range_pop::fire(&Name::NONE, number(domain), 0);
    }
    NOT_TRACKED
}

#[inline(always)]
fn started(domain: Handle, name: impl FnOnce() -> Name) -> u64 {
    static LAST: AtomicU64 = AtomicU64::new(0);
    if !range_start::is_traced() {
        return 0;
    }
    // Relaxed: no two ranges get one number, which is all that is asked.
    let range = LAST.fetch_add(1, Ordering::Relaxed) + 1;
    range_start::fire(&name(), number(domain), range);
    range
}

#[inline(always)]
fn ended(domain: Handle, range: u64) {
    if range_end::is_traced() {
        range_end::fire(&Name::NONE, number(domain), range);
    }
}

#[inline(always)]
fn marked(domain: Handle, name: impl FnOnce() -> Name) {
    if mark::is_traced() {
        mark::fire(&name(), number(domain), 0);
    }
}

fn number(domain: Handle) -> u64 {
    domain.addr() as u64
}

/// Declares functions that NVTX calls: what each is given, what that does, and in which domain.
macro_rules! functions {
    ($($name:ident[$($domain:ident)?]($given:ident: $type:ty) $(-> $result:ty)? = $does:ident @ $in:expr;)*) => {
        $(unsafe extern "C" fn $name($($domain: Handle,)? $given: $type) $(-> $result)? {
            // SAFETY: NVTX hands over what the program gave it as that.
            $does($in, || unsafe { $given.name() })
        })*
    };
}

/// No domain: the program's own.
const OWN: Handle = std::ptr::null();

functions! {
    mark_ex[](event: *const Attributes) = marked @ OWN;
    mark_a[](text: *const c_char) = marked @ OWN;
    mark_w[](text: Wide) = marked @ OWN;
    start_ex[](event: *const Attributes) -> u64 = started @ OWN;
    start_a[](text: *const c_char) -> u64 = started @ OWN;
    start_w[](text: Wide) -> u64 = started @ OWN;
    push_ex[](event: *const Attributes) -> c_int = pushed @ OWN;
    push_a[](text: *const c_char) -> c_int = pushed @ OWN;
    push_w[](text: Wide) -> c_int = pushed @ OWN;
    domain_mark[domain](event: *const Attributes) = marked @ domain;
    domain_start[domain](event: *const Attributes) -> u64 = started @ domain;
    domain_push[domain](event: *const Attributes) -> c_int = pushed @ domain;
}

unsafe extern "C" fn end(range: u64) {
    ended(OWN, range);
}

unsafe extern "C" fn pop() -> c_int {
    popped(OWN)
}

unsafe extern "C" fn domain_end(domain: Handle, range: u64) {
    ended(domain, range);
}

unsafe extern "C" fn domain_pop(domain: Handle) -> c_int {
    popped(domain)
}

unsafe extern "C" fn register_a(_domain: Handle, text: *const c_char) -> Handle {
    Name::of_bytes(text).copied()
}

unsafe extern "C" fn register_w(_domain: Handle, text: Wide) -> Handle {
    Name::of_wide(text).copied()
}

unsafe extern "C" fn domain_a(text: *const c_char) -> Handle {
    Name::of_bytes(text).copied()
}

unsafe extern "C" fn domain_w(text: Wide) -> Handle {
    Name::of_wide(text).copied()
}

#[cfg(test)]
mod tests {
    use super::{NOT_TRACKED, end, mark_a, pop, push_a, start_a};

    #[test]
    fn while_nobody_traces_a_name_is_not_even_looked_at() {
        let nowhere = std::ptr::without_provenance(16);
        // SAFETY: nobody traces this process, so that nothing is read.
        unsafe {
            assert_eq!((push_a(nowhere), pop()), (NOT_TRACKED, NOT_TRACKED));
            assert_eq!((start_a(nowhere), start_a(nowhere)), (0, 0));
            end(0);
            mark_a(nowhere);
        }
    }
}
