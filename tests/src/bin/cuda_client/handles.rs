//! Handles that name nothing: destroyed, of another kind, made up.

use crate::session::{Session, code, invalid, ok, refused, text};
use std::ptr::null_mut;

scenarios! {
    handles: destroyed_ones_name_nothing of_one_kind_are_not_of_another;
}

fn destroyed_ones_name_nothing() {
    let session = Session::start();
    let event = session.event();
    ok(session.cuEventDestroy_v2(event));
    let due = code::INVALID_HANDLE;
    let mut time = 0.0;
    refused(session.cuEventDestroy_v2(event), due);
    refused(session.cuEventRecord(event, 0), due);
    refused(session.cuEventQuery(event), due);
    refused(session.cuEventSynchronize(event), due);
    refused(session.cuStreamWaitEvent(0, event, 0), due);
    refused(session.cuEventElapsedTime(&mut time, event, event), due);

    let stream = session.stream(0);
    ok(session.cuStreamDestroy_v2(stream));
    // The next takes its place in the table, and not its handle.
    assert_ne!(session.stream(0), stream);
    let (mut number, mut wide) = (0, 0);
    let data = session.words(&[0]);
    let event = session.event();
    refused(session.cuStreamDestroy_v2(stream), due);
    refused(session.cuStreamQuery(stream), due);
    refused(session.cuStreamSynchronize(stream), due);
    refused(session.cuStreamWaitEvent(stream, event, 0), due);
    refused(session.cuStreamGetPriority(stream, &mut number), due);
    refused(session.cuStreamGetCtx(stream, &mut wide), due);
    refused(session.cuEventRecord(event, stream), due);
    refused(session.cuMemsetD32Async(data, 0, 1, stream), due);
    refused(session.cuMemcpyDtoDAsync_v2(data, data, 4, stream), due);
    refused(session.cuMemAllocAsync(&mut wide, 64, stream), due);
    refused(session.cuMemFreeAsync(data, stream), due);
    let add = session.function(c"add");
    refused(session.launch(add, (1, 1), stream, &[data, 1]), due);

    let module = session.load();
    let add = session.function_of(module, c"add");
    ok(session.cuModuleUnload(module));
    let (mut bytes, name) = (0, c"number".as_ptr());
    refused(session.cuModuleUnload(module), due);
    refused(
        session.cuModuleGetFunction(&mut wide, module, c"add".as_ptr()),
        due,
    );
    refused(
        session.cuModuleGetGlobal_v2(&mut wide, &mut bytes, module, name),
        due,
    );
    refused(session.launch(add, (1, 1), 0, &[data, 1]), due);
    refused(session.cuFuncGetAttribute(&mut number, 0, add), due);
    refused(session.cuFuncSetAttribute(add, 8, 0), due);
    refused(
        session.cuOccupancyMaxActiveBlocksPerMultiprocessor(&mut number, add, 32, 0),
        due,
    );

    let mut link = 0;
    ok(session.cuLinkCreate_v2(0, null_mut(), null_mut(), &mut link));
    let mut image = null_mut();
    invalid(session.cuLinkComplete(link, &mut image, &mut bytes));
    ok(session.cuLinkDestroy(link));
    refused(session.cuLinkDestroy(link), due);
    refused(session.cuLinkComplete(link, &mut image, &mut bytes), due);
    assert!(session.read(data, 1) == [0]);
}

/// Makes a library, one of its kernels, and a link.
fn library_kernel_link(session: &Session) -> [u64; 3] {
    let (mut library, mut kernel, mut link) = (0, 0, 0);
    let image = text(crate::kernels::PTX);
    let (image, options, values) = (image.as_ptr().cast(), null_mut(), null_mut());
    let load =
        session.cuLibraryLoadData(&mut library, image, options, values, 0, options, values, 0);
    ok(load);
    ok(session.cuLibraryGetKernel(&mut kernel, library, c"add".as_ptr()));
    ok(session.cuLinkCreate_v2(0, options, values, &mut link));
    [library, kernel, link]
}

fn of_one_kind_are_not_of_another() {
    let session = Session::start();
    let [library, kernel, link] = library_kernel_link(&session);
    let mut pool = 0;
    ok(session.cuDeviceGetDefaultMemPool(&mut pool, 0));
    let (stream, event) = (session.stream(0), session.event());
    let function = session.function(c"add");
    let own = 0u64;
    let pointer = std::ptr::from_ref(&own).addr() as u64;
    let objects = [
        session.context,
        stream,
        event,
        session.module,
        function,
        library,
        kernel,
        pool,
        link,
    ];
    let others = [pointer, session.alloc(64), 3, u64::MAX];
    let data = session.words(&[0]);
    let (mut number, mut wide, mut memory) = (0, 0, null_mut());
    for handle in objects.into_iter().chain(others) {
        let refused = |is_it: bool, code: u32| {
            assert!(
                is_it || code != 0,
                "{handle:#x} is taken for what it is not"
            );
        };
        refused(handle == stream, session.cuStreamQuery(handle));
        refused(handle == event, session.cuEventQuery(handle));
        refused(handle == session.context, session.cuCtxSetCurrent(handle));
        ok(session.cuCtxSetCurrent(session.context));
        let found = session.cuModuleGetFunction(&mut wide, handle, c"add".as_ptr());
        refused(handle == session.module, found);
        let is_kernel = handle == function || handle == kernel;
        refused(is_kernel, session.launch(handle, (1, 1), 0, &[data, 1]));
        let attribute = session.cuFuncGetAttribute(&mut number, 0, handle);
        refused(is_kernel, attribute);
        let found = session.cuLibraryGetKernel(&mut wide, handle, c"add".as_ptr());
        refused(handle == library, found);
        let function = session.cuKernelGetFunction(&mut wide, handle);
        refused(handle == kernel, function);
        refused(handle == pool, session.cuMemPoolTrimTo(handle, 0));
        let complete = session.cuLinkComplete(handle, &mut memory, null_mut());
        refused(false, complete);
        // Nothing here destroys what is of another kind.
        if handle != stream {
            refused(false, session.cuStreamDestroy_v2(handle));
        }
        if handle != event {
            refused(false, session.cuEventDestroy_v2(handle));
        }
    }
    ok(session.cuCtxSynchronize());
}
