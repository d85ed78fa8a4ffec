//! `nvdisasm`, which stands beside `ptxas`: the machine code of a module as text.

use super::Assembler;
use std::path::PathBuf;
use std::process::Command;

impl Assembler {
    fn disassembler(&self) -> PathBuf {
        self.program.with_file_name("nvdisasm")
    }

    /// Returns whether there is a disassembler on this machine.
    pub(crate) fn disassembles(&self) -> bool {
        self.disassembler().is_file()
    }

    /// Returns what the disassembler prints of a module that is assembled for that architecture.
    ///
    /// # Errors
    /// What either of them said against it.
    pub(crate) fn disassemble(&self, text: &[u8], target: &str) -> Result<String, String> {
        std::fs::create_dir_all(&self.cache).map_err(|e| e.to_string())?;
        let (input, output) = (self.temporary("ptx"), self.temporary("cubin"));
        std::fs::write(&input, text).map_err(|e| e.to_string())?;
        let mut assembler = Command::new(&self.program);
        assembler.args(["-arch", target, "-o"]).arg(&output);
        if super::contains(text, b".extern .func") {
            assembler.arg("-c");
        }
        let assembled = run(assembler.arg(&input));
        let listed = assembled.and_then(|_| run(Command::new(self.disassembler()).arg(&output)));
        let _ = std::fs::remove_file(&input);
        let _ = std::fs::remove_file(&output);
        listed
    }
}

/// Runs a program and returns what it prints, or what it says against its input.
fn run(program: &mut Command) -> Result<String, String> {
    let done = program.output().map_err(|e| e.to_string())?;
    match done.status.success() {
        true => Ok(String::from_utf8_lossy(&done.stdout).into_owned()),
        false => Err(String::from_utf8_lossy(&done.stderr).into_owned()),
    }
}
