//! Whole kernels: one launch, from submission to end, whose data are in no cache.
//!
//! Rules: a kernel that fills the chip runs on the card's slice, with its share of the rows or elements; what depends
//! on one word or on few blocks runs on the whole chip. A reduction's time is that of twice as many elements less that
//! of the elements, as the published sums of several launches are.

use super::super::machine::{Machine, Shape};
use super::super::schema::WholeKernel;
use super::{Amount, float, kernel_text};
use gridmux_hw_model::GpuConfig;

/// Threads of a block of one dimension, and along each side of one of two.
const LINE: u32 = 512;
const SIDE: u32 = 16;
/// Taps of a convolution along each of its dimensions.
const TAPS: u64 = 5;
/// Bins of a histogram.
const BINS: u64 = 512;
/// Elements, pixels or products of a kernel that is cut down to a slice; a smaller one runs on the whole chip.
const LARGE: u64 = 1 << 20;

/// Measures a kernel on `size` elements, or on a picture or matrices with sides of `size`.
pub(super) fn whole(chip: &GpuConfig, slice: &GpuConfig, kernel: WholeKernel, size: u64) -> Amount {
    let work = match kernel {
        WholeKernel::Product | WholeKernel::ProductTiled | WholeKernel::ProductWide => size.pow(3),
        _ if kernel.has_two_sides() => size * size,
        _ => size,
    };
    let on_slice = kernel.fills_a_chip() && work >= LARGE;
    let config = if on_slice { slice } else { chip };
    let share = |amount: u64| amount * u64::from(config.sm.count) / u64::from(chip.sm.count);
    let cycles = match kernel {
        WholeKernel::Reduce1 | WholeKernel::Reduce2 | WholeKernel::Reduce3 => {
            reduction(config, kernel, share(size), 1)
        }
        WholeKernel::Reduce4
        | WholeKernel::Reduce5
        | WholeKernel::Reduce6
        | WholeKernel::Reduce7 => reduction(config, kernel, share(size), 2),
        WholeKernel::Product
        | WholeKernel::ProductTiled
        | WholeKernel::ProductWide
        | WholeKernel::RowsByVector
        | WholeKernel::RowsBySharedVector => product(config, kernel, (share(size), size)),
        _ if kernel.has_two_sides() => picture(config, kernel, (share(size), size)),
        _ => line(config, kernel, share(size)),
    };
    Amount {
        cycles,
        events: 1.0,
        sms: f64::from(config.sm.count),
        ..Amount::default()
    }
}

/// Runs one launch on an idle machine; `words` gets a function that allocates a buffer of a number of bytes.
fn cold(
    config: &GpuConfig,
    kernel: WholeKernel,
    shape: Shape,
    words: impl FnOnce(&mut dyn FnMut(u64) -> u64) -> Vec<u64>,
) -> f64 {
    let mut machine = Machine::new(config);
    let loaded = machine.kernel(&kernel_text("whole"), kernel.name());
    let words = words(&mut |bytes| machine.buffer(bytes));
    float(machine.run(&loaded, shape, &words))
}

/// Measures a kernel on an array.
fn line(config: &GpuConfig, kernel: WholeKernel, elements: u64) -> f64 {
    let tile = 4 * match kernel {
        WholeKernel::LineTiled => LINE + small(TAPS) - 1,
        WholeKernel::LineCached => LINE,
        WholeKernel::HistogramShared => small(BINS),
        _ => 0,
    };
    let shape = Shape {
        dynamic_shared_bytes: tile,
        ..Shape::new(blocks(elements, LINE), LINE)
    };
    cold(config, kernel, shape, |buffer| {
        let from = buffer(elements * 4);
        match kernel {
            WholeKernel::Line => {
                let mask = buffer(TAPS * 4);
                vec![from, mask, buffer(elements * 4), TAPS, elements]
            }
            WholeKernel::LineTiled | WholeKernel::LineCached => {
                vec![from, buffer(elements * 4), TAPS, elements]
            }
            _ => vec![from, buffer(BINS * 4), elements, BINS],
        }
    })
}

/// Measures a kernel on a picture.
fn picture(config: &GpuConfig, kernel: WholeKernel, (rows, columns): (u64, u64)) -> f64 {
    let inner = match kernel {
        WholeKernel::PictureTiled => SIDE + 1 - small(TAPS),
        _ => SIDE,
    };
    let (across, down) = match kernel {
        WholeKernel::AddAlongColumns => (rows, columns),
        _ => (columns, rows),
    };
    let shape = Shape {
        rows_of_blocks: blocks(down, inner),
        rows_of_threads: SIDE,
        dynamic_shared_bytes: match kernel {
            WholeKernel::PictureTiled => SIDE * SIDE * 4,
            _ => 0,
        },
        ..Shape::new(blocks(across, inner), SIDE)
    };
    let pixels = rows * columns;
    cold(config, kernel, shape, |buffer| match kernel {
        WholeKernel::Grey => vec![buffer(pixels * 3), buffer(pixels), columns, rows],
        WholeKernel::Picture => {
            let (from, mask) = (buffer(pixels * 4), buffer(TAPS * TAPS * 4));
            vec![from, mask, buffer(pixels * 4), TAPS, rows, columns, 1]
        }
        WholeKernel::PictureTiled => {
            let from = buffer(pixels * 4);
            vec![from, buffer(pixels * 4), TAPS, rows, columns, 1]
        }
        _ => {
            let (a, b) = (buffer(pixels * 4), buffer(pixels * 4));
            vec![a, b, buffer(pixels * 4), columns, rows]
        }
    })
}

/// Measures a product of a matrix of `rows` rows with a square one of `side`, or with a vector.
fn product(config: &GpuConfig, kernel: WholeKernel, (rows, side): (u64, u64)) -> f64 {
    if let WholeKernel::RowsByVector | WholeKernel::RowsBySharedVector = kernel {
        let shape = Shape {
            dynamic_shared_bytes: match kernel {
                WholeKernel::RowsBySharedVector => LINE * 4,
                _ => 0,
            },
            ..Shape::new(blocks(rows, LINE), LINE)
        };
        return cold(config, kernel, shape, |buffer| {
            let (out, matrix) = (buffer(rows * 4), buffer(rows * side * 4));
            vec![out, matrix, buffer(side * 4), rows, side]
        });
    }
    let (tiles, across) = match kernel {
        WholeKernel::Product => (0, SIDE),
        WholeKernel::ProductTiled => (2, SIDE),
        _ => (3, SIDE / 2),
    };
    let shape = Shape {
        rows_of_blocks: blocks(rows, SIDE),
        rows_of_threads: SIDE,
        dynamic_shared_bytes: tiles * SIDE * SIDE * 4,
        ..Shape::new(blocks(side, across), SIDE)
    };
    cold(config, kernel, shape, |buffer| {
        let (a, b) = (buffer(rows * side * 4), buffer(side * side * 4));
        vec![a, b, buffer(rows * side * 4), rows, side, side]
    })
}

/// Measures a reduction's first launch, in which a thread loads `loads` elements. The later ones are as long for twice
/// the elements.
fn reduction(config: &GpuConfig, kernel: WholeKernel, elements: u64, loads: u32) -> f64 {
    let once = |elements: u64| {
        let count = blocks(elements, LINE * loads);
        let shape = Shape {
            dynamic_shared_bytes: LINE * 4,
            ..Shape::new(count, LINE)
        };
        cold(config, kernel, shape, |buffer| {
            vec![buffer(elements * 4), elements, buffer(u64::from(count) * 4)]
        })
    };
    once(2 * elements) - once(elements)
}

fn blocks(length: u64, of: u32) -> u32 {
    small(length.div_ceil(u64::from(of)))
}

fn small(number: u64) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}
