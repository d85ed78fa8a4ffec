//! Gates and workers whose caps are rewritten, and which are stopped and go on, while they run.
//!
//! Rules: what is done to an instance is drawn from a seed; when that happens is the device's time. So whether a stop
//! comes before an instance's end is luck, but some of a whole run must.

use super::Part;
use super::workloads::judge;
use crate::cuda::CudaError;
use crate::formed::{Formed, On, Stage};
use crate::lab::Lab;
use gridmux_ptx::control::Taking;
use gridmux_ptx::forms::{Form, Shape};
use gridmux_ptx::protocol::{Instance, Manner};
use gridmux_workloads::{Case, Prng, Size, workloads};

pub(super) const PART: Part = Part {
    name: "stops",
    about: "gates and workers stopped and resumed, with caps rewritten, while they run",
    limit_s: 120,
    run,
};

/// Workloads of a quick run: with and without shared memory, barriers, atomics, and rows of blocks.
const QUICK: [&str; 5] = ["vecadd", "matmul", "histogram", "stencil3d", "reduction"];

/// How often instances were stopped.
#[derive(Debug, Clone, Copy, Default)]
struct Stops {
    all: u32,
    /// Those that were waited for, and behind which blocks were left to run.
    midway: u32,
}

/// What is done to an instance while it runs.
struct Disturbance {
    random: Prng,
    /// How many more times something is done to it.
    left: u32,
    stops: Stops,
    /// Caps that bind nobody.
    caps: Vec<u32>,
}

impl Disturbance {
    fn new(seed: u64, left: u32, formed: &Formed<'_>) -> Self {
        Self {
            random: Prng::new(seed),
            left,
            stops: Stops::default(),
            caps: vec![formed.per_sm; formed.caps() as usize],
        }
    }

    /// Does one thing to it; the last is to take everything back.
    fn strike(&mut self, instance: &mut Instance, on: &mut On<'_>) -> Result<(), CudaError> {
        match self.left {
            0 => return Ok(()),
            1 => {
                instance.set_caps(on, &self.caps.clone())?;
                instance.resume(on)?;
            }
            _ => match self.random.next_u64() % 4 {
                0 if !instance.is_stopped() => {
                    self.stops.all += 1;
                    instance.stop(on)?;
                    // The first stop and every other one is waited for, so that nothing of it is on the device.
                    if !self.stops.all.is_multiple_of(2) {
                        on.drain(instance)?;
                        self.stops.midway += u32::from(!instance.has_ended());
                    }
                }
                0 | 1 => instance.resume(on)?,
                2 => {
                    let random = &mut self.random;
                    let cap = |most: &u32| {
                        u32::try_from(random.next_u64() % u64::from(most + 1)).unwrap_or(0)
                    };
                    let caps: Vec<u32> = self.caps.iter().map(cap).collect();
                    instance.set_caps(on, &caps)?;
                }
                _ => {}
            },
        }
        self.left -= 1;
        Ok(())
    }
}

fn run(lab: &mut Lab<'_>) -> anyhow::Result<()> {
    let size = lab.scale.choose(Size::Tiny, Size::Small);
    let mut midway = 0;
    for workload in workloads() {
        if lab.scale.choose(QUICK.contains(&workload.name), true) {
            midway += one(lab, &workload.case(size, 21))?;
        }
    }
    lab.check(
        "instances were stopped before their end",
        midway > 0,
        format!("{midway} stops with blocks left to run"),
    );
    Ok(())
}

/// Disturbs one workload in each of its forms; returns how many stops left blocks to run.
fn one(lab: &mut Lab<'_>, case: &Case) -> anyhow::Result<u32> {
    let mut midway = 0;
    let stage = Stage::new(lab.cuda, case)?;
    let rounds = lab.scale.choose(1, 4);
    let strikes = lab.scale.choose(8, 40);
    for form in Form::ALL {
        let formed = match (form.shape, stage.form(form)?) {
            (Shape::Gate | Shape::Worker, Ok(formed)) => formed,
            // The part on workloads tells of refusals.
            _ => continue,
        };
        for (taking, chunk) in [(Taking::Ahead, 2), (Taking::Warily, 1)] {
            if form.shape == Shape::Gate && taking == Taking::Warily {
                continue;
            }
            let mut stops = 0;
            for round in 0..rounds {
                stage.reset()?;
                let window = stage.work.blocks().div_ceil(3);
                let host = formed.host(window, Manner { chunk, taking })?;
                let Some(host) = host else { continue };
                let mut disturbance = Disturbance::new(round, strikes, &formed);
                formed.drive(host, &mut |instance, on| disturbance.strike(instance, on))?;
                stops += disturbance.stops.all;
                midway += disturbance.stops.midway;
                let how = format!("{form}, tickets {taking:?}, round {round}").to_lowercase();
                judge(lab, case, &how, &stage.outputs()?, None);
            }
            let name = format!("{}/{form}, tickets {taking:?}", case.workload).to_lowercase();
            lab.figure(format!("{name}: stops"), f64::from(stops), "stops");
        }
        formed.unload()?;
    }
    stage.clear()?;
    Ok(midway)
}
