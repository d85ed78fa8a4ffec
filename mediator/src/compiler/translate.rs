//! From a tenant's PTX to a module that can be loaded, in two steps: [`translate`] parses, links where it is several
//! texts, judges and rewrites into slices, in a process of its own; [`admit`] takes the result over in the device host.
//!
//! Rules: both are pure. [`admit`] believes nothing: everything that can be read from the returned text is, and what
//! cannot must fit it. So an attacker in a compiler can make it return another program, which runs as its own tenant
//! and under the same checks as any program of that tenant; but nothing inconsistent, and no other kernel's key.

use super::Wanted;
use super::fenced::{check_placed, fenced, options, refused, say_refused};
use crate::device::{CompiledGlobal, CompiledKernel, CompiledModule, Fence};
use crate::dispatch::client::KERNELS_PER_CLIENT;
use gridmux_policy::hash::Fnv;
use gridmux_policy::ids::KernelKey;
use gridmux_ptx::decode::{FuncId, Function, Opcode, Operand, Program, StateSpace, Symbol};
use gridmux_ptx::forms::{Form, FormVerdicts, Reason, rewrite_with};
use gridmux_ptx::kernel::{Entry, Mismatch};
use gridmux_ptx::link::{LinkError, Part, check_alone, link};
use gridmux_ptx::placed::{Placed, PlacedError};
use gridmux_ptx::{Kernel, Module, ParseError, shown};
use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

/// Longest reason that is kept of what a compiler says of a kernel, in bytes.
const REASON_BYTES: usize = 1024;

/// Variables that a module may have, those of its functions included.
const VARIABLES: usize = 65_536;

/// Why a module is refused.
#[derive(Debug, thiserror::Error)]
pub enum CompileError {
    /// It is not PTX.
    #[error("the module is not valid PTX: {0}")]
    Parse(#[from] ParseError),
    /// One of its parts is not PTX, or they do not fit each other.
    #[error("the modules cannot be linked: {0}")]
    Link(#[from] LinkError),
    /// It needs another module.
    #[error("the module cannot be loaded alone: {0}")]
    Needs(#[source] LinkError),
    /// It holds more kernels than a client may have loaded.
    #[error("the module has {0} kernels; {most} at once is the most", most = KERNELS_PER_CLIENT)]
    TooManyKernels(usize),
    /// It has more variables than a reply can list.
    #[error("the module has {0} variables; {VARIABLES} is the most")]
    TooManyVariables(usize),
    /// The rewritten module is wrong.
    #[error(transparent)]
    Answer(#[from] AnswerError),
}

/// Why a [`Translated`] module is refused.
#[derive(Debug, thiserror::Error)]
pub enum AnswerError {
    /// Its text is not PTX.
    #[error("the rewritten module is not valid PTX: {0}")]
    Text(#[from] ParseError),
    /// A list is too long.
    #[error("the rewritten module has {0} kernels; {most} at once is the most", most = KERNELS_PER_CLIENT)]
    TooManyKernels(usize),
    /// It has more variables than its original may have.
    #[error("the rewritten module has {0} variables; {VARIABLES} is the most")]
    TooManyVariables(usize),
    /// The descriptions are not those of the text's kernels.
    #[error("the compiler speaks of other kernels than its text has: '{0}'")]
    Kernels(String),
    /// A kernel's text is otherwise than what is said of it.
    #[error("kernel '{kernel}' of the rewritten module is otherwise than described: {mismatch}")]
    Mismatch {
        /// The kernel.
        kernel: String,
        /// The difference.
        mismatch: Mismatch,
    },
    /// An entry in a form that nobody asked for.
    #[error("kernel '{kernel}' has an entry in the form {form}, which nobody asked for")]
    Form {
        /// The kernel.
        kernel: String,
        /// The form.
        form: Form,
    },
    /// What is said of variables makes no sense.
    #[error("the rewritten module's variables are not right: {0}")]
    Placed(#[from] PlacedError),
    /// Variables are placed where nobody asked for that, or nothing says where.
    #[error("the rewritten module's variables are expected at '{0}', which its text does not have")]
    Pointer(String),
    /// A kernel whose text is malformed, and of which the compiler does not say so.
    #[error("kernel '{kernel}' of the rewritten module is not valid PTX: {reason}")]
    Malformed {
        /// The kernel.
        kernel: String,
        /// Why.
        reason: String,
    },
}

/// A module after rewriting, as a compiler returns it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Translated {
    /// PTX text.
    pub ptx: Vec<u8>,
    /// What it says of the text's kernels.
    pub kernels: Vec<Kernel>,
    /// Variables that are not in the text.
    pub placed: Option<Placed>,
}

/// Parses a module and rewrites every kernel that can be sliced; the others stay whole.
///
/// # Errors
/// [`CompileError`], with line and column.
pub fn compile(text: Vec<u8>) -> Result<CompiledModule, CompileError> {
    compile_parts(vec![text])
}

/// Compiles one PTX text as [`compile`] does, and several as the module that they are linked to.
///
/// # Errors
/// [`CompileError`], which names each of several texts by its place: `part 2 of 3`.
pub fn compile_parts(texts: Vec<Vec<u8>>) -> Result<CompiledModule, CompileError> {
    let hash = hash_of(&texts);
    let wanted = Wanted::default();
    Ok(admit(translate(texts, wanted)?, hash, wanted)?)
}

/// Returns what the kernels of a module are known by, beside their names: a hash of its texts.
#[must_use]
pub fn hash_of(texts: &[Vec<u8>]) -> Fnv {
    match texts {
        [text] => Fnv::default().bytes(text),
        texts => texts.iter().fold(Fnv::default(), |hash, text| {
            hash.bytes(&text.len().to_le_bytes()).bytes(text)
        }),
    }
}

/// Parses and links texts, and rewrites every kernel that can be sliced, and as is wanted.
///
/// # Errors
/// [`CompileError`], with line and column, and the place of each of several texts.
pub fn translate(texts: Vec<Vec<u8>>, wanted: Wanted) -> Result<Translated, CompileError> {
    let count = texts.len();
    let mut parts = Vec::with_capacity(count);
    for (n, text) in texts.into_iter().enumerate() {
        if count == 1 {
            let module = Module::parse(text)?;
            return translate_module(&alone(module), wanted);
        }
        let name = part_name(n, count);
        match Module::parse(text) {
            Ok(module) => parts.push(Part { name, module }),
            Err(error) => {
                return Err(CompileError::Link(LinkError::Part {
                    part: name,
                    error: Box::new(error),
                }));
            }
        }
    }
    translate_module(&alone(link(parts)?), wanted).map_err(|error| match error {
        // Lines are those of the linked text.
        CompileError::Parse(error) => LinkError::Linked(Box::new(error)).into(),
        error => error,
    })
}

/// Returns what messages call one of several texts.
pub(crate) fn part_name(n: usize, count: usize) -> String {
    format!("part {} of {count}", n + 1)
}

/// Returns a module that is linked with no other.
fn alone(module: Module) -> Part {
    let name = "the module".to_owned();
    Part { name, module }
}

fn translate_module(part: &Part, wanted: Wanted) -> Result<Translated, CompileError> {
    let module = &part.module;
    // Each kernel for itself: what is wrong in one leaves the others usable.
    let (original, malformed) = module.decode_each()?;
    check_alone(part, &original).map_err(CompileError::Needs)?;
    let kernels = kernels_of(&original);
    if kernels.len() > KERNELS_PER_CLIENT {
        return Err(CompileError::TooManyKernels(kernels.len()));
    }
    let variables = original.variables.len();
    if variables > VARIABLES {
        return Err(CompileError::TooManyVariables(variables));
    }
    let malformed: HashMap<FuncId, _> = malformed.into_iter().collect();
    let options = options(wanted);
    let verdicts = FormVerdicts::new(module, &original);
    let choose = |id| match (malformed.contains_key(&id), wanted.fence) {
        (true, _) => Form::WHOLE,
        (false, None) => Form::SLICE,
        (false, Some(fence)) => fenced(&verdicts, id, (fence, &options)),
    };
    let mut rewritten = rewrite_with(module, &original, &verdicts, &options, choose);
    let is_malformed = |name: &str| {
        let found = kernels.get(name);
        found.is_some_and(|(id, _)| malformed.contains_key(id))
    };
    let mut left_out = rewritten
        .kernels
        .iter()
        .filter(|kernel| kernel.entries.is_empty());
    // What is right and cannot be printed is there in the original's text alone, which has no fence.
    if wanted.fence.is_none() && left_out.any(|kernel| !is_malformed(&kernel.name)) {
        let refusals = rewritten.kernels.into_iter().map(|kernel| kernel.refusals);
        let refusals: Vec<_> = refusals.collect();
        rewritten = rewrite_with(module, &original, &verdicts, &options, |_| Form::WHOLE);
        for (kernel, refusals) in rewritten.kernels.iter_mut().zip(refusals) {
            kernel.refusals = refusals;
        }
    }
    let mut described = rewritten.kernels;
    for kernel in &mut described {
        let found = kernels.get(&*kernel.name);
        let error = found.and_then(|(id, _)| malformed.get(id));
        let text = |error| format!("kernel '{}' is not valid PTX: {error}", shown(&kernel.name));
        kernel.malformed = error.map(text);
        if let (Some((id, _)), Some(_)) = (found, wanted.fence) {
            say_refused(kernel, &verdicts, (*id, &options));
        }
    }
    Ok(Translated {
        ptx: rewritten.bytes,
        kernels: described,
        placed: rewritten.placed,
    })
}

/// Returns the kernels of a program by name, in the order of their names.
fn kernels_of(program: &Program) -> BTreeMap<&str, (FuncId, &Function)> {
    let mut kernels = BTreeMap::new();
    let defined = (0..).zip(&program.functions);
    for (id, function) in defined.filter(|(_, f)| f.is_entry && f.is_defined) {
        kernels
            .entry(&*function.name)
            .or_insert((FuncId(id), function));
    }
    kernels
}

/// Takes over what a compiler made of a module with that hash: reads its text, and checks what is said of its kernels
/// against it.
///
/// # Errors
/// [`AnswerError`]: what does not fit.
pub fn admit(
    translated: Translated,
    hash: Fnv,
    wanted: Wanted,
) -> Result<CompiledModule, AnswerError> {
    let Translated {
        ptx,
        kernels,
        placed,
    } = translated;
    let (program, malformed) = Module::parse(ptx.clone())?.decode_each()?;
    let in_text = kernels_of(&program);
    if in_text.len() > KERNELS_PER_CLIENT {
        return Err(AnswerError::TooManyKernels(in_text.len()));
    }
    // A few are the rewriter's own.
    let outside = placed.as_ref().map_or(0, |placed| placed.variables.len());
    let variables = program.variables.len() + outside;
    if let Some(placed) = &placed {
        check_placed(placed, &program, wanted)?;
    }
    if variables > VARIABLES + 2 * KERNELS_PER_CLIENT {
        return Err(AnswerError::TooManyVariables(variables));
    }
    let mut text = Text {
        malformed: malformed.into_iter().collect(),
        kernels: in_text,
        fence: wanted.fence,
        seen: HashSet::new(),
    };
    let mut admitted = Vec::new();
    for kernel in kernels {
        let mut kernel = text.admit(kernel)?;
        let refused = refused(&mut kernel, wanted.fence);
        admitted.push(CompiledKernel {
            key: KernelKey::new(hash, &kernel.name),
            kernel: Arc::new(kernel),
            refused,
        });
    }
    if let Some(name) = text.unseen() {
        return Err(AnswerError::Kernels(shown(name)));
    }
    Ok(CompiledModule {
        kernels: admitted,
        globals: globals(&program, placed.as_ref()),
        placed,
        ptx_version: ptx_version(&program.target),
        prints: prints(&program),
        ptx,
        program,
    })
}

/// A rewritten text, against which descriptions are checked.
struct Text<'a> {
    kernels: BTreeMap<&'a str, (FuncId, &'a Function)>,
    malformed: HashMap<FuncId, ParseError>,
    /// How its kernels are fenced.
    fence: Option<Fence>,
    /// Kernels that something was said of.
    seen: HashSet<FuncId>,
}

impl Text<'_> {
    /// Checks a description against the text, and cuts what is said in words.
    fn admit(&mut self, mut kernel: Kernel) -> Result<Kernel, AnswerError> {
        // The first entry keeps the name by which the tenant knows the kernel; one that is malformed may have none.
        let is_named = match kernel.entries.first() {
            Some(first) => first.name == kernel.name,
            None => kernel.malformed.is_some() || self.fence.is_some(),
        };
        if !is_named {
            return Err(AnswerError::Kernels(shown(&kernel.name)));
        }
        for entry in &kernel.entries {
            self.check(&kernel, entry)?;
        }
        kernel.malformed = kernel.malformed.map(shortened);
        kernel.refusals.truncate(Form::ALL.len());
        for refused in &mut kernel.refusals {
            let words = shortened(refused.refusal.reason.to_string());
            refused.refusal.reason = Reason::InWords(words);
        }
        Ok(kernel)
    }

    fn check(&mut self, kernel: &Kernel, entry: &Entry) -> Result<(), AnswerError> {
        let found = self.kernels.get(&*entry.name).copied();
        let found = found.filter(|(id, _)| self.seen.insert(*id));
        let Some((id, function)) = found else {
            return Err(AnswerError::Kernels(shown(&entry.name)));
        };
        let name = || shown(&entry.name);
        let form = entry.form();
        let mode = self.fence.map(|fence| fence.mode);
        let is_wanted = match (form, self.fence) {
            (Form::WHOLE | Form::SLICE, _) => true,
            (Form::FENCE | Form::FENCE_SLICE, Some(_)) => entry.fence == mode,
            _ => false,
        };
        if !is_wanted {
            return Err(AnswerError::Form {
                kernel: name(),
                form,
            });
        }
        kernel
            .check(entry, function)
            .map_err(|mismatch| AnswerError::Mismatch {
                kernel: name(),
                mismatch,
            })?;
        match self.malformed.get(&id) {
            Some(reason) if kernel.malformed.is_none() => Err(AnswerError::Malformed {
                kernel: name(),
                reason: reason.to_string(),
            }),
            _ => Ok(()),
        }
    }

    /// Returns the name of a kernel that nothing was said of.
    fn unseen(&self) -> Option<&str> {
        let mut kernels = self.kernels.iter();
        let unseen = kernels.find(|(_, (id, _))| !self.seen.contains(id));
        unseen.map(|(name, _)| *name)
    }
}

fn shortened(mut text: String) -> String {
    text.truncate(text.floor_char_boundary(REASON_BYTES));
    text
}

/// Returns the variables of module scope in device memory, those of the tenant's own.
fn globals(program: &Program, placed: Option<&Placed>) -> Vec<CompiledGlobal> {
    let pointer = placed.map(|placed| &*placed.pointer);
    let in_memory = program.variables.iter().filter(|variable| {
        variable.owner.is_none()
            && !variable.is_extern
            && Some(&*variable.name) != pointer
            && matches!(variable.space, StateSpace::Global | StateSpace::Const)
    });
    let outside = placed.into_iter().flat_map(|placed| &placed.variables);
    let outside = outside.map(|variable| CompiledGlobal {
        name: variable.name.clone(),
        bytes: variable.size_bytes,
        is_constant: false,
        is_managed: false,
    });
    in_memory
        .map(|variable| CompiledGlobal {
            name: variable.name.clone(),
            bytes: variable.size_bytes,
            is_constant: variable.space == StateSpace::Const,
            is_managed: variable.is_managed,
        })
        .chain(outside)
        .collect()
}

/// Returns whether a function of the program calls `vprintf`.
fn prints(program: &Program) -> bool {
    let is_print = |operand: &Operand| {
        let Operand::Symbol {
            symbol: Symbol::Function(id),
            ..
        } = operand
        else {
            return false;
        };
        let callee = program.functions.get(id.0 as usize);
        callee.is_some_and(|callee| callee.name == "vprintf" && !callee.is_defined)
    };
    let mut instructions = program.functions.iter().flat_map(|f| &f.body);
    instructions.any(|i| i.opcode == Opcode::Call && i.operands.iter().any(is_print))
}

/// Returns the number in a target: 80 for `sm_80`, 90 for `sm_90a`, 0 where it has none.
fn ptx_version(target: &str) -> u32 {
    let number = target.strip_prefix("sm_").unwrap_or_default();
    let end = number
        .find(|character: char| !character.is_ascii_digit())
        .unwrap_or(number.len());
    number[..end].parse().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::{compile, compile_parts, ptx_version};

    #[test]
    fn the_target_is_a_number() {
        for (target, version) in [
            ("sm_80", 80),
            ("sm_90a", 90),
            ("sm_120", 120),
            ("texmode", 0),
        ] {
            assert_eq!(ptx_version(target), version, "{target}");
        }
    }

    #[test]
    fn several_texts_are_linked_and_errors_name_the_part() {
        let header = ".version 7.0\n.target sm_70\n.address_size 64\n";
        let user = format!(
            "{header}.extern .global .u32 x;\n.visible .entry k() {{ .reg .u32 %r; ld.global.u32 %r,[x]; ret; }}"
        );
        let library = format!("{header}.visible .global .u32 x = 1;");
        let texts = |list: &[&String]| list.iter().map(|text| text.as_bytes().to_vec()).collect();
        let module = compile_parts(texts(&[&user, &library])).unwrap();
        assert_eq!(module.kernels.len(), 1);
        let globals: Vec<_> = module.globals.iter().map(|g| g.name.as_str()).collect();
        assert_eq!(globals, ["x"]);
        let again = compile_parts(texts(&[&user, &library])).unwrap();
        assert_eq!(again.kernels[0].key, module.kernels[0].key);
        let error = |list: &[&String]| compile_parts(texts(list)).err().unwrap().to_string();
        let unresolved = error(&[&user, &user.replace(" k()", " l()")]);
        assert!(
            unresolved.contains("`x`") && unresolved.contains("part 1 of 2, line 4"),
            "{unresolved}"
        );
        let alone = error(&[&user]);
        assert!(
            alone.contains("`x`") && alone.contains("the module, line 4"),
            "{alone}"
        );
        let wrong = error(&[&user, &"no PTX".to_owned()]);
        assert!(wrong.contains("part 2 of 2: 1:1"), "{wrong}");
    }

    #[test]
    fn too_many_kernels_are_refused() {
        let module = |kernels: usize| {
            let entry = |n| format!(".visible .entry k{n}() {{ ret; }} //{:200}\n", "");
            let entries: String = (0..kernels).map(entry).collect();
            compile(format!(".version 7.0\n.target sm_70\n.address_size 64\n{entries}").into())
        };
        assert_eq!(module(4096).unwrap().kernels.len(), 4096);
        let error = module(4097).err().unwrap().to_string();
        assert!(error.contains("4097 kernels"), "{error}");
    }

    #[test]
    fn too_many_variables_are_refused() {
        let module = |variables: usize| {
            let variable = |n| format!(".global .u32 v{n};\n");
            let variables: String = (0..variables).map(variable).collect();
            compile(format!(".version 7.0\n.target sm_70\n.address_size 64\n{variables}").into())
        };
        assert_eq!(module(65_536).unwrap().globals.len(), 65_536);
        let error = module(65_537).err().unwrap().to_string();
        assert!(error.contains("65537 variables"), "{error}");
    }

    #[test]
    fn long_names_are_shortened_in_messages() {
        let text = |bytes: usize| {
            let name = "k".repeat(bytes);
            let head = ".version 7.0\n.target sm_70\n.address_size 64\n";
            format!(
                "{head}.visible .entry {name}() {{ .reg .u32 %r<2>; add.u33 %r1, %r1, 1; ret; }}\n"
            )
        };
        let module = compile(text(60_000).into()).unwrap();
        let why = module.kernels[0].kernel.malformed.clone().unwrap();
        assert!(why.len() < 1000, "{} bytes", why.len());
        let error = compile(text(70_000).into()).err().unwrap().to_string();
        assert!(
            error.contains("4:17: a name of 70000 bytes; 65536"),
            "{error}"
        );
    }

    #[test]
    fn a_chain_of_calls_as_long_as_a_module_needs_no_stack() {
        let last = 99_998;
        let function = |n: usize| match n {
            0 => format!(".func f{last}() {{ ret; }} //{:200}\n", ""),
            n => {
                let (own, next) = (last - n, last - n + 1);
                format!(".func f{own}() {{ call.uni f{next}; ret; }} //{:200}\n", "")
            }
        };
        let head = ".version 7.0\n.target sm_70\n.address_size 64\n";
        let chain: String = (0..=last).map(function).collect();
        let text = format!("{head}{chain}.visible .entry k() {{ call.uni f0; ret; }}\n");
        let thread = std::thread::Builder::new().stack_size(256 << 10);
        let compiled = thread.spawn(|| compile(text.into()).map(|module| module.kernels.len()));
        assert_eq!(compiled.unwrap().join().unwrap().unwrap(), 1);
    }

    #[test]
    fn variables_of_module_scope_are_found() {
        let text = "
.version 7.0
.target sm_70
.address_size 64
.visible .global .align 4 .u32 counter = 5;
.visible .const .align 8 .b8 table[24];
.shared .align 4 .b8 scratch[16];
.visible .entry k()
{
    .local .align 4 .b8 own[8];
    ret;
}
";
        let module = compile(text.into()).unwrap();
        let found: Vec<_> = module
            .globals
            .iter()
            .map(|global| (global.name.as_str(), global.bytes, global.is_constant))
            .collect();
        assert_eq!(found, [("counter", 4, false), ("table", 24, true)]);
        assert_eq!((module.constant_bytes(), module.ptx_version), (24, 70));
    }
}
