//! Draws curves as SVG: the card's points as rings, the model's as a line.

use super::measure::Judged;
use super::schema::{Measurements, Unit};
use std::fmt::Write;
use std::path::{Path, PathBuf};

const WIDTH: f64 = 720.0;
const HEIGHT: f64 = 360.0;
/// Room for axes in pixels: left, top, right, bottom.
const MARGIN: [f64; 4] = [70.0, 40.0, 20.0, 46.0];

/// One x with the card's and the model's value.
type Point = (f64, f64, f64);

/// A curve and what it is called.
struct Curve<'a> {
    name: &'a str,
    /// Parameter that varies.
    x: &'a str,
    /// Unit of the values.
    unit: Unit,
    points: Vec<Point>,
}

/// Draws every curve of a file that was run; returns the files written.
///
/// # Errors
/// If the folder cannot be written.
pub fn draw(
    folder: &Path,
    file: &Measurements,
    judged: &[Option<Judged>],
) -> std::io::Result<Vec<PathBuf>> {
    let mut curves: Vec<Curve<'_>> = Vec::new();
    for (figure, judged) in file.figures.iter().zip(judged) {
        let (Some((name, axis, x)), Some(judged)) = (&figure.point, judged) else {
            continue;
        };
        let point = (*x as f64, figure.value, judged.model);
        match curves.iter_mut().find(|curve| curve.name == name) {
            Some(curve) => curve.points.push(point),
            None => curves.push(Curve {
                name,
                x: axis,
                unit: figure.unit,
                points: vec![point],
            }),
        }
    }
    std::fs::create_dir_all(folder)?;
    let mut written = Vec::new();
    for mut curve in curves {
        curve.points.sort_by(|a, b| a.0.total_cmp(&b.0));
        let name = curve.name.replace([' ', '/'], "-");
        let path = folder.join(format!("{}-{name}.svg", file.file));
        std::fs::write(&path, picture(&file.card.name, &curve))?;
        written.push(path);
    }
    Ok(written)
}

/// Returns a text as it stands in XML.
pub fn escaped(text: &str) -> String {
    let text = text.replace('&', "&amp;");
    text.replace('<', "&lt;").replace('>', "&gt;")
}

/// Returns the picture of a curve of a card.
fn picture(card: &str, curve: &Curve<'_>) -> String {
    let title = escaped(&format!("{card}: {}", curve.name));
    let (x_name, y_name, points) = (escaped(curve.x), curve.unit, &curve.points);
    let least_x = points.first().map_or(1.0, |p| p.0).max(0.5);
    let most_x = points.last().map_or(2.0, |p| p.0).max(least_x * 1.01);
    let most_y = points
        .iter()
        .map(|p| p.1.max(p.2))
        .fold(f64::MIN_POSITIVE, f64::max);
    let (right, bottom) = (WIDTH - MARGIN[2], HEIGHT - MARGIN[3]);
    // Sizes and occupancies double, so the horizontal axis is logarithmic.
    let across = |x: f64| {
        let part = (x.max(least_x) / least_x).ln() / (most_x / least_x).ln();
        MARGIN[0] + part * (right - MARGIN[0])
    };
    let up = |y: f64| bottom - y / most_y * (bottom - MARGIN[1]);
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{WIDTH}\" height=\"{HEIGHT}\" \
         font-family=\"sans-serif\" font-size=\"12\">\n<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n\
         <text x=\"{}\" y=\"20\">{title}, {y_name} (rings: card, line: model)</text>\n\
         <path d=\"M{} {} V{bottom} H{right}\" fill=\"none\" stroke=\"#888\"/>\n\
         <text x=\"4\" y=\"{}\">{most_y:.4}</text>\n<text x=\"4\" y=\"{bottom}\">0</text>\n\
         <text x=\"{right}\" y=\"{}\" text-anchor=\"end\">{x_name}</text>\n",
        MARGIN[0],
        MARGIN[0],
        MARGIN[1],
        MARGIN[1] + 10.0,
        HEIGHT - 8.0,
    );
    let line: Vec<String> = points
        .iter()
        .map(|(x, _, model)| format!("{:.1},{:.1}", across(*x), up(*model)))
        .collect();
    // Writing to a string cannot fail.
    let _ = writeln!(
        svg,
        "<polyline points=\"{}\" fill=\"none\" stroke=\"#0072b2\" stroke-width=\"2\"/>",
        line.join(" ")
    );
    for (x, card, _) in points {
        let _ = writeln!(
            svg,
            "<circle cx=\"{:.1}\" cy=\"{:.1}\" r=\"4\" fill=\"none\" stroke=\"#d55e00\" stroke-width=\"2\"/>\n\
             <text x=\"{:.1}\" y=\"{}\" text-anchor=\"middle\" font-size=\"9\">{x}</text>",
            across(*x),
            up(*card),
            across(*x),
            bottom + 14.0
        );
    }
    svg + "</svg>\n"
}
