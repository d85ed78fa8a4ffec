//! What a configuration accepts, and what it refuses by name.

use super::{Config, ConfigError, EXAMPLE};
use crate::dispatch::accounts::TenantState;
use crate::link::TenantFacts;
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

// Length: one line for each value that is refused.
#[test]
fn values_are_checked_and_named() {
    for (text, key) in [
        ("schema_version = 2", "schema_version"),
        ("schema_version = 1\npolicy = \"best\"", "policy"),
        (
            "schema_version = 1\noperator_group = 4294967295",
            "operator_group",
        ),
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
            "schema_version = 1\n[device]\nlenient_bounds = true",
            "device.lenient_bounds",
        ),
        (
            "schema_version = 1\n[device]\nkind = \"cuda:0\"\nisolation = \"fenced\"",
            "device.isolation",
        ),
        (
            "schema_version = 1\n[device]\nunfenceable = \"shared\"",
            "device.unfenceable",
        ),
        (
            "schema_version = 1\n[device]\nisolation = \"fenced\"\ntiming = \"functional\"\nlenient_bounds = true",
            "device.lenient_bounds",
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
            "schema_version = 1\n[[tenant]]\nname = \"a\"\nmemory_limit_bytes = 4294967297",
            "tenant.a.memory_limit_bytes",
        ),
        (
            "schema_version = 1\n[[tenant]]\nname = \"a\"\nmemory_limit_bytes = 1048575",
            "tenant.a.memory_limit_bytes",
        ),
        (
            "schema_version = 1\n[device]\nmemory_bytes = 1099511627777",
            "device.memory_bytes",
        ),
        (
            "schema_version = 1\n[device]\nkind = \"cuda:0\"\nsms = 8",
            "device.sms",
        ),
        (
            "schema_version = 1\n[device]\nkind = \"cuda:0\"\nclock = \"lockstep\"",
            "device.clock",
        ),
        (
            "schema_version = 1\n[[tenant]]\nname = \"a\"\nuid = 4294967295",
            "tenant.a.uid",
        ),
        (
            "schema_version = 1\n[[tenant]]\nname = \"a\"\nuser = 4294967295",
            "tenant.a.user",
        ),
        (
            "schema_version = 1\n[[tenant]]\nname = \"a\"\nuser = 7\nuid = 8",
            "tenant.a.uid",
        ),
        (
            "schema_version = 1\n[[tenant]]\nname = \"a\"\nclients = 5\n[limits]\nclients = 4",
            "tenant.a.clients",
        ),
        (
            "schema_version = 1\n[[tenant]]\nname = \"a\"\ncgroup = \"/a/../b\"",
            "tenant.a.cgroup",
        ),
        (
            "schema_version = 1\n[limits]\nclock_hold_ms = 0",
            "limits.clock_hold_ms",
        ),
        (
            "schema_version = 1\n[limits]\nmodule_bytes = 1",
            "limits.module_bytes",
        ),
        (
            "schema_version = 1\n[limits]\nkernel_budget_cpu_seconds = 1e300",
            "limits.kernel_budget_cpu_seconds",
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
            "schema_version = 1\n[limits]\nmodule_memory_total_bytes = 1",
            "limits.module_memory_total_bytes",
        ),
        (
            "schema_version = 1\n[limits]\nconnects_per_second = 0",
            "limits.connects_per_second",
        ),
        (
            "schema_version = 1\n[limits]\nhost_patience_seconds = 3601",
            "limits.host_patience_seconds",
        ),
        (
            "schema_version = 1\n[limits]\nkernel_budget_cpu_seconds = 0",
            "limits.kernel_budget_cpu_seconds",
        ),
        (
            "schema_version = 1\n[limits]\nkernel_budget_cpu_seconds = 1e-300",
            "limits.kernel_budget_cpu_seconds",
        ),
        (
            "schema_version = 1\n[limits]\nkernel_budget_cpu_seconds = nan",
            "limits.kernel_budget_cpu_seconds",
        ),
        (
            "schema_version = 1\n[limits]\nkernel_budget_cpu_seconds = inf",
            "limits.kernel_budget_cpu_seconds",
        ),
        (
            "schema_version = 1\n[limits]\nkernel_budget_cpu_seconds = -inf",
            "limits.kernel_budget_cpu_seconds",
        ),
        (
            "schema_version = 1\n[limits]\nkernel_budget_cpu_seconds = -1",
            "limits.kernel_budget_cpu_seconds",
        ),
        (
            "schema_version = 1\n[limits]\nkernel_budget_cycles = 999",
            "limits.kernel_budget_cycles",
        ),
        (
            "schema_version = 1\n[limits]\nmodule_memory_bytes = 1048575",
            "limits.module_memory_bytes",
        ),
        (
            "schema_version = 1\n[limits]\nmodule_memory_total_bytes = 1",
            "limits.module_memory_total_bytes",
        ),
        (
            "schema_version = 1\n[limits]\nmodule_memory_bytes = 1099511627777",
            "limits.module_memory_bytes",
        ),
        (
            "schema_version = 1\n[limits]\nmodule_memory_total_bytes = 1",
            "limits.module_memory_total_bytes",
        ),
        (
            "schema_version = 1\n[limits]\ncompile_memory_bytes = 1099511627777",
            "limits.compile_memory_bytes",
        ),
        (
            "schema_version = 1\n[limits]\ncompile_cpu_seconds = 3601",
            "limits.compile_cpu_seconds",
        ),
        (
            "schema_version = 1\n[limits]\nclock_hold_ms = 600001",
            "limits.clock_hold_ms",
        ),
        (
            "schema_version = 1\n[limits]\nmodule_bytes = 67108865",
            "limits.module_bytes",
        ),
        (
            "schema_version = 1\n[limits]\nconnects_per_second = 1000001",
            "limits.connects_per_second",
        ),
        (
            "schema_version = 1\n[limits]\nhost_patience_seconds = 0",
            "limits.host_patience_seconds",
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

#[test]
fn a_file_is_named_once_and_a_pipe_is_none() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("gridmux.toml");
    std::fs::write(&file, "schema_version = \n").unwrap();
    let error = Config::read(&file).unwrap_err().to_string();
    assert!(
        error.starts_with(&format!("{}: TOML", file.display())),
        "{error}"
    );
    std::fs::remove_file(&file).unwrap();
    nix::unistd::mkfifo(&file, nix::sys::stat::Mode::S_IRWXU).unwrap();
    let error = Config::read(&file).unwrap_err().to_string();
    assert!(error.contains("no regular file"), "{error}");
}

/// A number that the format itself cannot take is refused with its line, whichever key it is of.
#[test]
fn numbers_outside_their_type_are_named_with_their_line() {
    for text in [
        "[limits]\nmodule_bytes = -1",
        "[limits]\nclients = 65536",
        "[limits]\nkernel_budget_cycles = 1.5",
        "[[tenant]]\nname = \"a\"\nweight = -1",
        "[device]\nsms = 70000",
    ] {
        let error = Config::parse(&format!("schema_version = 1\n{text}\n")).unwrap_err();
        let last = text.lines().last().unwrap();
        assert!(matches!(error, ConfigError::Parse { .. }), "{error}");
        let (key, value) = last.split_once(" = ").unwrap();
        let (told, found) = (format!("{key}: invalid "), format!("`{value}`, expected u"));
        for part in [last, &told, &found] {
            assert!(error.to_string().contains(part), "{part}: {error}");
        }
    }
}

#[test]
fn an_error_quotes_the_file_without_its_control_characters_and_at_no_length() {
    let text = format!("schema_version = 1\n\u{1b}[2J = {}\n", "1".repeat(100_000));
    let error = Config::parse(&text).unwrap_err().to_string();
    assert!(
        !error.contains('\u{1b}') && error.contains('\u{fffd}'),
        "{error}"
    );
    assert!(error.len() < 2000, "{}", error.len());
}

#[test]
fn without_a_limit_a_tenant_has_all_of_a_models_memory_and_4_gib_of_a_gpu() {
    const GIB: u64 = 1 << 30;
    for (device, own, due) in [
        (
            "kind = \"model:h200\"\nmemory_bytes = 2147483648",
            "",
            2 * GIB,
        ),
        ("kind = \"cuda:0\"", "", 4 * GIB),
        (
            "kind = \"cuda:0\"",
            "memory_limit_bytes = 68719476736",
            64 * GIB,
        ),
    ] {
        let text =
            format!("schema_version = 1\n[device]\n{device}\n[[tenant]]\nname = \"a\"\n{own}\n");
        let config = Config::parse(&text).unwrap();
        let facts = TenantFacts::new(0, &config.tenants[0], &config, TenantState::Running);
        assert_eq!(facts.memory_limit_bytes, due, "{text}");
    }
    assert!(EXAMPLE.contains("on a GPU 4294967296 (4 GiB)"));
}
