//! `gridmux sim gpus`, `sim gpu show`, `--gpu FILE.toml` with a base, and `--set`.

use crate::command::{Ran, gridmux, json_of, sim_vecadd, text_of, typed, words, workload_ptx};
use serde_json::Value;

/// Runs a small kernel on a GPU.
fn kernel(gpu: &[&str]) -> Ran {
    sim_vecadd(&workload_ptx("vecadd"), "vecadd", &[&["-j"], gpu].concat())
}

fn of_key<'a>(lines: &'a Value, key: &str) -> &'a Value {
    let found = lines.as_array().unwrap().iter();
    &found.into_iter().find(|line| line["key"] == key).unwrap()["value"]
}

#[test]
fn every_built_in_gpu_is_listed_and_shown() {
    let gpus = json_of(["sim", "gpus", "-j"]);
    let text = text_of(["sim", "gpus"]);
    for gpu in gpus.as_array().unwrap() {
        let name = gpu["name"].as_str().unwrap();
        assert!(text.contains(&format!("\n{name} ")), "{text}");
        let shown = json_of(["sim", "gpu", "show", name, "-j"]);
        assert_eq!(*of_key(&shown, "name"), name);
        assert_eq!(*of_key(&shown, "sm.count"), gpu["sms"]);
        assert_eq!(*of_key(&shown, "clock.core_mhz"), gpu["core_mhz"]);
        for line in shown.as_array().unwrap() {
            let has_unit = line["unit"].as_str().is_some_and(|unit| !unit.is_empty());
            assert!(has_unit || line["key"] == "name", "{line}");
        }
    }
    let mut rows = gpus.as_array().unwrap().iter();
    let h200 = rows.find(|gpu| gpu["name"] == "h200").unwrap();
    assert_eq!(h200["dram_gigabytes_per_second"], 4800.0);
    assert!(h200["stands_for"].as_str().unwrap().contains("NVIDIA H200"));
    let unknown = gridmux(["sim", "gpu", "show", "abacus", "-j"]);
    unknown.failed(2, &["h200, h100"]);
}

#[test]
fn a_description_that_was_printed_gives_the_same_cycles() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("copy.toml");
    let text = text_of(["sim", "gpu", "show", "gtx480", "--toml"]);
    assert!(
        text.contains("\ncore_mhz = ") && text.contains("  # MHz\n"),
        "{text}"
    );
    std::fs::write(&file, text).unwrap();
    let [built_in, read] =
        ["gtx480", file.to_str().unwrap()].map(|gpu| kernel(&["--gpu", gpu]).succeeded().json());
    assert_eq!(built_in["cycles"], read["cycles"]);
    assert_eq!(built_in["sms"], read["sms"]);
}

#[test]
fn a_base_and_changes_give_the_gpu_that_a_whole_file_does() {
    let folder = tempfile::tempdir().unwrap();
    let based = folder.path().join("based.toml");
    let based = based.to_str().unwrap();
    let text = "base = \"gtx480\"\nname = \"mine\"\n[sm]\nscheduler = \"lrr\"\n";
    std::fs::write(based, text).unwrap();
    let of_base = kernel(&["--gpu", based]).succeeded().json();
    let changed = kernel(&["--gpu", "gtx480", "--set", "sm.scheduler=lrr"])
        .succeeded()
        .json();
    let built_in = kernel(&["--gpu", "gtx480-lrr"]).succeeded().json();
    assert_eq!(of_base["cycles"], built_in["cycles"]);
    assert_eq!(changed["cycles"], built_in["cycles"]);
    assert_eq!(of_base["gpu"], "mine");
    assert_eq!(changed["gpu"], "gtx480,sm.scheduler=lrr");
    let other = kernel(&words(&format!(
        "--gpu {based} --set dram.latency=2000 --set name=slow"
    )));
    let other = other.succeeded().json();
    assert_eq!(other["gpu"], "slow");
    assert!(other["kernel_cycles"].as_u64() > of_base["kernel_cycles"].as_u64());
    let shown = gridmux(["sim", "gpu", "show", based, "--set", "l1.ways=8", "-j"]);
    let shown = shown.succeeded().json();
    assert_eq!(*of_key(&shown, "l1.ways"), 8);
    assert_eq!(*of_key(&shown, "sm.scheduler"), "lrr");
    let name = |lines: &Value| of_key(lines, "name").as_str().unwrap().to_owned();
    assert_eq!(name(&shown), "mine,l1.ways=8");
}

#[test]
fn no_two_gpus_have_one_name() {
    let folder = tempfile::tempdir().unwrap();
    let write = |file: &str, text: &str| {
        let path = folder.path().join(file);
        std::fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    };
    // Files that give no name are called as they are.
    let half = write("half.toml", "base = \"gtx480\"\n[sm]\ncount = 8\n");
    let less = write("less.toml", "base = \"gtx480\"\n[sm]\ncount = 4\n");
    let rows = kernel(&["--gpu", &half, "--gpu", &less]).succeeded().json();
    assert_eq!([&rows[0]["gpu"], &rows[1]["gpu"]], ["half", "less"]);
    // A copy of a built-in one has its name as long as it is the same.
    let text = text_of(["sim", "gpu", "show", "gtx480", "--toml"]);
    let copy = write("copy.toml", &text);
    let copied = kernel(&["--gpu", &copy]).succeeded().json();
    assert_eq!(copied["gpu"], "gtx480");
    let changed = write("changed.toml", &text.replacen("count = 15", "count = 8", 1));
    let twice = "two GPUs are called gtx480; leave one out, or give its file another `name`";
    let differs =
        "changed.toml: it is called gtx480 and differs from the built-in GPU of that name";
    let set = "differs from the built-in GPU of that name";
    for (arguments, code, due) in [
        (&["--gpu", "gtx480", "--gpu", &copy][..], 1, twice),
        (&["--gpu", "gtx480", "--gpu", "gtx480"], 2, twice),
        (&["--gpu", &changed], 1, differs),
        (&["--gpu", &changed, "--set", "l1.ways=2"], 1, differs),
        (&["--gpu", "h200", "--set", "name=gtx480"], 2, set),
    ] {
        let ran = kernel(arguments);
        ran.failed(code, &[due]);
    }
    let mix = format!("sim mix vecadd,size=tiny --policy fifo -j --gpu {changed}");
    assert!(typed(&mix).json_error().contains(differs));
    let named = ["--set", "name=mine"];
    let text = text.replacen("\"gtx480\"", "\"mine\"", 1);
    let mine = write("mine.toml", &text.replacen("count = 15", "count = 8", 1));
    let gpus = ["--gpu", "gtx480", "--gpu", &mine];
    assert_eq!(kernel(&gpus).succeeded().json()[1]["gpu"], "mine");
    let both = kernel(&[&gpus[..], &named].concat());
    assert!(both.json_error().contains("two GPUs are called mine"));
}

#[test]
fn what_no_description_has_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("wrong.toml");
    let path = file.to_str().unwrap();
    std::fs::write(&file, "base = \"h200\"\n[dram]\nchanels = 3\n").unwrap();
    let nearest = "'channels' is the nearest";
    let due = [
        "wrong.toml",
        "'dram.chanels'",
        nearest,
        "[dram] has: channels,",
    ];
    kernel(&["--gpu", path]).failed(1, &due);
    for (change, due) in [
        ("sm.schedular=lrr", "'scheduler' is the nearest"),
        ("sm.scheduler", "KEY=VALUE"),
        ("sm.scheduler=fifo", "sm.scheduler"),
        (
            "l2.latency=20",
            "l2.latency = 20 and l1.latency = 32 contradict each other",
        ),
    ] {
        let ran = kernel(&["--set", change]);
        ran.failed(2, &[due]);
    }
    let mix = typed("sim mix vecadd,size=tiny --policy fifo --set x=1 -j");
    mix.failed(2, &["no key 'x'"]);
}
