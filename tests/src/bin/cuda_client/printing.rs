//! What kernels print comes to stdout when the program synchronises; `tests/tests/service/cuda/printing.rs` listens.

use crate::session::{NON_BLOCKING, Session, ok, text};

scenarios! {
    printing: at_each_kind_of_synchronisation more_than_is_kept;
}

/// A kernel whose threads each print `N line`, with their numbers in the grid added to `base`.
const PRINTS: &str = "
.version 8.0
.target sm_80
.address_size 64

.extern .func (.param .b32 result) vprintf(.param .b64 format, .param .b64 arguments);
.global .align 1 .b8 format[9] = {37, 117, 32, 108, 105, 110, 101, 10, 0};

.visible .entry prints(.param .u32 base)
{
    .local .align 8 .b8 arguments[8];
    .reg .b32 %r<6>;
    .reg .b64 %rd<4>;
    ld.param.u32 %r0, [base];
    mov.u32 %r1, %ctaid.x;
    mov.u32 %r2, %ntid.x;
    mov.u32 %r3, %tid.x;
    mad.lo.u32 %r4, %r1, %r2, %r3;
    add.u32 %r4, %r4, %r0;
    mov.u64 %rd0, arguments;
    st.local.u32 [%rd0], %r4;
    cvta.local.u64 %rd0, %rd0;
    mov.u64 %rd1, format;
    cvta.global.u64 %rd1, %rd1;
    {
        .param .b64 p0;
        .param .b64 p1;
        .param .b32 r;
        st.param.b64 [p0], %rd1;
        st.param.b64 [p1], %rd0;
        call.uni (r), vprintf, (p0, p1);
        ld.param.b32 %r5, [r];
    }
    ret;
}
";

fn prints(session: &Session) -> u64 {
    let mut module = 0;
    ok(session.cuModuleLoadData(&mut module, text(PRINTS).as_ptr().cast()));
    session.function_of(module, c"prints")
}

/// Says how it will wait, which stdout must show before what the kernel prints, and then that it has waited.
fn at_each_kind_of_synchronisation() {
    let session = Session::start();
    let prints = prints(&session);
    let (stream, event, word) = (
        session.stream(NON_BLOCKING),
        session.event(),
        session.words(&[0]),
    );
    let mut own = [0u32];
    let waits: [(&str, &mut dyn FnMut() -> u32); 4] = [
        ("context", &mut || session.cuCtxSynchronize()),
        ("stream", &mut || session.cuStreamSynchronize(stream)),
        ("event", &mut || session.cuEventSynchronize(event)),
        ("copy", &mut || {
            session.cuMemcpyDtoH_v2(own.as_mut_ptr().cast(), word, 4)
        }),
    ];
    for (base, (name, wait)) in (0..).step_by(10).zip(waits) {
        // A copy waits for its own stream, which is the legacy one.
        let on = if name == "copy" { 0 } else { stream };
        ok(session.launch(prints, (1, 3), on, &[base]));
        ok(session.cuEventRecord(event, on));
        println!("waits by {name}");
        ok(wait());
        println!("waited by {name}");
    }
}

/// Prints more between two synchronisations than the service keeps.
fn more_than_is_kept() {
    let session = Session::start();
    let prints = prints(&session);
    println!("prints");
    ok(session.launch(prints, (1000, 128), 0, &[1_000_000]));
    ok(session.cuCtxSynchronize());
    // And goes on printing.
    ok(session.launch(prints, (1, 1), 0, &[5]));
    ok(session.cuCtxSynchronize());
}
