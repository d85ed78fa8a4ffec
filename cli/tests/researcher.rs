//! Every command of `docs/researcher.md` is run, in the order of the page and in one folder, but for the compiler's.

mod command;

use command::documents::{commands, repository, shell};
use command::gridmux;
use std::collections::BTreeSet;
use std::fs;

/// Commands that are not run here, by how they begin: not every machine has these compilers.
const ELSEWHERE: [&str; 2] = ["nvcc ", "clang++ "];

fn page() -> String {
    fs::read_to_string(repository().join("docs/researcher.md")).unwrap()
}

#[test]
fn every_command_of_the_page_does_what_it_says() {
    let folder = tempfile::tempdir().unwrap();
    let here = folder.path();
    // What the compiler makes of the page's source.
    let compiled = repository().join("workloads/ptx/vecadd.ptx");
    fs::copy(compiled, here.join("vecadd.ptx")).unwrap();
    let text = page();
    let (_, rest) = text.split_once("```toml\n").unwrap();
    let (description, _) = rest.split_once("```").unwrap();
    fs::write(here.join("mine.toml"), description).unwrap();
    let commands = commands(&text);
    let mut elsewhere = BTreeSet::new();
    let mut ran = 0;
    for command in &commands {
        match ELSEWHERE.iter().find(|begin| command.starts_with(*begin)) {
            Some(begin) => {
                elsewhere.insert(*begin);
            }
            None => {
                assert!(command.starts_with("gridmux "), "nobody runs `{command}`");
                shell(command, here);
                ran += 1;
            }
        }
    }
    assert!(ran > 10, "{commands:?}");
    assert_eq!(elsewhere, BTreeSet::from(ELSEWHERE));
    let sums = fs::read(here.join("sum.bin")).unwrap();
    assert_eq!(sums.len(), 262_144);
    let runs = fs::read_to_string(here.join("runs.csv")).unwrap();
    assert_eq!(runs.lines().count(), 7, "{runs}");
}

#[test]
fn the_source_on_the_page_is_that_of_the_repository() {
    let text = page();
    let (_, rest) = text.split_once("```cuda\n").unwrap();
    let (source, _) = rest.split_once("```").unwrap();
    let ours = fs::read_to_string(repository().join("workloads/cuda/vecadd.cu")).unwrap();
    let letters = |text: &str| text.split_whitespace().collect::<String>();
    assert!(letters(&ours).contains(&letters(source)), "{source}");
}

#[test]
fn the_figures_that_the_page_names_are_in_the_legend() {
    let legend = gridmux(["sim", "counters"]).succeeded().stdout;
    let text = page();
    let outside: String = text.split("```").step_by(2).collect();
    let spans = outside.split('`').skip(1).step_by(2);
    let figures: BTreeSet<&str> = spans
        .filter(|span| span.contains('_') && !span.contains(['.', '/', ' ']))
        .collect();
    assert!(figures.len() >= 3, "{figures:?}");
    for figure in figures {
        assert!(legend.contains(figure), "`{figure}` is in no legend");
    }
}
