//! `gridmux ptx`: what can be done with PTX modules, and doing it.

mod break_lines;
mod identity;
mod model;

use crate::failure::Failure;
use crate::files;
use crate::names;
use crate::output::{Output, note};
use crate::table::indented_fields;
use crate::units::counted;
use break_lines::broken;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{Args, Subcommand};
use gridmux_ptx::check::{ErrorReport, FileReport, KernelReport, Resources, check};
use gridmux_ptx::forms::{Form, Options, rewrite};
use gridmux_ptx::kernel::FormRefusal;
use gridmux_ptx::print::Layout;
use gridmux_ptx::{Kernel, Module, ParseError};
use serde::Serialize;
use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::{Path, PathBuf};

/// Commands on PTX.
#[derive(Debug, Subcommand)]
pub(crate) enum Ptx {
    /// Per kernel: the forms it can take or why not, its resources, its instruction mix
    Check(Check),
    /// Print a module rewritten into a form; with -j also its kernels, and under which name each form stands
    Rewrite(Rewrite),
}

/// Checks files.
#[derive(Debug, Args)]
pub(crate) struct Check {
    /// PTX files
    #[arg(value_name = "FILE", required = true)]
    files: Vec<PathBuf>,
}

/// Rewrites a file.
#[derive(Debug, Args)]
#[command(
    after_help = "Long lines are broken after their statements. The JSON has the text as the service uses it: \
                        line by line the original, with all that was added on the line that it belongs to."
)]
pub(crate) struct Rewrite {
    /// Form of every kernel that can take it; the others stay whole, with a warning. `identity` prints the module anew
    /// from its tree, with names of its own and nothing changed
    #[arg(long, value_name = "FORM", value_parser = target_parser())]
    form: Target,
    /// PTX file
    #[arg(value_name = "FILE")]
    file: PathBuf,
}

/// What a module is rewritten into.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Target {
    /// Itself, printed from its tree.
    Identity,
    Form(Form),
}

/// The report on a kernel.
#[derive(Debug, Serialize)]
struct Checked {
    #[serde(flatten)]
    kernel: KernelReport,
    /// Why the SM model refuses it, or `None`.
    model_refuses: Option<String>,
}

/// Returns what is known of a module's kernels.
fn checked(module: &Module) -> Result<Vec<Checked>, ParseError> {
    let (program, _) = module.decode_each()?;
    let of = |kernel: KernelReport| Checked {
        model_refuses: model::refusal((&program, module.source()), &kernel.name),
        kernel,
    };
    Ok(check(module)?.into_iter().map(of).collect())
}

impl Ptx {
    pub(super) fn run(self, out: &Output) -> Result<(), Failure> {
        match self {
            Self::Check(check) => check.run(out),
            Self::Rewrite(rewrite) => rewrite.run(out),
        }
    }
}

impl Check {
    fn run(self, out: &Output) -> Result<(), Failure> {
        let mut reports = Vec::new();
        for path in &self.files {
            let file = path.display().to_string();
            let found = match files::bytes(path, files::MOST_PTX) {
                Ok(bytes) => Module::parse(bytes)
                    .and_then(|module| checked(&module))
                    .map_err(Problem::Ptx),
                Err(error) => Err(Problem::Unreadable(error)),
            };
            if !out.is_json() {
                show_file(&file, &found, out)?;
            }
            let (error, kernels) = match found {
                Ok(kernels) => (None, kernels),
                Err(problem) => (Some(problem.report()), Vec::new()),
            };
            reports.push(FileReport {
                file,
                error,
                kernels,
            });
        }
        if out.is_json() {
            out.show(&reports, String::new)?;
        }
        match reports.iter().any(|report| report.error.is_some()) {
            true => Err(Failure::reported()),
            false => Ok(()),
        }
    }
}

/// Why there is no report on a file.
enum Problem {
    Unreadable(anyhow::Error),
    Ptx(ParseError),
}

impl Problem {
    /// Returns it as JSON has it; a file that cannot be read is wrong at line 0.
    fn report(&self) -> ErrorReport {
        match self {
            Self::Ptx(error) => ErrorReport::from(error),
            Self::Unreadable(error) => ErrorReport {
                line: 0,
                column: 0,
                message: format!("the file cannot be read: {}", error.root_cause()),
            },
        }
    }
}

fn show_file(
    file: &str,
    found: &Result<Vec<Checked>, Problem>,
    out: &Output,
) -> Result<(), Failure> {
    match found {
        Ok(kernels) => out.text(&kernels_text(file, kernels)),
        Err(Problem::Ptx(error)) => {
            note(&format!("error: {file}:{error}"));
            if let Some(hint) = source_hint(Path::new(file)) {
                note(&format!("hint: {hint}"));
            }
            Ok(())
        }
        Err(Problem::Unreadable(error)) => {
            note(&format!("error: {file}: {}", error.root_cause()));
            Ok(())
        }
    }
}

fn kernels_text(file: &str, kernels: &[Checked]) -> String {
    let mut text = format!("{file}: {}\n", counted(kernels.len() as u64, "kernel"));
    // Writing to a string cannot fail.
    for checked in kernels {
        let kernel = &checked.kernel;
        let (r, m) = (&kernel.resources, &kernel.mix);
        let dynamic = if r.dynamic_shared { " + dynamic" } else { "" };
        let shown = names::shown(&kernel.name);
        let _ = writeln!(text, "  {shown}");
        if shown != kernel.name {
            let _ = writeln!(text, "    {:<12} {}", "name", kernel.name);
        }
        let rows = [
            ("registers", format!("about {}", r.registers_estimate)),
            (
                "shared",
                format!("{} bytes{dynamic}", r.static_shared_bytes),
            ),
            ("local", format!("{} bytes", r.local_bytes)),
            ("parameters", format!("{} bytes", r.params_bytes)),
            ("threads", format!("at most {}", r.max_threads)),
            ("barriers", barriers_text(r)),
            ("spaces", r.address_spaces.join(" ")),
            (
                "instructions",
                format!(
                    "{}: {} compute, {} memory, {} atomic, {} special, {} tensor, {} barrier, {} control, {} unknown",
                    m.total,
                    m.compute,
                    m.memory,
                    m.atomic,
                    m.special,
                    m.tensor,
                    m.barrier,
                    m.control,
                    m.unknown
                ),
            ),
            (
                "global",
                format!("{} coalesced, {} not", m.coalesced, m.uncoalesced),
            ),
            ("effects", effects_text(kernel)),
        ];
        let unknown = kernel.unknown.iter().map(|unknown| {
            let text = format!("line {}: `{}`", unknown.line, unknown.opcode);
            ("unknown", text)
        });
        let model = match &checked.model_refuses {
            Some(reason) => format!("no: {reason}"),
            None => "yes".to_owned(),
        };
        let model = std::iter::once(("model", model));
        let forms = kernel.forms.iter().map(|(form, report)| {
            let verdict = match (&report.reason, report.line) {
                _ if report.ok => "yes".to_owned(),
                (Some(reason), Some(line)) => format!("no: line {line}: {reason}"),
                (reason, _) => {
                    let reason = reason.as_deref();
                    format!("no: {}", reason.unwrap_or("no reason given"))
                }
            };
            (form.name(), verdict)
        });
        let rows = rows.into_iter().chain(unknown).chain(model).chain(forms);
        text.push_str(&indented_fields(4, rows));
        text.push('\n');
    }
    text
}

fn barriers_text(r: &Resources) -> String {
    let mut all: Vec<String> = r.barriers.iter().map(|n| format!("number {n}")).collect();
    if r.computed_barriers {
        all.push("computed numbers".to_owned());
    }
    if all.is_empty() {
        return "none".to_owned();
    }
    all.join(", ")
}

fn effects_text(kernel: &KernelReport) -> String {
    let idempotent = if kernel.idempotent {
        "idempotent"
    } else {
        "not known to be idempotent"
    };
    let order = if kernel.order_dependent {
        "the order of blocks may show"
    } else {
        "the order of blocks does not show"
    };
    format!("{idempotent}, {order}")
}

/// A rewritten module as JSON.
#[derive(Debug, Serialize)]
struct RewriteReport {
    /// The module's text.
    ptx: String,
    /// Its kernels, in source order.
    kernels: Vec<RewrittenKernel>,
}

/// A kernel of a rewritten module.
#[derive(Debug, Serialize)]
struct RewrittenKernel {
    /// Its name in the original.
    name: String,
    /// By form the name of the kernel that was generated for it.
    entries: BTreeMap<Form, String>,
    /// Why it stays whole although another form was asked for.
    reason: Option<String>,
    /// Line of the reason, from 1.
    line: Option<u32>,
}

impl Rewrite {
    fn run(self, out: &Output) -> Result<(), Failure> {
        let module = parse(&self.file)?;
        let form = match self.form {
            Target::Identity => return identity::run(&self.file, &module, out),
            Target::Form(form) => form,
        };
        if form == Form::WHOLE && !out.is_json() {
            return out.bytes(module.source());
        }
        let program = module.decode().map_err(|error| at(&self.file, &error))?;
        let options = Options {
            layout: match out.is_json() {
                true => Layout::OriginalLines,
                false => Layout::OneEach,
            },
            ..Options::default()
        };
        let rewritten = rewrite(&module, &program, &options, |_| form);
        for kernel in &rewritten.kernels {
            for FormRefusal { refusal, .. } in &kernel.refusals {
                let file = self.file.display();
                let what = match kernel.entries.is_empty() {
                    true => "is left out",
                    false => "stays whole",
                };
                note(&format!(
                    "warning: {file}: kernel {} {what}: {refusal}",
                    names::shown(&kernel.name)
                ));
            }
        }
        if !out.is_json() {
            return out.bytes(&broken(&rewritten.bytes));
        }
        let report = RewriteReport {
            ptx: String::from_utf8_lossy(&rewritten.bytes).into_owned(),
            kernels: rewritten.kernels.into_iter().map(described).collect(),
        };
        out.show(&report, String::new)
    }
}

fn described(kernel: Kernel) -> RewrittenKernel {
    let refused = kernel.refusals.first();
    let refusal = refused.map(|refused| &refused.refusal);
    let entries = kernel.entries.iter();
    RewrittenKernel {
        entries: entries
            .map(|entry| (entry.form(), entry.name.clone()))
            .collect(),
        reason: refusal.map(|refusal| refusal.reason.to_string()),
        line: refusal.map(|refusal| refusal.line),
        name: kernel.name,
    }
}

/// Returns the parser of an argument that names a form: it knows all of them.
pub(crate) fn form_parser() -> impl TypedValueParser<Value = Form> {
    PossibleValuesParser::new(Form::ALL.map(Form::name)).try_map(|name| name.parse::<Form>())
}

/// Returns the parser of what a module is rewritten into.
fn target_parser() -> impl TypedValueParser<Value = Target> {
    let names = Form::ALL.map(Form::name).into_iter().chain(["identity"]);
    PossibleValuesParser::new(names).try_map(|name| match name.as_str() {
        "identity" => Ok(Target::Identity),
        form => form.parse::<Form>().map(Target::Form),
    })
}

/// Reads and parses a file.
pub(crate) fn parse(file: &Path) -> Result<Module, Failure> {
    let bytes = files::bytes(file, files::MOST_PTX)?;
    Module::parse(bytes).map_err(|error| match source_hint(file) {
        Some(hint) => at(file, &error).hint(hint),
        None => at(file, &error),
    })
}

/// Returns what to do with a file whose name says that it is CUDA C++ and no PTX.
fn source_hint(file: &Path) -> Option<String> {
    let is_source = file
        .extension()
        .is_some_and(|extension| extension == "cu" || extension == "cuh");
    is_source.then(|| {
        let name = file.display();
        format!("{name} is CUDA C++ by its name; `nvcc -ptx {name}` makes PTX of it")
    })
}

/// Returns the error, with the file it is in.
pub(crate) fn at(file: &Path, error: &ParseError) -> Failure {
    Failure::new(format!("{}:{error}", file.display()))
}
