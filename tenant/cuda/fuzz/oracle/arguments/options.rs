//! Options of loading and linking.

use super::Values;
use cuda::border::{FromC, Out};
use cuda::module::jit::Options;
use cuda::status::Status;
use std::ffi::c_void;
use std::ptr::{null_mut, without_provenance_mut};

/// Bytes of a buffer for messages, of which the program announces fewer.
const LOG_BYTES: usize = 96;
const UNTOUCHED: u8 = 0xa5;

/// Checks that options are taken exactly if all are known, and that a message then is cut to what was announced, with
/// nothing behind it.
pub(super) fn jit_options(values: &mut Values<'_>) {
    const ERROR_LOG: u32 = 5;
    const ERROR_LOG_BYTES: u32 = 6;
    let mut buffers = [[UNTOUCHED; LOG_BYTES]; 2];
    let starts = buffers.each_mut().map(|buffer| buffer.as_mut_ptr());
    let (mut options, mut given): (Vec<u32>, Vec<*mut c_void>) = (Vec::new(), Vec::new());
    for _ in 0..values.below(9) {
        let option = match values.flag() {
            true => u32::from(values.byte() % 48),
            false => values.word(),
        };
        options.push(option);
        given.push(match option {
            3 | ERROR_LOG if values.seldom() => null_mut(),
            3 => starts[0].cast(),
            ERROR_LOG => starts[1].cast(),
            // Only the low half is the size.
            4 | ERROR_LOG_BYTES => {
                without_provenance_mut(values.size() << 32 | values.below(LOG_BYTES as u8 + 1))
            }
            _ => without_provenance_mut(values.size()),
        });
    }
    let before = given.clone();
    let count = options.len() as u32;
    // SAFETY: both arrays have that many elements.
    let read = unsafe {
        let options = <Option<Out<u32>>>::from_c(options.as_mut_ptr());
        let given = <Option<Out<*mut c_void>>>::from_c(given.as_mut_ptr());
        Options::read(count, options.expect("aligned"), given.expect("aligned"))
    };
    let is_known = options.iter().all(|option| *option < 40);
    let read = match read {
        Ok(read) => read,
        Err(status) => return assert!(!is_known && status == Status::INVALID_VALUE),
    };
    assert!(is_known);
    assert_eq!(Options::read(count, None, None).is_ok(), count == 0);
    let text = String::from_utf8_lossy(values.0).into_owned();
    let was_written = read.log_error(&text);
    let last = |id| options.iter().rposition(|option| *option == id);
    let buffer = last(ERROR_LOG).is_some_and(|index| !before[index].is_null());
    let announced = last(ERROR_LOG_BYTES).map_or(0, |index| before[index].addr() & 0xffff_ffff);
    assert_eq!(was_written, buffer && announced > 0);
    let [_, error] = buffers;
    if !was_written {
        assert_eq!(error, [UNTOUCHED; LOG_BYTES]);
        return;
    }
    let (message, behind) = error.split_at(announced);
    assert!(behind.iter().all(|byte| *byte == UNTOUCHED));
    let slot = last(ERROR_LOG_BYTES).expect("a size was announced");
    let len = given[slot].addr();
    assert!(message[..len] == text.as_bytes()[..len] && message[len] == 0);
    let shown = std::str::from_utf8(&message[..len]).expect("no character is cut");
    // As much as fits: the next character does not.
    let next = text[shown.len()..].chars().next();
    assert!(next.is_none_or(|next| len + next.len_utf8() >= announced));
}
