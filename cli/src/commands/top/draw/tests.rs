//! Layouts of `top` on terminals of many sizes, drawn into memory.

use super::super::cost::Cost;
use super::super::frame::samples::{at, frame};
use super::super::frame::{Frame, History, Service};
use super::super::state::{Mode, State};
use super::{Scene, cut, draw, sparks};
use gridmux_mediator::dispatch::client_accounting::ClientUsage;
use gridmux_mediator::dispatch::why::Why;
use gridmux_mediator::link::{ClientFacts, Credentials, MemoryTime};
use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::buffer::Buffer;
use unicode_width::UnicodeWidthStr as _;

/// Draws a scene on a terminal of that size.
fn drawn(frame: &Frame, state: &State, (width, height): (u16, u16)) -> Buffer {
    let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
    let cost = Cost::default();
    let scene = Scene {
        frame,
        state,
        kernels: &[],
        cost: &cost,
    };
    terminal.draw(|canvas| draw(&scene, canvas)).unwrap();
    terminal.backend().buffer().clone()
}

/// Returns the lines of a drawing.
fn lines(buffer: &Buffer) -> Vec<String> {
    let area = buffer.area;
    let line = |y| -> String {
        let cells = (0..area.width).map(|x| buffer[(x, y)].symbol());
        cells.collect::<String>().trim_end().to_owned()
    };
    (0..area.height).map(line).collect()
}

/// Returns two tenants that share a device, and what was held of it.
fn shared() -> Frame {
    let mut frame = frame(&["serving", "training"]);
    let mut history = History::default();
    at(&mut frame, 1_000, &[0.0, 0.0]);
    history.complete(&mut frame);
    at(&mut frame, 2_000, &[4_500.0, 1_500.0]);
    history.complete(&mut frame);
    frame.tenants[1].binds = Why::Cap;
    frame.tenants[0].start_p99_ns = Some(12_300);
    frame.tenants[0].share_got = Some(0.75);
    frame
}

#[test]
fn a_wide_terminal_shows_every_column() {
    let drawn = lines(&drawn(&shared(), &State::new(false), (160, 12)));
    let text = drawn.join("\n");
    for heading in [
        "TENANT", "WEIGHT", "CLIENTS", "ASKED", "GOT", "NOW", "SLOWER", "P50", "P99", "PREEMPT",
        "MEMORY", "PENDING", "BOUND BY", "SHARE",
    ] {
        assert!(text.contains(heading), "{heading}: {text}");
    }
    assert!(drawn[0].starts_with("75% busy"), "{text}");
    let serving = drawn.iter().find(|line| line.contains("serving")).unwrap();
    assert!(
        serving.contains("75.0%") && serving.contains("12.3us") && serving.contains('▆'),
        "{text}"
    );
    let training = drawn.iter().find(|line| line.contains("training")).unwrap();
    assert!(
        training.contains("25.0%") && training.contains("cap"),
        "{text}"
    );
    assert!(drawn[10].starts_with("own eBPF"), "{text}");
    assert!(drawn[11].contains("q quit"), "{text}");
}

#[test]
fn forty_columns_show_who_has_what_and_what_binds() {
    let drawn = lines(&drawn(&shared(), &State::new(false), (40, 10)));
    let text = drawn.join("\n");
    assert!(drawn.iter().all(|line| line.width() <= 40), "{text}");
    for heading in ["TENANT", "GOT", "P99", "BOUND BY"] {
        assert!(text.contains(heading), "{heading}: {text}");
    }
    assert!(text.contains("serving") && text.contains("cap"), "{text}");
}

#[test]
fn no_size_and_no_state_is_too_small() {
    let frame = shared();
    for width in (1..=50).chain([80, 200, 500]) {
        for height in [1, 2, 3, 5, 8, 40] {
            for mode in [
                Mode::Table,
                Mode::Help,
                Mode::Tenant("serving".into(), 3),
                Mode::Tenant("gone".into(), 0),
                Mode::Weight("serving".into(), "12".into()),
            ] {
                let state = State {
                    mode,
                    ..State::new(false)
                };
                let drawn = drawn(&frame, &state, (width, height));
                assert_eq!((drawn.area.width, drawn.area.height), (width, height));
            }
        }
    }
}

#[test]
fn names_harm_nobody() {
    let hostile = [
        "\u{1b}[2J\u{1b}]0;x\u{7}",
        "\u{202e}gnp.exe",
        "שלום",
        "日本語日本語日本語",
        "a\r\nb\u{9b}31m",
        "e\u{301}\u{301}\u{301}\u{200b}",
        &"w".repeat(300),
    ];
    let mut frame = frame(&hostile);
    for line in &mut frame.tenants {
        line.clients = vec![ClientFacts {
            id: 1,
            name: line.name.clone(),
            credentials: Credentials {
                pid: 1,
                uid: 0,
                gid: 0,
            },
            memory_used_bytes: 0,
            usage: ClientUsage::default(),
            memory_time: MemoryTime::default(),
        }];
    }
    frame.service = Service::Silent("\u{1b}c".into());
    frame.device = hostile[0].into();
    let modes = hostile.map(|name| Mode::Tenant(name.into(), 0));
    for mode in [Mode::Table].into_iter().chain(modes) {
        let state = State {
            mode,
            said: Some(hostile[0].into()),
            ..State::new(false)
        };
        for width in [40, 80] {
            let drawn = drawn(&frame, &state, (width, 30));
            for y in 0..30 {
                let mut columns = 0;
                while columns < width {
                    let symbol = drawn[(columns, y)].symbol();
                    let harmless = |c: char| {
                        !c.is_control()
                            && !matches!(c, '\u{590}'..='\u{8ff}' | '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}')
                    };
                    assert!(symbol.chars().all(harmless), "{symbol:?}");
                    columns += u16::try_from(symbol.width().max(1)).unwrap();
                }
                assert_eq!(columns, width, "a line is as wide as the terminal");
            }
        }
    }
}

#[test]
fn a_service_that_does_not_answer_is_said_to_be_silent() {
    let mut frame = shared();
    frame.service = Service::Silent("no service answers".into());
    frame.age_ms = 61_000;
    let text = lines(&drawn(&frame, &State::new(false), (80, 12))).join("\n");
    assert!(
        text.contains("NO ANSWER FROM THE SERVICE") && text.contains("61.0s old"),
        "{text}"
    );
}

#[test]
fn many_tenants_scroll_to_the_selected_one() {
    let names: Vec<String> = (0..100).map(|number| format!("t{number}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let state = State {
        selected: Some("t77".into()),
        ..State::new(false)
    };
    let text = lines(&drawn(&frame(&names), &state, (60, 12))).join("\n");
    assert!(text.contains("t77") && !text.contains("t10 "), "{text}");
}

#[test]
fn texts_are_cut_by_columns_and_not_by_letters() {
    assert_eq!(cut("日本語", 6), "日本語");
    assert_eq!(cut("日本語", 5), "日本…");
    assert_eq!(cut("日本語", 4), "日…");
    assert_eq!(cut("abc", 0), "");
}

#[test]
fn a_sparkline_shows_the_newest_shares() {
    assert_eq!(sparks(&[0.0, 0.1, 0.5, 1.0], 3), "▁▄█");
    assert_eq!(sparks(&[0.0, 7.0, -1.0, f64::NAN], 9), " █  ");
}
