//! The tables of a plan.

use super::{Cell, Row, Shown};
use crate::{names, table, units};
use gridmux_mediator::page::PlanGroup;
use gridmux_policy::plan::{DispatchOrder, Preemption, Stop, Surplus};

impl Shown {
    pub(super) fn text(&self) -> String {
        let mut parts = Vec::new();
        parts.extend(self.stale.clone().map(table::fields));
        parts.push(table::fields(self.fields()));
        if self.groups.is_empty() {
            parts.push("(no groups: residency is left to the hardware)".to_owned());
        } else {
            let headings = ["group", "sms", "order", "preemption", "surplus"];
            let groups = (0..).zip(&self.groups).map(group);
            parts.push(table::of(&headings, groups));
        }
        if self.rows.is_empty() {
            parts.push("(no rows)".to_owned());
        } else {
            let numbers: Vec<String> = (0..self.groups.len()).map(|of| format!("g{of}")).collect();
            let mut headings = vec!["rank", "row", "tenant", "kernel", "stop", "budget"];
            headings.extend(numbers.iter().map(String::as_str));
            parts.push(table::of(&headings, self.rows.iter().map(Row::line)));
            parts.push(self.picture().join("\n"));
        }
        if self.has_more {
            parts.push("(and more rows)".to_owned());
        }
        if !self.limits.is_empty() {
            let limits = self.limits.iter().map(|limit| {
                let sms = limit.device_sms.map(|sms| format!("{sms:.1}"));
                vec![limit.tenant.clone(), sms.unwrap_or_else(|| "-".to_owned())]
            });
            parts.push(table::of(&["tenant", "most SMs"], limits));
        }
        parts.retain(|part| !part.is_empty());
        parts.join("\n\n")
    }

    fn fields(&self) -> [(&'static str, String); 3] {
        let wake = match self.wake_ns {
            Some(at) => format!("at {} of the device's clock", units::nanos(Some(at))),
            None => "by the next event".to_owned(),
        };
        let cap = match self.default_cap {
            Some(cap) => format!("{} on each SM", units::counted(cap.into(), "block")),
            None => "no cap".to_owned(),
        };
        [
            ("plan", format!("{} of {}", self.epoch, self.policy)),
            ("policy is woken", wake),
            ("other rows", format!("{cap}, {}", stop(self.default_stop))),
        ]
    }
}

impl Row {
    fn line(&self) -> Vec<String> {
        let none = || "-".to_owned();
        let mut line = vec![
            self.rank.to_string(),
            self.row.to_string(),
            self.tenant.clone().unwrap_or_else(none),
            self.kernel.as_deref().map_or_else(none, names::shown),
            stop(self.stop).to_owned(),
            self.budget.map_or_else(none, |budget| budget.to_string()),
        ];
        line.extend(self.cells.iter().map(|cell| cell.text(self.fits)));
        line
    }
}

impl Cell {
    fn text(self, fits: Option<u16>) -> String {
        let cap = match (self.cap, fits) {
            (None, _) => "*".to_owned(),
            (Some(cap), Some(fits)) => format!("{cap}/{fits}"),
            (Some(cap), None) => cap.to_string(),
        };
        match self.weight {
            Some(weight) => format!("{cap} w{weight}"),
            None => cap,
        }
    }
}

fn group((number, group): (usize, &PlanGroup)) -> Vec<String> {
    let range = |&(first, last): &(u16, u16)| match first == last {
        true => first.to_string(),
        false => format!("{first}-{last}"),
    };
    let sms: Vec<String> = group.sms.iter().map(range).collect();
    let order = match group.order {
        DispatchOrder::Rank => "rank",
        DispatchOrder::Arrival => "arrival",
    };
    let head = if group.head_of_line {
        " (head of line)"
    } else {
        ""
    };
    let preemption = match group.preemption {
        Preemption::None => "none",
        Preemption::Drain => "drain",
        Preemption::Switch => "switch",
        Preemption::Cheapest => "cheapest",
    };
    let surplus = match group.surplus {
        Surplus::Idle => "idle",
        Surplus::Lend => "lend",
    };
    vec![
        number.to_string(),
        sms.join(","),
        format!("{order}{head}"),
        preemption.to_owned(),
        surplus.to_owned(),
    ]
}

fn stop(stop: Stop) -> &'static str {
    match stop {
        Stop::Ahead => "ahead",
        Stop::Checked => "checked",
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Cell, Limit, Row, Shown};
    use gridmux_mediator::page::PlanGroup;
    use gridmux_mediator::supervisor::HostState;
    use gridmux_policy::plan::{DispatchOrder, Preemption, Stop, Surplus};

    fn group(sms: &[(u16, u16)]) -> PlanGroup {
        PlanGroup {
            sms: sms.to_vec(),
            order: DispatchOrder::Rank,
            preemption: Preemption::Cheapest,
            head_of_line: false,
            surplus: Surplus::Lend,
        }
    }

    fn row(number: u32, caps: [Option<u16>; 2]) -> Row {
        Row {
            rank: number,
            row: number,
            tenant: Some("first".to_owned()),
            kernel: Some("spin".to_owned()),
            stop: Stop::Checked,
            budget: None,
            fits: Some(8),
            cells: caps.map(|cap| Cell { cap, weight: None }).to_vec(),
        }
    }

    fn shown() -> Shown {
        Shown {
            policy: "gridmux".to_owned(),
            epoch: 7,
            sms: 4,
            wake_ns: None,
            default_cap: None,
            default_stop: Stop::Checked,
            groups: vec![group(&[(0, 0), (2, 3)]), group(&[(1, 1)])],
            rows: vec![row(9, [Some(4), Some(0)]), row(10, [Some(1), None])],
            has_more: false,
            limits: vec![Limit {
                tenant: "first".to_owned(),
                device_sms: Some(1.5),
            }],
            age_ms: Some(1),
            host_state: HostState::Up,
            stale: None,
        }
    }

    #[test]
    fn a_plan_is_its_groups_its_rows_and_a_picture() {
        let text = shown().text();
        let words = |line: &str| line.split_whitespace().collect::<Vec<_>>().join(" ");
        let lines: Vec<String> = text.lines().map(words).collect();
        let due = [
            "plan 7 of gridmux",
            "policy is woken by the next event",
            "other rows no cap, checked",
            "",
            "GROUP SMS ORDER PREEMPTION SURPLUS",
            "0 0,2-3 rank cheapest lend",
            "1 1 rank cheapest lend",
            "",
            "RANK ROW TENANT KERNEL STOP BUDGET G0 G1",
            "9 9 first spin checked - 4/8 0/8",
            "10 10 first spin checked - 1/8 *",
            "",
            "9 |▄.▄▄|",
            "10 |▁█▁▁|",
            "",
            "TENANT MOST SMS",
            "first 1.5",
        ];
        assert_eq!(lines, due, "{text}");
    }

    #[test]
    fn a_wide_device_has_columns_of_several_sms() {
        let mut wide = shown();
        wide.sms = 132;
        wide.groups = vec![group(&[(0, 130)]), group(&[(131, 131)])];
        let picture = wide.picture();
        assert_eq!(picture[0], format!("9  |{}|", "▄".repeat(44)));
        assert_eq!(picture[1], format!("10 |{}█|", "▁".repeat(43)));
    }

    #[test]
    fn sms_beyond_the_device_are_not_drawn() {
        let mut odd = shown();
        odd.groups = vec![group(&[(3, 9)]), group(&[(0, 1)])];
        assert_eq!(odd.picture()[1], "10 |██..|");
    }
}
