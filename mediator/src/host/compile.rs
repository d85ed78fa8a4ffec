//! From a tenant's PTX to a module that can be loaded: parsed, linked where it is several texts, judged, rewritten into
//! slices.
//!
//! This is the only place where a tenant's code meets the PTX front end. It runs on a thread of its own, one module
//! after another, so that a large or slow one keeps nobody else's control operations waiting.

use crate::device::{CompiledGlobal, CompiledKernel, CompiledModule};
use crate::dispatch::client::KERNELS_PER_CLIENT;
use gridmux_policy::hash::Fnv;
use gridmux_policy::ids::KernelKey;
use gridmux_ptx::decode::{FuncId, Opcode, Operand, Program, StateSpace, Symbol};
use gridmux_ptx::forms::{Form, Options, rewrite};
use gridmux_ptx::link::{LinkError, Part, link};
use gridmux_ptx::{Module, ParseError, shown};
use std::collections::HashMap;

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
}

/// Parses a module and rewrites every kernel that can be sliced; the others stay whole.
///
/// # Errors
/// [`CompileError`], with line and column.
pub fn compile(text: Vec<u8>) -> Result<CompiledModule, CompileError> {
    compile_module(&Module::parse(text)?)
}

/// Compiles one PTX text as [`compile`] does, and several as the module that they are linked to.
///
/// # Errors
/// [`CompileError`], which names each of several texts by its place: `part 2 of 3`.
pub(super) fn compile_parts(texts: Vec<Vec<u8>>) -> Result<CompiledModule, CompileError> {
    let count = texts.len();
    let mut parts = Vec::with_capacity(count);
    for (n, text) in texts.into_iter().enumerate() {
        if count == 1 {
            return compile(text);
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
    compile_module(&link(parts)?).map_err(|error| match error {
        // Lines are those of the linked text.
        CompileError::Parse(error) => LinkError::Linked(Box::new(error)).into(),
        error => error,
    })
}

/// What messages call one of several texts.
pub(super) fn part_name(n: usize, count: usize) -> String {
    format!("part {} of {count}", n + 1)
}

fn compile_module(module: &Module) -> Result<CompiledModule, CompileError> {
    let text = Fnv::default().bytes(module.source());
    // Each kernel for itself: what is wrong in one leaves the others usable.
    let (original, malformed) = module.decode_each()?;
    let mut entries = HashMap::new();
    for (id, function) in (0..).zip(&original.functions).filter(|(_, f)| f.is_entry) {
        entries.entry(&*function.name).or_insert(FuncId(id));
    }
    if entries.len() > KERNELS_PER_CLIENT {
        return Err(CompileError::TooManyKernels(entries.len()));
    }
    let malformed: HashMap<FuncId, _> = malformed.into_iter().collect();
    let choose = |id| match malformed.contains_key(&id) {
        true => Form::WHOLE,
        false => Form::SLICE,
    };
    let rewritten = rewrite(module, &original, &Options::default(), choose);
    let mut kernels = Vec::new();
    for form in &rewritten.kernels {
        let Some(id) = entries.get(&*form.name) else {
            continue;
        };
        let function = &original.functions[id.0 as usize];
        let bad = malformed.get(id);
        let params = function
            .params
            .iter()
            .map(|p| (p.offset, p.size_bytes, p.align))
            .collect();
        let control = match (form.control_offset, &form.reason) {
            (Some(offset), _) => Ok(offset),
            (None, Some(refusal)) => Err(refusal.to_string()),
            (None, None) => Err("the kernel was not rewritten".to_owned()),
        };
        kernels.push(CompiledKernel {
            key: KernelKey::new(text, &form.name),
            name: form.name.clone(),
            params_bytes: function.params_bytes,
            params,
            control,
            malformed: bad
                .map(|error| format!("kernel '{}' is not valid PTX: {error}", shown(&form.name))),
        });
    }
    let ptx = rewritten.bytes;
    let (program, _) = Module::parse(ptx.clone())?.decode_each()?;
    Ok(CompiledModule {
        ptx,
        program,
        kernels,
        globals: globals(&original),
        ptx_version: ptx_version(&original.target),
        prints: prints(&original),
    })
}

/// Returns the variables of the tenant's own module, without those that the rewriter adds.
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
