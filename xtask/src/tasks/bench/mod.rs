//! `cargo xtask bench [NAME…] [--list] [--json]`: runs benchmarks and collects what they measured.
//!
//! By convention a room's `benches/GROUP.rs` is the group `GROUP`, a program that prints one JSON object per
//! benchmark and line on stdout and takes an optional filter: `{"name", "value", "unit", "better", "floor", "ratio",
//! "peer"}`. A name on the command line is a group, a benchmark, or what the group before it takes as a filter; a
//! benchmark's name starts with its group's.

mod hardware;

use crate::{process, repo, setup};
use anyhow::{Context, Result, bail};
use comfy_table::{CellAlignment, Table, presets};
use serde_json::{Value, json};

/// Run benchmarks: all of them, or the named groups and single benchmarks.
#[derive(clap::Args)]
pub struct Args {
    /// Groups (`ring`), single benchmarks (`ring_round_trip`), or a group and a part of it (`hardware latency`).
    names: Vec<String>,
    /// Print the groups, each with its package, and run nothing.
    #[arg(long, conflicts_with = "names")]
    list: bool,
    /// Print one JSON object instead of a table.
    #[arg(long)]
    json: bool,
}

/// One bench target.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Group {
    package: String,
    name: String,
}

/// A group, and which of its benchmarks to run; `None` for all.
type Run<'a> = (&'a Group, Option<&'a str>);

/// Runs the task.
///
/// # Errors
/// If a name is unknown, a group does not build or fails, or a group prints nothing for a name.
pub fn run(args: &Args) -> Result<()> {
    if args.list {
        println!("{}", listed(&groups()?, args.json));
        return Ok(());
    }
    setup::ensure(&setup::BUILD)?;
    let groups = groups()?;
    let mut benchmarks = Vec::new();
    for (group, filter) in select(&groups, &args.names)? {
        let measured = measure(group, filter)?;
        if measured.is_empty() {
            bail!(
                "benchmark group {} measured nothing named {}",
                group.name,
                filter.unwrap_or("at all")
            );
        }
        benchmarks.extend(measured);
    }
    if args.json {
        println!("{}", json!({ "benchmarks": benchmarks }));
    } else if hardware::is_all(&benchmarks) {
        println!("{}", hardware::tables(&benchmarks));
    } else {
        println!("{}", table(&benchmarks));
    }
    Ok(())
}

/// Returns the groups as they are printed.
fn listed(groups: &[Group], json: bool) -> String {
    if json {
        let group = |group: &Group| json!({ "group": group.name, "package": group.package });
        return json!({ "groups": groups.iter().map(group).collect::<Vec<_>>() }).to_string();
    }
    let line = |group: &Group| format!("{:<12} {}", group.name, group.package);
    groups.iter().map(line).collect::<Vec<_>>().join("\n")
}

fn groups() -> Result<Vec<Group>> {
    let packages = repo::packages()?;
    let of_package = |package: &repo::Package| {
        let group = |name: &str| Group {
            package: package.name.clone(),
            name: name.to_owned(),
        };
        package.targets_of("bench").map(group).collect::<Vec<_>>()
    };
    Ok(packages.iter().flat_map(of_package).collect())
}

/// Returns which groups to run, and with which filter.
fn select<'a>(groups: &'a [Group], names: &'a [String]) -> Result<Vec<Run<'a>>> {
    if names.is_empty() {
        return Ok(groups.iter().map(|group| (group, None)).collect());
    }
    let mut runs: Vec<Run<'_>> = Vec::new();
    for name in names {
        let of_name = |group: &&Group| *name == group.name;
        let holds_name = |group: &&Group| {
            name.strip_prefix(&group.name)
                .is_some_and(|rest| rest.starts_with(['_', '/', '-']))
        };
        if let Some(group) = groups.iter().find(of_name) {
            runs.push((group, None));
        } else if let Some(group) = groups
            .iter()
            .filter(holds_name)
            .max_by_key(|group| group.name.len())
        {
            runs.push((group, Some(name)));
        } else if let Some((group, filter)) = runs.last_mut() {
            // A name of no group is a part of the group that was named before it.
            let group = *group;
            if filter.is_none() {
                *filter = Some(name);
            } else {
                runs.push((group, Some(name)));
            }
        } else {
            let known: Vec<&str> = groups.iter().map(|group| group.name.as_str()).collect();
            bail!(
                "no benchmark is called {name}; the groups are: {}",
                known.join(", ")
            );
        }
    }
    Ok(runs)
}

/// Runs a group and returns what it measured.
fn measure(group: &Group, filter: Option<&str>) -> Result<Vec<Value>> {
    let mut command = repo::cargo("bench");
    command.args(["--package", &group.package, "--bench", &group.name]);
    if let Some(filter) = filter {
        command.args(["--", filter]);
    }
    eprintln!("bench: {}", process::shown(&command));
    let (mut measured, mut wrong) = (Vec::new(), None);
    let succeeded = process::lines(&mut command, &mut |line| match read(line) {
        Ok(Some(benchmark)) => measured.push(benchmark),
        Ok(None) => eprintln!("{line}"),
        Err(error) => wrong = Some(error),
    })?;
    if let Some(error) = wrong {
        return Err(error.context(format!("benchmark group {}", group.name)));
    }
    if !succeeded {
        bail!("benchmark group {} failed", group.name);
    }
    for benchmark in &mut measured {
        complete(benchmark).with_context(|| format!("group {} printed {benchmark}", group.name))?;
    }
    Ok(measured)
}

/// Returns the benchmark of a line that a group printed; none for a line that is no JSON object with a name.
///
/// # Errors
/// It begins as an object and is none.
fn read(line: &str) -> Result<Option<Value>> {
    if !line.starts_with('{') {
        return Ok(None);
    }
    let benchmark: Value =
        serde_json::from_str(line).with_context(|| format!("this is no JSON: {line}"))?;
    Ok(benchmark.get("name").is_some().then_some(benchmark))
}

/// Checks the fields that every benchmark has and adds the optional ones, as null, where they are missing.
fn complete(benchmark: &mut Value) -> Result<()> {
    let fields = benchmark
        .as_object_mut()
        .context("a benchmark is a JSON object")?;
    for optional in ["floor", "ratio", "peer"] {
        fields.entry(optional).or_insert(Value::Null);
    }
    let better = fields.get("better").and_then(Value::as_str);
    if !fields["name"].is_string()
        || !fields.get("value").is_some_and(Value::is_number)
        || !fields.get("unit").is_some_and(Value::is_string)
        || !matches!(better, Some("lower" | "higher"))
    {
        bail!("a benchmark has a name, a numeric value, a unit, and better = lower or higher");
    }
    Ok(())
}

fn table(benchmarks: &[Value]) -> Table {
    let mut table = Table::new();
    table.load_preset(presets::UTF8_BORDERS_ONLY).set_header([
        "benchmark",
        "value",
        "unit",
        "better",
        "floor",
        "ratio",
        "peers",
    ]);
    for benchmark in benchmarks {
        let text = |key: &str| benchmark[key].as_str().unwrap_or_default().to_owned();
        let number = |key: &str| {
            benchmark[key]
                .as_f64()
                .map_or_else(|| "–".to_owned(), significant)
        };
        table.add_row([
            text("name"),
            number("value"),
            text("unit"),
            text("better"),
            number("floor"),
            number("ratio"),
            peers(&benchmark["peer"]),
        ]);
    }
    for column in [1, 4, 5] {
        if let Some(column) = table.column_mut(column) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    table
}

/// Returns `name: value` for each peer, as `{"name": value}` gives them.
fn peers(peer: &Value) -> String {
    let one = |(name, value): (&String, &Value)| match value.as_f64() {
        Some(number) => format!("{name}: {}", significant(number)),
        None => format!("{name}: {value}"),
    };
    let all = peer.as_object().into_iter().flatten().map(one);
    all.collect::<Vec<_>>().join("\n")
}

/// Returns a number with four significant digits, and no fraction from a thousand up.
fn significant(value: f64) -> String {
    let decimals = match value.abs() {
        magnitude if magnitude >= 1000.0 => 0,
        magnitude if magnitude >= 100.0 => 1,
        magnitude if magnitude >= 10.0 => 2,
        _ => 3,
    };
    format!("{value:.decimals$}")
}

#[cfg(test)]
mod tests {
    use super::{Group, complete, listed, read, select, table};
    use serde_json::json;

    fn groups() -> Vec<Group> {
        ["ring", "model", "ptx", "ptx-cost"]
            .map(|name| Group {
                package: format!("gridmux-{name}"),
                name: name.into(),
            })
            .into()
    }

    #[test]
    fn names_are_groups_benchmarks_or_what_the_group_before_them_takes() {
        let groups = groups();
        for (names, due) in [
            (
                &["ring", "model_speed/matmul", "ptx-cost/slice"][..],
                &[
                    ("ring", None),
                    ("model", Some("model_speed/matmul")),
                    ("ptx-cost", Some("ptx-cost/slice")),
                ][..],
            ),
            (
                &["ptx", "model", "latency", "launch"],
                &[
                    ("ptx", None),
                    ("model", Some("latency")),
                    ("model", Some("launch")),
                ],
            ),
        ] {
            let names: Vec<String> = names.iter().copied().map(String::from).collect();
            let runs = select(&groups, &names).expect("all are known");
            let runs = runs.iter();
            let runs: Vec<_> = runs
                .map(|(group, filter)| (&*group.name, *filter))
                .collect();
            assert_eq!(runs, due, "{names:?}");
        }
        let error = select(&groups, &["rings".into()])
            .expect_err("no such group")
            .to_string();
        assert!(
            error.contains("rings") && error.contains("ring, model"),
            "{error}"
        );
        assert_eq!(select(&groups, &[]).expect("all groups").len(), 4);
    }

    #[test]
    fn the_groups_are_listed_with_their_packages() {
        let groups = groups();
        assert_eq!(listed(&groups, false).lines().count(), 4);
        assert!(listed(&groups, false).starts_with("ring         gridmux-ring\n"));
        let json: serde_json::Value = serde_json::from_str(&listed(&groups, true)).expect("JSON");
        assert_eq!(
            json["groups"][3],
            json!({"group": "ptx-cost", "package": "gridmux-ptx-cost"})
        );
    }

    #[test]
    fn a_line_that_begins_as_an_object_and_is_none_is_an_error() {
        assert!(read("warming up").expect("it is for people").is_none());
        assert!(
            read("{\"floor\": 1}")
                .expect("it is another object")
                .is_none()
        );
        let found = read("{\"name\": \"a\", \"value\": 1}").expect("it is one");
        assert_eq!(found.expect("it has a name")["value"], 1);
        let error = read("{\"name\": \"a\", \"value\": NaN}").expect_err("it is no JSON");
        assert!(format!("{error:#}").contains("NaN"), "{error:#}");
    }

    #[test]
    fn every_column_of_the_table_has_a_heading() {
        let benchmark =
            json!({"name": "a", "value": 3.5, "unit": "ns", "better": "lower", "peer": {"b": 7}});
        let text = table(&[benchmark]).to_string();
        assert!(text.contains("peers") && text.contains("b: 7"), "{text}");
    }

    #[test]
    fn a_benchmark_without_a_direction_is_refused() {
        let mut whole = json!({"name": "plan_read", "value": 3.5, "unit": "ns", "better": "lower"});
        complete(&mut whole).expect("it has what it needs");
        assert!(whole["floor"].is_null());
        complete(&mut json!({"name": "plan_read", "value": 3.5, "unit": "ns"}))
            .expect_err("better is missing");
    }
}
