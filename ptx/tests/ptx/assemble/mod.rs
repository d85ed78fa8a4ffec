//! `ptxas` as judge: what an assembled kernel costs, for tests and for the cost benchmark.
//!
//! The assembler is looked for where `cargo xtask ptx` installs it, then on `PATH`. It is slow, so results are kept in
//! `target/ptxas-cache`, by a hash of the text, the architecture and the assembler's version.

#[allow(dead_code, reason = "the benchmark of costs does without")]
mod disassemble;
mod elf;

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU64, Ordering};

/// The architectures that a rewritten kernel must assemble for, where the text's own target allows.
pub(crate) const ARCHITECTURES: [u32; 4] = [75, 80, 90, 100];

/// What one kernel costs on one architecture.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Cost {
    /// Registers per thread.
    pub(crate) registers: u32,
    /// Bytes of registers stored to and loaded from local memory for want of room.
    pub(crate) spill_bytes: u32,
    /// Machine instructions, without the padding at the end.
    pub(crate) instructions: u32,
    /// A hash of them.
    pub(crate) code: u64,
    /// A hash of their opcodes and first registers, in any order: the assembler orders the functions that a kernel
    /// calls by their names.
    pub(crate) unordered: u64,
}

/// The assembler, found.
#[derive(Debug)]
pub(crate) struct Assembler {
    program: PathBuf,
    version: String,
    cache: PathBuf,
}

/// Numbers the temporary files of this process.
static NEXT_FILE: AtomicU64 = AtomicU64::new(0);

impl Assembler {
    /// Returns the assembler, or `None` with no CUDA compiler on this machine.
    pub(crate) fn find() -> Option<Self> {
        let target = target_folder();
        let installed = std::fs::read_dir(target.join("nvcc/lib")).ok();
        let installed = (installed.into_iter().flatten().flatten())
            .map(|python| python.path().join("site-packages/nvidia/cu13/bin/ptxas"));
        let path = std::env::var_os("PATH").unwrap_or_default();
        let on_path: Vec<PathBuf> = std::env::split_paths(&path)
            .map(|folder| folder.join("ptxas"))
            .collect();
        let program = installed.chain(on_path).find(|file| file.is_file())?;
        let version = Command::new(&program).arg("--version").output().ok()?;
        Some(Self {
            program,
            version: String::from_utf8_lossy(&version.stdout).into_owned(),
            cache: target.join("ptxas-cache"),
        })
    }

    /// Returns the cost of each kernel of a module by name.
    ///
    /// # Errors
    /// What the assembler said against it.
    pub(crate) fn costs(
        &self,
        text: &[u8],
        target: &str,
    ) -> Result<BTreeMap<String, Cost>, String> {
        let key = self.key(text, target);
        let kept = self.cache.join(&key);
        if let Ok(lines) = std::fs::read_to_string(&kept) {
            return unpack(&lines);
        }
        let result = self.assemble(text, target);
        // The cache only saves time; a machine where it cannot be written does without.
        let _ = std::fs::create_dir_all(&self.cache);
        let fresh = self.temporary("new");
        if std::fs::write(&fresh, pack(&result)).is_ok() {
            let _ = std::fs::rename(&fresh, &kept);
        }
        result
    }

    fn key(&self, text: &[u8], target: &str) -> String {
        let half = |salt: u32| {
            let mut hasher = DefaultHasher::new();
            (salt, &self.version, target, text).hash(&mut hasher);
            hasher.finish()
        };
        format!("{:016x}{:016x}", half(4), half(5))
    }

    fn temporary(&self, extension: &str) -> PathBuf {
        // Only the number matters, not its order against anything else.
        let n = NEXT_FILE.fetch_add(1, Ordering::Relaxed);
        let process = std::process::id();
        self.cache.join(format!("{process}-{n}.{extension}"))
    }

    fn assemble(&self, text: &[u8], target: &str) -> Result<BTreeMap<String, Cost>, String> {
        std::fs::create_dir_all(&self.cache).map_err(|e| e.to_string())?;
        let (input, output) = (self.temporary("ptx"), self.temporary("cubin"));
        std::fs::write(&input, text).map_err(|e| e.to_string())?;
        let mut command = Command::new(&self.program);
        command.args(["-v", "-arch", target, "-o"]).arg(&output);
        if contains(text, b".extern .func") || contains(text, b".extern .global") {
            command.arg("-c");
        }
        let done = command.arg(&input).output();
        let binary = std::fs::read(&output);
        let _ = std::fs::remove_file(&input);
        let _ = std::fs::remove_file(&output);
        let done = done.map_err(|e| e.to_string())?;
        let said = String::from_utf8_lossy(&done.stderr) + String::from_utf8_lossy(&done.stdout);
        if !done.status.success() {
            let wrong = said.lines().filter(|line| !line.contains(" info "));
            return Err(wrong.take(4).collect::<Vec<_>>().join("; "));
        }
        let mut costs = read_verbose(&said);
        for (name, code) in elf::code(&binary.map_err(|e| e.to_string())?) {
            if let Some(cost) = costs.get_mut(&name) {
                let count = code.len() / elf::INSTRUCTION_BYTES;
                cost.instructions = u32::try_from(count).unwrap_or(u32::MAX);
                cost.code = hash(&code);
                let mut words: Vec<&[u8]> = code
                    .chunks_exact(elf::INSTRUCTION_BYTES)
                    .map(|instruction| &instruction[..4])
                    .collect();
                words.sort_unstable();
                cost.unordered = hash(&words);
            }
        }
        Ok(costs)
    }
}

fn hash(of: &impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    of.hash(&mut hasher);
    hasher.finish()
}

/// Returns the architectures to assemble a module for: its own, and the later ones of [`ARCHITECTURES`] unless its
/// target is for one architecture alone (`sm_90a`).
pub(crate) fn targets(text: &[u8]) -> Vec<String> {
    let header = String::from_utf8_lossy(&text[..text.len().min(4096)]).into_owned();
    let Some(at) = header.find(".target") else {
        return Vec::new();
    };
    let own: String = (header[at + 7..].trim_start().chars())
        .take_while(|c| c.is_ascii_alphanumeric() || *c == '_')
        .collect();
    let number = own.strip_prefix("sm_").and_then(|n| n.parse::<u32>().ok());
    let later = ARCHITECTURES
        .into_iter()
        .filter(|&later| number.is_some_and(|n| later > n))
        .map(|later| format!("sm_{later}"));
    std::iter::once(own.clone()).chain(later).collect()
}

/// Returns where cargo builds, seen from this crate.
fn target_folder() -> PathBuf {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), |dir| root.join(dir))
}

fn contains(text: &[u8], part: &[u8]) -> bool {
    text.windows(part.len()).any(|window| window == part)
}

/// Reads what `ptxas -v` says: for each entry a line that names it, one of spills and one of registers.
fn read_verbose(said: &str) -> BTreeMap<String, Cost> {
    let mut costs: BTreeMap<String, Cost> = BTreeMap::new();
    let mut entry = String::new();
    let mut properties_of = String::new();
    let number_before = |line: &str, what: &str| -> u32 {
        let before = line.split(what).next().unwrap_or_default();
        let word = before.split_whitespace().last().unwrap_or_default();
        word.parse().unwrap_or(0)
    };
    for line in said.lines() {
        if let Some(rest) = line.split("Compiling entry function '").nth(1) {
            rest.split('\'')
                .next()
                .unwrap_or_default()
                .clone_into(&mut entry);
        } else if let Some(rest) = line.split("Function properties for ").nth(1) {
            rest.trim().clone_into(&mut properties_of);
        } else if line.contains("bytes spill stores") {
            // A function that the kernel calls spills on the kernel's behalf: the last entry named is the one compiled.
            let of = if entry.is_empty() {
                &properties_of
            } else {
                &entry
            };
            costs.entry(of.clone()).or_default().spill_bytes +=
                number_before(line, " bytes spill stores")
                    + number_before(line, " bytes spill loads");
        } else if line.contains("Used ") && line.contains(" registers") {
            costs.entry(entry.clone()).or_default().registers = number_before(line, " registers");
        }
    }
    costs
}

fn pack(result: &Result<BTreeMap<String, Cost>, String>) -> String {
    match result {
        Ok(costs) => costs
            .iter()
            .map(|(name, c)| {
                format!(
                    "{} {} {} {} {} {name}\n",
                    c.registers, c.spill_bytes, c.instructions, c.code, c.unordered
                )
            })
            .collect(),
        Err(said) => format!("error {said}"),
    }
}

fn unpack(lines: &str) -> Result<BTreeMap<String, Cost>, String> {
    if let Some(said) = lines.strip_prefix("error ") {
        return Err(said.to_owned());
    }
    let read = |line: &str| -> Option<(String, Cost)> {
        let mut words = line.split(' ');
        let mut number = || words.next()?.parse().ok();
        let (registers, spill_bytes, instructions) = (number()?, number()?, number()?);
        let cost = Cost {
            registers,
            spill_bytes,
            instructions,
            code: words.next()?.parse().ok()?,
            unordered: words.next()?.parse().ok()?,
        };
        Some((words.next()?.to_owned(), cost))
    };
    Ok(lines.lines().filter_map(read).collect())
}
