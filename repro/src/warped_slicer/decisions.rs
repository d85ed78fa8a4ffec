//! What the policy decides for a pair, when, and from which curves.

use super::kernels::Setting;
use crate::context::Context;
use crate::model::submission;
use anyhow::{Context as _, Result};
use gridmux_hw_model::Gpu;
use gridmux_mix::model::ModelDriver;
use gridmux_mix::{DriverOptions, Engine};
use gridmux_policy::policies::warped_slicer::{Settings, WarpedSlicer};
use gridmux_policy::units::Cycles;
use gridmux_policy::water_filling::Sliced;
use gridmux_policy::{Class, DeviceId, Event, Nanos, Plan, Policy, RowId, TenantId};
use serde::{Deserialize, Serialize};
use std::sync::mpsc::{Sender, channel};

/// By then a decision is made, in cycles.
const LATEST: Cycles = Cycles(1_000_000);

/// What was decided.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub(super) struct Decision {
    /// Cycles from the arrival of both to the decision.
    pub(super) cycles: u64,
    /// Blocks of both on an SM; none where they have SMs of their own.
    pub(super) blocks: Option<[u16; 2]>,
    /// The curves of both.
    pub(super) curves: [Vec<f64>; 2],
}

/// Decides for pairs, with what is known of a decision kept in a store.
pub(super) fn all(
    context: &Context,
    setting: &Setting,
    settings: Settings,
    pairs: &[(usize, usize)],
) -> Result<Vec<Decision>> {
    let key = |pair: &(usize, usize)| {
        let kernels = (setting.kernels[pair.0].key(), setting.kernels[pair.1].key());
        format!("{kernels:?} with {settings:?} on {:?}", setting.gpu)
    };
    context.runs("decisions", pairs, key, |pair| {
        decide(setting, settings, [pair.0, pair.1])
            .with_context(|| format!("deciding for {}", setting.name(*pair)))
    })
}

/// Runs a pair until the policy has decided.
fn decide(setting: &Setting, settings: Settings, pair: [usize; 2]) -> Result<Decision> {
    let mut gpu = Gpu::new(setting.gpu.clone());
    let mut launches = Vec::new();
    for (queue, place) in (0..).zip(pair) {
        launches.push(submission(&mut gpu, setting.kernels[place].case()?, queue)?);
    }
    let (sender, decisions) = channel();
    let inner = WarpedSlicer::new(DeviceId(0), &Engine::shape(&gpu), settings);
    let policy = Box::new(Watched {
        inner,
        sender: Some(sender),
    });
    let mut driver = ModelDriver::new(gpu, policy, DeviceId(0), DriverOptions::default());
    for (tenant, launch) in (0..).map(TenantId).zip(&launches) {
        driver.tenant(tenant, 1, Class::Normal);
        driver.submit(tenant, launch.clone(), Cycles(0))?;
    }
    while driver.engine().now() < LATEST {
        for number in driver.run_to_an_end(driver.engine().now() + Cycles(5_000)) {
            let outcome = driver.outcome(number).context("it was submitted")?;
            let tenant = outcome.tenant;
            let launch = launches[tenant.index()].clone();
            driver.submit(tenant, launch, driver.engine().now())?;
        }
        if let Ok((at, decision)) = decisions.try_recv() {
            let cycles = driver.engine().cycle(at).0;
            return Ok(Decision { cycles, ..decision });
        }
    }
    anyhow::bail!("nothing was decided in {LATEST}")
}

/// The policy, which says what it has decided.
struct Watched {
    inner: WarpedSlicer,
    /// Takes the first decision for both, and when it was made.
    sender: Option<Sender<(Nanos, Decision)>>,
}

impl Policy for Watched {
    fn observe(&mut self, event: &Event) {
        self.inner.observe(event);
    }

    fn replan(&mut self, now: Nanos, standing: &Plan, next: &mut Plan) -> bool {
        let plans = self.inner.replan(now, standing, next);
        let Some((sliced, rows)) = self.inner.decision() else {
            return plans;
        };
        let rows: Vec<(RowId, u16)> = rows.collect();
        if let [one, other] = &rows[..]
            && let Some(sender) = self.sender.take()
        {
            let blocks = [one.1, other.1];
            let together = matches!(sliced, Sliced::Together { .. });
            let decision = Decision {
                cycles: 0,
                blocks: together.then_some(blocks),
                curves: [one.0, other.0].map(|row| self.inner.curve(row).to_vec()),
            };
            // Who waits for it may have given up.
            let _ = sender.send((now, decision));
        }
        plans
    }

    fn wake_at(&self) -> Option<Nanos> {
        self.inner.wake_at()
    }
}
