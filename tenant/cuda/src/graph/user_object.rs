//! User objects: things of the program's that live as long as graphs need them, counted by references.
//!
//! References are the program's or a graph's; copies of a graph and executable graphs made of it hold their own. When
//! the last one goes, the program's destructor is called, once, on a thread of the library that does nothing else: no
//! call of the API waits for it, as the one flag that there is promises.
//!
//! Rules: no lock is held while a destructor runs. It may call nothing of the API, like a host function.

use super::Graph;
use crate::api::driver_api;
use crate::border::Out;
use crate::driver::Driver;
use crate::host_function::{self, HostFunction};
use crate::registry::{Handle, Object, Registry};
use crate::status::{CudaResult, Status};
use parking_lot::Mutex;
use std::ffi::{c_int, c_uint, c_void};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, LazyLock};

/// A user object as C holds it.
pub type CUuserObject = Handle<UserObject>;

/// The flag of every object: nothing waits for its destructor.
const NO_DESTRUCTOR_SYNC: c_uint = 1;
/// The flag that gives the program's references to the graph.
const MOVE: c_uint = 1;

static USER_OBJECTS: LazyLock<Registry<UserObject>> = LazyLock::new(Registry::default);

/// A user object.
#[derive(Debug)]
pub struct UserObject {
    handle: CUuserObject,
    counts: Mutex<Counts>,
    destructor: unsafe extern "C" fn(*mut c_void),
    data: Data,
}

/// References to an object.
#[derive(Debug)]
struct Counts {
    /// The program's.
    program: u64,
    /// Graphs'.
    graphs: u64,
}

/// The program's own pointer, handed back as it came.
#[derive(Debug, Clone, Copy)]
struct Data(*mut c_void);

// SAFETY: the library does not follow the pointer; the program knows that its destructor runs on another thread.
unsafe impl Send for Data {}
// SAFETY: as above.
unsafe impl Sync for Data {}

impl Object for UserObject {
    const KIND: u8 = 22;
    const UNKNOWN: Status = Status::INVALID_VALUE;

    fn registry(_: &Driver) -> &Registry<Self> {
        &USER_OBJECTS
    }
}

driver_api! {
    needs Init;
    11030 cuUserObjectCreate(
        object: *mut CUuserObject, data: *mut c_void, destructor: HostFunction, count: c_uint, flags: c_uint,
    ) => create;
    11030 cuUserObjectRetain(object: CUuserObject, count: c_uint) => retain;
    11030 cuUserObjectRelease(object: CUuserObject, count: c_uint) => release;
    11030 cuGraphRetainUserObject(graph: Handle<Graph>, object: CUuserObject, count: c_uint, flags: c_uint)
        => retain_for_graph;
    11030 cuGraphReleaseUserObject(graph: Handle<Graph>, object: CUuserObject, count: c_uint) => release_of_graph;
}

/// References of a graph's to an object; dropping them lets go of them, and a copy retains as many.
#[derive(Debug)]
pub struct References {
    object: Arc<UserObject>,
    count: u64,
}

impl Clone for References {
    fn clone(&self) -> Self {
        self.object.counts.lock().graphs += self.count;
        Self {
            object: Arc::clone(&self.object),
            count: self.count,
        }
    }
}

impl Drop for References {
    fn drop(&mut self) {
        let count = self.count;
        self.object.change(|counts| counts.graphs -= count);
    }
}

impl UserObject {
    /// Changes the counts; the end of all references is the object's.
    fn change<T>(self: &Arc<Self>, act: impl FnOnce(&mut Counts) -> T) -> T {
        let mut counts = self.counts.lock();
        let done = act(&mut counts);
        let is_over = counts.program == 0 && counts.graphs == 0;
        drop(counts);
        // Nobody has a reference who could get another, so that one thread comes here.
        if is_over && USER_OBJECTS.remove(self.handle).is_ok() {
            destroy(Arc::clone(self));
        }
        done
    }
}

/// Calls an object's destructor, on the thread for that.
fn destroy(object: Arc<UserObject>) {
    static QUEUE: Mutex<Option<Sender<Arc<UserObject>>>> = Mutex::new(None);
    let mut queue = QUEUE.lock();
    if queue.is_none() {
        let (sender, receiver) = channel::<Arc<UserObject>>();
        let work = move || {
            for object in receiver {
                let Data(data) = object.data;
                host_function::inside(|| {
                    // SAFETY: the program passed a function of this type, to be called once with this pointer.
                    unsafe { (object.destructor)(data) };
                });
            }
        };
        if host_function::spawn("gridmux-objects", work).is_ok() {
            *queue = Some(sender);
        }
    }
    // Without a thread the object is leaked, which harms less than a destructor where the program expects none.
    if let Some(sender) = queue.as_ref() {
        let _ = sender.send(object);
    }
}

/// Checks a number of references.
fn checked(count: c_uint) -> CudaResult<u64> {
    match c_int::try_from(count) {
        Ok(1..) => Ok(count.into()),
        _ => Err(Status::INVALID_VALUE),
    }
}

fn create(
    place: Out<CUuserObject>,
    data: *mut c_void,
    destructor: HostFunction,
    count: c_uint,
    flags: c_uint,
) -> CudaResult {
    let destructor = destructor.ok_or(Status::INVALID_VALUE)?;
    let program = checked(count)?;
    if flags != NO_DESTRUCTOR_SYNC {
        return Err(Status::INVALID_VALUE);
    }
    let object = USER_OBJECTS.add(|handle| UserObject {
        handle,
        counts: Mutex::new(Counts { program, graphs: 0 }),
        destructor,
        data: Data(data),
    })?;
    place.set(object.handle);
    Ok(())
}

fn retain(object: Arc<UserObject>, count: c_uint) -> CudaResult {
    let count = checked(count)?;
    object.change(|counts| counts.program += count);
    Ok(())
}

fn release(object: Arc<UserObject>, count: c_uint) -> CudaResult {
    let count = checked(count)?;
    object.change(|counts| -> CudaResult {
        counts.program = take(counts.program, count)?;
        Ok(())
    })
}

fn take(from: u64, count: u64) -> CudaResult<u64> {
    from.checked_sub(count).ok_or(Status::INVALID_VALUE)
}

fn retain_for_graph(
    graph: Arc<Graph>,
    object: Arc<UserObject>,
    count: c_uint,
    flags: c_uint,
) -> CudaResult {
    let count = checked(count)?;
    if flags & !MOVE != 0 {
        return Err(Status::INVALID_VALUE);
    }
    let mut body = graph.lock();
    body.check()?;
    object.change(|counts| -> CudaResult {
        if flags & MOVE != 0 {
            counts.program = take(counts.program, count)?;
        }
        counts.graphs += count;
        Ok(())
    })?;
    let mut users = body.users.iter_mut();
    match users.find(|references| Arc::ptr_eq(&references.object, &object)) {
        Some(references) => references.count += count,
        None => body.users.push(References { object, count }),
    }
    Ok(())
}

fn release_of_graph(graph: Arc<Graph>, object: Arc<UserObject>, count: c_uint) -> CudaResult {
    let count = checked(count)?;
    let mut body = graph.lock();
    let mut users = body.users.iter();
    let index = users.position(|references| Arc::ptr_eq(&references.object, &object));
    let index = index.ok_or(Status::INVALID_VALUE)?;
    let left = take(body.users[index].count, count)?;
    body.users[index].count = left;
    let emptied = (left == 0).then(|| body.users.swap_remove(index));
    drop(body);
    drop(emptied);
    object.change(|counts| counts.graphs -= count);
    Ok(())
}
