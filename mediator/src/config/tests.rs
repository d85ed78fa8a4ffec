//! What a configuration accepts, and what it refuses by name.

use super::{Config, ConfigError};
use gridmux_policy::Class;

#[test]
fn a_minimal_file_has_safe_defaults() {
    let config = Config::parse("schema_version = 1\n[[tenant]]\nname = \"a\"\n").unwrap();
    assert_eq!(config.device.kind, "model:h200");
    assert_eq!(config.tenants[0].weight, 1);
}

#[test]
fn an_unknown_key_is_named() {
    let error = Config::parse("schema_version = 1\npolcy = \"fifo\"\n").unwrap_err();
    assert!(error.to_string().contains("polcy"), "{error}");
}

#[test]
fn values_are_checked_and_named() {
    for (text, key) in [
        ("schema_version = 2", "schema_version"),
        ("schema_version = 1\npolicy = \"best\"", "policy"),
        (
            "schema_version = 1\n[device]\nkind = \"tpu\"",
            "device.kind",
        ),
        ("schema_version = 1\n[device]\nsms = 133", "device.sms"),
        (
            "schema_version = 1\n[device]\nmemory_bytes = 1048575",
            "device.memory_bytes",
        ),
        (
            "schema_version = 1\n[[tenant]]\nname = \"a\"\nmemory_limit_bytes = 0",
            "tenant.a.memory_limit_bytes",
        ),
        (
            "schema_version = 1\n[device]\nkind = \"cuda:0\"\ntiming = \"functional\"",
            "device.timing",
        ),
        (
            "schema_version = 1\n[device]\nclock = \"lockstep\"\ntiming = \"functional\"",
            "device.clock",
        ),
        (
            "schema_version = 1\n[limits]\ntenants = 0",
            "limits.tenants",
        ),
        (
            "schema_version = 1\n[[tenant]]\nname = \"a\"\nweight = 0",
            "tenant.a.weight",
        ),
        (
            "schema_version = 1\n[[tenant]]\nname = \"../x\"",
            "tenant.name",
        ),
        (
            "schema_version = 1\n[[tenant]]\nname = \"a\"\n[[tenant]]\nname = \"a\"",
            "tenant.a",
        ),
        (
            "schema_version = 1\n[limits]\ntenants = 1025",
            "limits.tenants",
        ),
        (
            "schema_version = 1\n[limits]\nclients = 0",
            "limits.clients",
        ),
        (
            "schema_version = 1\n[limits]\ncompile_memory_bytes = 268435455",
            "limits.compile_memory_bytes",
        ),
        (
            "schema_version = 1\n[limits]\ncompile_cpu_seconds = 0",
            "limits.compile_cpu_seconds",
        ),
        (
            "schema_version = 1\n[limits]\nmodule_memory_bytes = 0",
            "limits.module_memory_bytes",
        ),
        (
            "schema_version = 1\n[limits]\nkernel_budget_cpu_seconds = 0",
            "limits.kernel_budget_cpu_seconds",
        ),
        (
            "schema_version = 1\n[[tenant]]\nname = \"a\"\nweight = 1001",
            "tenant.a.weight",
        ),
        (
            "schema_version = 1\n[[tenant]]\nname = \"a\"\nclients = 0",
            "tenant.a.clients",
        ),
        (
            "schema_version = 1\n[[tenant]]\nname = \"a\"\ncgroup = \"user.slice\"",
            "tenant.a.cgroup",
        ),
    ] {
        match Config::parse(text) {
            Err(ConfigError::Value { key: found, .. }) => assert_eq!(found, key, "{text}"),
            other => panic!("{text}: {other:?}"),
        }
    }
}

#[test]
fn classes_rules_and_the_clock_are_read() {
    let text = "schema_version = 1\n[device]\nclock = \"lockstep\"\n[limits]\nkernel_budget_cpu_seconds = 3\n\
                [[tenant]]\nname = \"a\"\nclass = \"latency\"\nuser = 1000\ngroup = \"video\"\nclients = 3\n\
                [[tenant]]\nname = \"b\"\n";
    let config = Config::parse(text).unwrap();
    assert_eq!(config.device.clock, super::Clock::Lockstep);
    assert!((config.limits.kernel_budget_cpu_seconds - 3.0).abs() < f64::EPSILON);
    let [a, b] = config.tenants.as_slice() else {
        panic!("{config:?}");
    };
    assert_eq!(
        (a.class, a.clients, a.has_rule()),
        (Class::Latency, Some(3), true)
    );
    assert_eq!(a.user.as_ref().unwrap().to_string(), "1000");
    assert_eq!(a.group.as_ref().unwrap().to_string(), "video");
    assert_eq!((b.class, b.has_rule()), (Class::Normal, false));
    // A host gets the configuration in another encoding.
    let sent = postcard::to_allocvec(&config).unwrap();
    assert_eq!(postcard::from_bytes::<Config>(&sent).unwrap(), config);
}

#[test]
fn an_unknown_class_or_clock_is_named() {
    for (text, word) in [
        ("[[tenant]]\nname = \"a\"\nclass = \"fast\"", "fast"),
        ("[device]\nclock = \"slow\"", "slow"),
        ("[device]\ntiming = \"fast\"", "fast"),
        ("[[tenant]]\nname = \"a\"\nuser = -1", "-1"),
    ] {
        let error = Config::parse(&format!("schema_version = 1\n{text}\n")).unwrap_err();
        assert!(error.to_string().contains(word), "{error}");
    }
}
