//! A range as a line: what stands in its columns, and in its object.

use super::clients::Owner;
use gridmux_bpf::{Range, RangeProbe};
use serde_json::{Value, json};

/// The columns behind the time.
pub(super) const COLUMNS: [(&str, i32); 6] = [
    ("TIME", -12),
    ("TENANT", -12),
    ("PID", -7),
    ("TID", -7),
    ("RANGE", -32),
    ("EVENT", 0),
];

/// Returns the cells behind the time.
pub(super) fn cells(range: &Range, owner: &Owner) -> [String; 5] {
    let name = match (&*range.domain_name, &*range.name) {
        ("", "") => "-".to_owned(),
        ("", name) => name.to_owned(),
        (domain, "") => format!("{domain}: -"),
        (domain, name) => format!("{domain}: {name}"),
    };
    [
        owner.name.to_string(),
        range.pid.to_string(),
        range.tid.to_string(),
        name,
        event(range.what).to_owned(),
    ]
}

/// Returns it for programs.
pub(super) fn object(range: &Range, owner: &Owner, unix_ns: u64) -> Value {
    let named = |text: &str| (!text.is_empty()).then(|| text.to_owned());
    json!({
        "time_unix_ns": unix_ns,
        "tenant": &*owner.name,
        "tenant_id": owner.tenant,
        "pid": range.pid,
        "tid": range.tid,
        "range": named(&range.name),
        "domain": named(&range.domain_name),
        "domain_id": range.domain,
        "range_id": range.range,
        "event": event(range.what),
    })
}

fn event(what: RangeProbe) -> &'static str {
    match what {
        RangeProbe::Push => "push",
        RangeProbe::Pop => "pop",
        RangeProbe::Start => "start",
        RangeProbe::End => "end",
        RangeProbe::Mark => "mark",
    }
}

#[cfg(test)]
mod tests {
    use super::{cells, object};
    use crate::commands::trace::clients::Owner;
    use gridmux_bpf::{Range, RangeProbe};

    #[test]
    fn a_range_is_told_with_its_domain_where_it_has_one() {
        let mut range = Range {
            wall_ns: 0,
            pid: 7,
            tid: 8,
            what: RangeProbe::Push,
            domain: 0,
            range: 0,
            name: "epoch 3".into(),
            domain_name: String::new(),
        };
        let owner = Owner {
            tenant: 1,
            name: "first".into(),
        };
        assert_eq!(
            cells(&range, &owner),
            ["first", "7", "8", "epoch 3", "push"]
        );
        range.domain = 0xab;
        range.domain_name = "torch".into();
        assert_eq!(cells(&range, &owner)[3], "torch: epoch 3");
        range.name.clear();
        range.what = RangeProbe::Pop;
        assert_eq!(cells(&range, &owner)[3..], ["torch: -", "pop"]);
        let said = object(&range, &owner, 9);
        assert_eq!(
            (&said["range"], &said["domain"]),
            (&serde_json::Value::Null, &"torch".into())
        );
        assert_eq!(
            (&said["domain_id"], &said["time_unix_ns"]),
            (&0xab.into(), &9.into())
        );
    }
}
