//! The model beside published measurements of real cards (`hw-model/validation`).
//!
//! One JSON line per figure, the furthest off first: the model's value, the card's as the peer, and their ratio; then
//! one per class with the mean error and, as peers, the median and how many are off by more than 15 and 30 %.
//! A filter is a class, `hardware_CLASS`. Curves are drawn as SVG under `target/hardware/`.

#[path = "../tests/hardware/validation/mod.rs"]
mod validation;

use std::path::PathBuf;
use validation::judge::{Summary, run, summaries};
use validation::measure::Judged;
use validation::read::read_all;
use validation::schema::{Class, Figure, Measurements};

fn main() {
    let filters: Vec<String> = std::env::args()
        .skip(1)
        .filter(|a| !a.starts_with('-'))
        .collect();
    if let Err(error) = bench(&filters) {
        eprintln!("hardware: {error}");
        std::process::exit(1);
    }
}

fn bench(filters: &[String]) -> Result<(), Box<dyn std::error::Error>> {
    let classes = classes(filters)?;
    let files = read_all(&validation::folder())?;
    let judged = run(
        &files,
        &|class| classes.contains(&class),
        &|file, figure, took| {
            eprintln!(
                "hardware: {}: {}, {:.1} s",
                file.file,
                figure.name,
                took.as_secs_f64()
            );
        },
    );
    for file in &files {
        eprintln!(
            "hardware: {} after {}, {}",
            file.card.name, file.source.title, file.source.url
        );
        if !file.card.estimates.is_empty() {
            let keys = file.card.estimates.join(", ");
            eprintln!("hardware: {}: estimated are {keys}", file.card.name);
        }
    }
    for (file, figure, judged) in worst_first(&files, &judged) {
        print_figure(file, figure, &judged);
    }
    for summary in summaries(&files, &judged) {
        print_summary(&summary);
    }
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../target/hardware");
    for (file, judged) in files.iter().zip(&judged) {
        for picture in validation::draw::draw(&folder, file, judged)? {
            eprintln!("hardware: {}", picture.display());
        }
    }
    Ok(())
}

/// The classes asked for; all if none is.
fn classes(filters: &[String]) -> Result<Vec<Class>, String> {
    if filters.is_empty() {
        return Ok(Class::ALL.to_vec());
    }
    let of = |filter: &String| {
        let name = filter.strip_prefix("hardware").unwrap_or(filter);
        let name = name.trim_start_matches(['_', '/', '-']);
        let found = Class::ALL.into_iter().find(|class| class.name() == name);
        found.ok_or_else(|| {
            let known: Vec<&str> = Class::ALL.iter().map(|class| class.name()).collect();
            format!(
                "there is no class '{name}'; there are: {}",
                known.join(", ")
            )
        })
    };
    filters.iter().map(of).collect()
}

fn worst_first<'a>(
    files: &'a [Measurements],
    judged: &[Vec<Option<Judged>>],
) -> Vec<(&'a Measurements, &'a Figure, Judged)> {
    let mut all = Vec::new();
    for (file, judged) in files.iter().zip(judged) {
        for (figure, judged) in file.figures.iter().zip(judged) {
            all.extend(judged.map(|judged| (file, figure, judged)));
        }
    }
    all.sort_by(|a, b| {
        let by_class = a.1.class.cmp(&b.1.class);
        by_class.then(b.2.error.total_cmp(&a.2.error))
    });
    all
}

fn print_figure(file: &Measurements, figure: &Figure, judged: &Judged) {
    let better = if figure.unit.higher_is_better() {
        "higher"
    } else {
        "lower"
    };
    println!(
        "{{\"name\":\"hardware/{}/{}/{}\",\"value\":{:.4},\"unit\":\"{}\",\"better\":\"{better}\",\"floor\":null,\
         \"ratio\":{:.4},\"peer\":{{\"hardware\":{}}},\"source\":\"{}, {}\"}}",
        figure.class.name(),
        file.file,
        figure.name,
        judged.model,
        figure.unit,
        judged.ratio,
        figure.value,
        file.source.url,
        figure.at.replace('"', "'"),
    );
}

fn print_summary(summary: &Summary) {
    println!(
        "{{\"name\":\"hardware/{}\",\"value\":{:.1},\"unit\":\"% mean error\",\"better\":\"lower\",\"floor\":null,\
         \"ratio\":null,\"peer\":{{\"median %\":{:.1},\"figures\":{},\"off by more than 15 %\":{},\
         \"off by more than 30 %\":{}}}}}",
        summary.class.name(),
        summary.mean * 100.0,
        summary.median * 100.0,
        summary.figures,
        summary.over_15,
        summary.over_30,
    );
}
