//! The commands, one file per object.

mod compiler;
mod completions;
mod demo;
mod device;
mod device_host;
mod doctor;
mod kernel;
mod latency;
mod man;
mod map;
mod metrics;
mod plan;
mod policy;
mod prog;
pub(crate) mod ptx;
mod report;
pub(crate) mod run;
mod serve;
mod sim;
mod tenant;
mod top;
mod trace;
mod usage;
mod workload;

use crate::failure::Failure;
use crate::output::Output;
use clap::Subcommand;
use tracing::level_filters::LevelFilter;

/// An object or a verb.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Run the service until SIGTERM or SIGINT
    Serve(serve::Serve),
    /// Run one device host; the service starts it
    #[command(hide = true)]
    DeviceHost,
    /// Run the fork server of compilers; the service starts it
    #[command(hide = true)]
    Compiler(compiler::Compiler),
    /// Run a CUDA program on a shared or modelled GPU, unmodified
    Run(run::Run),
    /// Keep the folder and the private service of one `gridmux run`; that starts it
    #[command(hide = true)]
    RunKeeper(run::Keeper),
    /// Tenants of a running service
    #[command(subcommand)]
    Tenant(tenant::Tenant),
    /// The device and its tenants as they are now, on a terminal
    Top(top::Top),
    /// The device of a running service
    #[command(subcommand)]
    Device(device::Device),
    /// Kernels that tenants of a running service launch
    #[command(subcommand)]
    Kernel(kernel::Kernel),
    /// The plan in force in a running service: which kernel may hold how many blocks on which SMs
    #[command(subcommand)]
    Plan(plan::Plan),
    /// Launch and completion latency per tenant, as histograms
    Latency(latency::Latency),
    /// The eBPF programs of gridmux that are loaded, and what they cost
    #[command(subcommand)]
    Prog(prog::Prog),
    /// The maps of gridmux's eBPF programs, and what they hold
    #[command(subcommand)]
    Map(map::Map),
    /// Look at this machine: what gridmux needs, the service, and programs that use a GPU past it
    Doctor(doctor::Doctor),
    /// Launches, slices, preemptions and plans of a running service, one by one as they happen
    #[command(subcommand)]
    Trace(trace::Trace),
    /// What each kernel of a recording took: run times, queue times and preemptions
    Report(report::Report),
    /// The service's figures for Prometheus, in the OpenMetrics text format
    Metrics(metrics::Metrics),
    /// What tenants, users and jobs used over the years
    Usage(usage::Usage),
    /// Scheduling policies
    #[command(subcommand)]
    Policy(policy::Policy),
    /// PTX modules
    #[command(subcommand)]
    Ptx(ptx::Ptx),
    /// The SM model
    #[command(subcommand)]
    Sim(sim::Sim),
    /// Benchmark kernels, as tenants
    #[command(subcommand)]
    Workload(workload::Workload),
    /// Three tenants share a GPU, alone and together under two policies; takes a minute or two on two cores
    Demo(demo::Demo),
    /// Print the completions of a shell
    Completions(completions::Completions),
    /// Print the manual page, or write those of all commands
    Man(man::Man),
}

impl Command {
    /// Returns from which level on it logs when nothing else is said.
    pub(crate) fn default_log_level(&self) -> LevelFilter {
        match self {
            Self::Serve(_) | Self::DeviceHost | Self::Compiler(_) => LevelFilter::INFO,
            _ => LevelFilter::WARN,
        }
    }

    /// Returns whether people start it, and not this program.
    pub(crate) fn is_for_people(&self) -> bool {
        !matches!(
            self,
            Self::DeviceHost | Self::Compiler(_) | Self::RunKeeper(_)
        )
    }

    /// Does it.
    pub(crate) fn run(self, out: &Output) -> Result<(), Failure> {
        match self {
            Self::Serve(serve) => serve.run(out),
            Self::DeviceHost => device_host::run(),
            Self::Compiler(compiler) => compiler.run(),
            Self::Run(run) => run.run(out),
            Self::RunKeeper(keeper) => keeper.run(out),
            Self::Tenant(tenant) => tenant.run(out),
            Self::Top(top) => top.run(out),
            Self::Device(device) => device.run(out),
            Self::Kernel(kernel) => kernel.run(out),
            Self::Plan(plan) => plan.run(out),
            Self::Latency(latency) => latency.run(out),
            Self::Prog(prog) => prog.run(out),
            Self::Map(map) => map.run(out),
            Self::Doctor(doctor) => doctor.run(out),
            Self::Trace(trace) => trace.run(out),
            Self::Report(report) => report.run(out),
            Self::Metrics(metrics) => metrics.run(out),
            Self::Usage(usage) => usage.run(out),
            Self::Policy(policy) => policy.run(out),
            Self::Ptx(ptx) => ptx.run(out),
            Self::Sim(sim) => sim.run(out),
            Self::Workload(workload) => workload.run(out),
            Self::Demo(demo) => demo.run(out),
            Self::Completions(completions) => completions.run(out),
            Self::Man(man) => man.run(out),
        }
    }
}
