//! What kernels print comes to stdout when the program synchronises; `tests/tests/service/cuda/printing.rs` listens.

use crate::session::{NON_BLOCKING, Session, ok, text};

scenarios! {
    printing: at_each_kind_of_synchronisation more_than_is_kept;
}

/// A kernel whose threads each print `N line`, with their numbers in the grid added to `base`.
const PRINTS: &str = include_str!("printing.ptx");

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
