//! Charts as SVG: bars of a table's metric, curves over workloads, points in a plane.

use super::escaped;
use crate::tables::{Figures, number};
use std::fmt::Write;

/// A named series of points.
#[derive(Clone, Debug)]
pub(crate) struct Series {
    /// Its name.
    pub(crate) name: String,
    /// Its points, x and y.
    pub(crate) values: Vec<(f64, f64)>,
}

const WIDTH: f64 = 760.0;
const HEIGHT: f64 = 300.0;
/// Room for axes, in pixels: left, top, right (names of series), bottom.
const MARGIN: [f64; 4] = [52.0, 14.0, 150.0, 34.0];
/// Colours that differ for the colour-blind too (after Okabe and Ito).
const COLOURS: [&str; 8] = [
    "#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000", "#999999",
];

const BAR: f64 = 11.0;
const LABEL: f64 = 240.0;

/// Draws a metric of a table: for each row a bar of ours and, where the paper has the figure, one of the paper's.
pub(super) fn bars(table: &Figures, metric: &str) -> String {
    let rows: Vec<_> = table
        .rows
        .iter()
        .filter(|row| row.measured.contains_key(metric))
        .collect();
    let of = |row: &&crate::tables::Row| {
        let paper = row.paper.get(metric).copied().unwrap_or(0.0);
        row.measured[metric].max(paper)
    };
    let most = rows
        .iter()
        .map(of)
        .filter(|x| x.is_finite())
        .fold(f64::MIN_POSITIVE, f64::max);
    let step = 2.0 * BAR + 8.0;
    let height = rows.len() as f64 * step + 24.0;
    let mut svg = open(height);
    let _ = write!(
        svg,
        "<text x=\"4\" y=\"14\">{} (blue: ours, grey: the paper)</text>",
        escaped(metric)
    );
    let mut y = 22.0;
    for row in rows {
        let _ = write!(
            svg,
            "<text x=\"4\" y=\"{:.1}\">{}</text>",
            y + BAR,
            escaped(&row.name)
        );
        let drawn = [
            (row.measured.get(metric), COLOURS[0]),
            (row.paper.get(metric), COLOURS[7]),
        ];
        for (place, (figure, colour)) in drawn.into_iter().enumerate() {
            let Some(figure) = figure.filter(|figure| figure.is_finite()) else {
                continue;
            };
            let width = (figure.max(0.0) / most * (WIDTH - LABEL - 70.0)).max(0.5);
            let top = y + if place == 0 { 0.0 } else { BAR };
            let _ = write!(
                svg,
                "<rect x=\"{LABEL}\" y=\"{top:.1}\" width=\"{width:.1}\" height=\"{:.1}\" fill=\"{colour}\"/>\
                 <text x=\"{:.1}\" y=\"{:.1}\">{}</text>",
                BAR - 1.0,
                LABEL + width + 4.0,
                top + BAR - 1.5,
                number(*figure)
            );
        }
        y += step;
    }
    svg + "</svg>"
}

/// Draws series as lines; the axes are named.
pub(crate) fn curves(axes: (&str, &str), series: &[Series]) -> String {
    plane(axes, series, |svg, frame, colour, series| {
        let path: Vec<String> = series
            .values
            .iter()
            .map(|point| frame.place(*point))
            .collect();
        let path = path.join(" ");
        let _ = write!(
            svg,
            "<polyline points=\"{path}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"1.5\"/>"
        );
    })
}

/// Draws series as dots; the axes are named.
pub(crate) fn points(axes: (&str, &str), series: &[Series]) -> String {
    plane(axes, series, |svg, frame, colour, series| {
        for point in &series.values {
            let place = frame.place(*point);
            let (x, y) = place.split_once(',').unwrap_or_default();
            let _ = write!(
                svg,
                "<circle cx=\"{x}\" cy=\"{y}\" r=\"4\" fill=\"{colour}\"/>"
            );
        }
    })
}

/// The mapping from values to pixels.
struct Frame {
    least: (f64, f64),
    most: (f64, f64),
}

impl Frame {
    fn of(series: &[Series]) -> Self {
        let (mut least, mut most) = ((f64::MAX, f64::MAX), (f64::MIN, f64::MIN));
        for (x, y) in series
            .iter()
            .flat_map(|series| series.values.iter().copied())
        {
            least = (least.0.min(x), least.1.min(y));
            most = (most.0.max(x), most.1.max(y));
        }
        let apart = |least: f64, most: f64| if most > least { most } else { least + 1.0 };
        Self {
            least,
            most: (apart(least.0, most.0), apart(least.1, most.1)),
        }
    }

    /// Returns `x,y` in pixels.
    fn place(&self, (x, y): (f64, f64)) -> String {
        let across = (x - self.least.0) / (self.most.0 - self.least.0);
        let up = (y - self.least.1) / (self.most.1 - self.least.1);
        format!(
            "{:.1},{:.1}",
            MARGIN[0] + across * (WIDTH - MARGIN[0] - MARGIN[2]),
            HEIGHT - MARGIN[3] - up * (HEIGHT - MARGIN[1] - MARGIN[3])
        )
    }
}

fn open(height: f64) -> String {
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{WIDTH}\" height=\"{height:.0}\" role=\"img\">"
    )
}

/// Draws axes, the names of series, and each series by `draw`.
fn plane(
    (x, y): (&str, &str),
    series: &[Series],
    draw: impl Fn(&mut String, &Frame, &str, &Series),
) -> String {
    let frame = Frame::of(series);
    let mut svg = open(HEIGHT);
    let (left, bottom) = (MARGIN[0], HEIGHT - MARGIN[3]);
    let right = WIDTH - MARGIN[2];
    let _ = write!(
        svg,
        "<path d=\"M{left} {} V{bottom} H{right}\" fill=\"none\" stroke=\"#888\"/>\
         <text x=\"{right}\" y=\"{}\" text-anchor=\"end\">{} ({} to {})</text>\
         <text x=\"4\" y=\"{}\">{}</text><text x=\"4\" y=\"{bottom}\">{}</text><text x=\"4\" y=\"{}\">{}</text>",
        MARGIN[1],
        HEIGHT - 8.0,
        escaped(x),
        number(frame.least.0),
        number(frame.most.0),
        MARGIN[1] + 12.0,
        number(frame.most.1),
        number(frame.least.1),
        HEIGHT / 2.0,
        escaped(y),
    );
    for (place, series) in series.iter().enumerate() {
        let colour = COLOURS[place % COLOURS.len()];
        draw(&mut svg, &frame, colour, series);
        let row = MARGIN[1] + 14.0 * (place as f64 + 1.0);
        let _ = write!(
            svg,
            "<text x=\"{:.0}\" y=\"{row:.0}\" style=\"fill:{colour}\">{}</text>",
            right + 8.0,
            escaped(&series.name)
        );
    }
    svg + "</svg>"
}
