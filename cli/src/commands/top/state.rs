//! What the operator of `top` looks at, and what keys do.
//!
//! Rules: a key changes what is looked at and nothing else; what it has the service do is returned as a [`Wish`]. The
//! selected tenant is known by name, so that it stays selected when rows move.

use super::frame::{Frame, Line};
use gridmux_mediator::config::MAX_WEIGHT;
use gridmux_mediator::dispatch::accounts::TenantState;
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use std::cmp::Ordering;

/// What the rows are in order of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Sort {
    /// The configuration's order.
    Configured,
    Name,
    Weight,
    Now,
    Got,
    Slowdown,
    P99,
    Preemption,
    Memory,
    Launches,
}

impl Sort {
    const ALL: [Self; 10] = [
        Self::Configured,
        Self::Name,
        Self::Weight,
        Self::Now,
        Self::Got,
        Self::Slowdown,
        Self::P99,
        Self::Preemption,
        Self::Memory,
        Self::Launches,
    ];

    /// Returns what it is called.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Configured => "configuration",
            Self::Name => "tenant",
            Self::Weight => "weight",
            Self::Now => "now",
            Self::Got => "got",
            Self::Slowdown => "slower",
            Self::P99 => "p99",
            Self::Preemption => "preempt",
            Self::Memory => "memory",
            Self::Launches => "launches",
        }
    }

    fn moved(self, by: usize) -> Self {
        let place = Self::ALL.iter().position(|sort| *sort == self);
        Self::ALL[(place.unwrap_or(0) + by) % Self::ALL.len()]
    }

    /// Compares two tenants: the greatest first, names from the first letter on.
    fn compare(self, a: &Line, b: &Line) -> Ordering {
        let number = |of: fn(&Line) -> Option<f64>| {
            let [a, b] = [a, b].map(|line| of(line).unwrap_or(f64::NEG_INFINITY));
            b.total_cmp(&a)
        };
        match self {
            Self::Configured => Ordering::Equal,
            Self::Name => a.name.cmp(&b.name),
            Self::Weight => b.weight.cmp(&a.weight),
            Self::Now => number(|line| line.share_now),
            Self::Got => number(|line| line.share_got),
            Self::Slowdown => number(|line| line.slowdown),
            Self::P99 => b.start_p99_ns.cmp(&a.start_p99_ns),
            Self::Preemption => b.preemption_p99_ns.cmp(&a.preemption_p99_ns),
            Self::Memory => b.memory_used_bytes.cmp(&a.memory_used_bytes),
            Self::Launches => b.launches.cmp(&a.launches),
        }
    }
}

/// What is in front.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Mode {
    /// The table of tenants.
    Table,
    /// One tenant, from this line of its text on.
    Tenant(String, u16),
    /// A weight is typed for a tenant.
    Weight(String, String),
    /// What the keys do.
    Help,
}

/// What a key asks for beyond the screen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Wish {
    Nothing,
    Quit,
    /// Stop the program until it is continued.
    Suspend,
    SetState(String, TenantState),
    SetWeight(String, u32),
}

/// The state of the view.
#[derive(Debug)]
pub(super) struct State {
    pub(super) mode: Mode,
    pub(super) sort: Sort,
    /// The order of rows is turned around.
    pub(super) is_reversed: bool,
    pub(super) selected: Option<String>,
    /// What came of the last change.
    pub(super) said: Option<String>,
    /// Have the kernel count runs of our own programs.
    pub(super) counts: bool,
}

impl State {
    pub(super) fn new(counts: bool) -> Self {
        Self {
            mode: Mode::Table,
            sort: Sort::Configured,
            is_reversed: false,
            selected: None,
            said: None,
            counts,
        }
    }

    /// Returns the tenants in the order in which they are shown.
    pub(super) fn ordered<'a>(&self, frame: &'a Frame) -> Vec<&'a Line> {
        let mut lines: Vec<&Line> = frame.tenants.iter().collect();
        lines.sort_by(|a, b| self.sort.compare(a, b));
        if self.is_reversed {
            lines.reverse();
        }
        lines
    }

    /// Returns the place of the selected tenant among those.
    pub(super) fn place(&self, lines: &[&Line]) -> usize {
        let is_selected = |line: &&Line| Some(&line.name) == self.selected.as_ref();
        lines.iter().position(is_selected).unwrap_or(0)
    }

    /// Returns whether kernels are shown, so that they are to be asked for.
    pub(super) fn shows_kernels(&self) -> bool {
        matches!(self.mode, Mode::Tenant(..))
    }

    /// Obeys a key.
    pub(super) fn press(&mut self, key: KeyEvent, frame: &Frame) -> Wish {
        if key.modifiers.contains(KeyModifiers::CONTROL) {
            return match key.code {
                KeyCode::Char('c') => Wish::Quit,
                KeyCode::Char('z') => Wish::Suspend,
                _ => Wish::Nothing,
            };
        }
        match &mut self.mode {
            Mode::Weight(..) => self.press_digit(key.code),
            Mode::Help => {
                self.mode = Mode::Table;
                Wish::Nothing
            }
            Mode::Tenant(_, from) => match key.code {
                KeyCode::Esc | KeyCode::Enter | KeyCode::Backspace => {
                    self.mode = Mode::Table;
                    Wish::Nothing
                }
                KeyCode::Down | KeyCode::Char('j') => {
                    *from = from.saturating_add(1);
                    Wish::Nothing
                }
                KeyCode::Up | KeyCode::Char('k') => {
                    *from = from.saturating_sub(1);
                    Wish::Nothing
                }
                code => self.press_command(code, frame),
            },
            Mode::Table => self.press_in_table(key.code, frame),
        }
    }

    fn press_in_table(&mut self, code: KeyCode, frame: &Frame) -> Wish {
        match code {
            KeyCode::Down | KeyCode::Char('j') => self.select(frame, 1),
            KeyCode::Up | KeyCode::Char('k') => self.select(frame, -1),
            KeyCode::PageDown => self.select(frame, 10),
            KeyCode::PageUp => self.select(frame, -10),
            KeyCode::Char('s') => self.sort = self.sort.moved(1),
            KeyCode::Char('S') => self.sort = self.sort.moved(Sort::ALL.len() - 1),
            KeyCode::Char('r') => self.is_reversed = !self.is_reversed,
            KeyCode::Enter => {
                if let Some(line) = self.selected_in(frame) {
                    self.mode = Mode::Tenant(line.name.clone(), 0);
                }
            }
            code => return self.press_command(code, frame),
        }
        Wish::Nothing
    }

    /// Obeys a key that does the same in the table and where one tenant is shown.
    fn press_command(&mut self, code: KeyCode, frame: &Frame) -> Wish {
        let selected = self.selected_in(frame);
        match (code, selected) {
            (KeyCode::Char('q'), _) => return Wish::Quit,
            (KeyCode::Char('?' | 'h'), _) => self.mode = Mode::Help,
            (KeyCode::Char('b'), _) => self.counts = !self.counts,
            (KeyCode::Char('p'), Some(line)) => {
                let state = match line.is_paused() {
                    true => TenantState::Running,
                    false => TenantState::Paused,
                };
                return Wish::SetState(line.name.clone(), state);
            }
            (KeyCode::Char('w'), Some(line)) => {
                self.mode = Mode::Weight(line.name.clone(), String::new());
            }
            _ => {}
        }
        Wish::Nothing
    }

    fn press_digit(&mut self, code: KeyCode) -> Wish {
        let Mode::Weight(name, typed) = &mut self.mode else {
            return Wish::Nothing;
        };
        match code {
            KeyCode::Char(digit) if digit.is_ascii_digit() && typed.len() < 4 => typed.push(digit),
            KeyCode::Backspace => _ = typed.pop(),
            KeyCode::Esc => self.mode = Mode::Table,
            KeyCode::Enter => {
                let weight = typed.parse::<u32>().ok();
                let weight = weight.filter(|weight| (1..=MAX_WEIGHT).contains(weight));
                let name = std::mem::take(name);
                self.mode = Mode::Table;
                match weight {
                    Some(weight) => return Wish::SetWeight(name, weight),
                    None => self.said = Some(format!("a weight is 1 to {MAX_WEIGHT}")),
                }
            }
            _ => {}
        }
        Wish::Nothing
    }

    fn selected_in<'a>(&self, frame: &'a Frame) -> Option<&'a Line> {
        if let Mode::Tenant(name, _) = &self.mode {
            return frame.tenants.iter().find(|line| line.name == *name);
        }
        let lines = self.ordered(frame);
        lines.get(self.place(&lines)).copied()
    }

    fn select(&mut self, frame: &Frame, by: isize) {
        let lines = self.ordered(frame);
        let last = lines.len().saturating_sub(1);
        let place = self.place(&lines).saturating_add_signed(by).min(last);
        self.selected = lines.get(place).map(|line| line.name.clone());
    }
}

#[cfg(test)]
mod tests {
    use super::super::frame::samples::frame;
    use super::{Mode, Sort, State, Wish};
    use gridmux_mediator::dispatch::accounts::TenantState;
    use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

    fn press(state: &mut State, frame: &super::Frame, code: KeyCode) -> Wish {
        state.press(KeyEvent::new(code, KeyModifiers::NONE), frame)
    }

    #[test]
    fn rows_are_ordered_and_the_selected_one_stays_selected() {
        let mut frame = frame(&["b", "a", "c"]);
        frame.tenants[1].memory_used_bytes = 5;
        let mut state = State::new(false);
        let names = |state: &State| -> Vec<String> {
            let lines = state.ordered(&frame).into_iter();
            lines.map(|line| line.name.clone()).collect()
        };
        assert_eq!(names(&state), ["b", "a", "c"]);
        press(&mut state, &frame, KeyCode::Down);
        press(&mut state, &frame, KeyCode::Char('s'));
        assert_eq!(
            (state.sort, names(&state)),
            (Sort::Name, vec!["a".into(), "b".into(), "c".into()])
        );
        assert_eq!(state.place(&state.ordered(&frame)), 0, "it is still a");
        press(&mut state, &frame, KeyCode::Char('r'));
        assert_eq!(names(&state), ["c", "b", "a"]);
        press(&mut state, &frame, KeyCode::Char('r'));
        press(&mut state, &frame, KeyCode::Char('S'));
        state.sort = Sort::Memory;
        assert_eq!(names(&state)[0], "a");
        // Every column in turn, and round.
        let first = state.sort;
        for _ in 0..Sort::ALL.len() {
            press(&mut state, &frame, KeyCode::Char('s'));
        }
        assert_eq!(state.sort, first);
    }

    #[test]
    fn keys_pause_resume_and_set_a_weight() {
        let mut frame = frame(&["a", "b"]);
        let mut state = State::new(false);
        press(&mut state, &frame, KeyCode::Down);
        let pause = Wish::SetState("b".into(), TenantState::Paused);
        assert_eq!(press(&mut state, &frame, KeyCode::Char('p')), pause);
        frame.tenants[1].state = Some(TenantState::Paused);
        let resume = Wish::SetState("b".into(), TenantState::Running);
        assert_eq!(press(&mut state, &frame, KeyCode::Char('p')), resume);
        press(&mut state, &frame, KeyCode::Char('w'));
        for c in ['1', 'x', '2', '3'] {
            assert_eq!(press(&mut state, &frame, KeyCode::Char(c)), Wish::Nothing);
        }
        press(&mut state, &frame, KeyCode::Backspace);
        let set = press(&mut state, &frame, KeyCode::Enter);
        assert_eq!(
            (set, &state.mode),
            (Wish::SetWeight("b".into(), 12), &Mode::Table)
        );
        press(&mut state, &frame, KeyCode::Char('w'));
        assert_eq!(press(&mut state, &frame, KeyCode::Enter), Wish::Nothing);
        assert!(state.said.is_some());
        // While a weight is typed `q` is no command.
        press(&mut state, &frame, KeyCode::Char('w'));
        assert_eq!(press(&mut state, &frame, KeyCode::Char('q')), Wish::Nothing);
        press(&mut state, &frame, KeyCode::Esc);
        assert_eq!(press(&mut state, &frame, KeyCode::Char('q')), Wish::Quit);
    }

    #[test]
    fn a_tenant_opens_and_closes_and_control_keys_work_everywhere() {
        let frame = frame(&["a"]);
        let mut state = State::new(false);
        press(&mut state, &frame, KeyCode::Enter);
        assert!(state.shows_kernels());
        press(&mut state, &frame, KeyCode::Down);
        assert_eq!(state.mode, Mode::Tenant("a".into(), 1));
        press(&mut state, &frame, KeyCode::Esc);
        assert_eq!(state.mode, Mode::Table);
        press(&mut state, &frame, KeyCode::Char('?'));
        assert_eq!(state.mode, Mode::Help);
        let control = |c| KeyEvent::new(KeyCode::Char(c), KeyModifiers::CONTROL);
        assert_eq!(state.press(control('z'), &frame), Wish::Suspend);
        assert_eq!(state.press(control('c'), &frame), Wish::Quit);
        let nobody = super::super::frame::samples::frame(&[]);
        for code in [
            KeyCode::Enter,
            KeyCode::Char('p'),
            KeyCode::Char('w'),
            KeyCode::Down,
        ] {
            state.mode = Mode::Table;
            assert_eq!(press(&mut state, &nobody, code), Wish::Nothing);
            assert_eq!(state.mode, Mode::Table);
        }
    }
}
