//! Every command of the documents for users: it is run here, or it is said who runs it.
//!
//! A document is a list of blocks. A block without a language holds commands, which a shell runs in the order of the
//! page, in a folder of its own, after [`adapted`] has put paths of that folder in place of the machine's. A block of
//! `toml` with a `schema_version` is a configuration, which is checked; another one describes a GPU and is `mine.toml`
//! to the commands. Inline code that begins with `gridmux` names a command that must exist.
//!
//! A new page is one more line of [`pages`]. A command that is neither run nor named in [`ELSEWHERE`] fails the page's
//! test; a name that no page needs any more fails [`nothing_is_named_in_vain`].

use crate::command::running::{Running, Service};
use crate::command::{PROGRAM, checked, gridmux, text_of, workload_ptx};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs};

/// Declares a test for each document.
macro_rules! pages {
    ($($test:ident $file:literal)*) => {
        /// The documents, as paths in the repository.
        const PAGES: &[&str] = &[$($file),*];

        $(
            #[test]
            fn $test() {
                Page::read($file).check();
            }
        )*
    };
}

pages! {
    every_command_of_the_readme_works "README.md"
    every_command_of_the_page_for_operators_works "docs/operator.md"
    every_command_of_the_page_on_ci_works "docs/ci.md"
    every_command_of_the_page_on_measuring_works "docs/measuring.md"
    every_command_of_the_page_for_researchers_works "docs/researcher.md"
}

/// Commands that are not run here, by how they begin, and why not.
const ELSEWHERE: [(&str, &str); 23] = [
    ("python3 -m venv", "`cargo xtask test --clients` makes it"),
    (
        "venv/bin/gridmux run -- venv/bin/python",
        "`cargo xtask wheel --check` runs the README's script so",
    ),
    (
        "venv/bin/pip install",
        "`cargo xtask wheel --check` installs the wheel",
    ),
    (
        "DEV=CUDA:PTX venv/bin/gridmux run",
        "`cargo xtask test --clients` runs this program",
    ),
    (
        "headers=",
        "`cargo xtask test --clients` compiles C programs with these",
    ),
    (
        "gcc -I $headers",
        "`cargo xtask test --clients` compiles C programs so",
    ),
    (
        "venv/bin/gridmux run -- ./my_program",
        "`cargo xtask test --clients` runs C programs so",
    ),
    (
        "gridmux run --run-dir",
        "cli/tests/cli/run.rs runs programs on a running service",
    ),
    (
        "gridmux trace ",
        "needs root and eBPF; cli/tests/cli/trace.rs watches a service so where they are",
    ),
    (
        "gridmux report ",
        "cli/tests/cli/trace.rs sums a recording up",
    ),
    (
        "gridmux usage",
        "needs a service that keeps accounts; cli/tests/cli/accounts.rs asks one",
    ),
    ("install target/release/gridmux", "changes the machine"),
    (
        "install -D -m 644 target/release/libcuda.so",
        "changes the machine; cli/tests/cli/run.rs runs a program that is installed so",
    ),
    (
        "install -m 644 target/release/libcudart",
        "changes the machine; cli/tests/cli/run.rs installs two libraries so",
    ),
    (
        "install -m 644 target/release/libnv",
        "changes the machine; cli/tests/cli/run.rs installs two libraries so",
    ),
    (
        "install -m 644 packaging/gridmux.service",
        "changes the machine; cli/tests/cli/packaging.rs has systemd read it",
    ),
    (
        "install -D -m 644 packaging/sysusers.conf",
        "changes the machine",
    ),
    ("systemd-sysusers", "changes the machine"),
    (
        "apt install ./target/deb",
        "changes the machine; `cargo xtask deb --check` installs it on another",
    ),
    ("systemctl edit --full", "needs a running systemd"),
    ("systemctl enable --now gridmux", "needs a running systemd"),
    ("nvcc ", "not every machine has this compiler"),
    ("clang++ ", "not every machine has this compiler"),
];

/// How a service begins that goes on: it is started before the other commands of its page.
const SERVICE: &str = "gridmux serve --run-dir /tmp/gridmux --tenant me";

/// A document with its blocks.
struct Page {
    file: &'static str,
    text: String,
}

impl Page {
    fn read(file: &'static str) -> Self {
        let text = fs::read_to_string(repository().join(file));
        let text = text.unwrap_or_else(|error| panic!("{file}: {error}"));
        Self { file, text }
    }

    /// Returns the texts of the blocks of a language; `""` is that of commands.
    fn blocks(&self, language: &str) -> Vec<&str> {
        let blocks = self.text.split("```").skip(1).step_by(2);
        let of_language =
            |block| str::split_once(block, '\n').filter(|(name, _)| *name == language);
        blocks
            .filter_map(of_language)
            .map(|(_, text)| text)
            .collect()
    }

    /// Returns the commands, without what is said about them; a line that ends with a backslash goes on in the next.
    fn commands(&self) -> Vec<String> {
        let text = self.blocks("").concat().replace("\\\n", "");
        let commands = text
            .lines()
            .map(|line| line.split(" #").next().unwrap_or_default().trim());
        let commands = commands.filter(|command| !command.is_empty());
        commands.map(ToOwned::to_owned).collect()
    }

    /// Returns the first words of each command that inline code names, such as `gridmux policy show`.
    fn mentioned(&self) -> BTreeSet<Vec<&str>> {
        let outside = self.text.split("```").step_by(2);
        let spans = outside.flat_map(|text| text.split('`').skip(1).step_by(2));
        let is_name = |word: &&str| {
            !word.starts_with('-') && word.chars().all(|c| c.is_ascii_lowercase() || c == '-')
        };
        let commands = spans.filter_map(|span| span.strip_prefix("gridmux "));
        let words = commands.map(|words| words.split_whitespace().take_while(is_name).take(2));
        words.map(Iterator::collect).collect()
    }

    fn check(&self) {
        let folder = tempfile::tempdir().unwrap();
        let here = folder.path();
        for block in self.blocks("toml") {
            match block.contains("schema_version") {
                true => check_configuration(&here.join("configuration"), block),
                false => fs::write(here.join("mine.toml"), block).unwrap(),
            }
        }
        // What the compiler makes of the source in `workloads/cuda`.
        fs::copy(workload_ptx("vecadd"), here.join("vecadd.ptx")).unwrap();
        let commands = self.commands();
        let _service = commands
            .iter()
            .any(|command| command == SERVICE)
            .then(|| self.serve(here));
        for command in &commands {
            if let Some((_, why)) = elsewhere(command) {
                println!("{}: not run here: {command} ({why})", self.file);
            } else if let Some(task) = command.strip_prefix("cargo xtask ") {
                println!("{}: not run here: {command} (takes minutes)", self.file);
                check_task(task);
            } else if command != SERVICE {
                let is_ours = ["gridmux ", "cargo run ", "mkdir "]
                    .iter()
                    .any(|begin| command.starts_with(begin));
                assert!(is_ours, "{}: nobody runs `{command}`", self.file);
                let command = adapted(command, here);
                shell(&command, here);
                check_outputs(&command, here);
            }
        }
        assert!(!commands.is_empty(), "{}: no command was found", self.file);
        for mut words in self.mentioned() {
            words.push("--help");
            let help = gridmux(&words);
            assert_eq!(help.code, Some(0), "{}: {words:?}", self.file);
        }
    }

    fn serve(&self, folder: &Path) -> Running {
        let letters = self.file.chars().filter(char::is_ascii_alphanumeric);
        let name: String = letters.collect();
        let instance = format!("{name}-{}", std::process::id());
        let run_dir = folder.join("run");
        let mut service = Running::line(&format!(
            "-j serve --tenant me --sms 2 --instance {instance} --run-dir {}",
            run_dir.display()
        ));
        service.next();
        service
    }
}

fn repository() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.join("..").canonicalize().unwrap()
}

fn elsewhere(command: &str) -> Option<&'static (&'static str, &'static str)> {
    ELSEWHERE
        .iter()
        .find(|(begin, _)| command.starts_with(begin))
}

/// Returns a command with paths of a test's own, and with sizes that take no minutes.
fn adapted(command: &str, folder: &Path) -> String {
    let here = folder.display().to_string();
    let of_the_machine = ["gridmux serve --check"];
    let command = match of_the_machine.contains(&command) {
        true => format!("{command} --config /etc/gridmux/gridmux.toml --run-dir {here}/checked"),
        false => command.to_owned(),
    };
    let command = command
        .replace("/etc/gridmux", &format!("{here}/etc"))
        .replace("/tmp/gridmux", &format!("{here}/run"))
        .replace("lbm raytrace", "lbm,size=tiny raytrace,size=tiny");
    let command = match command.strip_suffix(" FILE") {
        Some(rest) => format!("{rest} vecadd.ptx"),
        None => command,
    };
    match command.starts_with("cargo ") {
        // Its paths are those of the repository.
        true => format!("cd {} && {command}", repository().display()),
        false => command,
    }
}

/// Runs a line as a shell does whose path has the program.
fn shell(line: &str, folder: &Path) {
    let programs = Path::new(PROGRAM).parent().unwrap().display();
    let path = env::var("PATH").unwrap();
    let output = Command::new("bash")
        .args(["-c", line])
        .env("PATH", format!("{programs}:{path}"))
        // `cargo xtask test --slowest` sets it for this program, and cargo would build everything anew for it.
        .env_remove("RUSTC_BOOTSTRAP")
        .current_dir(folder)
        .output()
        .unwrap();
    let text = [output.stdout, output.stderr].concat();
    let text = String::from_utf8_lossy(&text);
    assert!(output.status.success(), "{line}: {text}");
}

/// Checks that the files that a command names as outputs are there, and as long as it says.
fn check_outputs(command: &str, folder: &Path) {
    if let Some((_, file)) = command.split_once(" > ") {
        let length = fs::metadata(folder.join(file)).unwrap().len();
        assert!(length > 0, "{command}: {file} is empty");
    }
    let parts: Vec<&str> = command.split(['=', ' ', ',']).collect();
    for output in parts.windows(2) {
        if let (["out", to], Some((bytes, file))) = (output, output[1].split_once(':')) {
            let length = fs::metadata(folder.join(file)).unwrap().len();
            assert_eq!(length.to_string(), bytes, "{command}: {to}");
        }
    }
}

/// Checks that a task, and the group of benchmarks that it names, exist.
fn check_task(words: &str) {
    let mut words = words.split_whitespace();
    let task = words.next().unwrap().replace('-', "_");
    let tasks = repository().join("xtask/src/tasks");
    let is_there = [format!("{task}.rs"), task.clone()].map(|name| tasks.join(name).exists());
    assert!(is_there.contains(&true), "there is no task {task}");
    if let ("bench", Some(group)) = (&*task, words.next().filter(|word| !word.starts_with('-'))) {
        let group = format!("benches/{}.rs", group.split('/').next().unwrap_or(group));
        let rooms = fs::read_dir(repository()).unwrap().flatten();
        let found = rooms
            .map(|room| room.path().join(&group))
            .any(|file| file.exists());
        assert!(found, "no room has {group}");
    }
}

/// Checks a configuration of a page, and that somebody may be each of its tenants.
fn check_configuration(folder: &Path, text: &str) {
    fs::create_dir_all(folder).unwrap();
    // Another system may have no such user; the file of profiles is of this machine.
    let text = text
        .replace("user = \"www-data\"", "user = \"root\"")
        .replace("/var/lib/gridmux", folder.to_str().unwrap());
    let report = checked(folder, &text);
    let findings = report["findings"].as_array().unwrap();
    let admin = findings.iter().find(|found| found["key"] == "tenant.admin");
    if let Some(admin) = admin.and_then(|found| found["message"].as_str()) {
        assert!(admin.contains("for root"), "{admin}");
    }
}

#[test]
fn nothing_is_named_in_vain() {
    let pages = PAGES.iter().map(|file| Page::read(file));
    let commands: Vec<String> = pages.flat_map(|page| page.commands()).collect();
    let is_needed = |begin: &str| commands.iter().any(|command| command.starts_with(begin));
    let stale = ELSEWHERE.iter().filter(|(begin, _)| !is_needed(begin));
    assert_eq!(stale.collect::<Vec<_>>(), Vec::<&(&str, &str)>::new());
}

#[test]
fn the_page_for_operators_explains_every_field_of_tenant_show() {
    let page = Page::read("docs/operator.md");
    let service = Service::start("fields");
    for (asked, least) in [
        (&["tenant", "show", "first"][..], 30),
        (&["tenant", "show", "--why"], 6),
    ] {
        let shown = service.ask(asked);
        let fields = shown[0].as_object().expect("an object for each tenant");
        assert!(fields.len() >= least, "{shown}");
        for field in fields.keys() {
            assert!(page.text.contains(&format!("`{field}`")), "{field}");
        }
    }
    assert_eq!(service.stop(), Some(0));
}

#[test]
fn the_source_on_the_page_for_researchers_is_that_of_the_repository() {
    let page = Page::read("docs/researcher.md");
    let ours = fs::read_to_string(repository().join("workloads/cuda/vecadd.cu")).unwrap();
    let letters = |text: &str| text.split_whitespace().collect::<String>();
    let sources = page.blocks("cuda");
    assert!(!sources.is_empty());
    for source in sources {
        assert!(letters(&ours).contains(&letters(source)), "{source}");
    }
}

#[test]
fn the_figures_that_the_page_for_researchers_names_are_in_the_legend() {
    let legend = text_of(["sim", "counters"]);
    let page = Page::read("docs/researcher.md");
    let outside: String = page.text.split("```").step_by(2).collect();
    let spans = outside.split('`').skip(1).step_by(2);
    let figures: BTreeSet<&str> = spans
        .filter(|span| span.contains('_') && !span.contains(['.', '/', ' ']))
        .collect();
    assert!(figures.len() >= 3, "{figures:?}");
    for figure in figures {
        assert!(legend.contains(figure), "`{figure}` is in no legend");
    }
}
