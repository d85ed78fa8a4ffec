//! A device host that was taken over writes what it likes into the ring: the supervisor must not mind.

use std::os::fd::AsRawFd;
use std::sync::atomic::{AtomicU64, Ordering};

use gridmux_bpf::layout::RING_BYTES;
use gridmux_bpf::{LatencyOptions, LatencyProgram, Recorder, Sample};

use crate::{instance, load, recorder};

/// The producer's page and the data, mapped without any of the recorder's manners.
struct Raw {
    start: *mut u8,
}

const PAGE: usize = 4096;

impl Raw {
    fn map(program: &LatencyProgram) -> Self {
        let fd = program.producer_fd().as_raw_fd();
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        let offset = libc::off_t::try_from(PAGE).unwrap();
        // SAFETY: the kernel chooses the place.
        let start = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                PAGE + RING_BYTES,
                protection,
                libc::MAP_SHARED,
                fd,
                offset,
            )
        };
        assert_ne!(start, libc::MAP_FAILED);
        Self {
            start: start.cast(),
        }
    }

    fn word(&self, offset: usize) -> &AtomicU64 {
        assert!(offset + 8 <= PAGE + RING_BYTES && offset.is_multiple_of(8));
        // SAFETY: inside the mapping, aligned, and never unmapped.
        unsafe { &*self.start.add(offset).cast::<AtomicU64>() }
    }
}

#[test]
fn garbage_never_blocks_or_miscounts_the_past() {
    let Some(program) = load(&instance("garbage"), LatencyOptions::default()) else {
        return;
    };
    let mut recorder = recorder(&program);
    for _ in 0..10 {
        recorder.record(&Sample {
            tenant: 1,
            submit_to_start_ns: Some(5),
            ..Sample::default()
        });
    }
    assert_eq!(program.histograms().unwrap()[0].histogram.count(), 10);
    let raw = Raw::map(&program);
    let mut state = 88_172_645_463_325_252u64;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state
    };
    for round in 0..300 {
        for _ in 0..64 {
            let place = usize::try_from(next() % (RING_BYTES as u64 / 8)).unwrap() * 8;
            // Release: pairs with the kernel's acquire loads, as an honest producer's would.
            raw.word(PAGE + place)
                .store(next() >> (next() % 64), Ordering::Release);
        }
        let position = match round % 4 {
            0 => next(),
            1 => next() % (4 * RING_BYTES as u64),
            2 => (next() % (4 * RING_BYTES as u64)) & !7,
            _ => raw
                .word(0)
                // Acquire: pairs with nothing; this is the only writer.
                .load(Ordering::Acquire)
                .wrapping_add(56 * (next() % 100)),
        };
        // Release: pairs with the kernel's acquire load.
        raw.word(0).store(position, Ordering::Release);
        // An error is an answer; not coming back, or a crash, is not.
        let _ = program.drain();
    }
    let stats = program.stats().unwrap();
    assert!(
        stats.drain_errors + stats.malformed > 0,
        "none of it was noticed: {stats:?}"
    );
    let honest = program.histograms().unwrap();
    let honest = honest
        .iter()
        .find(|entry| entry.tenant == 1 && entry.device == 0)
        .unwrap();
    assert!(
        honest.histogram.count() >= 10,
        "what was counted before is still there"
    );
}

#[test]
fn a_broken_ring_is_told_and_not_taken_over() {
    let Some(program) = load(&instance("broken"), LatencyOptions::default()) else {
        return;
    };
    let raw = Raw::map(&program);
    // A position that is no multiple of 8: the kernel refuses the whole ring.
    // Release: pairs with the kernel's acquire load.
    raw.word(0).store(3, Ordering::Release);
    assert_eq!(
        program.drain().unwrap_err().kind(),
        std::io::ErrorKind::InvalidData
    );
    assert!(program.stats().unwrap().drain_errors > 0);
    assert!(
        program.histograms().unwrap().is_empty(),
        "reading still works"
    );
    // Release: pairs with the kernel's acquire load.
    raw.word(0).store(1 << 40, Ordering::Release);
    let recorder = Recorder::from_fd(program.producer_fd().try_clone_to_owned().unwrap());
    assert_eq!(
        recorder.unwrap_err().kind(),
        std::io::ErrorKind::InvalidData
    );
}

#[test]
fn a_descriptor_that_is_no_ring_is_refused() {
    let file = std::fs::File::open("/proc/self/exe").unwrap();
    assert!(Recorder::from_fd(file.into()).is_err());
}
