//! Modules and libraries: good ones, bad ones and their logs, and the unloading of what is in use.

use crate::kernels::{BROKEN, PTX};
use crate::session::{Session, code, invalid, ok, refused, text};
use std::ffi::{CStr, c_void};
use std::ptr::{null, null_mut};

scenarios! {
    modules: kernels_and_variables variables_alone bad_images messages_go_to_the_programs_buffers
        unloaded_while_it_runs libraries;
}

fn kernels_and_variables() {
    let session = Session::start();
    let add = session.function(c"add");
    assert_eq!(session.function(c"add"), add, "the same handle each time");
    let mut function = 5;
    for unknown in [c"nothing", c"", c"ad"] {
        let found = session.cuModuleGetFunction(&mut function, session.module, unknown.as_ptr());
        refused(found, code::NOT_FOUND);
    }
    assert_eq!(function, 5);
    let (mut number, mut bytes) = (0, 0);
    let name = c"number".as_ptr();
    ok(session.cuModuleGetGlobal_v2(&mut number, &mut bytes, session.module, name));
    assert_eq!((bytes, session.read(number, 1)), (4, vec![5]));
    ok(session.cuModuleGetGlobal_v2(null_mut(), &mut bytes, session.module, name));
    ok(session.cuModuleGetGlobal_v2(&mut number, null_mut(), session.module, name));
    refused(
        session.cuModuleGetGlobal_v2(&mut number, &mut bytes, session.module, c"add".as_ptr()),
        code::NOT_FOUND,
    );
    // A second load has variables of its own.
    let second = session.load();
    let mut other = 0;
    ok(session.cuModuleGetGlobal_v2(&mut other, null_mut(), second, name));
    assert_ne!(number, other);
    session.write(number, &[100]);
    assert_eq!(session.read(other, 1), [5]);
    let data = session.words(&[1, 2, 3]);
    ok(session.launch(add, (1, 32), 0, &[data, 3]));
    assert_eq!(session.read(data, 3), [101, 102, 103]);
    ok(session.cuModuleUnload(second));
    invalid(session.cuMemcpyHtoD_v2(other, [0u32].as_ptr().cast(), 4));
    invalid(session.cuMemFree_v2(number));
}

/// A module need not have a kernel.
fn variables_alone() {
    let session = Session::start();
    let image =
        c".version 8.0\n.target sm_80\n.address_size 64\n.visible .global .u32 number = 9;\n";
    let (mut module, mut number, mut function) = (0, 0, 0);
    ok(session.cuModuleLoadData(&mut module, image.as_ptr().cast()));
    ok(session.cuModuleGetGlobal_v2(&mut number, null_mut(), module, c"number".as_ptr()));
    assert_eq!(session.read(number, 1), [9]);
    let found = session.cuModuleGetFunction(&mut function, module, c"number".as_ptr());
    refused(found, code::NOT_FOUND);
    ok(session.cuModuleUnload(module));
}

fn bad_images() {
    let session = Session::start();
    let mut module = 5;
    let mut load = |image: *const c_void| session.cuModuleLoadData(&mut module, image);
    invalid(load(null()));
    refused(load(c"".as_ptr().cast()), code::INVALID_IMAGE);
    let broken = text(BROKEN);
    refused(load(broken.as_ptr().cast()), code::INVALID_PTX);
    refused(load(c"this is no PTX".as_ptr().cast()), code::INVALID_IMAGE);
    let cut = text(&PTX[..PTX.len() / 2]);
    refused(load(cut.as_ptr().cast()), code::INVALID_PTX);
    // What no device of this capability runs, and what only a later driver knows.
    let kernel = |version, target| {
        text(&format!(
            ".version {version}\n.target {target}\n.address_size 64\n.visible .entry k() {{ ret; }}"
        ))
    };
    let later = kernel("8.6", "sm_120");
    refused(load(later.as_ptr().cast()), code::INVALID_PTX);
    let newer = kernel("99.0", "sm_80");
    refused(load(newer.as_ptr().cast()), code::UNSUPPORTED_PTX_VERSION);
    // A file of the ELF kind that holds nothing, with room behind it for who reads on.
    let mut elf = [0u8; 4096];
    elf[..4].copy_from_slice(b"\x7fELF");
    let refusal = load(elf.as_ptr().cast());
    assert!(
        [code::NO_BINARY_FOR_GPU, code::INVALID_IMAGE].contains(&refusal),
        "{refusal}"
    );
    assert_eq!(module, 5, "nothing is written");
    let path = c"/no/such/file.ptx";
    refused(
        session.cuModuleLoad(&mut module, path.as_ptr()),
        code::FILE_NOT_FOUND,
    );
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), PTX).unwrap();
    let path = text(file.path().to_str().unwrap());
    ok(session.cuModuleLoad(&mut module, path.as_ptr()));
    session.function_of(module, c"add");
    ok(session.cuModuleUnload(module));
    refused(session.cuModuleUnload(module), code::INVALID_HANDLE);
}

fn messages_go_to_the_programs_buffers() {
    const ERROR_LOG: u32 = 5;
    const ERROR_LOG_BYTES: u32 = 6;
    let session = Session::start();
    let load = |image: &CStr, log: &mut [u8], told: usize| {
        let mut module = 0;
        let mut options = [ERROR_LOG, ERROR_LOG_BYTES];
        let mut values = [
            log.as_mut_ptr().cast(),
            std::ptr::without_provenance_mut::<c_void>(told),
        ];
        let code = session.cuModuleLoadDataEx(
            &mut module,
            image.as_ptr().cast(),
            2,
            options.as_mut_ptr(),
            values.as_mut_ptr(),
        );
        (code, values[1].addr() & 0xffff_ffff)
    };
    let broken = text(BROKEN);
    let mut log = [b'x'; 1024];
    let (code, written) = load(&broken, &mut log, 1024);
    refused(code, code::INVALID_PTX);
    let message = CStr::from_bytes_until_nul(&log).unwrap().to_str().unwrap();
    assert!(written > 0 && message.contains("undeclared"), "{message:?}");
    assert!(message.contains("7:"), "the line: {message:?}");
    // A short buffer holds a part and a zero, and nothing behind it changes.
    let mut log = [b'x'; 64];
    load(&broken, &mut log, 10);
    assert!(log[..10].contains(&0) && log[10..].iter().all(|byte| *byte == b'x'));
    let mut log = [b'x'; 64];
    load(&broken, &mut log, 0);
    assert_eq!(log, [b'x'; 64]);
    // A good module leaves an empty log.
    let mut log = [b'x'; 64];
    let (code, _) = load(&text(PTX), &mut log, 64);
    ok(code);
    assert_eq!(log[0], 0);
    // Options without values, and one that does not exist.
    let mut module = 0;
    let image = text(PTX);
    let image = image.as_ptr().cast();
    let mut option = [ERROR_LOG];
    let none = session.cuModuleLoadDataEx(&mut module, image, 1, option.as_mut_ptr(), null_mut());
    invalid(none);
    let mut unknown = [9999];
    let mut value = [null_mut()];
    let (options, values) = (unknown.as_mut_ptr(), value.as_mut_ptr());
    let refusal = session.cuModuleLoadDataEx(&mut module, image, 1, options, values);
    invalid(refusal);
}

fn unloaded_while_it_runs() {
    let session = Session::start();
    let out = session.words(&[0]);
    for round in 1..=10 {
        let module = session.load();
        let slow = session.function_of(module, c"slow");
        ok(session.launch(slow, (1, 32), 0, &[out, 20_000, round]));
        ok(session.cuModuleUnload(module));
        refused(
            session.launch(slow, (1, 32), 0, &[out, 1, 99]),
            code::INVALID_HANDLE,
        );
        let mut value = 0;
        refused(
            session.cuFuncGetAttribute(&mut value, 0, slow),
            code::INVALID_HANDLE,
        );
        assert_eq!(
            u64::from(session.read(out, 1)[0]),
            round,
            "the launch came to its end"
        );
    }
}

fn libraries() {
    let session = Session::start();
    let image = text(PTX);
    let mut library = 0;
    let none = null_mut();
    let load = |library: *mut u64, image: *const c_void| {
        session.cuLibraryLoadData(library, image, null_mut(), none, 0, null_mut(), none, 0)
    };
    invalid(load(&mut library, null()));
    invalid(load(null_mut(), image.as_ptr().cast()));
    ok(load(&mut library, image.as_ptr().cast()));
    let (mut kernel, mut function) = (0, 0);
    ok(session.cuLibraryGetKernel(&mut kernel, library, c"add".as_ptr()));
    refused(
        session.cuLibraryGetKernel(&mut kernel, library, c"nothing".as_ptr()),
        code::NOT_FOUND,
    );
    ok(session.cuKernelGetFunction(&mut function, kernel));
    let (mut offset, mut bytes) = (0, 0);
    ok(session.cuKernelGetParamInfo(kernel, 1, &mut offset, &mut bytes));
    assert_eq!((offset, bytes), (8, 4));
    let data = session.words(&[1]);
    // Both handles launch, in any context.
    for handle in [kernel, function] {
        ok(session.launch(handle, (1, 1), 0, &[data, 1]));
    }
    let context = session.new_context();
    ok(session.launch(kernel, (1, 1), 0, &[data, 1]));
    ok(session.cuCtxSynchronize());
    ok(session.cuCtxDestroy_v2(context));
    assert_eq!(session.read(data, 1), [16]);
    ok(session.cuLibraryUnload(library));
    refused(session.cuLibraryUnload(library), code::INVALID_HANDLE);
    for handle in [kernel, function] {
        refused(
            session.launch(handle, (1, 1), 0, &[data, 1]),
            code::INVALID_HANDLE,
        );
    }
}
