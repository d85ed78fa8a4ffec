//! `gridmux run` around programs that use no GPU: what they find, how they end, and what is left afterwards.
//!
//! The command is laid out as an installation is, with a file for a library that no program here loads.

use crate::command::running::until;
use crate::command::{PROGRAM, Ran, words, workload_ptx};
use nix::fcntl::{FcntlArg, OFlag, fcntl};
use nix::sys::signal::{SigSet, Signal, kill};
use nix::unistd::Pid;
use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Write};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

/// An installation, and a folder in which private folders are made.
struct Installed {
    root: tempfile::TempDir,
}

impl Installed {
    fn new() -> Self {
        let root = tempfile::Builder::new().prefix("gm").tempdir().unwrap();
        for folder in ["bin", "lib/gridmux", "tmp"] {
            std::fs::create_dir_all(root.path().join(folder)).unwrap();
        }
        // By another process: a child that another test forks meanwhile would inherit the open file and keep it busy.
        let mut copy = Command::new("cp");
        copy.arg(PROGRAM).arg(root.path().join("bin/gridmux"));
        assert!(copy.status().expect("cp starts").success());
        std::fs::write(root.path().join("lib/gridmux/libcuda.so.1"), "").unwrap();
        Self { root }
    }

    /// Returns `gridmux ARGUMENTS…` with private folders in `tmp`.
    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(self.root.path().join("bin/gridmux"));
        command
            .args(arguments)
            .env("TMPDIR", self.private_folders())
            .env_remove("LD_LIBRARY_PATH");
        command
    }

    fn run(&self, arguments: &[&str]) -> Ran {
        Ran::from(
            self.command(arguments)
                .output()
                .expect("the command starts"),
        )
    }

    fn private_folders(&self) -> PathBuf {
        self.root.path().join("tmp")
    }

    fn is_clean(&self) -> bool {
        std::fs::read_dir(self.private_folders()).unwrap().count() == 0
    }
}

/// `gridmux run` of a shell that says its process number and goes on; it ends with the test.
struct Running(Child, Pid);

impl Running {
    fn start(installed: &Installed, script: &str) -> Self {
        let mut command = installed.command(&["run", "--sms", "2", "--", "sh", "-c", script]);
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap())
            .read_line(&mut line)
            .unwrap();
        let program = Pid::from_raw(line.trim().parse().expect("a process number"));
        Self(child, program)
    }

    fn pid(&self) -> Pid {
        Pid::from_raw(i32::try_from(self.0.id()).unwrap())
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Returns whether a process that has ended and that nobody has waited for yet counts as gone.
fn is_gone(pid: Pid) -> bool {
    let status = std::fs::read_to_string(format!("/proc/{pid}/stat"));
    status.map_or(true, |text| {
        text.rsplit(") ")
            .next()
            .is_some_and(|rest| rest.starts_with('Z'))
    })
}

#[test]
fn the_program_finds_the_library_and_a_private_service() {
    let installed = Installed::new();
    let script = "echo $GRIDMUX_SOCKET $GRIDMUX_TENANT ${LD_LIBRARY_PATH%%:*}; test -S $GRIDMUX_SOCKET; echo $?; \
                  readlink ${LD_LIBRARY_PATH%%:*}/libcuda.so.1 ${LD_LIBRARY_PATH%%:*}/libcuda.so";
    let mut arguments = words("run --sms 2 --tenant me -- sh -c");
    arguments.push(script);
    let ran = installed.run(&arguments);
    let ran = ran.succeeded();
    let lines: Vec<&str> = ran.stdout.lines().collect();
    let words: Vec<&str> = lines[0].split(' ').collect();
    let library = installed.root.path().join("lib/gridmux/libcuda.so.1");
    let library = library.canonicalize().unwrap().display().to_string();
    assert_eq!(words[1], "me");
    assert_eq!(lines[1..], ["0", &library, &library]);
    assert!(words[0].starts_with(installed.private_folders().to_str().unwrap()));
    assert!(installed.is_clean());
}

#[test]
fn nvtx_finds_the_library_unless_another_tool_is_named() {
    let installed = Installed::new();
    let script = "echo $NVTX_INJECTION64_PATH ${LD_LIBRARY_PATH%%:*}/libcuda.so.1; test -f $NVTX_INJECTION64_PATH";
    let mut arguments = words("run --sms 2 -- sh -c");
    arguments.push(script);
    let mut command = installed.command(&arguments);
    let ran = Ran::from(
        command
            .env_remove("NVTX_INJECTION64_PATH")
            .output()
            .unwrap(),
    );
    let said = ran.succeeded().stdout;
    let (named, due) = said.trim_end().split_once(' ').unwrap();
    assert_eq!(named, due);
    let mut command = installed.command(&arguments);
    let ran = Ran::from(
        command
            .env("NVTX_INJECTION64_PATH", "/bin/sh")
            .output()
            .unwrap(),
    );
    assert!(ran.succeeded().stdout.starts_with("/bin/sh "));
}

#[test]
fn libraries_that_are_there_are_found_by_name_and_by_path() {
    let installed = Installed::new();
    for name in ["libcudart.so.12", "libnvrtc.so.13"] {
        let place = installed.root.path().join("lib/gridmux").join(name);
        std::fs::write(place, "").unwrap();
    }
    let script = "cd $GRIDMUX_LIBRARIES && echo *.so* nvrtc/* && readlink libcudart.so.12 nvrtc/libnvrtc.so.13; \
                  test $GRIDMUX_LIBRARIES = ${LD_LIBRARY_PATH%%:*} && test -s ${LD_AUDIT%%:*} && echo ${LD_AUDIT#*:}";
    let mut arguments = words("run --sms 2 -- sh -c");
    arguments.push(script);
    let mut command = installed.command(&arguments);
    // One that is there already stays behind it; the loader passes over what is missing, with a word.
    let ran = Ran::from(
        command
            .env("LD_AUDIT", "/nowhere/other.so")
            .output()
            .unwrap(),
    );
    let folder = installed
        .root
        .path()
        .join("lib/gridmux")
        .canonicalize()
        .unwrap();
    let place = |name: &str| folder.join(name).display().to_string();
    assert_eq!(
        ran.stdout.lines().collect::<Vec<_>>(),
        [
            "gridmux-search.so libcuda.so libcuda.so.1 libcudart.so.12 nvrtc/libnvrtc.so.13",
            &place("libcudart.so.12"),
            &place("libnvrtc.so.13"),
            "/nowhere/other.so",
        ]
    );
    assert!(
        ran.stderr
            .lines()
            .all(|line| line.contains("/nowhere/other.so")),
        "{}",
        ran.stderr
    );
    assert!(installed.is_clean());
}

#[test]
fn the_exit_status_is_the_programs() {
    let installed = Installed::new();
    let code = |script: &str| {
        installed
            .run(&["run", "--sms", "2", "--", "sh", "-c", script])
            .code
    };
    assert_eq!(code("exit 0"), Some(0));
    assert_eq!(code("exit 42"), Some(42));
    assert_eq!(code("kill -KILL $$"), Some(137));
    let missing = installed.run(&["run", "--sms", "2", "--", "/nonexistent/program"]);
    assert_eq!(missing.code, Some(127));
    assert!(
        missing.stderr.contains("/nonexistent/program"),
        "{}",
        missing.stderr
    );
    assert!(installed.is_clean());
}

#[test]
fn where_no_program_can_be_run_what_was_written_for_another_stays() {
    let installed = Installed::new();
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let (trace, list, plain) = (path("trace"), path("list"), path("plain"));
    for file in [&trace, &list, &plain] {
        std::fs::write(file, "written before").unwrap();
    }
    let folder = folder.path().to_str().unwrap();
    for (program, code) in [
        ("/nonexistent/program", 127),
        ("nonexistent-program", 127),
        (&plain, 126),
        (folder, 126),
    ] {
        let ran = installed.run(&words(&format!(
            "run --sms 2 --record {trace} --coverage --coverage-file {list} -- {program}"
        )));
        assert_eq!(ran.code, Some(code), "{}", ran.stderr);
        assert!(ran.stderr.contains(program), "{}", ran.stderr);
        for file in [&trace, &list] {
            assert_eq!(std::fs::read_to_string(file).unwrap(), "written before");
        }
    }
    let unserved = installed.run(&words(&format!(
        "run --socket /nonexistent/socket --record {trace} -- true"
    )));
    assert_eq!(unserved.code, Some(1), "{}", unserved.stderr);
    assert_eq!(std::fs::read_to_string(&trace).unwrap(), "written before");
    let both = installed.run(&words(&format!(
        "run --record {trace} --coverage --coverage-file {trace} -- true"
    )));
    assert_eq!(both.code, Some(2), "{}", both.stderr);
    assert_eq!(std::fs::read_to_string(&trace).unwrap(), "written before");
    assert!(installed.is_clean());
}

#[test]
fn a_signal_reaches_the_program() {
    let installed = Installed::new();
    let script = "trap 'exit 9' TERM; echo $$; while :; do sleep 0.05; done";
    let mut running = Running::start(&installed, script);
    kill(running.pid(), Signal::SIGTERM).unwrap();
    assert_eq!(running.0.wait().unwrap().code(), Some(9));
    assert!(installed.is_clean());
}

#[test]
fn nothing_is_left_when_it_is_killed() {
    let installed = Installed::new();
    let mut running = Running::start(&installed, "echo $$; exec sleep 1000");
    let program = running.1;
    assert!(!is_gone(program) && !installed.is_clean());
    running.0.kill().unwrap();
    running.0.wait().unwrap();
    until("the program's end", || is_gone(program).then_some(()));
    until("the private folder's end", || {
        installed.is_clean().then_some(())
    });
}

#[test]
fn a_running_service_is_used_and_must_be_there_if_it_was_named() {
    let installed = Installed::new();
    let run_dir = installed.root.path().join("run");
    let socket = run_dir.join("gridmux.sock");
    let (run_dir, socket) = (run_dir.to_str().unwrap(), socket.to_str().unwrap());
    let ran = installed.run(&words(&format!("-j run --run-dir {run_dir} -- true")));
    assert_eq!(ran.code, Some(1));
    let error = ran.json_error();
    assert_eq!(error.matches(socket).count(), 1, "{error}");
    assert!(ran.hint().contains("--device"));

    let instance = format!("run-test-{}", std::process::id());
    let configuration = installed.root.path().join("gridmux.toml");
    std::fs::write(&configuration, "schema_version = 1\n").unwrap();
    let arguments = format!(
        "-j serve --sms 2 --tenant first --instance {instance} --config {} --run-dir {run_dir}",
        configuration.display()
    );
    let mut service = installed
        .command(&words(&arguments))
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut ready = String::new();
    BufReader::new(service.stdout.take().unwrap())
        .read_line(&mut ready)
        .unwrap();
    let mut running = Running(service, Pid::from_raw(0));
    assert!(ready.contains("ready"), "{ready}");
    let script = "echo $GRIDMUX_SOCKET-$GRIDMUX_TENANT";
    let ran = installed.run(&["run", "--socket", socket, "--", "sh", "-c", script]);
    assert_eq!(ran.succeeded().stdout, format!("{socket}-\n"));
    let ran = installed.run(&words(&format!(
        "-j run --tenant second --socket {socket} -- true"
    )));
    ran.failed(1, &["second", "you may be: first"]);
    assert!(ran.json()["hint"].is_null(), "{}", ran.stdout);
    kill(running.pid(), Signal::SIGTERM).unwrap();
    running.0.wait().unwrap();
    assert!(installed.is_clean());
}

/// Runs `gridmux run --coverage…` of a program that says a line and lacks two functions, one of which it calls.
fn covered(installed: &Installed, options: &[&str]) -> Ran {
    let script =
        r#"echo mine; printf 'cuOne\tasked\tsh\ncuTwo\tcalled\tsh\n' >>$GRIDMUX_COVERAGE; exit 3"#;
    let arguments = [&["run", "--sms", "2"], options, &["--", "sh", "-c", script]];
    let ran = installed.run(&arguments.concat());
    assert_eq!((ran.code, ran.stdout.as_str()), (Some(3), "mine\n"));
    ran
}

#[test]
fn what_is_missing_is_listed_apart_from_the_programs_own_output() {
    let installed = Installed::new();
    let list = |text: &str| serde_json::from_str::<Value>(text).expect("a JSON document");
    let called = covered(&installed, &["--coverage", "-j"]);
    let called = list(&called.stderr);
    let counts = json!({ "status": 3, "called": 1, "not_called": 1 });
    for (name, count) in counts.as_object().unwrap() {
        assert_eq!(called[name], *count, "{called}");
    }
    assert_eq!(called["missing"].as_array().map(Vec::len), Some(1));
    assert_eq!(called["missing"][0]["function"], "cuTwo");
    let all = list(&covered(&installed, &["--coverage=all", "-j"]).stderr);
    assert_eq!(all["missing"][0]["function"], "cuOne");
    assert_eq!(all["missing"][1]["called"], true);

    let text = covered(&installed, &["--coverage"]).stderr;
    assert!(text.contains("cuTwo") && !text.contains("cuOne"), "{text}");
    let file = installed.root.path().join("list");
    let options = ["--coverage=all", "--coverage-file", file.to_str().unwrap()];
    assert_eq!(covered(&installed, &options).stderr, "");
    let text = std::fs::read_to_string(&file).unwrap();
    assert!(text.contains("cuTwo") && text.contains("cuOne"), "{text}");
    // A file for the list asks for it.
    let options = ["--coverage-file", file.to_str().unwrap()];
    assert_eq!(covered(&installed, &options).stderr, "");
    let text = std::fs::read_to_string(file).unwrap();
    assert!(text.contains("cuTwo") && !text.contains("cuOne"), "{text}");
}

#[test]
fn an_option_that_makes_no_sense_is_named() {
    let installed = Installed::new();
    for (options, due) in [
        (&["--device", "model:nope"][..], "--device: \"model:nope\""),
        (&["--sms", "0"], "--sms: "),
        (&["--sms", "500"], "--sms: 500 is more than the 132"),
        (&["--sms", "2", "--tenant", "a/b"], "--tenant: \"a/b\""),
        (&["--weight", "0"], "--weight: 0"),
        (&["--kernel-seconds", "0"], "--kernel-seconds: "),
        (&["--device", "cuda:0", "--timed"], "--timed is for"),
        (
            &["--device", "cuda:0", "--lenient-bounds"],
            "--lenient-bounds is for",
        ),
    ] {
        let arguments = [&["-j", "run"], options, &["--", "true"]].concat();
        let ran = installed.run(&arguments);
        assert_eq!(ran.code, Some(2), "{options:?}: {}", ran.stdout);
        assert!(ran.json_error().starts_with(due), "{}", ran.stdout);
        assert!(!ran.stdout.contains(".toml"), "{}", ran.stdout);
    }
    assert!(installed.is_clean());
}

#[test]
fn a_kernel_that_takes_too_long_is_named_with_the_option() {
    let installed = Installed::new();
    let script = format!("{PROGRAM} workload run fma_loop --size large --socket $GRIDMUX_SOCKET");
    for timing in [&["--sms", "2"][..], &["--timed", "--sms", "2"]] {
        let options = ["--tenant", "me", "--kernel-seconds", "0.001"];
        let arguments = [&["run"], timing, &options, &["--", "sh", "-c", &script]];
        let ran = installed.run(&arguments.concat());
        assert_eq!(ran.code, Some(1), "{}", ran.stdout);
        for part in ["tenant me", "kernel fma_loop was ended", "--kernel-seconds"] {
            assert!(ran.stderr.contains(part), "{part:?}: {}", ran.stderr);
        }
    }
}

#[test]
fn the_program_has_the_signal_mask_that_the_command_was_started_with() {
    let installed = Installed::new();
    let blocked = |signals: &[Signal]| {
        let mask: SigSet = signals.iter().copied().collect();
        let script = words("run --sms 2 -- grep SigBlk /proc/self/status");
        let mut command = installed.command(&script);
        // SAFETY: between fork and exec only sigprocmask is called, which is async-signal-safe.
        unsafe { command.pre_exec(move || Ok(mask.thread_set_mask()?)) };
        Ran::from(command.output().unwrap()).succeeded().stdout
    };
    let line = |bits: u64| format!("SigBlk:\t{bits:016x}\n");
    assert_eq!(blocked(&[]), line(0));
    let (hang_up, user) = (Signal::SIGHUP, Signal::SIGUSR2);
    let bits = [hang_up, user].map(|signal| 1 << (signal as u64 - 1));
    assert_eq!(blocked(&[hang_up, user]), line(bits[0] | bits[1]));
}

/// Returns the processes that one has started and that it has not waited for.
fn children(pid: Pid) -> Vec<Pid> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/task/{pid}/children"));
    let text = text.unwrap_or_default();
    let children = text.split_whitespace().map(|pid| pid.parse().unwrap());
    children.map(Pid::from_raw).collect()
}

/// Sends SIGTERM until it is obeyed: one that comes while the program runs is the program's.
fn end(child: &mut Child) {
    let pid = Pid::from_raw(i32::try_from(child.id()).unwrap());
    let status = until("the command's end", || {
        kill(pid, Signal::SIGTERM).unwrap();
        child.try_wait().unwrap()
    });
    assert_eq!(status.signal(), Some(Signal::SIGTERM as i32), "{status:?}");
}

#[test]
fn it_ends_on_a_signal_while_its_service_does_not_start() {
    let installed = Installed::new();
    // The service logs, and waits for room in a pipe that nobody reads.
    let (reader, writer) = std::io::pipe().unwrap();
    fcntl(&writer, FcntlArg::F_SETFL(OFlag::O_NONBLOCK)).unwrap();
    while (&writer).write(&[b'x'; 4096]).is_ok() {}
    fcntl(&writer, FcntlArg::F_SETFL(OFlag::empty())).unwrap();
    let mut command = installed.command(&["run", "--sms", "2", "--", "true"]);
    command.env("GRIDMUX_LOG", "info").stderr(writer);
    let mut running = Running(command.spawn().unwrap(), Pid::from_raw(0));
    drop(command);
    until("a keeper", || {
        (!children(running.pid()).is_empty()).then_some(())
    });
    end(&mut running.0);
    drop(reader);
    until("the private folder's end", || {
        installed.is_clean().then_some(())
    });
}

#[test]
fn it_ends_on_a_signal_while_its_service_does_not_end() {
    let installed = Installed::new();
    let mut running = Running::start(&installed, "echo $$; exec sleep 1000");
    let program = running.1;
    let others = children(running.pid()).into_iter();
    let keepers: Vec<Pid> = others.filter(|child| *child != program).collect();
    let [keeper] = keepers[..] else {
        panic!("one keeper is due: {keepers:?}");
    };
    kill(keeper, Signal::SIGSTOP).unwrap();
    kill(program, Signal::SIGKILL).unwrap();
    until("the program's end", || {
        (!children(running.pid()).contains(&program)).then_some(())
    });
    end(&mut running.0);
    kill(keeper, Signal::SIGCONT).unwrap();
    until("the private folder's end", || {
        installed.is_clean().then_some(())
    });
}

#[test]
fn without_the_library_it_says_how_to_build_and_install_it() {
    let installed = Installed::new();
    std::fs::remove_file(installed.root.path().join("lib/gridmux/libcuda.so.1")).unwrap();
    let ran = installed.run(&["run", "--", "true"]);
    assert_eq!(ran.code, Some(1));
    let library = installed.root.path().join("lib/gridmux/libcuda.so.1");
    let steps = [
        "cargo build --release -p gridmux-cuda",
        &format!("libcuda.so {}", library.display()),
    ];
    for step in steps {
        assert!(ran.stderr.contains(step), "{step}: {}", ran.stderr);
    }
}

#[test]
fn the_assembler_gives_ptx_back() {
    let installed = Installed::new();
    let ptx = workload_ptx("vecadd");
    let script = format!(
        "$TRITON_PTXAS_PATH --version && $TRITON_PTXAS_PATH -lineinfo -v --gpu-name=sm_80 {ptx} -o $TMPDIR/out && \
         cmp {ptx} $TMPDIR/out && rm $TMPDIR/out"
    );
    let ran = installed.run(&["run", "--sms", "2", "--", "sh", "-c", &script]);
    let ran = ran.succeeded();
    assert!(ran.stdout.contains("release 13.0"), "{}", ran.stdout);
}
