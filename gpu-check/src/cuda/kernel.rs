//! Modules, their kernels, and launches of these.
//!
//! Rule: arguments are held against what the module's PTX declares, because the driver, which is given an address for
//! each parameter, cannot see how many there are. A cubin is of the text whose name it bears.

use super::{Api, CudaError};
use anyhow::Context;
use std::ffi::{CString, c_void};

/// Bytes of the largest argument that a launch takes.
const MOST_ARGUMENT: usize = 64;

type Result<T> = std::result::Result<T, CudaError>;

/// A loaded module.
#[derive(Debug)]
pub struct Module {
    handle: u64,
    /// Its text, which says what its kernels take.
    ptx: String,
}

impl Module {
    /// Returns the module that the driver has made of a text.
    pub(super) fn new(handle: u64, ptx: &str) -> Self {
        Self {
            handle,
            ptx: ptx.to_owned(),
        }
    }

    pub(super) const fn handle(&self) -> u64 {
        self.handle
    }
}

/// A kernel of a loaded module.
#[derive(Debug, Clone)]
pub struct Function {
    handle: u64,
    /// Bytes of each of its parameters.
    params: Vec<usize>,
}

impl Function {
    /// Returns a kernel of a module.
    pub(super) fn of(api: &Api, module: &Module, name: &str) -> anyhow::Result<Self> {
        let params = params_of(&module.ptx, name)?;
        let name = CString::new(name)?;
        let mut handle = 0;
        // SAFETY: the name ends with a zero, and the place lives across the call.
        unsafe { api.cuModuleGetFunction(&mut handle, module.handle, name.as_ptr())? };
        Ok(Self { handle, params })
    }

    /// Returns the driver's handle.
    #[must_use]
    pub const fn handle(&self) -> u64 {
        self.handle
    }

    /// Checks that there is an argument for each parameter, and that it has the parameter's size.
    fn takes(&self, sizes: impl ExactSizeIterator<Item = usize> + Clone) -> Result<()> {
        if self.params.iter().copied().eq(sizes.clone()) {
            return Ok(());
        }
        Err(CudaError::Arguments {
            due: self.params.clone(),
            given: sizes.collect(),
        })
    }

    /// Launches it; each argument is its bytes, at most 64 of them.
    pub(super) fn launch(
        &self,
        api: &Api,
        shape: Shape,
        stream: u64,
        arguments: &[Vec<u8>],
    ) -> Result<()> {
        self.takes(arguments.iter().map(Vec::len))?;
        let places: Result<Vec<_>> = arguments.iter().map(|bytes| place(bytes)).collect();
        let mut places = places?;
        let mut pointers: Vec<*mut c_void> = places
            .iter_mut()
            .map(|place| place.as_mut_ptr().cast())
            .collect();
        // SAFETY: `takes` found an argument of the right size for each parameter, and each place holds its argument
        // whole.
        unsafe { self.launch_at(api, shape, stream, &mut pointers) }
    }

    /// Launches it, in any thread that has its context; its parameters are all 64-bit words.
    ///
    /// # Errors
    /// The driver's; or the words are not what the kernel takes.
    pub fn launch_words(&self, api: &Api, shape: Shape, stream: u64, words: &[u64]) -> Result<()> {
        let mut pointers = self.pointers(words)?;
        // SAFETY: the pointers are to the kernel's parameters.
        unsafe { self.launch_at(api, shape, stream, &mut pointers) }
    }

    /// Launches it so that it may start when each block of the kernel in front of it on the stream has ended or has
    /// executed `griddepcontrol.launch_dependents`; its parameters are all 64-bit words.
    ///
    /// # Errors
    /// The driver's; or the words are not what the kernel takes.
    pub fn launch_early(&self, api: &Api, shape: Shape, stream: u64, words: &[u64]) -> Result<()> {
        let mut pointers = self.pointers(words)?;
        let mut attribute = LaunchAttribute {
            id: PROGRAMMATIC_STREAM_SERIALIZATION,
            padding: 0,
            value: AttributeValue::of_word(1),
        };
        let config = LaunchConfig {
            grid: shape.grid,
            block: shape.block,
            shared_bytes: shape.shared_bytes,
            stream,
            attributes: &raw mut attribute,
            attribute_count: 1,
        };
        // SAFETY: configuration, attribute and the pointers, which are to the kernel's parameters, live across the
        // call, during which the driver copies what it needs.
        unsafe {
            api.cuLaunchKernelEx(
                &config,
                self.handle,
                pointers.as_mut_ptr(),
                std::ptr::null_mut(),
            )
        }
    }

    /// Returns a pointer to each of the words, which are the kernel's parameters. The driver reads them only.
    ///
    /// # Errors
    /// The words are not what the kernel takes.
    pub(super) fn pointers(&self, words: &[u64]) -> Result<Vec<*mut c_void>> {
        self.takes(words.iter().map(size_of_val))?;
        let pointers = words
            .iter()
            .map(|word| std::ptr::from_ref(word).cast_mut().cast());
        Ok(pointers.collect())
    }

    /// Launches it with arguments that lie at these places.
    ///
    /// # Safety
    /// There is a pointer for each of its parameters, to as many readable bytes as the parameter has.
    unsafe fn launch_at(
        &self,
        api: &Api,
        shape: Shape,
        stream: u64,
        arguments: &mut [*mut c_void],
    ) -> Result<()> {
        let ([gx, gy, gz], [bx, by, bz]) = (shape.grid, shape.block);
        // SAFETY: the caller vouches for the pointers, and the driver copies what lies there during the call; the
        // kernel's module is loaded, and the stream was not ended, as long as they are used.
        unsafe {
            api.cuLaunchKernel(
                self.handle,
                gx,
                gy,
                gz,
                bx,
                by,
                bz,
                shape.shared_bytes,
                stream,
                arguments.as_mut_ptr(),
                std::ptr::null_mut(),
            )
        }
    }
}

/// `CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION`.
const PROGRAMMATIC_STREAM_SERIALIZATION: u32 = 6;

/// The value of an attribute of a launch (`CUlaunchAttributeValue`), a union in C.
#[repr(C, align(8))]
#[derive(Debug, Clone, Copy)]
pub struct AttributeValue([u32; 16]);

/// As 64-bit C lays it out.
const _: () = assert!(size_of::<AttributeValue>() == 64 && align_of::<AttributeValue>() == 8);

impl AttributeValue {
    /// Returns a value whose first word says all.
    pub(super) fn of_word(word: u32) -> Self {
        let mut words = [0; 16];
        words[0] = word;
        Self(words)
    }
}

/// An attribute of a launch (`CUlaunchAttribute`).
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub(super) struct LaunchAttribute {
    id: u32,
    padding: u32,
    value: AttributeValue,
}

/// How a kernel is launched (`CUlaunchConfig`).
#[repr(C)]
#[derive(Debug)]
pub struct LaunchConfig {
    grid: [u32; 3],
    block: [u32; 3],
    shared_bytes: u32,
    stream: u64,
    attributes: *mut LaunchAttribute,
    attribute_count: u32,
}

/// As 64-bit C lays them out.
const _: () = assert!(
    size_of::<LaunchAttribute>() == 72
        && align_of::<LaunchAttribute>() == 8
        && size_of::<LaunchConfig>() == 56
);

/// The dimensions of a launch.
#[derive(Debug, Clone, Copy)]
pub struct Shape {
    /// Blocks in x, y and z.
    pub grid: [u32; 3],
    /// Threads of a block in x, y and z.
    pub block: [u32; 3],
    /// Dynamic shared memory of a block in bytes.
    pub shared_bytes: u32,
}

impl Shape {
    /// Returns the shape of a one-dimensional grid: its blocks, and the threads of each.
    #[must_use]
    pub const fn row(blocks: u32, threads: u32) -> Self {
        Self {
            grid: [blocks, 1, 1],
            block: [threads, 1, 1],
            shared_bytes: 0,
        }
    }
}

/// Returns the bytes of each parameter of a kernel, as a module's text declares them.
fn params_of(ptx: &str, name: &str) -> anyhow::Result<Vec<usize>> {
    let program = gridmux_ptx::Module::parse(ptx.as_bytes())?.decode()?;
    let (_, kernel) = program
        .kernel(name)
        .with_context(|| format!("the module has no kernel {name}"))?;
    let sizes = kernel.params.iter().map(|param| param.size_bytes as usize);
    Ok(sizes.collect())
}

/// Returns an argument where the driver reads it from: aligned to 8.
fn place(bytes: &[u8]) -> Result<[u64; MOST_ARGUMENT / 8]> {
    if bytes.len() > MOST_ARGUMENT {
        return Err(CudaError::TooLarge { bytes: bytes.len() });
    }
    let mut place = [0; MOST_ARGUMENT / 8];
    for (word, bytes) in place.iter_mut().zip(bytes.chunks(8)) {
        let mut padded = [0; 8];
        padded[..bytes.len()].copy_from_slice(bytes);
        *word = u64::from_le_bytes(padded);
    }
    Ok(place)
}

#[cfg(test)]
mod tests {
    use super::{CudaError, Function, MOST_ARGUMENT, params_of, place};
    use crate::kernels::PROBE;

    #[test]
    fn arguments_are_those_that_the_text_declares() {
        let function = |ptx: &str, name: &str| Function {
            handle: 0,
            params: params_of(ptx, name).unwrap(),
        };
        let spin = function(PROBE, "spin");
        assert_eq!(spin.takes([8, 8, 8].into_iter()), Ok(()));
        for given in [&[][..], &[8, 8], &[8, 8, 4], &[8, 8, 8, 8]] {
            let refused = Err(CudaError::Arguments {
                due: vec![8, 8, 8],
                given: given.to_vec(),
            });
            assert_eq!(spin.takes(given.iter().copied()), refused);
        }
        let mixed = ".version 7.0\n.target sm_70\n.address_size 64\n\
                     .visible .entry k(.param .u32 n, .param .align 8 .b8 block[64]) { ret; }\n";
        assert_eq!(function(mixed, "k").params, [4, 64]);
        assert!(params_of(mixed, "other").is_err());
    }

    #[test]
    fn an_argument_is_placed_whole_or_not_at_all() {
        let bytes: Vec<u8> = (1..=64).collect();
        let found = place(&bytes).unwrap();
        assert_eq!(found.map(u64::to_le_bytes).concat(), bytes);
        assert_eq!(place(&[7, 1, 0, 0]).unwrap()[0], 0x107);
        let large = vec![0; MOST_ARGUMENT + 1];
        assert_eq!(place(&large), Err(CudaError::TooLarge { bytes: 65 }));
    }
}
