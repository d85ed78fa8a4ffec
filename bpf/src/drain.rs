//! Running the drain program until the ring is empty: the loader's and the reader's common part.

use std::thread;
use std::time::Duration;

/// `GRIDMUX_DRAIN_LIMIT` of `src/bpf/aggregate.h`: the most samples that one run takes.
const LIMIT: i32 = 8192;
/// Full batches after which a drain ends: more than a full ring holds. A producer that writes faster than this
/// reads must not hold the reader for ever.
const BATCHES: u32 = 4;
/// How often a drain asks again while another one runs (the timer's takes half a millisecond at most).
const PATIENCE: u32 = 400;

/// Result of [`until_empty`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Drained {
    /// The ring was empty, or more than a full ring was taken.
    Empty,
    /// The kernel refused the ring's contents with this error number.
    Broken(i32),
}

/// Calls `run`, which gives a program's result: the samples taken, or a negative error number.
///
/// # Errors
/// Those of `run`.
pub(crate) fn until_empty<E>(mut run: impl FnMut() -> Result<u32, E>) -> Result<Drained, E> {
    let (mut batches, mut waited) = (0, 0);
    while batches < BATCHES && waited < PATIENCE {
        match run()?.cast_signed() {
            // Another drain is running: what it has taken is not all in the histograms yet.
            taken if taken == -libc::EBUSY => {
                waited += 1;
                thread::sleep(Duration::from_micros(20));
            }
            taken if taken < 0 => return Ok(Drained::Broken(-taken)),
            taken if taken < LIMIT => break,
            _ => batches += 1,
        }
    }
    Ok(Drained::Empty)
}

#[cfg(test)]
mod tests {
    use super::{Drained, LIMIT, until_empty};

    fn drained(answers: &[i32]) -> (Drained, usize) {
        let mut asked = 0;
        let outcome = until_empty(|| {
            asked += 1;
            Ok::<u32, ()>(answers[(asked - 1).min(answers.len() - 1)].cast_unsigned())
        });
        (outcome.unwrap(), asked)
    }

    #[test]
    fn goes_on_while_batches_are_full_or_others_drain() {
        assert_eq!(drained(&[0]), (Drained::Empty, 1));
        assert_eq!(drained(&[-libc::EBUSY, LIMIT, 3, 9]), (Drained::Empty, 3));
        assert_eq!(drained(&[LIMIT]), (Drained::Empty, 4));
        assert_eq!(
            drained(&[LIMIT, -libc::EINVAL]),
            (Drained::Broken(libc::EINVAL), 2)
        );
    }
}
