//! The audit library in processes: which files it exchanges, which not, and that it is in nobody's way.

use std::ffi::OsStr;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// A folder with libraries that say what they are, and programs that open them.
struct Bench {
    root: tempfile::TempDir,
}

impl Bench {
    fn new() -> Self {
        let bench = Self {
            root: tempfile::tempdir().expect("a folder"),
        };
        std::fs::create_dir_all(bench.path("ours/nvrtc")).expect("a folder");
        std::fs::create_dir_all(bench.path("theirs")).expect("a folder");
        std::fs::write(bench.path("search.so"), gridmux_search::LIBRARY).expect("a file");
        for name in [
            "libcuda.so.1",
            "libcudart.so.12",
            "libcudart.so.13",
            "nvrtc/libnvrtc.so.13",
        ] {
            bench.library(&format!("ours/{name}"), &format!("our {name}"));
        }
        let program = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/search/program.c");
        gcc(&bench.path("program"), &program, &["-pthread"]);
        bench
    }

    fn path(&self, name: &str) -> PathBuf {
        self.root.path().join(name)
    }

    /// Makes a library that says what it is.
    fn library(&self, name: &str, says: &str) {
        let source = self.path("library.c");
        let text = format!("const char *which(void) {{ return \"{says}\"; }}\n");
        std::fs::write(&source, text).expect("a file");
        // A name of its own, as NVIDIA's have it.
        let soname = format!("-Wl,-soname,{}", name.rsplit('/').next().expect("a name"));
        let place = self.path(name);
        std::fs::create_dir_all(place.parent().expect("a folder")).expect("a folder");
        gcc(&place, &source, &["-shared", "-fPIC", &soname]);
    }

    /// Returns a command in whose processes files are exchanged.
    fn audited(&self, program: impl AsRef<OsStr>) -> Command {
        let mut command = Command::new(program);
        command
            .env(gridmux_search::AUDIT, self.path("search.so"))
            .env(gridmux_search::VARIABLE, self.path("ours"))
            .env_remove("LD_LIBRARY_PATH");
        command
    }

    /// Returns what the program says of libraries in its words; other words are options.
    fn opens(&self, words: &[&str]) -> Vec<String> {
        let word = |word: &&str| match word.contains('/') {
            true => self.path(word).into_os_string(),
            false => word.into(),
        };
        let mut command = self.audited(self.path("program"));
        lines(
            &command
                .args(words.iter().map(word))
                .output()
                .expect("it starts"),
        )
    }
}

fn gcc(output: &Path, source: &Path, flags: &[&str]) {
    let mut gcc = Command::new("gcc");
    gcc.arg("-O1").args(flags).arg("-o").arg(output).arg(source);
    let status = gcc.status().expect("gcc starts");
    assert!(status.success(), "{gcc:?}");
}

/// Returns what a process printed; it ended well and said nothing on stderr.
fn lines(output: &Output) -> Vec<String> {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    assert!(output.status.success(), "{output:?}");
    assert_eq!(text(&output.stderr), "");
    text(&output.stdout).lines().map(String::from).collect()
}

#[test]
fn files_with_the_names_are_exchanged() {
    let bench = Bench::new();
    for name in [
        "libcuda.so.580.1",
        "libcuda.so",
        "libcudart.so.13",
        "libcudart.so.12.9.79",
        "libnvrtc.so.13",
    ] {
        bench.library(&format!("theirs/{name}"), "theirs");
    }
    symlink("libcudart.so.12", bench.path("theirs/libcudart.so")).unwrap();
    symlink("libcudart.so.12.9.79", bench.path("theirs/libcudart.so.12")).unwrap();
    for (name, says) in [
        ("theirs/libcuda.so.580.1", "our libcuda.so.1"),
        ("theirs/libcuda.so", "our libcuda.so.1"),
        ("theirs/libcudart.so.13", "our libcudart.so.13"),
        ("theirs/libcudart.so", "our libcudart.so.12"),
        ("theirs/libcudart.so.12", "our libcudart.so.12"),
        ("theirs/libnvrtc.so.13", "our nvrtc/libnvrtc.so.13"),
    ] {
        assert_eq!(bench.opens(&[name]), [says], "{name}");
    }
}

#[test]
fn other_files_stay_and_what_is_missing_is_missing() {
    let bench = Bench::new();
    for name in [
        // There is none of ours.
        "libnvrtc.so.12",
        "libcudart.so.11.0",
        "libcudart_static.so.13",
        "libnvrtc-builtins.so.13.5",
        "libcudart.so.130",
        "other.so",
    ] {
        bench.library(&format!("theirs/{name}"), "theirs");
        assert_eq!(
            bench.opens(&[&format!("theirs/{name}")]),
            ["theirs"],
            "{name}"
        );
    }
    for name in [
        "theirs/libcuda.so.1",
        "theirs/libcudart.so.13",
        "theirs/libnvrtc.so.13",
    ] {
        assert_eq!(bench.opens(&[name]), ["none"], "{name}");
    }
    // A link in a circle tells no version.
    symlink("libnvrtc.so", bench.path("theirs/libnvrtc.so")).unwrap();
    assert_eq!(bench.opens(&["theirs/libnvrtc.so"]), ["none"]);
}

#[test]
fn the_real_one_is_reached_by_another_name() {
    let bench = Bench::new();
    bench.library("theirs/libnvrtc.so.13", "theirs");
    let exchanged = format!("{}libnvrtc.so.13", gridmux_search::EXCHANGED);
    let ours = "our nvrtc/libnvrtc.so.13";
    let said = bench.opens(&[
        &exchanged,
        "theirs/libnvrtc.so.13",
        &exchanged,
        "libnvrtc.so.13",
    ]);
    assert_eq!(said, ["none", ours, "theirs", ours]);
    // By a search as well.
    let mut command = bench.audited(bench.path("program"));
    command.env("LD_LIBRARY_PATH", bench.path("theirs"));
    let said = command.args(["libnvrtc.so.13", &exchanged]).output();
    assert_eq!(lines(&said.unwrap()), [ours, "theirs"]);
}

#[test]
fn a_programs_own_path_is_searched_with_the_same_result() {
    let bench = Bench::new();
    bench.library("theirs/libcudart.so.13", "theirs");
    let source = bench.path("linked.c");
    let text = "#include <stdio.h>\nconst char *which(void);\nint main(void) { puts(which()); return 0; }\n";
    std::fs::write(&source, text).unwrap();
    let rpath = format!(
        "-Wl,--disable-new-dtags,-rpath,{}",
        bench.path("theirs").display()
    );
    let library = bench.path("theirs/libcudart.so.13").display().to_string();
    let mut gcc = Command::new("gcc");
    gcc.arg(&source)
        .arg(&library)
        .arg(&rpath)
        .arg("-o")
        .arg(bench.path("linked"));
    assert!(gcc.status().unwrap().success());
    let said = bench.audited(bench.path("linked")).output().unwrap();
    assert_eq!(lines(&said), ["our libcudart.so.13"]);
    let alone = Command::new(bench.path("linked")).output().unwrap();
    assert_eq!(lines(&alone), ["theirs"]);
}

#[test]
fn children_and_threads_find_the_same() {
    let bench = Bench::new();
    bench.library("theirs/libcudart.so.13", "theirs");
    let ours = "our libcudart.so.13";
    assert_eq!(bench.opens(&["-fork", "theirs/libcudart.so.13"]), [ours]);
    assert_eq!(
        bench.opens(&["-threads", "theirs/libcudart.so.13"]),
        [ours; 4]
    );
}

#[test]
fn it_is_in_nobodys_way() {
    let bench = Bench::new();
    bench.library("theirs/libcudart.so.13", "theirs");
    // Without the folder, or with one that is too long, nothing is exchanged.
    let library = bench.path("theirs/libcudart.so.13");
    for folder in [String::new(), "/nowhere".to_owned(), "/x".repeat(200)] {
        let mut command = bench.audited(bench.path("program"));
        let said = command
            .env(gridmux_search::VARIABLE, folder)
            .arg(&library)
            .output();
        assert_eq!(lines(&said.unwrap()), ["theirs"]);
    }
    let said = bench
        .audited("sh")
        .args(["-c", "echo $((1+1)); exit 0"])
        .output();
    assert_eq!(lines(&said.unwrap()), ["2"]);
    // A static program has no loader.
    let source = bench.path("static.c");
    std::fs::write(
        &source,
        "#include <stdio.h>\nint main(void) { puts(\"static\"); return 0; }\n",
    )
    .unwrap();
    gcc(&bench.path("static"), &source, &["-static"]);
    assert_eq!(
        lines(&bench.audited(bench.path("static")).output().unwrap()),
        ["static"]
    );
    // Another audit library beside it is asked as well.
    let source = bench.path("other.c");
    let text = "#include <stdint.h>\n#include <unistd.h>\nunsigned la_version(unsigned v) { return v; }\n\
                char *la_objsearch(const char *name, uintptr_t *cookie, unsigned flag) {\n\
                if (flag == 1) write(1, \"seen\\n\", 5);\nreturn (char *)name; }\n";
    std::fs::write(&source, text).unwrap();
    gcc(&bench.path("other.so"), &source, &["-shared", "-fPIC"]);
    let both =
        [bench.path("search.so"), bench.path("other.so")].map(|path| path.display().to_string());
    let mut command = bench.audited(bench.path("program"));
    let said = command
        .env(gridmux_search::AUDIT, both.join(":"))
        .arg(&library)
        .output();
    let said = lines(&said.unwrap());
    assert_eq!(
        (said[0].as_str(), said[said.len() - 1].as_str()),
        ("seen", "our libcudart.so.13")
    );
}
