//! Loading an object through libbpf: its tunables set, its errors turned into a typed reason.

#[allow(
    clippy::disallowed_types,
    reason = "this room does not know the mediator; loading happens before its dispatcher starts"
)]
use std::sync::Mutex;

use libbpf_rs::{MapCore, Object, ObjectBuilder, OpenObject, PrintLevel, set_print};

use crate::capability;
use crate::layout::bytes_of;
use crate::unavailable::Unavailable;

/// libbpf's last words, kept for the error; one load at a time, because its print callback is global.
#[allow(
    clippy::disallowed_types,
    reason = "this room does not know the mediator; loading happens before its dispatcher starts"
)]
static LOAD: Mutex<()> = Mutex::new(());
#[allow(
    clippy::disallowed_types,
    reason = "this room does not know the mediator; loading happens before its dispatcher starts"
)]
static WORDS: Mutex<Vec<String>> = Mutex::new(Vec::new());

/// Aligned as ELF headers are read.
#[repr(C, align(8))]
pub(crate) struct Aligned<T: ?Sized>(pub(crate) T);

/// The always-on object.
pub(crate) static CORE: &Aligned<[u8]> =
    &Aligned(*include_bytes!(concat!(env!("OUT_DIR"), "/core.bpf.o")));
/// The timer that drains.
pub(crate) static TIMER: &Aligned<[u8]> =
    &Aligned(*include_bytes!(concat!(env!("OUT_DIR"), "/timer.bpf.o")));
/// The watch of other driver libraries, which aya loads.
pub(crate) static BYPASS: &Aligned<[u8]> =
    &Aligned(*include_bytes!(concat!(env!("OUT_DIR"), "/bypass.bpf.o")));
/// The USDT programs.
pub(crate) static TRACE: &Aligned<[u8]> =
    &Aligned(*include_bytes!(concat!(env!("OUT_DIR"), "/trace.bpf.o")));

/// The USDT program that hands events to a reader.
pub(crate) static EVENTS: &Aligned<[u8]> =
    &Aligned(*include_bytes!(concat!(env!("OUT_DIR"), "/events.bpf.o")));

/// The USDT program that hands ranges of programs to a reader.
pub(crate) static RANGES: &Aligned<[u8]> =
    &Aligned(*include_bytes!(concat!(env!("OUT_DIR"), "/ranges.bpf.o")));

/// Opens `image`, lets `prepare` change it, and loads it.
pub(crate) fn load(
    name: &str,
    image: &Aligned<[u8]>,
    prepare: impl FnOnce(&mut OpenObject) -> libbpf_rs::Result<()>,
) -> Result<Object, Unavailable> {
    if let Some(missing) = capability::missing() {
        return Err(Unavailable::NotPermitted { missing });
    }
    listen(|| {
        // The kernel names an object's read-only variables after it.
        let mut open = ObjectBuilder::default()
            .name("gridmux")?
            .open_memory(&image.0)?;
        prepare(&mut open)?;
        open.load()
    })
    .map_err(|reason| Unavailable::Refused {
        what: format!("the eBPF object `{name}`"),
        reason,
    })
}

/// Runs something that calls libbpf; the error is its own with libbpf's last words.
pub(crate) fn listen<T>(body: impl FnOnce() -> libbpf_rs::Result<T>) -> Result<T, String> {
    let _one_at_a_time = LOAD.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    words().clear();
    let before = set_print(Some((PrintLevel::Warn, keep_words)));
    let result = body();
    set_print(before);
    result.map_err(|error| {
        let spoken = words().join(" | ");
        if spoken.is_empty() {
            format!("{error:#}")
        } else {
            format!("{error:#} ({spoken})")
        }
    })
}

/// Sets the one variable of an object's `.rodata`.
pub(crate) fn set_tunables<T: aya::Pod>(
    open: &mut OpenObject,
    tunables: T,
) -> libbpf_rs::Result<()> {
    for mut map in open.maps_mut() {
        if map.name().to_string_lossy().ends_with(".rodata") {
            map.set_initial_value(bytes_of(&tunables))?;
        }
    }
    Ok(())
}

/// Lets `open` use the maps of an object that is loaded, wherever the names agree.
pub(crate) fn share_maps(
    open: &mut OpenObject,
    loaded: &Object,
    names: &[&str],
) -> libbpf_rs::Result<()> {
    use std::os::fd::AsFd;
    for mut map in open.maps_mut() {
        let name = map.name().to_owned();
        if !names.iter().any(|shared| name == **shared) {
            continue;
        }
        for theirs in loaded.maps() {
            if theirs.name() == name {
                map.reuse_fd(theirs.as_fd())?;
            }
        }
    }
    Ok(())
}

fn words() -> std::sync::MutexGuard<'static, Vec<String>> {
    WORDS
        .lock()
        .unwrap_or_else(|poisoned| poisoned.into_inner())
}

/// Keeps the last few lines; a verifier's log is one message, of which the end tells why.
fn keep_words(_level: PrintLevel, message: String) {
    const KEPT: usize = 4;
    const TAIL: usize = 400;
    let mut words = words();
    if words.len() == KEPT {
        words.remove(0);
    }
    let message = message.trim_end();
    let from = message
        .char_indices()
        .rev()
        .nth(TAIL)
        .map_or(0, |(at, _)| at);
    words.push(message[from..].to_owned());
}
