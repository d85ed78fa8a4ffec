//! What `top` shows: a reading of the service, or of its page of statistics where the service does not answer.
//!
//! Rules: shares of now are those of the time between two readings, on the device's clock; a reading of which that
//! clock has not moved says nothing new. Names come from tenants and clients, so that they are drawn by [`safe`] only.

use crate::commands::policy;
use crate::output::harmless;
use crate::service::{OLD_MS, host};
use crate::units;
use gridmux_bpf::histogram::Histogram;
use gridmux_mediator::device::Timing;
use gridmux_mediator::dispatch::accounts::TenantState;
use gridmux_mediator::dispatch::why::Why;
use gridmux_mediator::link::{ClientFacts, TenantFacts, TenantStatistics};
use gridmux_mediator::page::{DeviceSnapshot, PolicySnapshot, Snapshot, TenantSnapshot};
use gridmux_mediator::supervisor::{HostState, ServiceStatistics};
use gridmux_policy::Class;
use serde::Serialize;
use std::collections::{HashMap, VecDeque};

/// Readings that a sparkline goes back.
pub(super) const HISTORY: usize = 120;

/// Whether the service answers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Service {
    /// It does.
    Answers,
    /// It does not, for this reason; the figures are those of its page.
    Silent(String),
}

/// One picture of everything.
#[derive(Debug, Clone, Serialize)]
pub(super) struct Frame {
    pub(super) service: Service,
    pub(super) device: String,
    /// Whose clock times are of: `virtual`, `estimated` or `device`.
    pub(super) clock: &'static str,
    pub(super) sms: u16,
    pub(super) clock_khz: u32,
    /// Time of that clock.
    pub(super) device_now_ns: u64,
    /// Part of the device that blocks held between the last two readings, by their dominant shares.
    pub(super) utilisation: Option<f64>,
    pub(super) memory_used_bytes: u64,
    pub(super) memory_bytes: u64,
    /// Which policy decides, and for how long.
    pub(super) policy: String,
    /// How the device host stands.
    pub(super) host: String,
    /// Milliseconds since the device host wrote the figures.
    pub(super) age_ms: u64,
    pub(super) tenants: Vec<Line>,
}

/// A tenant. What only the service knows is none where it has never answered.
#[derive(Debug, Clone, Serialize)]
pub(super) struct Line {
    pub(super) name: String,
    pub(super) class: Option<Class>,
    pub(super) weight: Option<u32>,
    pub(super) state: Option<TenantState>,
    pub(super) share_asked: Option<f64>,
    pub(super) share_got: Option<f64>,
    pub(super) slowdown: Option<f64>,
    pub(super) start_p50_ns: Option<u64>,
    pub(super) start_p99_ns: Option<u64>,
    /// From going above other launches to the first block.
    pub(super) preemption_p50_ns: Option<u64>,
    pub(super) preemption_p99_ns: Option<u64>,
    pub(super) memory_used_bytes: u64,
    pub(super) memory_limit_bytes: Option<u64>,
    /// Those that ended without an error.
    pub(super) launches: u64,
    pub(super) pending: u64,
    pub(super) failed: u64,
    pub(super) binds: Why,
    /// For how long that has bound it, in milliseconds of wall time.
    pub(super) bound_for_ms: Option<u64>,
    /// Part of what all held between the last two readings that it held.
    pub(super) share_now: Option<f64>,
    /// The same of earlier readings, oldest first.
    pub(super) shares: Vec<f64>,
    pub(super) clients: Vec<ClientFacts>,
    #[serde(skip)]
    held_sm_ns: f64,
}

impl Frame {
    /// Takes an answer of the service.
    pub(super) fn of_answer(answer: &ServiceStatistics) -> Self {
        let of = &answer.host;
        let mut host = host(&answer.host_state, answer.host_pid);
        if answer.host_state == HostState::Up && answer.age_ms >= OLD_MS {
            host += ", silent";
        }
        let in_force = of.policy_in_force.as_ref();
        Self {
            service: Service::Answers,
            device: of.device.name.clone(),
            clock: clock(of.device.timing),
            sms: of.device.sms,
            clock_khz: of.device.clock_khz,
            device_now_ns: of.device_now_ns,
            utilisation: None,
            memory_used_bytes: of.memory_used_bytes,
            memory_bytes: of.device.memory_bytes,
            policy: match &of.policy_failure {
                Some(_) => safe(&format!(
                    "{}; {} failed",
                    policy::in_force(&of.policy, in_force),
                    of.policy
                )),
                None => safe(&policy::in_force(&of.policy, in_force)),
            },
            host,
            age_ms: answer.age_ms,
            tenants: of.tenants.iter().map(Line::of_answer).collect(),
        }
    }

    /// Takes the page of a service that does not answer for that reason; settings are those of its last answer.
    pub(super) fn of_page(page: &Snapshot, last: Option<&ServiceStatistics>, why: String) -> Self {
        let age_ms = millis(page.age());
        let DeviceSnapshot {
            name,
            timing,
            sms,
            clock_khz,
            memory_bytes,
        } = &page.device;
        let settings = |name: &str| {
            let tenants = last.into_iter().flat_map(|last| &last.host.tenants);
            let mut facts = tenants.map(|tenant| &tenant.tenant);
            facts.find(|facts| facts.name == name)
        };
        let tenants = page.tenants.iter();
        Self {
            service: Service::Silent(why),
            device: name.clone(),
            clock: clock(*timing),
            sms: *sms,
            clock_khz: *clock_khz,
            device_now_ns: page.device_now_ns,
            utilisation: None,
            memory_used_bytes: page.tenants.iter().fold(0, |sum, tenant| {
                sum.saturating_add(tenant.memory_used_bytes)
            }),
            memory_bytes: *memory_bytes,
            policy: policy_of(&page.policy),
            host: match age_ms < OLD_MS {
                true => "at work".to_owned(),
                false => "silent".to_owned(),
            },
            age_ms,
            tenants: tenants
                .map(|tenant| Line::of_page(tenant, settings(&tenant.name)))
                .collect(),
        }
    }

    /// Returns how old the figures are, where they are not those of now.
    pub(super) fn age(&self) -> Option<String> {
        let age_ns = self.age_ms.saturating_mul(1_000_000);
        (self.age_ms >= OLD_MS).then(|| format!("{} old", units::nanos(Some(age_ns))))
    }
}

impl Line {
    fn of_answer(of: &TenantStatistics) -> Self {
        let page = TenantSnapshot {
            name: of.tenant.name.clone(),
            clients: of.clients.clone(),
            memory_used_bytes: of.memory_used_bytes,
            usage: of.usage.clone(),
            preemption: of.preemption.clone(),
            ..TenantSnapshot::default()
        };
        Self {
            start_p50_ns: of.latency.start_p50_ns,
            start_p99_ns: of.latency.start_p99_ns,
            launches: of.latency.count,
            bound_for_ms: of.bound_for_ms,
            ..Self::of_page(&page, Some(&of.tenant))
        }
    }

    fn of_page(of: &TenantSnapshot, facts: Option<&TenantFacts>) -> Self {
        let [start, preemption] = [&of.start, &of.preemption].map(|buckets| buckets.histogram());
        let percentile = |of: &Histogram, q| of.percentile(q);
        let usage = &of.usage;
        // Shares of a tenant that waits say nothing of the present.
        let current = |share: Option<f64>| share.filter(|_| !usage.is_waiting);
        Self {
            name: of.name.clone(),
            class: facts.map(|facts| facts.class),
            weight: facts.map(|facts| facts.weight),
            state: facts.map(|facts| facts.state),
            share_asked: current(usage.share_entitled),
            share_got: current(usage.share_got),
            slowdown: usage.slowdown,
            start_p50_ns: percentile(&start, 0.5),
            start_p99_ns: percentile(&start, 0.99),
            preemption_p50_ns: percentile(&preemption, 0.5),
            preemption_p99_ns: percentile(&preemption, 0.99),
            memory_used_bytes: of.memory_used_bytes,
            memory_limit_bytes: facts.map(|facts| facts.memory_limit_bytes),
            launches: start.count(),
            pending: usage.pending,
            failed: usage.failed,
            binds: usage.binding.why,
            bound_for_ms: of.bound_for().map(millis),
            share_now: None,
            shares: Vec::new(),
            clients: of.clients.clone(),
            held_sm_ns: usage.held_sm_ns,
        }
    }

    /// Returns whether an operator has paused it, as far as is known.
    pub(super) fn is_paused(&self) -> bool {
        match self.state {
            Some(state) => state == TenantState::Paused,
            None => self.binds == Why::Paused,
        }
    }
}

/// What was held when, for shares of now.
#[derive(Debug, Default)]
pub(super) struct History {
    /// Device time of the last reading, and what each tenant had held until then.
    last: Option<(u64, HashMap<String, f64>)>,
    utilisation: Option<f64>,
    shares: HashMap<String, VecDeque<f64>>,
}

impl History {
    /// Completes a frame from those before it, and keeps what the next ones need.
    pub(super) fn complete(&mut self, frame: &mut Frame) {
        let now_ns = frame.device_now_ns;
        let is_new = self.last.as_ref().is_none_or(|(at, _)| *at != now_ns);
        if is_new {
            self.take(frame);
        }
        frame.utilisation = self.utilisation;
        for line in &mut frame.tenants {
            let shares = self.shares.get(&line.name);
            line.shares = shares.into_iter().flatten().copied().collect();
            line.share_now = line.shares.last().copied();
        }
    }

    fn take(&mut self, frame: &Frame) {
        let held = frame.tenants.iter();
        let held: HashMap<String, f64> = held
            .map(|line| (line.name.clone(), line.held_sm_ns))
            .collect();
        let last = self.last.take();
        if let Some((at, before)) = &last
            && *at < frame.device_now_ns
            && *before == held
            && frame.tenants.iter().any(|line| line.pending > 0)
        {
            // Use is counted as blocks end: none has, so the next frame is compared with the earlier one.
            self.last = last;
            return;
        }
        self.last = Some((frame.device_now_ns, held.clone()));
        let before = last;
        // Another host begins with a clock of its own.
        let Some((at, before)) = before.filter(|(at, _)| *at < frame.device_now_ns) else {
            self.utilisation = None;
            return;
        };
        let since = |name: &String, held: f64| match before.get(name) {
            Some(earlier) => (held - earlier).max(0.0),
            None => 0.0,
        };
        let all: f64 = held.iter().map(|(name, held)| since(name, *held)).sum();
        let passed = (frame.device_now_ns - at) as f64 * f64::from(frame.sms.max(1));
        self.utilisation = Some((all / passed).clamp(0.0, 1.0));
        self.shares.retain(|name, _| held.contains_key(name));
        for (name, held) in held {
            let share = match all > 0.0 {
                true => since(&name, held) / all,
                false => 0.0,
            };
            let shares = self.shares.entry(name).or_default();
            shares.push_back(share);
            if shares.len() > HISTORY {
                shares.pop_front();
            }
        }
    }
}

/// Returns a name as it may be drawn: nothing of it is obeyed by a terminal, turns the direction of what stands beside
/// it, or has no width.
pub(super) fn safe(name: &str) -> String {
    let line = name.replace('\n', "\\n").replace('\t', "\\t");
    let shown = |c: char| match is_drawn_as_it_is(c) {
        true => c.to_string(),
        false => c.escape_unicode().to_string(),
    };
    harmless(&line).chars().map(shown).collect()
}

fn is_drawn_as_it_is(c: char) -> bool {
    let turns = matches!(c, '\u{590}'..='\u{8ff}' | '\u{200e}' | '\u{200f}' | '\u{fb1d}'..='\u{fdff}'
        | '\u{fe70}'..='\u{feff}' | '\u{10800}'..='\u{10fff}' | '\u{1e800}'..='\u{1efff}');
    !turns && unicode_width::UnicodeWidthChar::width(c).is_some_and(|columns| columns > 0)
}

fn policy_of(policy: &PolicySnapshot) -> String {
    match policy.name.is_empty() {
        true => "unknown".to_owned(),
        false => safe(&policy.name),
    }
}

fn clock(timing: Option<Timing>) -> &'static str {
    match timing {
        Some(Timing::Timed) => "virtual",
        Some(Timing::Functional) => "estimated",
        None => "device",
    }
}

fn millis(time: std::time::Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

/// Frames for tests of this folder.
#[cfg(test)]
pub(super) mod samples {
    use super::{Frame, Line, Service};
    use gridmux_mediator::dispatch::accounts::TenantState;
    use gridmux_mediator::page::{Snapshot, TenantSnapshot};

    /// Returns a frame of tenants with these names.
    pub(crate) fn frame(names: &[&str]) -> Frame {
        let tenant = |name: &&str| {
            let page = TenantSnapshot {
                name: (*name).to_owned(),
                ..TenantSnapshot::default()
            };
            Line {
                weight: Some(2),
                state: Some(TenantState::Running),
                memory_limit_bytes: Some(1 << 30),
                ..Line::of_page(&page, None)
            }
        };
        let mut frame = Frame::of_page(&Snapshot::default(), None, String::new());
        frame.service = Service::Answers;
        frame.device = "SM model h200 (8 of 132 SMs)".to_owned();
        frame.tenants = names.iter().map(tenant).collect();
        frame.sms = 8;
        frame.age_ms = 0;
        frame
    }

    /// Sets the device time of a frame, and what each tenant has held until then.
    pub(crate) fn at(frame: &mut Frame, now_ns: u64, held: &[f64]) {
        frame.device_now_ns = now_ns;
        for (line, held) in frame.tenants.iter_mut().zip(held) {
            line.held_sm_ns = *held;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::samples::{at, frame};
    use super::{History, safe};

    #[test]
    fn shares_of_now_are_those_between_two_readings() {
        let mut history = History::default();
        let mut now = frame(&["a", "b"]);
        at(&mut now, 1000, &[800.0, 0.0]);
        history.complete(&mut now);
        assert_eq!((now.utilisation, now.tenants[0].share_now), (None, None));
        at(&mut now, 2000, &[3800.0, 1000.0]);
        history.complete(&mut now);
        assert_eq!(now.utilisation, Some(0.5));
        let shares = |of: &super::Frame| -> Vec<Vec<f64>> {
            of.tenants.iter().map(|line| line.shares.clone()).collect()
        };
        assert_eq!(shares(&now), [[0.75], [0.25]]);
        history.complete(&mut now);
        assert_eq!(shares(&now), [[0.75], [0.25]], "nothing new");
        // Another host.
        at(&mut now, 500, &[4000.0, 1000.0]);
        history.complete(&mut now);
        assert_eq!(now.utilisation, None);
    }

    #[test]
    fn names_are_drawn_and_not_obeyed() {
        assert_eq!(safe("a\u{1b}[2Jb\nc"), "a\\u{1b}[2Jb\\nc");
        assert_eq!(safe("\u{5d0}\u{202e}x"), "\\u{5d0}\\u{202e}x");
        assert_eq!(safe("e\u{301}\u{200b}日本"), "e\\u{301}\\u{200b}日本");
    }
}
