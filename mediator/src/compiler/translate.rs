//! From a tenant's PTX to a module that can be loaded, in two steps: [`translate`] parses, links where it is several
//! texts, judges and rewrites into slices, in a process of its own; [`admit`] takes the result over in the device host.
//!
//! Rules: both are pure. [`admit`] believes nothing: everything that can be read from the returned text is, and what
//! cannot must fit it. So an attacker in a compiler can make it return another program, which runs as its own tenant
//! and under the same checks as any program of that tenant; but nothing inconsistent, and no other kernel's key.

use crate::device::{CompiledGlobal, CompiledKernel, CompiledModule};
use crate::dispatch::client::KERNELS_PER_CLIENT;
use gridmux_policy::hash::Fnv;
use gridmux_policy::ids::KernelKey;
use gridmux_ptx::control::{CONTROL_ALIGN, CONTROL_BYTES};
use gridmux_ptx::decode::{FuncId, Function, Opcode, Operand, Program, StateSpace, Symbol};
use gridmux_ptx::forms::{Form, Options, rewrite};
use gridmux_ptx::link::{LinkError, Part, link};
use gridmux_ptx::{Module, ParseError, shown};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, HashMap, HashSet};

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
    /// The verdicts are not those of the text's kernels.
    #[error("the compiler speaks of other kernels than its text has: '{0}'")]
    Kernels(String),
    /// A kernel has no control struct where there should be one.
    #[error("kernel '{kernel}' has no control struct at byte {offset} behind its parameters")]
    Control {
        /// The kernel.
        kernel: String,
        /// Where it should be.
        offset: u32,
    },
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
    /// One for each kernel of the text.
    pub verdicts: Vec<Verdict>,
}

/// A compiler's statement about a kernel, beside its text.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Verdict {
    /// The kernel's name.
    pub name: String,
    /// Offset of the control struct in its parameters, if it took the `slice` form; else why not.
    pub control: Result<u32, String>,
    /// Why the front end does not understand its body, if it does not.
    pub malformed: Option<String>,
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
    Ok(admit(translate(texts)?, hash)?)
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

/// Parses and links texts, and rewrites every kernel that can be sliced.
///
/// # Errors
/// [`CompileError`], with line and column, and the place of each of several texts.
pub fn translate(texts: Vec<Vec<u8>>) -> Result<Translated, CompileError> {
    let count = texts.len();
    let mut parts = Vec::with_capacity(count);
    for (n, text) in texts.into_iter().enumerate() {
        if count == 1 {
            return translate_module(&Module::parse(text)?);
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
    translate_module(&link(parts)?).map_err(|error| match error {
        // Lines are those of the linked text.
        CompileError::Parse(error) => LinkError::Linked(Box::new(error)).into(),
        error => error,
    })
}

/// Returns what messages call one of several texts.
pub(crate) fn part_name(n: usize, count: usize) -> String {
    format!("part {} of {count}", n + 1)
}

fn translate_module(module: &Module) -> Result<Translated, CompileError> {
    // Each kernel for itself: what is wrong in one leaves the others usable.
    let (original, malformed) = module.decode_each()?;
    let kernels = kernels_of(&original);
    if kernels.len() > KERNELS_PER_CLIENT {
        return Err(CompileError::TooManyKernels(kernels.len()));
    }
    let variables = original.variables.len();
    if variables > VARIABLES {
        return Err(CompileError::TooManyVariables(variables));
    }
    let malformed: HashMap<FuncId, _> = malformed.into_iter().collect();
    let choose = |id| match malformed.contains_key(&id) {
        true => Form::WHOLE,
        false => Form::SLICE,
    };
    let rewritten = rewrite(module, &original, &Options::default(), choose);
    let mut verdicts = Vec::new();
    for form in rewritten.kernels {
        let Some((id, _)) = kernels.get(&*form.name) else {
            continue;
        };
        let control = match (form.control_offset, &form.reason) {
            (Some(offset), _) => Ok(offset),
            (None, Some(refusal)) => Err(refusal.to_string()),
            (None, None) => Err("the kernel was not rewritten".to_owned()),
        };
        let malformed = malformed
            .get(id)
            .map(|error| format!("kernel '{}' is not valid PTX: {error}", shown(&form.name)));
        verdicts.push(Verdict {
            name: form.name,
            control,
            malformed,
        });
    }
    Ok(Translated {
        ptx: rewritten.bytes,
        verdicts,
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

/// Takes over what a compiler made of a module with that hash: reads its text, and checks the verdicts against it.
///
/// # Errors
/// [`AnswerError`]: what does not fit.
pub fn admit(translated: Translated, hash: Fnv) -> Result<CompiledModule, AnswerError> {
    let Translated { ptx, verdicts } = translated;
    let (program, malformed) = Module::parse(ptx.clone())?.decode_each()?;
    let mut malformed: HashMap<FuncId, _> = malformed.into_iter().collect();
    let in_text = kernels_of(&program);
    if in_text.len() > KERNELS_PER_CLIENT {
        return Err(AnswerError::TooManyKernels(in_text.len()));
    }
    // A few are the rewriter's own.
    let variables = program.variables.len();
    if variables > VARIABLES + 2 * KERNELS_PER_CLIENT {
        return Err(AnswerError::TooManyVariables(variables));
    }
    let mut seen = HashSet::new();
    let mut kernels = Vec::new();
    for verdict in verdicts {
        let found = in_text.get(&*verdict.name);
        let Some((id, function)) = found.filter(|(id, _)| seen.insert(*id)) else {
            return Err(AnswerError::Kernels(shown(&verdict.name)));
        };
        let fault = malformed.remove(id).map(|error| error.to_string());
        kernels.push(admit_kernel(verdict, function, fault, hash)?);
    }
    if let Some((name, _)) = in_text.iter().find(|(_, (id, _))| !seen.contains(id)) {
        return Err(AnswerError::Kernels(shown(name)));
    }
    Ok(CompiledModule {
        kernels,
        globals: globals(&program),
        ptx_version: ptx_version(&program.target),
        prints: prints(&program),
        ptx,
        program,
    })
}

/// Checks a verdict against the kernel's own text.
fn admit_kernel(
    verdict: Verdict,
    function: &Function,
    fault: Option<String>,
    hash: Fnv,
) -> Result<CompiledKernel, AnswerError> {
    let Verdict {
        name,
        control,
        malformed,
    } = verdict;
    let all = &function.params[..];
    let own = match (&control, all) {
        (Err(_), all) => all,
        (Ok(offset), [own @ .., last])
            if last.offset == *offset
                && last.size_bytes == CONTROL_BYTES
                && end_of(own).next_multiple_of(CONTROL_ALIGN) == *offset =>
        {
            own
        }
        (Ok(offset), _) => {
            return Err(AnswerError::Control {
                kernel: shown(&name),
                offset: *offset,
            });
        }
    };
    if let (None, Some(reason)) = (&malformed, fault) {
        let kernel = shown(&name);
        return Err(AnswerError::Malformed { kernel, reason });
    }
    Ok(CompiledKernel {
        key: KernelKey::new(hash, &name),
        params_bytes: end_of(own),
        params: own
            .iter()
            .map(|p| (p.offset, p.size_bytes, p.align))
            .collect(),
        control: control.map_err(shortened),
        malformed: malformed.map(shortened),
        name,
    })
}

/// Returns where the last of some parameters ends.
fn end_of(params: &[gridmux_ptx::decode::Param]) -> u32 {
    params
        .last()
        .map_or(0, |last| last.offset.saturating_add(last.size_bytes))
}

fn shortened(mut text: String) -> String {
    text.truncate(text.floor_char_boundary(REASON_BYTES));
    text
}

/// Returns the variables of module scope in device memory. The `slice` form adds none to the tenant's own.
fn globals(program: &Program) -> Vec<CompiledGlobal> {
    let in_memory = program.variables.iter().filter(|variable| {
        variable.owner.is_none()
            && !variable.is_extern
            && matches!(variable.space, StateSpace::Global | StateSpace::Const)
    });
    in_memory
        .map(|variable| CompiledGlobal {
            name: variable.name.clone(),
            bytes: variable.size_bytes,
            is_constant: variable.space == StateSpace::Const,
        })
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
        let why = module.kernels[0].malformed.clone().unwrap();
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
