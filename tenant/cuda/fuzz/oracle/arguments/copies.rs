//! Copies of two and three dimensions.

use super::Values;
use cuda::memory::boxes::{CUDA_MEMCPY2D, CUDA_MEMCPY3D};
use cuda::memory::copy::Pattern;
use cuda::status::{CudaResult, Status};

/// One end of a copy, as the C structures have it, in numbers that cannot overflow.
#[derive(Debug, Clone, Copy)]
struct End {
    x: u128,
    y: u128,
    z: u128,
    kind: u32,
    base: u128,
    pitch: u128,
    height: u128,
}

impl End {
    /// Returns where the first byte of a copy stands, if it is one.
    fn start(&self, [width, height, depth]: [u128; 3]) -> CudaResult<u128> {
        match self.kind {
            1 | 2 | 4 => {}
            3 => return Err(Status::NOT_SUPPORTED),
            _ => return Err(Status::INVALID_VALUE),
        }
        let rows_overlap = self.x + width > self.pitch;
        let planes_overlap = self.y + height > self.height;
        if self.base == 0
            || (height > 1 || depth > 1 || self.pitch > 0) && rows_overlap
            || (depth > 1 || self.height > 0) && planes_overlap
        {
            return Err(Status::INVALID_VALUE);
        }
        let top = u128::from(u64::MAX);
        let plane = self.pitch * self.height;
        // Nothing is allowed to overflow on the way, so that these do not either.
        if plane > top {
            return Err(Status::INVALID_VALUE);
        }
        let skipped = self
            .z
            .checked_mul(plane)
            .and_then(|z| z.checked_add(self.y * self.pitch + self.x));
        let start = skipped.and_then(|skipped| skipped.checked_add(self.base));
        start
            .filter(|start| *start <= top)
            .ok_or(Status::INVALID_VALUE)
    }
}

/// Reads a number, a small one in most cases, so that copies are laid out at all.
fn little(values: &mut Values<'_>) -> u64 {
    match values.byte() % 4 {
        0 => values.wide(),
        most => u64::from(values.byte() % (1 << (2 * most))),
    }
}

fn kind(values: &mut Values<'_>) -> u32 {
    match values.byte() {
        0 => values.word(),
        other => [1, 2, 2, 3, 4, 4][usize::from(other) % 6],
    }
}

pub(super) fn planar_copies(values: &mut Values<'_>) {
    // As `CUDA_MEMCPY2D` in words of eight bytes: two ends of x, y, kind, host, device, array, pitch; width, height.
    let mut words: [u64; 16] = std::array::from_fn(|_| little(values));
    for end in [0, 7] {
        words[end + 2] = kind(values).into();
    }
    // SAFETY: the structure is of 16 such words, all integers and pointers, which are not followed.
    let copy: CUDA_MEMCPY2D = unsafe { words.as_ptr().cast::<CUDA_MEMCPY2D>().read() };
    let end = |at: usize| {
        let kind = words[at + 2] as u32;
        End {
            x: words[at].into(),
            y: words[at + 1].into(),
            z: 0,
            kind,
            base: words[at + if kind == 1 { 3 } else { 4 }].into(),
            pitch: words[at + 6].into(),
            height: 0,
        }
    };
    let size = [words[14].into(), words[15].into(), 1];
    check_copy(&copy.into(), end(7), end(0), size, false);
}

pub(super) fn spatial_copies(values: &mut Values<'_>) {
    // As `CUDA_MEMCPY3D`: two ends of x, y, z, level, kind, host, device, array, reserved, pitch, height; three sizes.
    let mut words: [u64; 25] = std::array::from_fn(|_| little(values));
    for end in [0, 11] {
        words[end + 4] = kind(values).into();
        if !values.seldom() {
            words[end + 3] = 0;
        }
    }
    // SAFETY: the structure is of 25 such words, all integers and pointers, which are not followed.
    let copy: CUDA_MEMCPY3D = unsafe { words.as_ptr().cast::<CUDA_MEMCPY3D>().read() };
    let end = |at: usize| {
        let kind = words[at + 4] as u32;
        End {
            x: words[at].into(),
            y: words[at + 1].into(),
            z: words[at + 2].into(),
            kind,
            base: words[at + if kind == 1 { 5 } else { 6 }].into(),
            pitch: words[at + 9].into(),
            height: words[at + 10].into(),
        }
    };
    let size = [words[22].into(), words[23].into(), words[24].into()];
    let has_level = words[3] != 0 || words[14] != 0;
    check_copy(&copy, end(11), end(0), size, has_level);
}

/// Checks that a copy is laid out exactly if both ends are, that it begins where they do, and that joining rows leaves
/// its bytes the same.
fn check_copy(copy: &CUDA_MEMCPY3D, to: End, from: End, size: [u128; 3], has_level: bool) {
    let layout = copy.layout();
    if has_level {
        assert_eq!(layout.err(), Some(Status::INVALID_VALUE));
        return;
    }
    if size.contains(&0) {
        assert!(matches!(layout, Ok(None)));
        return;
    }
    let expected = to.start(size).and_then(|to| Ok((to, from.start(size)?)));
    let found = layout.map(|layout| layout.expect("something is copied"));
    let starts = found.map(|layout| (layout.to.into(), layout.from.into()));
    assert_eq!(starts, expected);
    let Ok(layout) = found else {
        return;
    };
    let [width, height, depth] = size;
    let span = |end: End| {
        let planes = (end.pitch * end.height).saturating_mul(depth - 1);
        planes
            .saturating_add((height - 1) * end.pitch)
            .saturating_add(width)
    };
    let shown = |span: u128| u64::try_from(span).map_err(|_| Status::INVALID_VALUE);
    let pattern = layout.pattern;
    let (to_span, from_span) = (pattern.span(|r| r.to_step), pattern.span(|r| r.from_step));
    assert_eq!((to_span, from_span), (shown(span(to)), shown(span(from))));
    if to_span.is_ok() && from_span.is_ok() {
        check_joined(pattern, size, to, from);
    }
}

/// The most bytes that are compared one by one.
const MOST_COMPARED: u128 = 4096;

fn check_joined(pattern: Pattern, [width, height, depth]: [u128; 3], to: End, from: End) {
    let joined = pattern.joined();
    let bytes = |p: &Pattern| p.len as u128 * p.rows.count as u128 * p.planes.count as u128;
    assert_eq!(bytes(&joined), width * height * depth);
    if bytes(&joined) > MOST_COMPARED {
        return;
    }
    let mut found: Vec<(u128, u128)> = Vec::new();
    for (to, from) in joined.rows() {
        found.extend((0..joined.len as u128).map(|x| (u128::from(to) + x, u128::from(from) + x)));
    }
    let place = |end: End, x, y, z| z * end.pitch * end.height + y * end.pitch + x;
    let mut rest = found.into_iter();
    for z in 0..depth {
        for y in 0..height {
            for x in 0..width {
                assert_eq!(
                    rest.next(),
                    Some((place(to, x, y, z), place(from, x, y, z)))
                );
            }
        }
    }
}
