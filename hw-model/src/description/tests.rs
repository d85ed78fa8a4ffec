//! Descriptions that are built on others, changed, written out and refused.

use super::keys::KEYS;
use super::{ConfigError, Description, builtin_names};
use crate::config::{Fetch, GpuConfig, SchedulerPolicy, Stripe};
use toml::{Table, Value};

/// Returns a built-in GPU.
fn builtin(name: &str) -> GpuConfig {
    GpuConfig::builtin(name).expect("built in")
}

/// Collects the dotted names of the values of a table.
fn leaves(prefix: &str, table: &Table, found: &mut Vec<String>) {
    for (name, value) in table {
        let key = super::dotted(prefix, name);
        match value {
            Value::Table(inner) => leaves(&key, inner, found),
            _ => found.push(key),
        }
    }
}

#[test]
fn every_key_of_the_structures_is_listed_and_no_other() {
    let mut config = builtin("h200");
    config.fetch = Some(Fetch {
        instructions: 2,
        latency: 2,
        instruction_bytes: 8,
        bytes: 2048,
        ways: 4,
    });
    config.dram.stripe = Some(Stripe {
        banks: 2,
        bytes: 512,
    });
    let (mut all, table) = (Vec::new(), Table::try_from(&config).expect("it can"));
    leaves("", &table, &mut all);
    let mut listed: Vec<String> = KEYS.iter().map(|(key, ..)| (*key).to_owned()).collect();
    all.sort();
    listed.sort();
    assert_eq!(all, listed);
    assert_eq!(config.parameters().len(), KEYS.len());
    let without_unit = KEYS.iter().filter(|(_, unit, _)| unit.is_empty());
    assert!(without_unit.map(|(key, ..)| *key).eq(["name"]));
}

#[test]
fn what_has_no_source_is_marked_until_it_is_given() {
    let marked = |config: &GpuConfig| -> Vec<&str> {
        let all = config.parameters();
        all.iter().filter(|p| p.estimate).map(|p| p.key).collect()
    };
    let base = builtin("h200");
    assert!(marked(&base).contains(&"launch.kernel_cycles"));
    assert!(!marked(&base).contains(&"sm.count"));
    let text = "base = \"h200\"\nestimates = [\"copy\"]\n[launch]\nkernel_cycles = 4000\n";
    let own = GpuConfig::from_toml(text).expect("valid");
    assert!(marked(&own).contains(&"copy.latency_ns"));
    assert!(!marked(&own).contains(&"launch.kernel_cycles"));
    let mut changed = Description::builtin("h200").expect("built in");
    changed.set("launch.kernel_cycles=1").expect("it is a key");
    let changed = changed.config().expect("valid");
    assert!(!marked(&changed).contains(&"launch.kernel_cycles"));
    assert_eq!(changed.estimates.len() + 1, base.estimates.len());
    let wrong = "base = \"h200\"\nestimates = [\"launch.kernels\"]\n";
    let error = GpuConfig::from_toml(wrong)
        .expect_err("refused")
        .to_string();
    assert!(error.contains("'launch.kernels'"), "{error}");
}

#[test]
fn what_is_written_reads_back_as_the_same() {
    for name in builtin_names() {
        let config = builtin(name);
        let text = config.to_toml();
        assert!(text.contains("\n[dram.timing]\nccd = "), "{text}");
        assert!(text.contains("  # MHz\n"), "{text}");
        let again = GpuConfig::from_toml(&text).expect("it reads back");
        assert_eq!(again, config, "{name}");
    }
}

#[test]
fn a_base_gives_what_a_file_leaves_out() {
    let text = "base = \"h200\"\nname = \"half\"\n[sm]\ncount = 66\n\
                [pipelines]\nfp32 = { latency = 5 }\n[dram]\ngigabytes_per_second = 2400\n";
    let mut expected = builtin("h200");
    expected.name = "half".to_owned();
    expected.sm.count = 66;
    expected.pipelines.fp32.latency = 5;
    expected.dram.gigabytes_per_second = 2400.0;
    assert_eq!(GpuConfig::from_toml(text).expect("valid"), expected);
    let unnamed = GpuConfig::from_toml("base = \"h200\"").expect("valid");
    assert_eq!(unnamed.name, "h200,changed");
    let of_file = Description::from_file("base = \"h200\"", "mine").and_then(Description::config);
    assert_eq!(of_file.expect("valid").name, "mine");
    let named = Description::from_file("base = \"h200\"\nname = \"own\"", "mine");
    assert_eq!(
        named.and_then(Description::config).expect("valid").name,
        "own"
    );
    for (base, due) in [
        ("\"abacus\"", "h200, h100"),
        ("7", "\nbase: invalid type: integer `7`, expected a string"),
    ] {
        let error = GpuConfig::from_toml(&format!("base = {base}")).expect_err("refused");
        assert!(error.to_string().contains(due), "{error}");
    }
}

#[test]
fn single_keys_are_changed() {
    let mut description = Description::builtin("h200").expect("built in");
    for change in [
        "sm.scheduler=two-level",
        "pipelines.fp32.latency = 7",
        "l1.sectored=false",
        "pipelines.sfu={ latency = 9, interval = 3 }",
    ] {
        description.set(change).expect("it is a key");
    }
    let config = description.clone().config().expect("valid");
    assert_eq!(config.sm.scheduler, SchedulerPolicy::TwoLevel);
    assert_eq!(config.pipelines.fp32.latency, 7);
    assert!(!config.l1.sectored);
    assert_eq!(config.pipelines.sfu.interval, 3);
    assert!(
        config.name.starts_with("h200,sm.scheduler=two-level,"),
        "{}",
        config.name
    );
    description.set("name=mine").expect("it is a key");
    assert_eq!(description.config().expect("valid").name, "mine");
}

#[test]
fn an_unknown_key_is_refused_with_those_that_there_are() {
    let changed = |change: &str| {
        let mut description = Description::builtin("h200").expect("built in");
        description.set(change).expect_err("refused").to_string()
    };
    let in_file = |text: &str| GpuConfig::from_toml(text).expect_err("refused").to_string();
    let sm =
        "'sm.schedulerr' ('scheduler' is the nearest); [sm] has: count, schedulers, scheduler,";
    for error in [
        changed("sm.schedulerr=lrr"),
        in_file("base = \"h200\"\n[sm]\nschedulerr = \"lrr\""),
        in_file("[sm]\nschedulerr = \"lrr\""),
    ] {
        assert!(error.contains(sm), "{error}");
    }
    for (error, due) in [
        (
            changed("dramm.banks=3"),
            "'dramm' ('dram' is the nearest); it has: name, clock, sm",
        ),
        (changed("zzz=3"), "has no key 'zzz'; it has: name,"),
        (
            changed("sm.count.x=3"),
            "'sm.count.x'; 'sm.count' is a value and no table",
        ),
        (
            changed("pipelines.fp32.rate=3"),
            "[pipelines.fp32] has: latency, interval",
        ),
        (changed("sm.count"), "not KEY=VALUE"),
        (changed("=3"), "not KEY=VALUE"),
    ] {
        assert!(error.contains(due), "{error}");
    }
}

#[test]
fn a_value_of_the_wrong_kind_is_refused_with_its_key() {
    for (change, key) in [
        ("sm.count=many", "sm.count"),
        ("sm.scheduler=fifo", "sm.scheduler"),
        ("sm=3", "sm"),
        ("dram.stripe.banks=2", "dram.stripe"),
    ] {
        let mut description = Description::builtin("h200").expect("built in");
        description.set(change).expect("it is a key");
        let error = description.config().expect_err("refused").to_string();
        assert!(error.contains(key), "{change}: {error}");
    }
}

#[test]
fn parts_that_contradict_each_other_are_both_named() {
    for (changes, keys) in [
        (
            &["l2.latency=30"][..],
            ["l2.latency = 30", "l1.latency = 32"],
        ),
        (
            &["l2.latency=100"],
            ["l2.latency = 100", "interconnect.latency = 60"],
        ),
        (
            &["dram.channels=7"],
            ["l2.slices = 96", "dram.channels = 7"],
        ),
        (
            &["dram.latency=200"],
            ["dram.latency = 200", "l2.latency = 280"],
        ),
        (
            &["dram.timing.rcd=4000"],
            ["dram.latency = 663", "dram.timing.rcd = 4000"],
        ),
        (
            &["sm.schedulers=2", "pipelines.units.sfu=3"],
            ["pipelines.units.sfu = 3", "sm.schedulers = 2"],
        ),
        (
            &["sm.shared_bytes=1024"],
            [
                "sm.max_shared_bytes_per_block = 232448",
                "sm.shared_bytes = 1024",
            ],
        ),
        (
            &["dram.bank_groups=32"],
            ["dram.bank_groups = 32", "dram.banks = 16"],
        ),
        (
            &["dram.stripe={ banks = 3, bytes = 512 }"],
            ["dram.stripe.banks = 3", "dram.banks = 16"],
        ),
        (
            &["dram.stripe={ banks = 2, bytes = 2048 }"],
            ["dram.stripe.bytes = 2048", "dram.row_bytes = 1024"],
        ),
        (
            &["l2.bytes=1000000"],
            ["l2.bytes = 1000000", "l2.slices = 96"],
        ),
        (&["l1.bytes=1000"], ["l1.bytes = 1000", "l1.ways = 4"]),
        (
            &["dram.timing.rc=60"],
            ["dram.timing.rc = 60", "dram.timing.ras = 48"],
        ),
        (
            &["dram.timing.refi=10"],
            ["dram.timing.refi = 10", "dram.timing.rc = 70"],
        ),
    ] {
        let mut description = Description::builtin("h200").expect("built in");
        for change in changes {
            description.set(change).expect("it is a key");
        }
        let error = description.config().expect_err("refused");
        assert!(
            matches!(error, ConfigError::Contradiction { .. }),
            "{error}"
        );
        for key in keys {
            assert!(error.to_string().contains(key), "{error}");
        }
    }
}

/// Returns the keys of a description's text below a comment that begins with `# source: estimate`.
fn noted_as_estimates(text: &str) -> Vec<String> {
    let (mut table, mut note, mut found) = ("", String::new(), Vec::new());
    let mut in_note = false;
    for line in text.lines() {
        if let Some(header) = line.strip_prefix('[') {
            (table, in_note) = (header.trim_end_matches(']'), false);
            note.clear();
        } else if line.starts_with('#') {
            if !in_note {
                note.clear();
            }
            (note, in_note) = (note + line, true);
        } else if let Some((name, _)) = line.split_once(" = ") {
            in_note = false;
            if note.contains("source: estimate") && !name.starts_with(' ') {
                found.push(super::dotted(table, name));
            }
        } else {
            in_note = false;
            if line.is_empty() {
                note.clear();
            }
        }
    }
    found
}

#[test]
fn what_a_comment_calls_an_estimate_is_listed() {
    let mut seen = 0;
    for builtin in super::BUILTIN {
        let own: Table = builtin.text.parse().expect("TOML");
        let listed: Vec<&str> = own
            .get("estimates")
            .and_then(Value::as_array)
            .into_iter()
            .flatten()
            .filter_map(Value::as_str)
            .collect();
        for key in noted_as_estimates(builtin.text) {
            let covers = |listed: &&str| {
                let part =
                    |of: &str, whole: &str| of == whole || of.starts_with(&format!("{whole}."));
                part(&key, listed) || part(listed, &key)
            };
            assert!(listed.iter().any(covers), "{}: {key}", builtin.name);
            seen += 1;
        }
    }
    assert!(seen > 50, "{seen} keys");
}
