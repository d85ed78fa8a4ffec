//! The model beside published measurements of real cards (`hw-model/validation`).
//!
//! One JSON line per figure, the furthest off first: the model's value, the card's as the peer, and their ratio; then
//! one per class with the mean error and, as peers, the median and how many are off by more than 15 and 30 %.
//! A filter is a class, `hardware_CLASS`. Curves are drawn as SVG under `target/hardware/`.

#[path = "../tests/hw_model/hardware/validation/mod.rs"]
mod validation;

use serde_json::json;
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
        &|figure| classes.contains(&figure.class),
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

/// Returns the classes asked for; all if none is.
fn classes(filters: &[String]) -> Result<Vec<Class>, String> {
    if filters.is_empty() {
        return Ok(Class::ALL.to_vec());
    }
    let of = |filter: &String| {
        let name = filter.strip_prefix("hardware").unwrap_or(filter);
        let name = name.trim_start_matches(['_', '/', '-']);
        let found = Class::ALL.iter().find(|class| class.name() == name);
        found.copied().ok_or_else(|| {
            let known: Vec<&str> = Class::ALL.iter().map(|class| class.name()).collect();
            format!(
                "there is no class '{name}'; there are: {}",
                known.join(", ")
            )
        })
    };
    filters.iter().map(of).collect()
}

/// Returns the figures that were run, class by class, the furthest off first.
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
    let better = match figure.unit.higher_is_better() {
        true => "higher",
        false => "lower",
    };
    let line = json!({
        "name": format!("hardware/{}/{}/{}", figure.class, file.file, figure.name),
        "value": rounded(judged.model, 4),
        "unit": figure.unit.name(),
        "better": better,
        "floor": null,
        "ratio": rounded(judged.ratio, 4),
        "peer": { "hardware": figure.value },
        "source": format!("{}, {}", file.source.url, figure.at),
    });
    println!("{line}");
}

fn print_summary(summary: &Summary) {
    let line = json!({
        "name": format!("hardware/{}", summary.class),
        "value": rounded(summary.mean * 100.0, 1),
        "unit": "% mean error",
        "better": "lower",
        "floor": null,
        "ratio": null,
        "peer": {
            "median %": rounded(summary.median * 100.0, 1),
            "figures": summary.figures,
            "off by more than 15 %": summary.over_15,
            "off by more than 30 %": summary.over_30,
        },
    });
    println!("{line}");
}

/// Returns a value with that many decimals; null in JSON if it is no number, which `cargo xtask bench` refuses.
fn rounded(value: f64, decimals: i32) -> f64 {
    let unit = 10_f64.powi(decimals);
    (value * unit).round() / unit
}
