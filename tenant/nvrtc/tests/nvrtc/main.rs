//! The stand-in in front of a compiler that shows what it was asked for.

use nvrtc::compile::{code, code_size, compile, destroy};
use nvrtc::real::{INTERNAL_ERROR, INVALID_INPUT, Program, Real, SUCCESS};
use std::ffi::{CStr, c_char, c_int};
use std::path::Path;
use std::process::Command;
use std::ptr::{null, null_mut};

/// What the compiler answers to the option `fail`.
const COMPILATION: c_int = 6;

struct Compiler {
    real: Real,
    program: Program,
    _folder: tempfile::TempDir,
}

impl Compiler {
    fn new() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let library = folder.path().join("libnvrtc.so.13");
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/nvrtc/compiler.c");
        let mut gcc = Command::new("gcc");
        gcc.args(["-shared", "-fPIC", "-o"])
            .arg(&library)
            .arg(source);
        assert!(gcc.status().expect("gcc starts").success());
        // SAFETY: the library has functions as `nvrtc.h` declares them.
        let real = unsafe { Real::open_at(&library) }.expect("the compiler opens");
        let mut program = null_mut();
        // SAFETY: as the function's C declaration asks; the compiler reads no source.
        let code = unsafe {
            real.nvrtcCreateProgram(&raw mut program, c"".as_ptr(), null(), 0, null(), null())
        };
        assert_eq!(code, SUCCESS);
        Self {
            real,
            program,
            _folder: folder,
        }
    }

    fn compile(&self, options: &[&CStr]) -> c_int {
        let pointers: Vec<*const c_char> = options.iter().map(|option| option.as_ptr()).collect();
        let count = c_int::try_from(pointers.len()).expect("few options");
        // SAFETY: as many strings.
        unsafe { compile(&self.real, self.program, count, pointers.as_ptr()) }
    }

    /// Returns the machine code.
    fn code(&self) -> Result<Vec<u8>, c_int> {
        let mut bytes = 0;
        // SAFETY: a program, and a place for a number.
        match unsafe { code_size(&self.real, self.program, &raw mut bytes) } {
            SUCCESS => {}
            code => return Err(code),
        }
        let mut given = vec![0_u8; bytes.max(1)];
        // SAFETY: as many bytes as were told.
        match unsafe { code(&self.real, self.program, given.as_mut_ptr().cast()) } {
            SUCCESS => Ok(given),
            code => Err(code),
        }
    }
}

impl Drop for Compiler {
    fn drop(&mut self) {
        // SAFETY: a program that was made.
        let code = unsafe { destroy(&self.real, &raw mut self.program) };
        assert!(code == SUCCESS && self.program.is_null());
    }
}

#[test]
fn machine_code_for_a_real_architecture_is_ptx_for_the_virtual_one() {
    let compiler = Compiler::new();
    assert_eq!(compiler.compile(&[c"-G", c"-arch=sm_90a"]), SUCCESS);
    assert_eq!(compiler.code().unwrap(), b"-G\n-arch=compute_90a\n\0");
}

#[test]
fn a_virtual_architecture_gives_none_as_before() {
    let compiler = Compiler::new();
    assert_eq!(compiler.compile(&[c"-arch=sm_80"]), SUCCESS);
    assert_eq!(compiler.compile(&[c"-arch=compute_80"]), SUCCESS);
    assert_eq!(compiler.code(), Err(INVALID_INPUT));
}

#[test]
fn without_ptx_there_is_no_machine_code() {
    let compiler = Compiler::new();
    assert_eq!(compiler.compile(&[c"-arch=sm_80", c"-dlto"]), SUCCESS);
    assert_eq!(compiler.code(), Err(INVALID_INPUT));
    assert_eq!(compiler.compile(&[c"-arch=sm_80", c"fail"]), COMPILATION);
    assert_eq!(compiler.code(), Err(INVALID_INPUT));
}

#[test]
fn wrong_arguments_are_the_compilers_matter() {
    let compiler = Compiler::new();
    let (real, program) = (&compiler.real, compiler.program);
    // SAFETY: what is wrong with them is said by the compiler, which checks these.
    unsafe {
        assert_eq!(compile(real, program, 1, null()), INVALID_INPUT);
        assert_eq!(compile(real, program, -1, null()), INVALID_INPUT);
        assert_eq!(compile(real, program, 1, [null()].as_ptr()), INVALID_INPUT);
        assert_eq!(compile(real, program, 0, null()), SUCCESS);
    }
    assert_eq!(compiler.compile(&[c"-arch=sm_80"]), SUCCESS);
    // SAFETY: a null place is refused.
    let size = unsafe { code_size(real, program, null_mut()) };
    assert_eq!(size, INVALID_INPUT);
    // SAFETY: this compiler has no such function.
    let missing = unsafe { real.nvrtcVersion(null_mut(), null_mut()) };
    assert_eq!(missing, INTERNAL_ERROR);
}
