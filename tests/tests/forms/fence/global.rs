//! Global and generic addresses that lead out of the own partition.

use super::scene::BUFFER;
use super::{MODES, does_harm, ends, kernel, survives, unfenced};

#[test]
fn stores_to_a_neighbour_land_in_the_own_partition() {
    let attacks = [
        ("a register", "st.global.u32 [%target], %r;"),
        ("a generic address", "st.u32 [%target], %r;"),
        ("a vector", "st.global.v4.u32 [%target], {%r, %r, %r, %r};"),
        ("an offset", "st.global.u32 [%target+64], %r;"),
        (
            "a negative offset",
            "add.s64 %a, %target, 4096;\nst.global.u32 [%a+-4096], %r;",
        ),
        (
            "a huge offset",
            "sub.s64 %a, %target, 1073741824;\nst.global.u32 [%a+1073741824], %r;",
        ),
        (
            "the distance between the buffers",
            "sub.s64 %a, %target, %own;\nadd.s64 %b, %own, %a;\nst.global.u32 [%b], %r;",
        ),
        (
            "a vector through a generic address",
            "st.v4.u32 [%target], {%r, %r, %r, %r};",
        ),
        (
            "an offset that wraps",
            "add.s64 %a, %target, 2147483644;\nst.global.u32 [%a+-2147483644], %r;",
        ),
        (
            "overflow",
            "mov.u64 %a, 0x8000000000000000;\nadd.s64 %b, %target, %a;\nadd.s64 %b, %b, %a;\nst.global.u32 [%b], %r;",
        ),
        ("an atomic", "atom.global.add.u32 %s, [%target], %r;"),
        ("an exchange", "atom.global.exch.b64 %a, [%target], %own;"),
        (
            "a compare and swap",
            "ld.global.u32 %s, [%target];\natom.global.cas.b32 %s, [%target], %s, %r;",
        ),
        ("a reduction", "red.global.add.u32 [%target], %r;"),
        ("a generic reduction", "red.add.u32 [%target], %r;"),
        (
            "a guarded store",
            "setp.ge.u32 %p, %i, 0;\n@%p st.global.u32 [%target], %r;",
        ),
        (
            "a loop",
            "mov.u32 %s, 0;\n$next:\nst.global.u32 [%target], %r;\nadd.s64 %target, %target, 4;\nadd.u32 %s, %s, 1;\n\
             setp.lt.u32 %p, %s, 64;\n@%p bra $next;",
        ),
        (
            "a pointer kept across a store",
            "st.global.u32 [%own], %r;\nadd.s64 %own, %own, 0;\nmov.u64 %own, %target;\nst.global.u32 [%own], %r;",
        ),
        (
            "a swap under a predicate",
            "setp.lt.u32 %p, %i, 5;\nst.global.u32 [%own], %r;\n@%p mov.u64 %own, %target;\nst.global.u32 [%own], %r;",
        ),
        ("a byte", "st.global.u8 [%target+3], %r;"),
        ("a volatile store", "st.volatile.global.u32 [%target], %r;"),
        ("a scoped store", "st.release.sys.global.u32 [%target], %r;"),
    ];
    for (name, body) in attacks {
        let ptx = kernel("", body);
        does_harm(name, &ptx);
        survives(name, &ptx);
    }
}

#[test]
fn loads_do_not_see_a_neighbour() {
    let attacks = [
        ("a load", "ld.global.u32 %s, [%target+8];"),
        (
            "through the texture path",
            "ld.global.nc.u32 %s, [%target+8];",
        ),
        ("a uniform load", "ldu.global.u32 %s, [%target+8];"),
        ("a generic load", "ld.u32 %s, [%target+8];"),
        ("a vector", "ld.global.v2.u32 {%t, %s}, [%target];"),
        ("an atomic", "atom.global.or.b32 %s, [%target], 0;"),
        (
            "an asynchronous copy",
            ".shared .align 16 .b8 x[16];\ncp.async.ca.shared.global [x], [%target+8], 4;\ncp.async.wait_all;\n\
             ld.shared.u32 %s, [x];",
        ),
    ];
    for (name, body) in attacks {
        let ptx = kernel("", &format!("{body}\nst.global.u32 [%own], %s;"));
        let launch = ([1, 1, 1], 1, 0);
        let secret = unfenced(&ptx, launch).words()[0];
        assert_ne!(secret, 0, "{name} reads nothing even without the fence");
        ends(name, &ptx, &MODES, launch, |scene, what| {
            assert_ne!(scene.words()[0], secret, "{what}");
        });
    }
}

/// The assembler does not know absolute addresses of global memory, and neither does the front end.
#[test]
fn an_absolute_address_is_an_error() {
    let text = kernel("", "st.global.u32 [4096], %r;");
    let module = gridmux_ptx::Module::parse(text.as_bytes()).expect("its statements are sound");
    let error = module
        .decode()
        .expect_err("it stores to a constant address");
    assert!(
        error.message.contains("a constant is an address"),
        "{error}"
    );
}

#[test]
fn wild_addresses_do_not_fault() {
    let attacks = [
        (
            "null",
            "mov.u64 %a, 0;\nst.global.u32 [%a], %r;\nst.u32 [%a], %r;",
        ),
        (
            "all ones",
            "mov.u64 %a, -1;\nst.global.u32 [%a], %r;\nst.global.v4.u32 [%a+12], {%r, %r, %r, %r};",
        ),
        (
            "misaligned",
            "add.s64 %a, %own, 1;\nst.global.u32 [%a], %r;\nst.global.u64 [%a+2], %own;\n\
             atom.global.add.u32 %s, [%a+1], 1;",
        ),
        (
            "misaligned by register",
            "cvt.u64.u32 %a, %i;\nadd.s64 %a, %own, %a;\nst.global.v2.u32 [%a], {%r, %r};",
        ),
        (
            "the end of the partition",
            "or.b64 %a, %own, 0xffffffff;\nst.global.u8 [%a+16777216], %r;\nst.global.v4.u32 [%a+1], {%r, %r, %r, %r};",
        ),
        (
            "the start of the partition",
            "and.b64 %a, %own, 0xffffffff00000000;\nst.global.u32 [%a+-4096], %r;",
        ),
        (
            "random addresses",
            "mov.u64 %a, %clock64;\nmov.u32 %s, 0;\n$next:\nmul.lo.u64 %a, %a, 6364136223846793005;\n\
             add.u64 %a, %a, 1442695040888963407;\nst.global.u32 [%a], %r;\nld.u32 %t, [%a];\nadd.u32 %s, %s, 1;\n\
             setp.lt.u32 %p, %s, 50;\n@%p bra $next;",
        ),
        (
            "an undefined register",
            "st.global.u32 [%c], %r;\nmov.u64 %c, 64;",
        ),
    ];
    for (name, body) in attacks {
        does_harm(name, &kernel("", body));
        survives(name, &kernel("", body));
    }
}

#[test]
fn module_variables_cannot_be_left() {
    let before = ".global .align 4 .u32 g[4];\n.visible .global .align 4 .b8 h[16];\n\
        .const .align 4 .u32 c[4] = {1, 2, 3, 4};";
    let attacks = [
        ("far behind a name", "st.global.u32 [g+99999996], %r;"),
        (
            "in front of the partition",
            "mov.u64 %a, g;\nand.b64 %a, %a, 0xffffffff00000000;\nsub.s64 %a, %a, 4294967296;\nst.global.u32 [%a], %r;",
        ),
        ("before a name", "st.global.u32 [g+-64], %r;"),
        (
            "a name in a register",
            "mov.u64 %a, h;\nsub.s64 %b, %target, %a;\nadd.s64 %a, %a, %b;\nst.global.u32 [%a], %r;",
        ),
        ("misaligned behind a name", "st.global.u32 [g+2], %r;"),
        (
            "a generic name",
            "cvta.global.u64 %a, g;\nsub.s64 %b, %target, %a;\nadd.s64 %a, %a, %b;\nst.u32 [%a], %r;",
        ),
        (
            "behind a constant",
            "mov.u64 %a, c;\nmul.wide.u32 %b, %i, 4096;\nadd.s64 %a, %a, %b;\nld.const.u32 %s, [%a];\n\
             ld.const.u32 %s, [%a+3];\nld.const.u32 %s, [c+4096];",
        ),
    ];
    for (name, body) in attacks {
        does_harm(name, &kernel(before, body));
        survives(name, &kernel(before, body));
    }
}

#[test]
fn well_behaved_kernels_compute_the_same_bits() {
    let before = ".extern .shared .align 16 .b8 d[];\n.global .align 8 .u32 g[8] = {1, 2, 3, 4, 5, 6, 7, 8};\n\
        .const .align 4 .u32 c[4] = {9, 8, 7, 6};";
    let body = ".shared .align 8 .b8 x[1024];\n.local .align 8 .b8 l[32];\n\
        mov.u32 %s, %ctaid.x;\nmov.u32 %t, %ntid.x;\nmad.lo.u32 %u, %s, %t, %i;\nmul.wide.u32 %a, %u, 16;\n\
        add.s64 %a, %own, %a;\n\
        mov.u32 %s, x;\nmad.lo.u32 %s, %i, 4, %s;\nst.shared.u32 [%s], %u;\nst.shared.u32 [%s+256], %i;\n\
        mov.u32 %v, d;\nmad.lo.u32 %v, %i, 8, %v;\nst.shared.v2.u32 [%v], {%u, %r};\nbar.sync 0;\n\
        ld.shared.u32 %t, [%s+256];\nxor.b32 %r, %r, %t;\n\
        and.b32 %t, %i, 3;\nmul.wide.u32 %b, %t, 4;\nmov.u64 %c, c;\nadd.s64 %c, %c, %b;\nld.const.u32 %t, [%c];\n\
        add.u32 %r, %r, %t;\n\
        mov.u64 %c, l;\nadd.s64 %c, %c, %b;\nst.local.u32 [%c], %r;\nld.local.u32 %t, [%c];\nadd.u32 %r, %r, %t;\n\
        cvta.local.u64 %c, %c;\nst.global.u64 [%a+8], %c;\nld.global.u64 %c, [%a+8];\nld.u32 %t, [%c];\n\
        add.u32 %r, %r, %t;\n\
        cvt.u64.u32 %c, %v;\ncvta.shared.u64 %c, %c;\nst.global.u64 [%a+8], %c;\nld.global.u64 %c, [%a+8];\n\
        ld.u32 %t, [%c];\nadd.u32 %r, %r, %t;\n\
        isspacep.shared %p, %c;\nselp.u32 %t, 5, 6, %p;\nadd.u32 %r, %r, %t;\n\
        mov.u64 %c, g;\nadd.s64 %c, %c, %b;\nld.global.u32 %t, [%c+16];\nadd.u32 %r, %r, %t;\nld.u32 %t, [%c];\n\
        add.u32 %r, %r, %t;\n\
        atom.global.add.u32 %t, [%own+32768], 1;\nst.global.v2.u32 [%a], {%r, %u};\nmov.u64 %c, 0;\n\
        st.global.u64 [%a+8], %c;";
    let ptx = kernel(before, body);
    let launch = ([4, 1, 1], 64, 512);
    let original = unfenced(&ptx, launch);
    let expected = original.read(original.buffer);
    assert!(expected.iter().any(|&b| b != 0) && expected.len() as u64 == BUFFER);
    ends("well behaved", &ptx, &MODES, launch, |scene, what| {
        assert!(scene.read(scene.buffer) == expected, "{what}: other bits");
    });
}

/// The fence rounds a pointer down once for all that goes through it, so it must not round too much.
#[test]
fn pointers_keep_the_bits_that_their_accesses_need() {
    // What is aligned are sums: a pointer off by 4 and one off by 1, each with offsets of their own.
    let body = "add.s64 %a, %own, 4;\nst.global.u64 [%own+1024], %a;\nld.global.u64 %b, [%own+1024];\n\
        mul.wide.u32 %c, %i, 16;\nadd.s64 %c, %b, %c;\nst.global.u32 [%c], %i;\nst.global.v2.u32 [%c+4], {%r, %i};\n\
        st.global.u32 [%b+3072], %r;\n\
        add.s64 %a, %own, 2049;\nst.global.u64 [%own+1032], %a;\nbar.sync 0;\nld.global.u64 %target, [%own+1032];\n\
        cvt.u64.u32 %c, %i;\nadd.s64 %c, %target, %c;\nst.global.u8 [%c], %r;\nst.global.u8 [%c+64], %i;\n\
        add.s64 %c, %target, 255;\nst.global.u64 [%c], %own;\nbar.sync 0;\nmov.u64 %c, 0;\n\
        st.global.u64 [%own+1024], %c;\nst.global.u64 [%own+1032], %c;";
    let ptx = kernel("", body);
    let launch = ([1, 1, 1], 64, 0);
    let original = unfenced(&ptx, launch);
    let expected = original.read(original.buffer);
    ends("rounded pointers", &ptx, &MODES, launch, |scene, what| {
        assert!(scene.read(scene.buffer) == expected, "{what}");
    });
}
