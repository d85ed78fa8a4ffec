//! Pictures: one self-contained HTML page for each paper, with every table as bars and the pictures of experiments.
//!
//! [`charts`] draws; this file puts what is drawn on a page.

mod charts;

pub(crate) use charts::{Series, curves, points};

use crate::tables::Report;
use anyhow::{Context, Result};
use std::fs;
use std::path::{Path, PathBuf};

/// A drawing.
#[derive(Clone, Debug)]
pub(crate) struct Picture {
    /// What it shows.
    pub(crate) title: String,
    /// The drawing, as an SVG element.
    pub(crate) svg: String,
}

const STYLE: &str = "body{font:15px sans-serif;margin:2em auto;max-width:60em;color:#222}\
h2{font-size:1.1em;margin:2em 0 .3em}svg{display:block;margin:.6em 0}\
p{color:#555;margin:.2em 0}text{font:11px sans-serif;fill:#222}";

/// Writes the page of a report into a folder and returns its path.
pub(crate) fn write(report: &Report, folder: &Path) -> Result<PathBuf> {
    fs::create_dir_all(folder).with_context(|| format!("making {}", folder.display()))?;
    let file = folder.join(format!("{}.html", report.paper));
    fs::write(&file, page(report)).with_context(|| format!("writing {}", file.display()))?;
    Ok(file)
}

fn page(report: &Report) -> String {
    let title = escaped(report.paper);
    let mut page = format!(
        "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>gridmux: {title}</title>\
         <style>{STYLE}</style></head><body>\n<h1>{title}</h1>\n"
    );
    for picture in &report.pictures {
        page += &section(&picture.title, "", std::slice::from_ref(&picture.svg));
    }
    for table in &report.tables {
        let drawn = table
            .metrics()
            .into_iter()
            .map(|metric| charts::bars(table, metric));
        page += &section(&table.name, &table.about, &drawn.collect::<Vec<_>>());
    }
    page + "</body></html>\n"
}

fn section(title: &str, about: &str, drawn: &[String]) -> String {
    format!(
        "<h2>{}</h2>\n<p>{}</p>\n{}\n",
        escaped(title),
        escaped(about),
        drawn.join("\n")
    )
}

/// Returns text that stands for itself in HTML and SVG.
fn escaped(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
        .replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::{Picture, Series, curves, page, points};
    use crate::tables::{Figures, Report, Row};

    #[test]
    fn a_page_holds_every_table_and_picture_and_nothing_from_elsewhere() {
        let series = [Series {
            name: "a < b".to_owned(),
            values: vec![(0.0, 1.0), (1.0, 3.0)],
        }];
        let report = Report {
            paper: "srtf",
            tables: vec![Figures {
                name: "pairs & more".to_owned(),
                rows: vec![
                    Row::one("fifo", "stp", Some(1.0), 2.0),
                    Row::one("x", "stp", None, 0.0),
                ],
                ..Figures::default()
            }],
            pictures: vec![
                Picture {
                    title: "curves".to_owned(),
                    svg: curves(("pair", "stp"), &series),
                },
                Picture {
                    title: "points".to_owned(),
                    svg: points(("stp", "antt"), &series),
                },
            ],
        };
        let page = page(&report);
        assert_eq!(page.matches("<svg").count(), 3);
        assert!(
            page.contains("a &lt; b") && page.contains("pairs &amp; more"),
            "{page}"
        );
        assert!(!page.contains("NaN") && !page.contains("inf"), "{page}");
        for outside in ["src=", "href=", "@import", "url("] {
            assert!(!page.contains(outside), "{outside}");
        }
    }
}
