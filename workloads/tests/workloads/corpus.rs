//! What every kernel of the corpus's table promises: launches that repeat, fit their PTX, and are judged strictly.

use gridmux_workloads::corpus::{by_name, kernels};
use std::collections::BTreeSet;

#[test]
fn names_are_unique_and_every_tool_is_there() {
    let names: BTreeSet<&str> = kernels().map(|kernel| kernel.name).collect();
    assert_eq!(names.len(), kernels().count());
    for (tool, least) in [
        ("nvcc/", 80),
        ("nvrtc/", 4),
        ("clang/", 11),
        ("triton/", 15),
    ] {
        let count = names.iter().filter(|name| name.starts_with(tool)).count();
        assert!(count >= least, "only {count} of {tool}");
    }
    assert!(by_name("nvcc/saxpy").is_some() && by_name("nvcc/nothing").is_none());
}

#[test]
fn equal_seeds_give_equal_cases() {
    for kernel in kernels() {
        let case = kernel.case(3);
        assert_eq!(case.args, kernel.case(3).args, "{}", kernel.name);
    }
}

/// Returns the bytes of the parameters of an entry, as its PTX declares them.
fn declared_bytes(ptx: &str, entry: &str) -> usize {
    let start = ptx
        .find(&format!(".entry {entry}("))
        .expect("the entry is in the module");
    let list = &ptx[start..start + ptx[start..].find(')').expect("the list ends")];
    let mut offset: usize = 0;
    for line in list
        .lines()
        .filter(|line| line.trim().starts_with(".param"))
    {
        let words: Vec<&str> = line
            .trim()
            .trim_end_matches(',')
            .split_whitespace()
            .collect();
        let number = |text: &str| -> usize { text.parse().expect("a number") };
        let (align, size) = if words[1] == ".align" {
            let array = words.last().expect("a name");
            let length = array.split(['[', ']']).nth(1).expect("an array");
            (number(words[2]), number(length))
        } else {
            let bits = number(words[1].trim_start_matches(|c: char| !c.is_ascii_digit()));
            (bits / 8, bits / 8)
        };
        offset = offset.next_multiple_of(align) + size;
    }
    offset
}

#[test]
fn arguments_fit_the_declared_parameters() {
    for kernel in kernels() {
        let case = kernel.case(1);
        let addresses = vec![0x1000; case.args.len()];
        let given = case.pack_params(&addresses).len();
        let declared = declared_bytes(kernel.ptx, kernel.entry);
        assert_eq!(given, declared, "{}", kernel.name);
    }
}

/// Checks that the buffers as they are before the launch, and buffers of zeros, are never right.
#[test]
fn a_launch_that_does_nothing_is_found() {
    for kernel in kernels() {
        let case = kernel.case(5);
        let before = case.initial_outputs();
        assert!(case.verify(&before).is_err(), "{}", kernel.name);
        let zeros: Vec<Vec<u8>> = before.iter().map(|b| vec![0; b.len()]).collect();
        assert!(case.verify(&zeros).is_err(), "{}", kernel.name);
    }
}
