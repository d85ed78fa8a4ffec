//! The judge: the original's memory first, then each form's.

use super::Subject;
use super::drive::{drive, whole};
use super::stage::{Image, Stage};
use gridmux_hw_model::{Gpu, GpuConfig};
use gridmux_ptx::Module;
use gridmux_ptx::decode::FuncId;
use gridmux_ptx::forms::fence::{FenceMode, FenceOptions};
use gridmux_ptx::forms::{Form, FormVerdicts, Options, Variables, rewrite, rewrite_with};
use gridmux_ptx::kernel::{Entry, Kernel};
use gridmux_ptx::placed::Placed;
use gridmux_workloads::{Arg, Case, Prng, Role};
use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;

/// SMs of the modelled GPU: few, so that small grids fill them.
const SMS: u16 = 3;

/// What a subject's partition may hold, and how large the model makes it: as large as a window of 32 bits, or larger.
const PARTITIONS: [(u64, u64); 2] = [(1 << 30, 4 << 30), (3 << 30, 8 << 30)];

/// How one run is set up; it follows from the seed.
#[derive(Debug, Clone, Copy)]
struct Setting {
    /// What the partition may hold.
    limit_bytes: u64,
    /// How addresses are confined.
    mode: FenceMode,
    zero_shared: bool,
    /// Where the variables of a fenced module are.
    variables: Variables,
}

impl Setting {
    /// One in eight partitions is larger than a window; each seed takes one of the modes that its partition goes with.
    fn new(seed: u64) -> Self {
        let (limit_bytes, bytes) = PARTITIONS[usize::from(seed % 8 == 7)];
        let mut dice = Prng::new(seed ^ 0x6665_6e63_6500);
        let modes = [FenceMode::Window, FenceMode::HighBits, FenceMode::Mask];
        let fit = modes.into_iter().filter(|m| m.accepts(0, bytes - 1));
        let fit: Vec<FenceMode> = fit.collect();
        let most = u32::try_from(fit.len()).unwrap_or(1);
        Self {
            limit_bytes,
            mode: fit[dice.below(most) as usize],
            zero_shared: dice.below(4) == 0,
            variables: match seed % 2 {
                0 => Variables::InText,
                _ => Variables::Placed,
            },
        }
    }

    fn options(self) -> Options {
        Options {
            fence: FenceOptions {
                mode: self.mode,
                zero_shared: self.zero_shared,
            },
            stamps: true,
            variables: self.variables,
            ..Options::default()
        }
    }
}

/// A text, and what of its variables stands beside it.
type Text<'a> = (&'a [u8], Option<&'a Placed>);

/// What came of one form.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// The same bits.
    Same,
    /// The kernel cannot take the form.
    Refused(String),
}

/// A form that computes something else, or does not run.
#[derive(Debug)]
pub struct Failure {
    /// The subject.
    pub name: String,
    /// The seed of the run.
    pub seed: u64,
    /// The form, or none when the original itself failed.
    pub form: Option<Form>,
    /// What went wrong.
    pub what: String,
    /// The original and the rewritten text.
    pub files: Vec<PathBuf>,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let form = self.form.map_or("the original", |form| form.name());
        write!(f, "{} seed {}, {form}: {}", self.name, self.seed, self.what)?;
        for file in &self.files {
            write!(f, "\n    {}", file.display())?;
        }
        Ok(())
    }
}

/// How many kernels took each form, and why the others did not.
#[derive(Debug, Default, Clone)]
pub struct Counts {
    /// What they are kernels of, as tables name it.
    name: &'static str,
    /// Kernels judged.
    pub subjects: u32,
    taken: BTreeMap<Form, u32>,
    reasons: BTreeMap<(Form, String), u32>,
}

impl Counts {
    /// No kernels yet, of that name.
    #[must_use]
    pub fn of(name: &'static str) -> Self {
        Self {
            name,
            ..Self::default()
        }
    }

    /// Adds what came of one subject.
    pub fn add(&mut self, verdicts: &[(Form, Verdict)]) {
        self.subjects += 1;
        for (form, verdict) in verdicts {
            match verdict {
                Verdict::Same => *self.taken.entry(*form).or_default() += 1,
                Verdict::Refused(why) => {
                    *self.reasons.entry((*form, why.clone())).or_default() += 1
                }
            }
        }
    }

    /// Adds another count.
    pub fn merge(&mut self, other: Self) {
        self.subjects += other.subjects;
        for (form, n) in other.taken {
            *self.taken.entry(form).or_default() += n;
        }
        for (key, n) in other.reasons {
            *self.reasons.entry(key).or_default() += n;
        }
    }

    /// Returns how many kernels took the form.
    #[must_use]
    pub fn taken(&self, form: Form) -> u32 {
        self.taken.get(&form).copied().unwrap_or(0)
    }
}

impl fmt::Display for Counts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for form in Form::ALL {
            let n = self.taken(form);
            writeln!(
                f,
                "{:<10} {form:<14} {n:>6} of {} kernels, the same bits",
                self.name, self.subjects
            )?;
            for ((_, why), n) in self.reasons.iter().filter(|((other, _), _)| *other == form) {
                writeln!(f, "    {n:>6} refused: {why}")?;
            }
        }
        Ok(())
    }
}

/// Runs subjects on one modelled GPU.
#[derive(Debug)]
pub struct Judge {
    gpu: Gpu,
}

impl Default for Judge {
    fn default() -> Self {
        Self::new()
    }
}

impl Judge {
    /// Returns a judge with an idle GPU.
    ///
    /// # Panics
    /// If the built-in configuration is gone.
    #[must_use]
    pub fn new() -> Self {
        let mut config = GpuConfig::builtin("h200").expect("built in");
        config.sm.count = SMS;
        Self {
            gpu: Gpu::new(config),
        }
    }

    /// Judges a subject in every form; `seed` decides sizes and numbers of launches and workers.
    ///
    /// # Errors
    /// The first form that fails.
    pub fn judge(
        &mut self,
        subject: &Subject<'_>,
        seed: u64,
    ) -> Result<Vec<(Form, Verdict)>, Box<Failure>> {
        let failure = |form, what: String, text: Option<&[u8]>| {
            Box::new(Failure {
                name: subject.name.to_owned(),
                seed,
                form,
                what,
                files: keep(subject, seed, form, text),
            })
        };
        let parsed = Module::parse(subject.ptx).map_err(|e| failure(None, e.to_string(), None))?;
        let program = parsed
            .decode()
            .map_err(|e| failure(None, e.to_string(), None))?;
        let judged = FormVerdicts::new(&parsed, &program);
        let setting = Setting::new(seed);
        let forms = |form: Form| {
            let options = setting.options();
            rewrite_with(&parsed, &program, &judged, &options, |_: FuncId| form)
        };
        let kernel = |kernels: Vec<Kernel>| kernels.into_iter().find(|k| k.name == subject.entry);
        let mut reference: Option<Image> = None;
        let mut by_case = None;
        let mut verdicts = Vec::new();
        for form in Form::ALL {
            let rewritten = forms(form);
            let Some(made) = kernel(rewritten.kernels) else {
                return Err(failure(Some(form), "the kernel is gone".to_owned(), None));
            };
            let entry = match made.into_entry() {
                Ok(entry) => entry,
                Err(refusal) => {
                    verdicts.push((form, Verdict::Refused(refusal.reason.to_string())));
                    continue;
                }
            };
            if !entry.block_rule.allows(subject.grid, subject.block) {
                verdicts.push((
                    form,
                    Verdict::Refused("its blocks break the form's rule".to_owned()),
                ));
                continue;
            }
            let mut dice = Prng::new(seed ^ 0x6472_6976_6500 ^ (form.name().len() as u64) << 48);
            let text = (&rewritten.bytes[..], rewritten.placed.as_ref());
            let run = (subject, setting, text, &entry);
            let image = self.run(run, &mut dice, reference.is_none());
            let outcome = image.and_then(|image| match &reference {
                None => {
                    // Timed as well: bits of an original that depends on the order of its blocks prove nothing.
                    let again = self.run_timed(run)?;
                    let (same, case) = (differs(&image, &again), subject.case);
                    by_case = case.filter(|_| same.is_err());
                    reference = Some(image);
                    match by_case {
                        Some(case) => verify(case, &again),
                        None => same,
                    }
                }
                Some(reference) => match by_case {
                    Some(case) => verify(case, &image),
                    None => differs(reference, &image),
                },
            });
            match outcome {
                Ok(()) => verdicts.push((form, Verdict::Same)),
                Err(what) => {
                    // Whatever is still on the device belongs to a run that failed.
                    *self = Self::new();
                    return Err(failure(Some(form), what, Some(&rewritten.bytes)));
                }
            }
        }
        Ok(verdicts)
    }

    /// Runs one form of a subject, or what `change` makes of its text, and compares it with the original. `None` when
    /// the kernel cannot take the form or `change` finds nothing to change.
    ///
    /// # Errors
    /// What differs.
    pub fn judge_changed(
        &mut self,
        subject: &Subject<'_>,
        seed: u64,
        form: Form,
        change: impl FnOnce(&[u8]) -> Option<Vec<u8>>,
    ) -> Option<Result<(), String>> {
        let module = Module::parse(subject.ptx).ok()?;
        let program = module.decode().ok()?;
        let setting = Setting::new(seed);
        let options = Options {
            // Memory shows nothing of those.
            stamps: false,
            ..setting.options()
        };
        let made = |form| rewrite(&module, &program, &options, |_| form);
        let kernel = |kernels: Vec<Kernel>| kernels.into_iter().find(|k| k.name == subject.entry);
        let rewritten = made(form);
        let placed = rewritten.placed;
        let entry = kernel(rewritten.kernels)?.into_entry().ok()?;
        let text = change(&rewritten.bytes)?;
        let whole = Entry::whole(subject.entry);
        let mut dice = Prng::new(seed);
        let original = (subject, setting, (subject.ptx.as_bytes(), None), &whole);
        let reference = self.run(original, &mut dice, true).ok()?;
        let text = (&text[..], placed.as_ref());
        let image = self.run((subject, setting, text, &entry), &mut dice, false);
        let outcome = image.and_then(|image| differs(&reference, &image));
        if outcome.is_err() {
            *self = Self::new();
        }
        Some(outcome)
    }

    fn run(
        &mut self,
        (subject, setting, text, entry): (&Subject<'_>, Setting, Text<'_>, &Entry),
        dice: &mut Prng,
        is_reference: bool,
    ) -> Result<Image, String> {
        let mut stage = Stage::new(&mut self.gpu, subject, text, setting.limit_bytes)?;
        if is_reference {
            whole(&mut stage, entry, false)?;
        } else {
            drive(&mut stage, subject, entry, dice)?;
        }
        stage.finish()
    }

    fn run_timed(
        &mut self,
        (subject, setting, text, entry): (&Subject<'_>, Setting, Text<'_>, &Entry),
    ) -> Result<Image, String> {
        let mut stage = Stage::new(&mut self.gpu, subject, text, setting.limit_bytes)?;
        whole(&mut stage, entry, true)?;
        stage.finish()
    }
}

/// Checks that the outputs are what the case's reference says.
fn verify(case: &Case, image: &Image) -> Result<(), String> {
    let is_buffer = |arg: &&Arg| matches!(arg, Arg::Buffer { .. });
    let buffers = case.args.iter().filter(is_buffer).zip(image);
    let outputs = buffers.filter_map(|(arg, (_, bytes))| match arg {
        Arg::Buffer { role: Role::In, .. } => None,
        _ => Some(bytes),
    });
    let outputs: Vec<&Vec<u8>> = outputs.collect();
    case.verify(&outputs)
        .map_err(|mismatch| mismatch.to_string())
}

/// Compares them; the error is the first difference, in words.
fn differs(expected: &Image, got: &Image) -> Result<(), String> {
    for ((name, old), (_, new)) in expected.iter().zip(got) {
        if let Some(at) = old.iter().zip(new).position(|(a, b)| a != b) {
            let count = old.iter().zip(new).filter(|(a, b)| a != b).count();
            return Err(format!(
                "byte {at} of {name} is {:#04x}, the original's is {:#04x}; {count} bytes differ",
                new[at], old[at]
            ));
        }
        if old.len() != new.len() {
            return Err(format!(
                "{name} has {} bytes, the original's has {}",
                new.len(),
                old.len()
            ));
        }
    }
    if expected.len() > got.len() {
        return Err("a variable of the module is gone".to_owned());
    }
    Ok(())
}

/// Writes the texts of a failure where a person finds them.
fn keep(subject: &Subject<'_>, seed: u64, form: Option<Form>, text: Option<&[u8]>) -> Vec<PathBuf> {
    let folder = std::env::temp_dir().join("gridmux-equivalence");
    if std::fs::create_dir_all(&folder).is_err() {
        return Vec::new();
    }
    let name = |what: &str| {
        folder.join(format!(
            "{}-{seed}-{what}.ptx",
            subject.name.replace('/', "-")
        ))
    };
    let mut kept = Vec::new();
    let mut write = |path: PathBuf, bytes: &[u8]| {
        if std::fs::write(&path, bytes).is_ok() {
            kept.push(path);
        }
    };
    write(name("original"), subject.ptx.as_bytes());
    if let (Some(form), Some(text)) = (form, text) {
        write(name(form.name()), text);
    }
    kept
}
