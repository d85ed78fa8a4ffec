//! How `top` is drawn: the device, a row for each tenant, what our own programs cost, and the keys.
//!
//! Rules: it fits whatever terminal there is: columns are left out, the least important first, and texts are cut by the
//! columns that they take; every name goes through [`safe`].

use super::cost::Cost;
use super::frame::{Frame, Line as Tenant, Service, safe};
use super::state::{Mode, State};
use super::tenant::lines_of;
use crate::commands::tenant::why::word;
use crate::units;
use gridmux_mediator::config::MAX_WEIGHT;
use gridmux_mediator::page::KernelSnapshot;
use ratatui::Frame as Canvas;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Modifier, Style};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Paragraph, Row, Table, TableState};
use unicode_width::{UnicodeWidthChar, UnicodeWidthStr as _};

/// Levels of a sparkline.
const LEVELS: [char; 9] = [' ', '▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
/// Columns of a sparkline, at least and at most.
const SPARKLINE: (u16, u16) = (8, 60);

/// A column: its heading, its width, and its place in the order in which columns are left out, the last one first.
struct Column {
    heading: &'static str,
    width: u16,
    rank: u8,
    cell: fn(&Tenant) -> String,
}

static COLUMNS: [Column; 13] = [
    Column {
        heading: "TENANT",
        width: 12,
        rank: 0,
        cell: |of| safe(&of.name),
    },
    Column {
        heading: "WEIGHT",
        width: 6,
        rank: 8,
        cell: |of| shown(of.weight),
    },
    Column {
        heading: "CLIENTS",
        width: 7,
        rank: 12,
        cell: |of| of.clients.len().to_string(),
    },
    Column {
        heading: "ASKED",
        width: 6,
        rank: 5,
        cell: |of| percent(of.share_asked),
    },
    Column {
        heading: "GOT",
        width: 6,
        rank: 2,
        cell: |of| percent(of.share_got),
    },
    Column {
        heading: "NOW",
        width: 6,
        rank: 6,
        cell: |of| percent(of.share_now),
    },
    Column {
        heading: "SLOWER",
        width: 7,
        rank: 4,
        cell: slower,
    },
    Column {
        heading: "P50",
        width: 8,
        rank: 9,
        cell: |of| units::nanos(of.start_p50_ns),
    },
    Column {
        heading: "P99",
        width: 8,
        rank: 3,
        cell: |of| units::nanos(of.start_p99_ns),
    },
    Column {
        heading: "PREEMPT",
        width: 8,
        rank: 10,
        cell: |of| units::nanos(of.preemption_p99_ns),
    },
    Column {
        heading: "MEMORY",
        width: 9,
        rank: 7,
        cell: |of| units::bytes(of.memory_used_bytes),
    },
    Column {
        heading: "PENDING",
        width: 7,
        rank: 11,
        cell: |of| of.pending.to_string(),
    },
    Column {
        heading: "BOUND BY",
        width: 10,
        rank: 1,
        cell: |of| bound(of).to_owned(),
    },
];

/// Everything that is drawn.
pub(super) struct Scene<'a> {
    pub(super) frame: &'a Frame,
    pub(super) state: &'a State,
    pub(super) kernels: &'a [KernelSnapshot],
    pub(super) cost: &'a Cost,
}

/// Draws it.
pub(super) fn draw(scene: &Scene<'_>, canvas: &mut Canvas<'_>) {
    let header = header(scene.frame);
    let height = u16::try_from(header.len()).unwrap_or(u16::MAX);
    let [top, middle, cost, keys] = Layout::vertical([
        Constraint::Length(height),
        Constraint::Min(1),
        Constraint::Length(1),
        Constraint::Length(1),
    ])
    .areas(canvas.area());
    let lines: Vec<Line<'_>> = header
        .into_iter()
        .map(|(text, style)| Line::styled(cut(&text, top.width), style))
        .collect();
    canvas.render_widget(Paragraph::new(lines), top);
    match &scene.state.mode {
        Mode::Table | Mode::Weight(..) => draw_table(scene, canvas, middle),
        Mode::Tenant(name, from) => {
            let found = scene.frame.tenants.iter().find(|line| line.name == *name);
            let lines = match found {
                Some(tenant) => lines_of(tenant, scene.frame, scene.kernels),
                None => vec![format!("{} is configured no more", safe(name))],
            };
            draw_lines(&lines, *from, canvas, middle);
        }
        Mode::Help => {
            let lines: Vec<String> = HELP.lines().map(ToOwned::to_owned).collect();
            draw_lines(&lines, 0, canvas, middle);
        }
    }
    let line = cut(&scene.cost.line(), cost.width);
    canvas.render_widget(Paragraph::new(line), cost);
    let line = Span::styled(cut(&foot(scene.state), keys.width), REVERSED);
    canvas.render_widget(Paragraph::new(line).style(REVERSED), keys);
}

const BOLD: Style = Style::new().add_modifier(Modifier::BOLD);
const REVERSED: Style = Style::new().add_modifier(Modifier::REVERSED);

/// What the keys do.
const HELP: &str = "\
up, down   select a tenant (also k, j, and a page up or down)
Enter      open it: what binds it, its clients and kernels; Esc closes
s, S       order by the next or the previous column
r          turn the order around
p          pause the tenant, or let it go on
w          set its weight, until the configuration is read again
b          have the kernel count runs of our eBPF programs
Ctrl-Z     stop until `fg`
q, Ctrl-C  quit

Pause and weight need root or the service's own user.
NOW and the line behind a row are the part of what all tenants held
between two readings; ASKED, GOT and SLOWER are as in `gridmux tenant
show`. P50 and P99 are launch latencies, PREEMPT the 99th percentile
of preemption latency. BOUND BY is what keeps its launches waiting.";

fn header(frame: &Frame) -> Vec<(String, Style)> {
    let busy = match frame.utilisation {
        Some(part) => format!("{:.0}% busy", part * 100.0),
        None => "- busy".to_owned(),
    };
    let device = match frame.device.is_empty() {
        true => "unknown device".to_owned(),
        false => safe(&frame.device),
    };
    let mut lines = vec![
        (
            format!("{busy}  {device}, {} MHz", frame.clock_khz / 1000),
            BOLD,
        ),
        (
            format!(
                "{} of {}  policy {}  {} clock {}",
                units::bytes(frame.memory_used_bytes),
                units::bytes(frame.memory_bytes),
                frame.policy,
                frame.clock,
                units::nanos(Some(frame.device_now_ns)),
            ),
            Style::new(),
        ),
        (
            match frame.age() {
                Some(age) => format!("host {}  figures {age}", safe(&frame.host)),
                None => format!("host {}", safe(&frame.host)),
            },
            Style::new(),
        ),
    ];
    if let Service::Silent(why) = &frame.service {
        let line = format!(
            "NO ANSWER FROM THE SERVICE, this is its page: {}",
            safe(why)
        );
        lines.push((line, BOLD.add_modifier(Modifier::REVERSED)));
    }
    lines
}

fn draw_table(scene: &Scene<'_>, canvas: &mut Canvas<'_>, area: Rect) {
    let (columns, sparkline) = columns_for(area.width);
    let lines = scene.state.ordered(scene.frame);
    if lines.is_empty() {
        return canvas.render_widget(Paragraph::new("(no tenants)"), area);
    }
    let mut headings: Vec<String> = columns.iter().map(|of| heading(of)).collect();
    let mut widths: Vec<Constraint> = columns
        .iter()
        .map(|of| Constraint::Length(of.width))
        .collect();
    if sparkline > 0 {
        headings.push("SHARE".to_owned());
        widths.push(Constraint::Length(sparkline));
    }
    let rows = lines.iter().map(|line| {
        let mut cells: Vec<String> = columns.iter().map(|of| aligned(of, line)).collect();
        if sparkline > 0 {
            cells.push(sparks(&line.shares, sparkline.into()));
        }
        Row::new(cells)
    });
    let table = Table::new(rows, widths)
        .header(Row::new(headings).style(BOLD))
        .column_spacing(1)
        .row_highlight_style(REVERSED);
    let mut selected = TableState::new().with_selected(Some(scene.state.place(&lines)));
    canvas.render_stateful_widget(table, area, &mut selected);
}

/// Returns the columns that a terminal has room for, and how many columns of text are left for sparklines.
fn columns_for(width: u16) -> (Vec<&'static Column>, u16) {
    let mut by_rank: Vec<&Column> = COLUMNS.iter().collect();
    by_rank.sort_by_key(|column| column.rank);
    let (mut used, mut last) = (0, 0);
    for column in by_rank {
        let with = used + column.width + u16::from(used > 0);
        if used > 0 && with > width {
            break;
        }
        (used, last) = (with, column.rank);
    }
    let columns = COLUMNS.iter().filter(|column| column.rank <= last);
    let left = width.saturating_sub(used + 1);
    let sparkline = if left < SPARKLINE.0 {
        0
    } else {
        left.min(SPARKLINE.1)
    };
    (columns.collect(), sparkline)
}

/// Returns a heading where its figures are: names at the left, figures at the right.
fn heading(of: &Column) -> String {
    let width = usize::from(of.width);
    match is_text(of) {
        true => of.heading.to_owned(),
        false => format!("{:>width$}", of.heading),
    }
}

fn aligned(of: &Column, line: &Tenant) -> String {
    let text = cut(&(of.cell)(line), of.width);
    let blanks = usize::from(of.width).saturating_sub(text.width());
    match is_text(of) {
        true => text,
        false => " ".repeat(blanks) + &text,
    }
}

fn is_text(of: &Column) -> bool {
    matches!(of.heading, "TENANT" | "BOUND BY")
}

fn draw_lines(lines: &[String], from: u16, canvas: &mut Canvas<'_>, area: Rect) {
    let last = lines.len().saturating_sub(1);
    let shown = lines.iter().skip(usize::from(from).min(last));
    let lines: Vec<Line<'_>> = shown.map(|line| Line::raw(cut(line, area.width))).collect();
    canvas.render_widget(Paragraph::new(lines), area);
}

fn foot(state: &State) -> String {
    match (&state.mode, &state.said) {
        (Mode::Weight(name, typed), _) => {
            format!(
                "weight of {} (1 to {MAX_WEIGHT}, Esc: none): {typed}_",
                safe(name)
            )
        }
        (_, Some(said)) => safe(said),
        (Mode::Table, None) => format!(
            "q quit  ? help  Enter open  p pause  w weight  s order: {}{}",
            state.sort.name(),
            if state.is_reversed { ", turned" } else { "" },
        ),
        (Mode::Tenant(..), None) => "Esc back  p pause  w weight  q quit".to_owned(),
        (Mode::Help, None) => "any key: back".to_owned(),
    }
}

/// Returns what keeps a tenant's launches waiting, in a word.
pub(super) fn bound(of: &Tenant) -> &'static str {
    match of.is_paused() {
        true => "paused",
        false => word(of.binds),
    }
}

/// Returns the newest shares as a line of that many columns.
pub(super) fn sparks(shares: &[f64], columns: usize) -> String {
    let from = shares.len().saturating_sub(columns);
    let level = |share: &f64| {
        let eighths = (share.clamp(0.0, 1.0) * 8.0).ceil();
        LEVELS[(0..=8)
            .rev()
            .find(|level| f64::from(*level) <= eighths)
            .unwrap_or(0) as usize]
    };
    shares[from..].iter().map(level).collect()
}

/// Returns the beginning of a text that takes no more than that many columns, with a mark where there is more.
pub(super) fn cut(text: &str, columns: u16) -> String {
    let columns = usize::from(columns);
    if text.width() <= columns {
        return text.to_owned();
    }
    let mut used = 0;
    let mut shown = String::new();
    for c in text.chars() {
        let width = c.width().unwrap_or(0);
        if used + width >= columns {
            break;
        }
        used += width;
        shown.push(c);
    }
    if columns > 0 {
        shown.push('…');
    }
    shown
}

pub(super) fn percent(share: Option<f64>) -> String {
    share.map_or_else(|| "-".to_owned(), |share| format!("{:.1}%", share * 100.0))
}

pub(super) fn slower(of: &Tenant) -> String {
    let slowdown = of.slowdown;
    slowdown.map_or_else(|| "-".to_owned(), |slowdown| format!("{slowdown:.2}x"))
}

pub(super) fn shown(number: Option<u32>) -> String {
    number.map_or_else(|| "-".to_owned(), |number| number.to_string())
}

#[cfg(test)]
mod tests;
