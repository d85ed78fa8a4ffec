//! What most scenarios begin with: the library initialised, a context, kernels, and memory that is looked at.

use crate::api::Cuda;
use crate::kernels::PTX;
use std::ffi::{CStr, CString, c_void};
use std::ops::Deref;

/// Codes of the API.
pub(crate) mod code {
    #![allow(missing_docs, reason = "the names are those of the API")]
    pub(crate) const INVALID_VALUE: u32 = 1;
    pub(crate) const OUT_OF_MEMORY: u32 = 2;
    pub(crate) const NOT_INITIALIZED: u32 = 3;
    pub(crate) const NO_DEVICE: u32 = 100;
    pub(crate) const INVALID_DEVICE: u32 = 101;
    pub(crate) const INVALID_IMAGE: u32 = 200;
    pub(crate) const INVALID_CONTEXT: u32 = 201;
    pub(crate) const UNSUPPORTED_LIMIT: u32 = 215;
    pub(crate) const PEER_ACCESS_UNSUPPORTED: u32 = 217;
    pub(crate) const PEER_ACCESS_NOT_ENABLED: u32 = 705;
    pub(crate) const NO_BINARY_FOR_GPU: u32 = 209;
    pub(crate) const INVALID_PTX: u32 = 218;
    pub(crate) const UNSUPPORTED_PTX_VERSION: u32 = 222;
    pub(crate) const UNSUPPORTED_EXEC_AFFINITY: u32 = 224;
    pub(crate) const FILE_NOT_FOUND: u32 = 301;
    pub(crate) const ILLEGAL_STATE: u32 = 401;
    pub(crate) const INVALID_HANDLE: u32 = 400;
    pub(crate) const NOT_FOUND: u32 = 500;
    pub(crate) const NOT_READY: u32 = 600;
    pub(crate) const ILLEGAL_ADDRESS: u32 = 700;
    pub(crate) const LAUNCH_TIMEOUT: u32 = 702;
    pub(crate) const CONTEXT_IS_DESTROYED: u32 = 709;
    pub(crate) const ASSERT: u32 = 710;
    pub(crate) const ALREADY_REGISTERED: u32 = 712;
    pub(crate) const NOT_REGISTERED: u32 = 713;
    pub(crate) const MISALIGNED_ADDRESS: u32 = 716;
    pub(crate) const LAUNCH_FAILED: u32 = 719;
    pub(crate) const COOPERATIVE_LAUNCH_TOO_LARGE: u32 = 720;
    pub(crate) const NOT_PERMITTED: u32 = 800;
    pub(crate) const NOT_SUPPORTED: u32 = 801;
    pub(crate) const CAPTURE_UNSUPPORTED: u32 = 900;
    pub(crate) const CAPTURE_INVALIDATED: u32 = 901;
    pub(crate) const CAPTURE_MERGE: u32 = 902;
    pub(crate) const CAPTURE_UNMATCHED: u32 = 903;
    pub(crate) const CAPTURE_UNJOINED: u32 = 904;
    pub(crate) const CAPTURE_ISOLATION: u32 = 905;
    pub(crate) const CAPTURE_IMPLICIT: u32 = 906;
    pub(crate) const CAPTURED_EVENT: u32 = 907;
    pub(crate) const CAPTURE_WRONG_THREAD: u32 = 908;
    pub(crate) const UPDATE_FAILURE: u32 = 910;
}

/// The handle of the legacy default stream.
pub(crate) const LEGACY: u64 = 1;
/// The handle of the calling thread's default stream.
pub(crate) const PER_THREAD: u64 = 2;
/// The flag of streams that do not wait for the legacy default stream.
pub(crate) const NON_BLOCKING: u32 = 1;

/// Succeeds for code 0.
#[track_caller]
pub(crate) fn ok(code: u32) {
    assert_eq!(code, 0, "the call failed");
}

/// Succeeds for the code that was due.
#[track_caller]
pub(crate) fn refused(code: u32, due: u32) {
    assert_eq!(code, due, "another code was due");
}

/// Succeeds for the code of a bad argument.
#[track_caller]
pub(crate) fn invalid(code: u32) {
    refused(code, code::INVALID_VALUE);
}

/// The library with a context that is current, and the module of kernels.
#[derive(Debug)]
pub(crate) struct Session {
    pub(crate) cuda: Cuda,
    pub(crate) context: u64,
    pub(crate) module: u64,
}

impl Deref for Session {
    type Target = Cuda;

    fn deref(&self) -> &Cuda {
        &self.cuda
    }
}

impl Session {
    /// Opens the library, makes a context and loads the kernels.
    pub(crate) fn start() -> Self {
        let cuda = Cuda::open();
        ok(cuda.cuInit(0));
        let (mut context, mut module) = (0, 0);
        ok(cuda.cuCtxCreate_v2(&mut context, 0, 0));
        ok(cuda.cuModuleLoadData(&mut module, text(PTX).as_ptr().cast()));
        Self {
            cuda,
            context,
            module,
        }
    }

    pub(crate) fn function(&self, name: &CStr) -> u64 {
        self.function_of(self.module, name)
    }

    pub(crate) fn function_of(&self, module: u64, name: &CStr) -> u64 {
        let mut function = 0;
        ok(self.cuModuleGetFunction(&mut function, module, name.as_ptr()));
        function
    }

    pub(crate) fn load(&self) -> u64 {
        let mut module = 0;
        ok(self.cuModuleLoadData(&mut module, text(PTX).as_ptr().cast()));
        module
    }

    pub(crate) fn new_context(&self) -> u64 {
        let mut context = 0;
        ok(self.cuCtxCreate_v2(&mut context, 0, 0));
        context
    }

    pub(crate) fn alloc(&self, bytes: usize) -> u64 {
        let mut address = 0;
        ok(self.cuMemAlloc_v2(&mut address, bytes));
        address
    }

    /// Allocates words with values.
    pub(crate) fn words(&self, values: &[u32]) -> u64 {
        let address = self.alloc(size_of_val(values));
        self.write(address, values);
        address
    }

    pub(crate) fn write(&self, address: u64, values: &[u32]) {
        ok(self.cuMemcpyHtoD_v2(address, values.as_ptr().cast(), size_of_val(values)));
    }

    /// Reads words, behind everything on the legacy stream.
    pub(crate) fn read(&self, address: u64, count: usize) -> Vec<u32> {
        let mut values = vec![0u32; count];
        ok(self.cuMemcpyDtoH_v2(values.as_mut_ptr().cast(), address, count * 4));
        values
    }

    pub(crate) fn pinned(&self, bytes: usize) -> *mut u32 {
        let mut memory = std::ptr::null_mut();
        ok(self.cuMemHostAlloc(&mut memory, bytes, 0));
        memory.cast()
    }

    pub(crate) fn stream(&self, flags: u32) -> u64 {
        let mut stream = 0;
        ok(self.cuStreamCreate(&mut stream, flags));
        stream
    }

    pub(crate) fn event(&self) -> u64 {
        let mut event = 0;
        ok(self.cuEventCreate(&mut event, 0));
        event
    }

    /// Launches blocks of `threads` threads with parameters of at most 8 bytes each.
    pub(crate) fn launch(
        &self,
        function: u64,
        (blocks, threads): (u32, u32),
        stream: u64,
        params: &[u64],
    ) -> u32 {
        let mut values = params.to_vec();
        let mut pointers: Vec<*mut c_void> = values
            .iter_mut()
            .map(|value| std::ptr::from_mut(value).cast())
            .collect();
        let none = std::ptr::null_mut();
        let params = pointers.as_mut_ptr();
        self.cuLaunchKernel(
            function, blocks, 1, 1, threads, 1, 1, 0, stream, params, none,
        )
    }

    /// Waits until that many bytes are free again: what is given back is free when the service says so.
    #[track_caller]
    pub(crate) fn await_free(&self, due: usize) {
        let start = std::time::Instant::now();
        while self.free_bytes() != due {
            let free = self.free_bytes();
            assert!(
                start.elapsed().as_secs() < 30,
                "{due} bytes were free, now {free} are"
            );
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
    }

    pub(crate) fn free_bytes(&self) -> usize {
        let mut free = 0;
        ok(self.cuMemGetInfo_v2(&mut free, std::ptr::null_mut()));
        free
    }

    pub(crate) fn attribute(&self, attribute: i32) -> i32 {
        let mut value = 0;
        ok(self.cuDeviceGetAttribute(&mut value, attribute, 0));
        value
    }
}

/// Returns a text for C.
pub(crate) fn text(text: &str) -> CString {
    CString::new(text).expect("no zero inside")
}
