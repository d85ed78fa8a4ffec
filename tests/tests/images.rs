//! Contract: what a program hands to the driver library as an image becomes a module, and several become one; what does
//! not gets the documented code, and a sentence in the program's log.
//!
//! A binary of its own, because a process has one connection to the service; and one test for the same reason.

use cuda::context::current::cuCtxSetCurrent;
use cuda::context::primary::cuDevicePrimaryCtxRetain;
use cuda::init::cuInit;
use cuda::launch::cuLaunchKernel;
use cuda::library::{
    CUlibrary, cuKernelGetFunction, cuLibraryGetKernel, cuLibraryLoadData, cuLibraryUnload,
};
use cuda::link::{
    CUlinkState, cuLinkAddData_v2, cuLinkAddFile_v2, cuLinkComplete, cuLinkCreate_v2, cuLinkDestroy,
};
use cuda::memory::allocate::{cuMemAlloc_v2, cuMemFree_v2};
use cuda::memory::copy::cuMemcpyDtoH_v2;
use cuda::module::{
    CUmodule, cuModuleGetFunction, cuModuleLoadData, cuModuleLoadFatBinary, cuModuleUnload,
};
use cuda::registry::Handle;
use cuda::status::Status;
use gridmux_tests::ServiceBuilder;
use std::ffi::{CStr, CString, c_uint, c_void};
use std::ptr::null_mut;

const HEADER: &str = ".version 7.0\n.target sm_70\n.address_size 64\n";
const VALUE: u32 = 42;

/// Kinds of input of the linker.
const PTX: c_uint = 1;
const FATBINARY: c_uint = 2;
const OBJECT: c_uint = 3;
const LIBRARY: c_uint = 4;

/// Returns a kernel `store` that stores what `value` returns, which another module defines.
fn user() -> String {
    format!(
        "{HEADER}.extern .func (.param .b32 r) value();
.visible .entry store(.param .u64 out) {{
 .reg .b64 %d; .reg .b32 %r; .param .b32 r;
 ld.param.u64 %d,[out]; call (r),value; ld.param.b32 %r,[r]; st.global.u32 [%d],%r; ret; }}"
    )
}

fn library(value: u32) -> String {
    format!(
        "{HEADER}.visible .func (.param .b32 r) value() {{ .reg .b32 %r; mov.u32 %r,{value};
 st.param.b32 [r],%r; ret; }}"
    )
}

/// Returns both in one module.
fn whole(value: u32) -> String {
    let user = user().replace(".extern .func (.param .b32 r) value();", "");
    library(value) + user.strip_prefix(HEADER).unwrap()
}

/// Returns a container with one entry that is not packed: PTX (kind 1) or machine code (kind 2) for an architecture.
fn container(kind: u16, sm: u32, content: &str) -> Vec<u8> {
    let padded = (content.len() + 1).next_multiple_of(8);
    let mut image = Vec::new();
    image.extend(0xba55_ed50_u32.to_le_bytes());
    image.extend([1, 0, 16, 0]);
    image.extend((64 + padded as u64).to_le_bytes());
    let mut header = [0; 64];
    header[..2].copy_from_slice(&kind.to_le_bytes());
    header[4] = 64;
    header[8..16].copy_from_slice(&(padded as u64).to_le_bytes());
    header[28..32].copy_from_slice(&sm.to_le_bytes());
    image.extend(header);
    image.extend(content.as_bytes());
    image.resize(16 + 64 + padded, 0);
    image
}

#[track_caller]
fn check(code: u32) {
    assert_eq!(Status(code), Status::SUCCESS, "{:?}", Status(code).name());
}

/// Runs the kernel `store` of a module; what it stored.
fn stored(module: CUmodule) -> u32 {
    let mut function = Handle::NULL;
    let mut address = 0;
    let mut result = 0_u32;
    // SAFETY: every pointer is to a variable of the right type, and the kernel has one parameter, an address.
    unsafe {
        check(cuModuleGetFunction(
            &raw mut function,
            module,
            c"store".as_ptr(),
        ));
        check(cuMemAlloc_v2(&raw mut address, 4));
        let mut params = [(&raw mut address).cast::<c_void>()];
        let (stream, none) = (Handle::NULL, null_mut());
        check(cuLaunchKernel(
            function,
            1,
            1,
            1,
            1,
            1,
            1,
            0,
            stream,
            params.as_mut_ptr(),
            none,
        ));
        check(cuMemcpyDtoH_v2((&raw mut result).cast(), address, 4));
        check(cuMemFree_v2(address));
    }
    result
}

fn loaded(image: *const c_void) -> u32 {
    let mut module = Handle::NULL;
    // SAFETY: a place for the handle, and a whole image.
    check(unsafe { cuModuleLoadData(&raw mut module, image) });
    let result = stored(module);
    // SAFETY: a handle is looked up.
    check(unsafe { cuModuleUnload(module) });
    result
}

fn refused(image: *const c_void) -> Status {
    let mut module = Handle::NULL;
    // SAFETY: as in `loaded`.
    Status(unsafe { cuModuleLoadFatBinary(&raw mut module, image) })
}

/// Adds parts to a linker and completes it; the image, or the code and what the log says.
fn linked(parts: &[(c_uint, &[u8])]) -> Result<Vec<u8>, (Status, String)> {
    let mut log = [0_u8; 1000];
    let mut options = [5, 6];
    let mut values = [
        log.as_mut_ptr().cast(),
        std::ptr::without_provenance_mut(log.len()),
    ];
    let mut link: CUlinkState = Handle::NULL;
    let (mut image, mut bytes) = (null_mut::<c_void>(), 0);
    // SAFETY: every pointer is to a variable of the right type, which lives as long as the linker.
    unsafe {
        check(cuLinkCreate_v2(
            2,
            options.as_mut_ptr(),
            values.as_mut_ptr(),
            &raw mut link,
        ));
        let mut code = 0;
        for (n, (kind, data)) in parts.iter().enumerate() {
            let name = CString::new(format!("part{n}")).unwrap();
            let data_at = data.as_ptr().cast_mut().cast();
            code = cuLinkAddData_v2(
                link,
                *kind,
                data_at,
                data.len(),
                name.as_ptr(),
                0,
                null_mut(),
                null_mut(),
            );
            if code != 0 {
                break;
            }
        }
        if code == 0 {
            code = cuLinkComplete(link, &raw mut image, &raw mut bytes);
        }
        let result = match Status(code) {
            Status::SUCCESS => Ok(std::slice::from_raw_parts(image.cast::<u8>(), bytes).to_vec()),
            status => {
                let said = CStr::from_bytes_until_nul(&log).unwrap().to_string_lossy();
                // A call that is wrong by itself says nothing.
                assert!(said.is_empty() || values[1].addr() == said.len());
                Err((status, said.into_owned()))
            }
        };
        check(cuLinkDestroy(link));
        assert_eq!(Status(cuLinkDestroy(link)), Status::INVALID_HANDLE);
        result
    }
}

fn images_are_loaded() {
    let text = CString::new(whole(VALUE)).unwrap();
    assert_eq!(loaded(text.as_ptr().cast()), VALUE);
    let fat = container(1, 80, &whole(7));
    assert_eq!(loaded(fat.as_ptr().cast()), 7);
    let newer = container(1, 999, &whole(7));
    assert_eq!(refused(newer.as_ptr().cast()), Status::NO_BINARY_FOR_GPU);
    let code = container(2, 90, "\x7fELF");
    assert_eq!(refused(code.as_ptr().cast()), Status::NO_BINARY_FOR_GPU);
    assert_eq!(
        refused(c"\x7fELF".as_ptr().cast()),
        Status::NO_BINARY_FOR_GPU
    );
    assert_eq!(refused(c"".as_ptr().cast()), Status::INVALID_IMAGE);
    assert_eq!(refused(c"no PTX".as_ptr().cast()), Status::INVALID_IMAGE);
    assert_eq!(refused(std::ptr::null()), Status::INVALID_VALUE);
}

/// Loads what nvcc puts into a program of several objects: a wrapper with a container for each.
fn objects_of_a_program_are_linked() {
    let code = container(2, 90, "\x7fELF");
    let (user, library) = (container(1, 80, &user()), container(1, 80, &library(11)));
    let list = [user.as_ptr(), library.as_ptr(), std::ptr::null()];
    #[repr(C)]
    struct Wrapper {
        magic: u32,
        version: u32,
        data: *const u8,
        list: *const *const u8,
    }
    let wrapper = Wrapper {
        magic: 0x4662_43b1,
        version: 2,
        data: code.as_ptr(),
        list: list.as_ptr(),
    };
    assert_eq!(loaded((&raw const wrapper).cast()), 11);
    let mut library: CUlibrary = Handle::NULL;
    let (mut kernel, mut function) = (Handle::NULL, Handle::NULL);
    let none = null_mut::<c_void>();
    let image = (&raw const wrapper).cast();
    // SAFETY: places for handles, a whole image, and no options.
    unsafe {
        check(cuLibraryLoadData(
            &raw mut library,
            image,
            none.cast(),
            none.cast(),
            0,
            none.cast(),
            none.cast(),
            0,
        ));
        check(cuLibraryGetKernel(
            &raw mut kernel,
            library,
            c"store".as_ptr(),
        ));
        check(cuKernelGetFunction(&raw mut function, kernel));
        check(cuLibraryUnload(library));
    }
}

fn parts_are_linked() {
    let (user, library) = (user(), library(23));
    let both = linked(&[(PTX, user.as_bytes()), (PTX, library.as_bytes())]).unwrap();
    assert_eq!(loaded(both.as_ptr().cast()), 23);
    let fat = container(1, 80, &library);
    let both = linked(&[(PTX, user.as_bytes()), (FATBINARY, &fat)]).unwrap();
    assert_eq!(loaded(both.as_ptr().cast()), 23);
    // What was linked may be linked again.
    let alone = linked(&[(PTX, library.as_bytes())]).unwrap();
    assert_eq!(alone.strip_suffix(b"\0"), Some(library.as_bytes()));
    let again = linked(&[(0, &alone), (PTX, user.as_bytes())]).unwrap();
    assert_eq!(loaded(again.as_ptr().cast()), 23);
    let (status, said) = linked(&[(PTX, user.as_bytes()), (PTX, user.as_bytes())]).unwrap_err();
    assert_eq!(status, Status::INVALID_PTX);
    assert!(
        said.contains("`store` is defined twice: part 1 of 2, line 5"),
        "{said}"
    );
    let (status, said) = linked(&[(PTX, user.as_bytes())]).unwrap_err();
    assert_eq!(status, Status::INVALID_PTX);
    assert!(
        said.contains("`value` is used and no module defines it: the module, line 4"),
        "{said}"
    );
    let (status, said) = linked(&[(PTX, user.as_bytes()), (FATBINARY, b"\x7fELF")]).unwrap_err();
    assert_eq!(status, Status::NO_BINARY_FOR_GPU);
    assert!(
        said.starts_with("part1: the image holds machine code"),
        "{said}"
    );
    assert_eq!(linked(&[]).unwrap_err().0, Status::INVALID_VALUE);
    assert_eq!(linked(&[(PTX, b"")]).unwrap_err().0, Status::INVALID_VALUE);
    assert_eq!(linked(&[(99, b"x")]).unwrap_err().0, Status::INVALID_VALUE);
}

fn files_are_linked() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str, bytes: &[u8]| {
        let path = folder.path().join(name);
        std::fs::write(&path, bytes).unwrap();
        CString::new(path.to_str().unwrap()).unwrap()
    };
    let text = path("whole.ptx", whole(5).as_bytes());
    let runtime = path("libcudadevrt.a", b"!<arch>\n");
    let mut link: CUlinkState = Handle::NULL;
    let (mut image, mut bytes) = (null_mut::<c_void>(), 0);
    let none = null_mut::<c_void>();
    // SAFETY: every pointer is to a variable of the right type, or null where that is allowed.
    unsafe {
        check(cuLinkCreate_v2(0, none.cast(), none.cast(), &raw mut link));
        let add = |kind, path: &CStr| {
            Status(cuLinkAddFile_v2(
                link,
                kind,
                path.as_ptr(),
                0,
                none.cast(),
                none.cast(),
            ))
        };
        assert_eq!(add(LIBRARY, &runtime), Status::SUCCESS);
        assert_eq!(add(PTX, c"/nowhere.ptx"), Status::FILE_NOT_FOUND);
        assert_eq!(add(PTX, &text), Status::SUCCESS);
        check(cuLinkComplete(link, &raw mut image, &raw mut bytes));
        assert_eq!(loaded(image), 5);
        check(cuLinkDestroy(link));
    }
}

/// Returns an ELF file with sections, as a compiler for that machine would write it.
fn elf(machine: u16, sections: &[(&str, &[u8])]) -> Vec<u8> {
    const HEADER_BYTES: usize = 64;
    let (mut names, mut body) = (vec![0], Vec::new());
    let mut headers = vec![0; HEADER_BYTES];
    let named = sections.iter().copied();
    for (name, data) in named.chain([(".shstrtab", &b""[..])]) {
        let name_at = u32::try_from(names.len()).unwrap();
        names.extend(name.bytes().chain([0]));
        let is_names = name == ".shstrtab";
        let data = if is_names {
            names.clone()
        } else {
            data.to_vec()
        };
        let offset = (HEADER_BYTES + body.len()) as u64;
        let words = [0, 0, offset, data.len() as u64, 0, 1, 0];
        headers.extend(name_at.to_le_bytes());
        headers.extend(if is_names { 3_u32 } else { 1 }.to_le_bytes());
        headers.extend(words.map(u64::to_le_bytes).concat());
        body.extend(data);
        body.resize(body.len().next_multiple_of(8), 0);
    }
    let mut file = b"\x7fELF\x02\x01\x01".to_vec();
    file.resize(16, 0);
    file.extend([1_u16, machine].map(u16::to_le_bytes).concat());
    file.extend(1_u32.to_le_bytes());
    file.extend(
        [0, 0, (HEADER_BYTES + body.len()) as u64]
            .map(u64::to_le_bytes)
            .concat(),
    );
    file.extend(0_u32.to_le_bytes());
    let count = u16::try_from(sections.len() + 2).unwrap();
    file.extend(
        [64, 0, 0, 64, count, count - 1]
            .map(u16::to_le_bytes)
            .concat(),
    );
    file.extend(body);
    file.extend(headers);
    file
}

/// Returns an archive of files.
fn archive(members: &[(&str, &[u8])]) -> Vec<u8> {
    let mut file = b"!<arch>\n".to_vec();
    for (name, data) in members {
        let name = format!("{name}/");
        file.extend(
            format!(
                "{name:<16}{:<12}{:<6}{:<6}{:<8}{:<10}`\n",
                0,
                0,
                0,
                644,
                data.len()
            )
            .bytes(),
        );
        file.extend(*data);
        file.resize(file.len().next_multiple_of(2), b'\n');
    }
    file
}

fn host_objects_and_archives_are_linked() {
    const X86_64: u16 = 62;
    const CUDA: u16 = 190;
    let (user, library) = (container(1, 80, &user()), container(1, 80, &library(31)));
    let code = container(2, 80, "\x7fELF");
    let text: (&str, &[u8]) = (".text", b"code of the host");
    let user = elf(X86_64, &[text, ("__nv_relfatbin", &user)]);
    let library = elf(X86_64, &[(".nv_fatbin", &library), text]);
    let host = elf(X86_64, &[text]);
    let run = |parts: &[(c_uint, &[u8])]| loaded(linked(parts).unwrap().as_ptr().cast());
    assert_eq!(run(&[(OBJECT, &user), (OBJECT, &library)]), 31);
    let members = archive(&[("host.o", &host), ("library.o", &library)]);
    assert_eq!(run(&[(OBJECT, &user), (LIBRARY, &members)]), 31);
    let both = archive(&[("user.o", &user), ("library.o", &library)]);
    assert_eq!(run(&[(LIBRARY, &both)]), 31);
    // Two containers in one section, the first with machine code only.
    let mixed = [code.as_slice(), &[0; 8], &container(1, 80, &whole(32))].concat();
    assert_eq!(
        run(&[(OBJECT, &elf(X86_64, &[(".nv_fatbin", &mixed)]))]),
        32
    );
    // PTX is PTX, whatever it is called.
    assert_eq!(run(&[(OBJECT, whole(33).as_bytes())]), 33);

    let refused = |kind, data: &[u8]| linked(&[(kind, data)]).unwrap_err();
    let cubin = elf(CUDA, &[(".nv_fatbin", &mixed)]);
    for image in [
        &cubin,
        &archive(&[("cubin.o", &cubin)]),
        &elf(X86_64, &[(".nv_fatbin", &code)]),
    ] {
        let (status, said) = refused(OBJECT, image);
        assert_eq!(status, Status::NO_BINARY_FOR_GPU);
        assert!(
            said.starts_with("part0: the image holds machine code"),
            "{said}"
        );
    }
    let newer = elf(X86_64, &[(".nv_fatbin", &container(1, 999, &whole(1)))]);
    assert_eq!(refused(OBJECT, &newer).0, Status::NO_BINARY_FOR_GPU);
    for (image, due) in [
        (host.clone(), "no object in it has code for a device"),
        (
            archive(&[("host.o", &host)]),
            "no object in it has code for a device",
        ),
        (
            b"!<arch>\n".to_vec(),
            "no object in it has code for a device",
        ),
        (b"!<thin>\n".to_vec(), "thin archive"),
        (
            elf(X86_64, &[(".nv_fatbin", b"something else, and longer")]),
            "something else in it",
        ),
        (
            elf(X86_64, &[(".nv_fatbin", &mixed[..mixed.len() - 8])]),
            "ends early",
        ),
        (
            b"\x7fELF\x02\x01\x01\0\0\0\0\0\0\0\0\0\x01\0\x3e\0".to_vec(),
            "corrupt",
        ),
    ] {
        let (status, said) = refused(LIBRARY, &image);
        assert_eq!(
            (status, said.contains(due)),
            (Status::INVALID_IMAGE, true),
            "{said}"
        );
    }
    // Whatever is cut off or changed, there is an answer.
    for end in (0..both.len()).step_by(7) {
        let _ = linked(&[(LIBRARY, &both[..end])]);
        let mut changed = both.clone();
        changed[end] ^= 0x55;
        let _ = linked(&[(LIBRARY, &changed)]);
    }
}

#[test]
fn images_become_modules() {
    let service = ServiceBuilder::new(&[("a", 1)]).start();
    // SAFETY: no other thread of this process reads or writes its environment: the service is another process.
    unsafe { std::env::set_var("GRIDMUX_SOCKET", service.socket()) };
    let mut context = Handle::NULL;
    // SAFETY: a place for the handle.
    unsafe {
        check(cuInit(0));
        check(cuDevicePrimaryCtxRetain(&raw mut context, 0));
        check(cuCtxSetCurrent(context));
    }
    images_are_loaded();
    objects_of_a_program_are_linked();
    parts_are_linked();
    files_are_linked();
    host_objects_and_archives_are_linked();
}
