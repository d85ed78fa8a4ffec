//! What kernels print comes to the program's stdout when it synchronises, each thread's lines whole.

use super::program::Program;
use super::service;
use std::collections::HashSet;

#[test]
fn text_comes_at_each_kind_of_synchronisation() {
    let service = service();
    let mut program = Program::start(
        &service,
        "tenant",
        "printing::at_each_kind_of_synchronisation",
        "",
    );
    for (base, name) in (0..)
        .step_by(10)
        .zip(["context", "stream", "event", "copy"])
    {
        assert_eq!(program.hear(), format!("waits by {name}"));
        for thread in 0..3 {
            assert_eq!(program.hear(), format!("{} line", base + thread));
        }
        assert_eq!(program.hear(), format!("waited by {name}"));
    }
    program.succeed();
}

#[test]
fn what_is_more_than_the_service_keeps_is_said_to_be_lost() {
    const THREADS: usize = 128_000;
    let service = service();
    let mut program = Program::start(&service, "tenant", "printing::more_than_is_kept", "");
    assert_eq!(program.hear(), "prints");
    let (mut seen, mut bytes) = (HashSet::new(), 0);
    let after = loop {
        let line = program.hear();
        // Blocks print in any order. The last line that is kept may be cut off, and what is printed later follows it.
        let number = line
            .strip_suffix(" line")
            .and_then(|number| number.parse().ok());
        match number.filter(|number| (1_000_000..1_000_000 + THREADS).contains(number)) {
            Some(number) => assert!(seen.insert(number), "twice: {line:?}"),
            None => break line,
        }
        bytes += line.len() + 1;
    };
    assert!(
        after.ends_with("5 line"),
        "{after:?} after {} lines",
        seen.len()
    );
    assert_eq!(program.hear(), "done");
    let (status, said) = program.end();
    assert!(status.success(), "{said}");
    let lost = said
        .lines()
        .find_map(|line| line.split_once(" bytes that kernels printed were lost"));
    let (lost, _) = lost.unwrap_or_else(|| panic!("nothing was lost: {said}"));
    let lost: usize = lost
        .rsplit(' ')
        .next()
        .unwrap()
        .parse()
        .expect("a number of bytes");
    let cut_off = after.len() - "5 line".len();
    assert_eq!(bytes + cut_off + lost, THREADS * "1000000 line\n".len());
    assert!(!seen.is_empty() && lost > 0);
}
