//! The service's figures as Prometheus reads them: well formed, true, and served to whoever asks, however badly.

use crate::command::running::{Running, Service, until};
use crate::command::{PROGRAM, gridmux, text_of, typed, words};
use crate::tools::tool;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// Runs one launch of a workload as the second tenant.
pub(crate) fn run_a_workload(service: &Service) {
    let socket = service.socket();
    let ran = typed(&format!(
        "workload run vecadd --size tiny --launches 3 --socket {socket} --tenant second"
    ));
    ran.succeeded();
}

/// Takes OpenMetrics text apart: the samples, by name and labels. Panics where it is not what the format demands.
fn samples(text: &str) -> BTreeMap<String, f64> {
    let mut kinds: BTreeMap<&str, &str> = BTreeMap::new();
    let mut helped = BTreeSet::new();
    let mut samples = BTreeMap::new();
    let (body, end) = text.split_at(text.len() - "# EOF\n".len());
    assert_eq!(end, "# EOF\n");
    for line in body.lines() {
        if let Some(rest) = line.strip_prefix("# ") {
            let mut words = rest.splitn(3, ' ');
            let [what, name, value] = [(); 3].map(|()| words.next().unwrap());
            match what {
                "TYPE" => assert_eq!(kinds.insert(name, value), None, "{name} comes twice"),
                "HELP" => assert!(helped.insert(name) && !value.is_empty(), "{line}"),
                "UNIT" => assert!(name.ends_with(&format!("_{value}")), "{line}"),
                _ => panic!("{line}"),
            }
            continue;
        }
        let (name, value) = line.rsplit_once(' ').unwrap();
        let family = name.split('{').next().unwrap();
        let is_plain = |c: char| c.is_ascii_lowercase() || c == '_';
        assert!(
            family.starts_with("gridmux_") && family.chars().all(is_plain),
            "{line}"
        );
        let of = |ending: &str| {
            family
                .strip_suffix(ending)
                .unwrap_or_else(|| panic!("{line}"))
        };
        let kind = |name: &str| kinds.get(name).copied();
        let is_known = kind(family) == Some("gauge")
            || (family.ends_with("_total") && kind(of("_total")) == Some("counter"))
            || (family.ends_with("_info") && kind(of("_info")) == Some("info"))
            || (name.contains("{quantile=") || name.contains(",quantile="))
                && kind(family) == Some("summary")
            || ["_bucket", "_count", "_sum"].iter().any(|ending| {
                let histogram = family.strip_suffix(ending);
                histogram.and_then(kind) == Some("histogram")
            });
        assert!(is_known, "{line} has no type");
        assert_eq!(
            samples.insert(name.to_owned(), value.parse().unwrap()),
            None,
            "{line}"
        );
    }
    assert_eq!(helped.len(), kinds.len());
    samples
}

#[test]
fn every_figure_is_well_formed_and_true() {
    let service = Service::start("figures");
    run_a_workload(&service);
    let folder = service.run_dir.to_str().unwrap();
    let text = text_of(["metrics", "--once", "--run-dir", folder]);
    let samples = samples(&text);
    let of = |name: &str, tenant: &str| {
        samples[&format!("gridmux_tenant_{name}{{tenant=\"{tenant}\"}}")]
    };
    let shown = service.ask(&["tenant", "show", "second"]);
    let figure = |name: &str| shown[0][name].as_f64().unwrap();
    for (name, key) in [
        ("launches_total", "launches"),
        ("operations_total", "operations"),
        ("blocks_total", "blocks"),
        ("slices_total", "slices"),
        ("copied_bytes_total", "bytes_copied"),
        ("memory_limit_bytes", "memory_limit_bytes"),
        ("weight", "weight"),
    ] {
        assert!(
            (of(name, "second") - figure(key)).abs() < 0.5,
            "{name}: {text}"
        );
    }
    assert!((of("sm_seconds_total", "second") - figure("held_sm_ns") / 1e9).abs() < 1e-9);
    assert!((of("weight", "first") - 2.0).abs() < 1e-9);
    assert!((of("launches_total", "first")).abs() < 1e-9);
    let share = of("dominant_share_ratio", "second");
    assert!((0.0..=1.0).contains(&share), "{share}");
    assert!(
        !text.contains("share_ratio{tenant=\"first\"}"),
        "it held nothing that has a share"
    );
    assert!(samples.contains_key(
        "gridmux_tenant_launch_latency_seconds{tenant=\"second\",quantile=\"0.99\"}"
    ));
    assert!(text.contains("# TYPE gridmux_preemption_latency_seconds histogram\n"));
    assert!(samples.contains_key("gridmux_tenant_info{tenant=\"first\",class=\"latency\"}"));
    assert!((samples["gridmux_up"] - 1.0).abs() < 1e-9);
    let ran = gridmux(["metrics", "--once", "-j", "--run-dir", "/nonexistent"]);
    ran.failed(1, &["/nonexistent"]);
}

/// Returns the value of a tenant's series among dcgm-exporter's.
fn dcgm(text: &str, name: &str, tenant: &str) -> Option<f64> {
    let is_it = |line: &&str| {
        line.starts_with(&format!("{name}{{")) && line.contains(&format!("tenant=\"{tenant}\""))
    };
    let line = text.lines().find(is_it)?;
    line.rsplit_once(' ')?.1.parse().ok()
}

#[test]
fn dcgms_series_say_what_each_tenant_holds_and_nothing_that_nobody_counts() {
    let service = Service::start("dcgm");
    let folder = service.run_dir.to_str().unwrap();
    let once = || text_of(["metrics", "--once", "--dcgm", "--run-dir", folder]);
    let work =
        format!("-j workload run vecadd --launches 1000000 --tenant second --run-dir {folder}");
    let _worker = Running::line(&work);
    let busy = until("a tenant that holds SMs", || {
        let text = once();
        (dcgm(&text, "DCGM_FI_PROF_SM_ACTIVE", "second")? > 0.0).then_some(text)
    });
    let active = dcgm(&busy, "DCGM_FI_PROF_SM_ACTIVE", "second").unwrap();
    assert!(active <= 1.0, "{busy}");
    let memory = dcgm(&busy, "DCGM_FI_DEV_FB_USED", "second").unwrap();
    let held = service.ask(&["tenant", "show", "second"])[0]["memory_used_bytes"].as_f64();
    assert!(
        (memory - held.unwrap() / 1_048_576.0).abs() < 1e-6,
        "{busy}"
    );
    until("its warps on the device", || {
        let text = once();
        let occupancy = dcgm(&text, "DCGM_FI_PROF_SM_OCCUPANCY", "second")?;
        assert!((0.0..=1.0).contains(&occupancy), "{text}");
        assert_eq!(dcgm(&text, "DCGM_FI_PROF_SM_OCCUPANCY", "first"), Some(0.0));
        (occupancy > 0.0).then_some(())
    });
    assert_eq!(
        dcgm(&busy, "DCGM_FI_PROF_SM_ACTIVE", "first"),
        Some(0.0),
        "{busy}"
    );
    for uncounted in ["PIPE_TENSOR_ACTIVE", "DRAM_ACTIVE", "namespace=", "UUID="] {
        assert!(!busy.contains(uncounted), "{busy}");
    }
    let (_server, address) = serve(folder, "127.0.0.1:0");
    let request = "GET /metrics/dcgm HTTP/1.1\r\nAccept: text/plain\r\n\r\n";
    let answer = ask(TcpStream::connect(&address).unwrap(), request);
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    assert!(
        head.contains("\r\nContent-Type: text/plain; version=0.0.4"),
        "{head}"
    );
    assert!(
        dcgm(body, "DCGM_FI_DEV_FB_USED", "second").is_some() && !body.contains("# EOF"),
        "{body}"
    );
}

/// Where the unified hierarchy of control groups may be mounted (cgroups(7)).
const HIERARCHIES: [&str; 2] = ["/sys/fs/cgroup", "/sys/fs/cgroup/unified"];
const POD: &str = "3fa85f64-5717-4562-b3fc-2c963f66afa6";
const CONTAINER: &str = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";

/// A control group of a test, named as Kubernetes names one; it is removed with the test.
struct Group(PathBuf);

impl Group {
    /// Makes it; returns `None` with the reason on stdout where that cannot be done.
    fn make() -> Option<Self> {
        let unified = |folder: &&&str| Path::new(folder).join("cgroup.controllers").exists();
        let Some(hierarchy) = HIERARCHIES.iter().find(unified) else {
            println!("SKIPPED: no unified hierarchy of control groups is mounted");
            return None;
        };
        let top = Path::new(hierarchy).join(format!("kubepods-gridmux-{}", std::process::id()));
        let group = Self(top.join(format!("pod{POD}")).join(CONTAINER));
        if let Err(error) = fs::create_dir_all(&group.0) {
            println!("SKIPPED: no control group can be made: {error}");
            return None;
        }
        Some(group)
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        for folder in self.0.ancestors().take(3) {
            let _ = fs::remove_dir(folder);
        }
    }
}

#[test]
fn the_control_group_of_a_tenants_clients_tells_pod_and_container() {
    let Some(group) = Group::make() else {
        return;
    };
    let service = Service::start("contained");
    let folder = service.run_dir.to_str().unwrap();
    let script = "echo $$ > \"$0/cgroup.procs\" && exec \"$@\"";
    let contained = Command::new("sh")
        .args(["-c", script])
        .args([&group.0, Path::new(PROGRAM)])
        .args(words(
            "workload run vecadd --launches 1000000 --tenant second --run-dir",
        ))
        .arg(folder)
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let contained = Ended(contained);
    let labels = format!("pod=\"{POD}\",container=\"{CONTAINER}\",tenant=\"second\"");
    let once = || text_of(["metrics", "--once", "--dcgm", "--run-dir", folder]);
    let text = until("series of the container", || {
        let text = once();
        (text.contains("SM_ACTIVE{") && text.contains(&labels)).then_some(text)
    });
    for line in text
        .lines()
        .filter(|line| line.contains("tenant=\"second\""))
    {
        assert!(
            line.contains(&labels) && !line.contains("namespace"),
            "{text}"
        );
    }
    // A second client elsewhere: what is not divided by client is of no container then.
    let work =
        format!("-j workload run vecadd --launches 1000000 --tenant second --run-dir {folder}");
    let _elsewhere = Running::line(&work);
    let series = |text: &str, name: &str| {
        let lines = text
            .lines()
            .filter(|line| line.starts_with(name) && line.contains("second"));
        lines.map(ToOwned::to_owned).collect::<Vec<_>>()
    };
    let text = until("a second place", || {
        let text = once();
        (series(&text, "DCGM_FI_DEV_FB_USED").len() == 2).then_some(text)
    });
    let occupancy = series(&text, "DCGM_FI_PROF_SM_OCCUPANCY");
    assert!(
        occupancy.iter().all(|line| !line.contains("pod=")),
        "{text}"
    );
    drop(contained);
}

/// Starts to serve figures, and returns where.
fn serve(folder: &str, listen: &str) -> (Running, String) {
    let mut server = Running::start(&["-j", "metrics", "--run-dir", folder, "--listen", listen]);
    let ready = server.next();
    let address = ready["ready"]["listen"].as_str().unwrap().to_owned();
    (server, address)
}

/// Asks and returns the whole answer.
fn ask(mut connection: impl Read + Write, request: &str) -> String {
    connection.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    connection.read_to_string(&mut answer).unwrap();
    answer
}

#[test]
fn it_answers_over_tcp_and_on_a_socket_also_while_the_service_is_gone() {
    let service = Service::start("answering");
    let folder = service.run_dir.to_str().unwrap().to_owned();
    let (_tcp, address) = serve(&folder, "127.0.0.1:0");
    let below = tempfile::tempdir().unwrap();
    let socket = below.path().join("metrics.sock");
    let listen = format!("unix:{}", socket.display());
    let request = "GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n";
    // A socket that a dead process left is replaced.
    for _ in 0..2 {
        let (server, place) = serve(&folder, &listen);
        assert_eq!(place, listen);
        let answer = ask(UnixStream::connect(&socket).unwrap(), request);
        assert!(answer.starts_with("HTTP/1.1 200 OK\r\n"), "{answer}");
        drop(server);
        assert!(socket.exists());
    }
    let answer = ask(TcpStream::connect(&address).unwrap(), request);
    assert!(
        answer.contains("\r\nContent-Type: application/openmetrics-text; version=1.0.0"),
        "{answer}"
    );
    let (_, body) = answer.split_once("\r\n\r\n").unwrap();
    assert!((samples(body)["gridmux_up"] - 1.0).abs() < 1e-9);
    assert_eq!(service.stop(), Some(0));
    // A reading may be a second old.
    until("the end of the service", || {
        let answer = ask(TcpStream::connect(&address).unwrap(), request);
        answer.contains("\ngridmux_up 0.0\n").then_some(())
    });
    let taken = gridmux(["metrics", "-j", "--run-dir", &folder, "--listen", &address]);
    taken.failed(1, &[&address]);
}

/// Returns how many open files the unit for systemd permits.
fn files_of_the_unit() -> u32 {
    let unit = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../packaging/gridmux-metrics.service"
    );
    let unit = fs::read_to_string(unit).unwrap();
    let limit = unit
        .lines()
        .find_map(|line| line.strip_prefix("LimitNOFILE="));
    limit.unwrap().parse().unwrap()
}

#[test]
fn malformed_and_unfinished_requests_keep_no_scraper_waiting() {
    let service = Service::start("hostile");
    let folder = service.run_dir.to_str().unwrap();
    let arguments = format!("-j metrics --run-dir {folder} --listen 127.0.0.1:0");
    let mut server = Running::start_with_files(files_of_the_unit(), &words(&arguments));
    let ready = server.next();
    let address = ready["ready"]["listen"].as_str().unwrap().to_owned();
    let connect = || TcpStream::connect(&address).unwrap();
    for (request, due) in [
        ("GET /secret HTTP/1.1\r\n\r\n", "404"),
        ("DELETE /metrics HTTP/1.1\r\n\r\n", "405"),
        ("\0\0\0\r\n\r\n", "400"),
    ] {
        let answer = ask(connect(), request);
        assert!(
            answer.starts_with(&format!("HTTP/1.1 {due} ")),
            "{request:?}: {answer}"
        );
    }
    // Unfinished requests take all places; a new connection replaces the oldest of them.
    let mut silent: Vec<TcpStream> = std::iter::repeat_with(connect).take(200).collect();
    for half in &mut silent[150..] {
        half.write_all(b"GET /metrics HTTP/1.1\r\n").unwrap();
    }
    for _ in 0..5 {
        let answer = ask(connect(), "GET /metrics HTTP/1.1\r\n\r\n");
        assert!(answer.starts_with("HTTP/1.1 200 "), "{answer:?}");
        assert!(answer.contains("\ngridmux_up 1.0\n"), "{answer:?}");
    }
    drop(silent);
}

/// A process that is ended with the test.
struct Ended(Child);

impl Drop for Ended {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn a_real_prometheus_scrapes_both_expositions() {
    let Some(program) = tool("prometheus") else {
        return;
    };
    let service = Service::start("scraped");
    run_a_workload(&service);
    let (_server, target) = serve(service.run_dir.to_str().unwrap(), "127.0.0.1:0");
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("prometheus.yml");
    let text = format!(
        "global: {{ scrape_interval: 2s }}\nscrape_configs:\n  - job_name: gridmux\n    static_configs: \
         [{{ targets: ['{target}'] }}]\n  - job_name: dcgm\n    metrics_path: /metrics/dcgm\n    static_configs: \
         [{{ targets: ['{target}'] }}]\n"
    );
    fs::write(&file, text).unwrap();
    // A port that is free now; Prometheus does not say which one it took.
    let free = TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap();
    let (file, data) = (file.display(), folder.path().join("data"));
    let arguments = format!(
        "--config.file={file} --storage.tsdb.path={} --web.listen-address={free}",
        data.display()
    );
    let prometheus = Command::new(program)
        .args(words(&arguments))
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let _prometheus = Ended(prometheus);
    let query = |what: &str, label: &str, wanted: &str| -> Option<Value> {
        let mut connection = TcpStream::connect(free).ok()?;
        let request = format!("GET /api/v1/query?query={what} HTTP/1.0\r\n\r\n");
        connection.write_all(request.as_bytes()).ok()?;
        let mut answer = String::new();
        connection.read_to_string(&mut answer).ok()?;
        let (_, body) = answer.split_once("\r\n\r\n")?;
        let json: Value = serde_json::from_str(body).ok()?;
        let results = json["data"]["result"].as_array()?.clone();
        results
            .into_iter()
            .find(|result| result["metric"][label] == wanted)
    };
    for job in ["gridmux", "dcgm"] {
        until("a scrape that succeeds", || {
            let up = query("up", "job", job)?;
            (up["value"][1] == "1").then_some(())
        });
    }
    let launches = until("a scraped figure", || {
        query("gridmux_tenant_launches_total", "tenant", "second")
    });
    let shown = service.ask(&["tenant", "show", "second"])[0]["launches"].to_string();
    assert_eq!(launches["value"][1], shown, "{launches}");
    assert!(query("gridmux_tenant_sm_seconds_total", "tenant", "second").is_some());
    let memory = until("a scraped figure of dcgm-exporter's", || {
        query("DCGM_FI_DEV_FB_USED", "tenant", "second")
    });
    assert_eq!(memory["value"][1], "0", "{memory}");
    assert_eq!(memory["metric"]["gpu"], "0", "{memory}");
}
