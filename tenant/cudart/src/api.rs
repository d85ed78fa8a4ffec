//! How a family of functions is declared: the exported symbol with its C parameters, the symbol of its variant for
//! which stream 0 is the calling thread's own default stream, if there is one, and the Rust function that does it.

/// The stream that is meant by 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DefaultStream {
    /// The one that waits for all others.
    Legacy,
    /// The calling thread's own.
    PerThread,
}

impl DefaultStream {
    /// Returns the driver's handle of the stream that a program names.
    #[must_use]
    pub fn resolve(self, stream: u64) -> u64 {
        match (stream, self) {
            (0, Self::PerThread) => 2,
            _ => stream,
        }
    }
}

/// Declares a family of functions. The Rust function takes, for each parameter, a type that [`crate::border::FromC`]
/// makes of it; with a variant, the [`DefaultStream`] goes before them. No parameter may have its name. A function that
/// only one version of CUDA has, or has in this form, stands behind `#[cfg(cuda = "12")]` or `#[cfg(cuda = "13")]`.
macro_rules! runtime_api {
    ($($(#[$when:meta])? $symbol:ident $parameters:tt $(| $variant:ident)? => $function:path;)*) => {$(
        $(#[$when])?
        $crate::api::runtime_api! {
            @export $symbol $parameters $function, [$($crate::api::runtime_api!(@legacy $variant))?]
        }
        $crate::api::runtime_api! { @variant [$($when)?] $parameters $function, [$($variant)?] }
    )*};
    (@variant [$($when:meta)?] $parameters:tt $function:path, []) => {};
    (@variant [$($when:meta)?] $parameters:tt $function:path, [$variant:ident]) => {
        $(#[$when])?
        $crate::api::runtime_api! {
            @export $variant $parameters $function, [$crate::api::DefaultStream::PerThread]
        }
    };
    (@legacy $variant:ident) => { $crate::api::DefaultStream::Legacy };
    (@export $symbol:ident ($($arg:ident: $type:ty),* $(,)?) $function:path, [$($default:expr)?]) => {
        #[doc = concat!("`", stringify!($symbol), "` of the runtime API.")]
        ///
        /// # Safety
        /// What its C declaration asks of the arguments.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $symbol($($arg: $type),*) -> u32 {
            $crate::border::guard(|| {
                // SAFETY: the program calls this function as its C declaration asks.
                $(let $arg = unsafe { $crate::border::FromC::from_c($arg) };)*
                $function($($default,)? $($arg),*)
            })
        }
    };
}

pub(crate) use runtime_api;
