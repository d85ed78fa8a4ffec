//! The list of the whole driver API: what each function is called, since which version of CUDA, and what it does here.
//!
//! Each family of functions declares its part with [`driver_api!`], next to the code; [`crate::uncovered`] holds the
//! rest of the API. From a declaration come the exported symbols, the answers of `cuGetProcAddress`
//! ([`crate::entry_point`]) and the table of covered functions in the documents. A function is declared once: two
//! declarations of one symbol do not compile.
//!
//! A symbol is a name with a suffix: `_v2` and so on is a later form with other parameters, `_ptsz` and `_ptds` the
//! variant for which stream 0 is the calling thread's own default stream.

use crate::stream::DefaultStream;

/// The version of CUDA that brought the variants for per-thread default streams.
pub const FIRST_VARIANTS: u32 = 7000;

/// One exported symbol.
#[derive(Debug, Clone, Copy)]
pub struct Entry {
    /// The symbol, without the suffix of its variant.
    pub symbol: &'static str,
    /// The version of CUDA that brought it: 1000 * major + 10 * minor.
    pub since: u32,
    /// The stream that is meant by 0.
    pub default_stream: DefaultStream,
    /// Its address.
    pub address: Address,
    /// It does what it should; otherwise it returns "not supported".
    pub is_covered: bool,
}

/// The address of a function, to be handed to the program.
#[derive(Debug, Clone, Copy)]
pub struct Address(pub *const ());

// SAFETY: the address of code is never written through and may be read by all.
unsafe impl Send for Address {}
// SAFETY: as above.
unsafe impl Sync for Address {}

impl Entry {
    /// Returns the name without suffixes, under which `cuGetProcAddress` knows it.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self.symbol.rsplit_once("_v") {
            Some((name, version)) if version.bytes().all(|byte| byte.is_ascii_digit()) => name,
            _ => self.symbol,
        }
    }
}

/// Declares a family of functions.
///
/// `needs Init;` (or `Nothing`) says what must have been called before; each row then is the version of CUDA that
/// brought the function, its symbol with its C parameters, the symbol of its per-thread variant if it has one, and the
/// Rust function that does it. That one takes, for each parameter, a type that [`crate::border::FromC`] makes of it;
/// with a variant, the [`DefaultStream`] goes before them. No parameter may
/// have its name. The family's rows are in `TABLE`.
macro_rules! driver_api {
    (
        needs $needs:ident;
        $($since:literal $symbol:ident $parameters:tt $(| $variant:ident)? => $function:path;)*
    ) => {
        /// The functions of this family.
        pub const TABLE: &[$crate::api::Entry] = &[$(
            $crate::api::Entry {
                symbol: stringify!($symbol),
                since: $since,
                default_stream: $crate::stream::DefaultStream::Legacy,
                address: $crate::api::Address($symbol as *const ()),
                is_covered: true,
            },
            $($crate::api::Entry {
                symbol: stringify!($symbol),
                since: if $since < $crate::api::FIRST_VARIANTS { $crate::api::FIRST_VARIANTS } else { $since },
                default_stream: $crate::stream::DefaultStream::PerThread,
                address: $crate::api::Address($variant as *const ()),
                is_covered: true,
            },)?
        )*];

        $(
            $crate::api::driver_api! {
                @export $needs $symbol $parameters $function,
                [$($crate::api::driver_api!(@legacy $variant))?]
            }
            $($crate::api::driver_api! {
                @export $needs $variant $parameters $function, [$crate::stream::DefaultStream::PerThread]
            })?
        )*
    };
    (@legacy $variant:ident) => { $crate::stream::DefaultStream::Legacy };
    (
        @export $needs:ident $symbol:ident ($($arg:ident: $type:ty),* $(,)?) $function:path,
        [$($default:expr)?]
    ) => {
        #[doc = concat!("`", stringify!($symbol), "` of the driver API.")]
        ///
        /// # Safety
        /// What its C declaration asks of the arguments.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $symbol($($arg: $type),*) -> u32 {
            $crate::border::guard($crate::border::Needs::$needs, || {
                // SAFETY: the program calls this function as its C declaration asks.
                $(let $arg = unsafe { $crate::border::FromC::from_c($arg)? };)*
                $function($($default,)? $($arg),*)
            })
        }
    };
}

pub(crate) use driver_api;
