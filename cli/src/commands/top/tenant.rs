//! One tenant, as `top` shows it: what binds it, its figures, its clients and its kernels.

use super::draw::{bound, percent, shown, slower, sparks};
use super::frame::{Frame, HISTORY, Line, safe};
use crate::commands::tenant::why::{lasts, sentence};
use crate::{names, units};
use gridmux_mediator::dispatch::why::Why;
use gridmux_mediator::link::ClientFacts;
use gridmux_mediator::page::KernelSnapshot;

/// Returns the lines.
pub(super) fn lines_of(tenant: &Line, frame: &Frame, kernels: &[KernelSnapshot]) -> Vec<String> {
    let class = tenant.class.map(|class| format!(", class {class}"));
    let why = match tenant.is_paused() {
        true => Why::Paused,
        false => tenant.binds,
    };
    // The time is that of what the host said, which may not have heard of a pause yet.
    let since = tenant.bound_for_ms.filter(|_| why == tenant.binds);
    let since = since.map(|ms| format!(", for {}", lasts(ms)));
    let limit = tenant.memory_limit_bytes.map(units::bytes);
    let [p50, p99, preempted, most] = [
        tenant.start_p50_ns,
        tenant.start_p99_ns,
        tenant.preemption_p50_ns,
        tenant.preemption_p99_ns,
    ]
    .map(units::nanos);
    let mut lines = vec![
        format!(
            "{}: weight {}{}",
            safe(&tenant.name),
            shown(tenant.weight),
            class.unwrap_or_default()
        ),
        format!(
            "bound by {}: {}{}",
            bound(tenant),
            sentence(why),
            since.unwrap_or_default()
        ),
        String::new(),
        format!(
            "share asked {}, got {}, now {}; slower {}",
            percent(tenant.share_asked),
            percent(tenant.share_got),
            percent(tenant.share_now),
            slower(tenant)
        ),
        format!("launch latency p50 {p50}, p99 {p99}; preemption p50 {preempted}, p99 {most}"),
        format!(
            "memory {} of {}",
            units::bytes(tenant.memory_used_bytes),
            limit.unwrap_or_else(|| "-".to_owned())
        ),
        format!(
            "{}, {} pending, {} failed ({} clock)",
            units::counted(tenant.launches, "launch"),
            tenant.pending,
            tenant.failed,
            frame.clock
        ),
        format!("share {}", sparks(&tenant.shares, HISTORY)),
        String::new(),
        "CLIENT  PID      UID     MEMORY    NAME".to_owned(),
    ];
    lines.extend(tenant.clients.iter().map(client_line));
    lines.push(String::new());
    lines.push("RESIDENT WAITING   BLOCK     KERNEL".to_owned());
    let own = kernels.iter().filter(|kernel| kernel.tenant == tenant.name);
    lines.extend(own.map(kernel_line));
    lines
}

fn client_line(client: &ClientFacts) -> String {
    format!(
        "{:<7} {:<8} {:<7} {:<9} {}",
        client.id,
        client.credentials.pid,
        client.credentials.uid,
        units::bytes(client.memory_used_bytes),
        safe(&client.name)
    )
}

fn kernel_line(kernel: &KernelSnapshot) -> String {
    let name = match &kernel.kernel {
        Some(facts) => safe(&names::brief(&facts.name)),
        None if kernel.row.spill => "(several)".to_owned(),
        None => "(forgotten)".to_owned(),
    };
    let block_ns = Some(kernel.row.lasts_ns).filter(|ns| *ns > 0);
    format!(
        "{:<8} {:<9} {:<9} {name}",
        kernel.row.live,
        kernel.row.waiting,
        units::nanos(block_ns)
    )
}
