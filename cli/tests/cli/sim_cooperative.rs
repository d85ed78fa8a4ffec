//! `gridmux sim kernel --cooperative`: a kernel that calls `grid.sync()`, as nvcc compiled it, and what it refuses.

use crate::command::{Ran, gridmux, words};
use std::path::Path;

/// Floats of each of the two halves between which rounds go back and forth.
const COUNT: usize = 3000;
const ROUNDS: usize = 4;

/// Returns small whole numbers, so that halves of them are exact.
fn input() -> Vec<f32> {
    let value = |n: usize| (n * 7 % 64) as f32;
    (0..2 * COUNT).map(value).collect()
}

/// Returns what `grid_sync.cu` computes, one round after the other.
fn expected() -> Vec<f32> {
    let mut data = input();
    for round in 0..ROUNDS {
        let (to, from) = match round % 2 {
            0 => (0, COUNT),
            _ => (COUNT, 0),
        };
        for n in 0..COUNT - 1 {
            data[to + n] += 0.5 * data[from + n + 1];
        }
    }
    data
}

fn run(folder: &Path, grid: u32, more: &[&str]) -> Ran {
    let file = folder.join("data");
    let bytes: Vec<u8> = input().iter().flat_map(|n| n.to_le_bytes()).collect();
    std::fs::write(&file, bytes).unwrap();
    let ptx = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../workloads/corpus/out/nvcc/grid_sync.sm80.ptx"
    );
    let data = file.display();
    let arguments = format!(
        "sim kernel {ptx} --entry grid_sync --block 64 --grid {grid} --arg inout={data}:{data} --arg \
         u32={COUNT} --arg u32={ROUNDS} --set sm.count=2"
    );
    gridmux(words(&arguments).iter().chain(more))
}

#[test]
fn blocks_wait_for_all_others_between_rounds() {
    let folder = tempfile::tempdir().unwrap();
    for more in [
        &["--form", "whole"][..],
        &["--form", "fence"],
        &["--functional"],
        &["--functional", "--form", "fence"],
    ] {
        // More blocks than SMs, and fewer threads than numbers.
        run(folder.path(), 40, &[&["--cooperative"], more].concat()).succeeded();
        let bytes = std::fs::read(folder.path().join("data")).unwrap();
        let words = bytes.chunks_exact(4);
        let found: Vec<f32> = words
            .map(|word| f32::from_le_bytes(word.try_into().unwrap()))
            .collect();
        assert_eq!(found, expected(), "{more:?}");
    }
}

#[test]
fn a_grid_that_does_not_fit_at_once_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    // Two SMs hold 32 blocks of 64 threads each.
    run(folder.path(), 64, &["--cooperative"]).succeeded();
    for more in [&["--cooperative"][..], &["--cooperative", "--functional"]] {
        let refused = run(folder.path(), 65, more);
        assert_eq!(refused.code, Some(1), "{}", refused.stderr);
        assert!(
            refused
                .stderr
                .contains("65 blocks does not fit: 64 reside at once"),
            "{}",
            refused.stderr
        );
    }
}

#[test]
fn an_ordinary_launch_is_told_of_the_option() {
    let folder = tempfile::tempdir().unwrap();
    let refused = run(folder.path(), 4, &[]);
    assert_eq!(refused.code, Some(1));
    assert!(
        refused.stderr.contains("it executed a trap"),
        "{}",
        refused.stderr
    );
    assert!(
        refused.stderr.contains("--cooperative"),
        "{}",
        refused.stderr
    );
}

#[test]
fn what_cannot_launch_all_blocks_at_once_is_wrong_usage() {
    let folder = tempfile::tempdir().unwrap();
    for (more, said) in [
        (["--form", "slice"], "the form slice does not"),
        (["--form", "worker"], "the form worker does not"),
    ] {
        let refused = run(folder.path(), 4, &[&["--cooperative"][..], &more].concat());
        assert_eq!(refused.code, Some(2), "{}", refused.stderr);
        assert!(refused.stderr.contains(said), "{}", refused.stderr);
    }
}
