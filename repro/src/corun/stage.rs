//! One run: the driver, the programs' launches, and what is counted of them.

use super::{Corun, Progress, Ran, Until};
use anyhow::{Context as _, Result, anyhow, bail, ensure};
use gridmux_hw_model::{BlockChange, Gpu, PlanOptions, QueueId};
use gridmux_mix::model::{ModelDriver, OwnKernel};
use gridmux_mix::{DriverOptions, Engine};
use gridmux_policy::ids::RowId;
use gridmux_policy::units::Cycles;
use gridmux_policy::{Class, DeviceId, Profiles, TenantId};
use std::collections::BTreeMap;

/// Where programs end by their instructions, these are counted so often, in cycles.
const COUNT_EVERY: u64 = 1_000;

/// A program under way.
struct Program {
    kernels: Vec<OwnKernel>,
    /// Launches submitted.
    submitted: u64,
    progress: Progress,
    is_done: bool,
}

/// A run under way.
struct Stage {
    driver: ModelDriver,
    programs: Vec<Program>,
    /// By number of the launch: its program.
    owners: Vec<usize>,
    /// Programs of the rows that launches ran under.
    rows: BTreeMap<RowId, usize>,
}

/// Runs programs together.
pub(super) fn run(corun: &Corun) -> Result<Ran> {
    let mut stage = Stage::new(corun)?;
    for program in 0..stage.programs.len() {
        stage.submit(program)?;
    }
    match &corun.until {
        Until::Cycles(cycles) => stage.run_until(*cycles)?,
        Until::Instructions { each, latest } => stage.run_instructions(each, *latest)?,
    }
    if let Some(failure) = stage.driver.policy_failure() {
        bail!("the policy failed: {failure}");
    }
    let programs = stage.programs.into_iter().map(|program| program.progress);
    let programs: Vec<Progress> = programs.collect();
    Ok(Ran {
        cycles: programs.iter().map(|p| p.cycles).max().unwrap_or(0),
        plans: stage.driver.counters().plans,
        programs,
    })
}

impl Stage {
    fn new(corun: &Corun) -> Result<Self> {
        let mut gpu = Gpu::new(corun.gpu.clone());
        let (device, shape) = (DeviceId(0), Engine::shape(&gpu));
        let mut programs = Vec::new();
        for (queue, kernels) in (0..).map(QueueId).zip(&corun.programs) {
            ensure!(!kernels.is_empty(), "a program has no kernels");
            let load = |kernel: &crate::model::Sized| {
                Ok(OwnKernel::load(&mut gpu, kernel.case()?, queue)?)
            };
            programs.push(Program {
                kernels: kernels.iter().map(load).collect::<Result<_>>()?,
                submitted: 0,
                progress: Progress::default(),
                is_done: false,
            });
        }
        let profiles = Profiles::default();
        let (policy, learns) = corun.policy.policy(device, &shape, &profiles)?;
        let options = DriverOptions {
            record: true,
            sample_every: Cycles(corun.sample_every),
            ..DriverOptions::default()
        };
        let mut driver = ModelDriver::new(gpu, policy, device, options);
        driver.engine_mut().set_plan_options(PlanOptions {
            free_switches: corun.free_switches,
        });
        if learns {
            driver.learn(&profiles);
        }
        for (tenant, _) in (0..).map(TenantId).zip(&programs) {
            driver.tenant(tenant, 1, Class::Normal);
        }
        Ok(Self {
            driver,
            programs,
            owners: Vec::new(),
            rows: BTreeMap::new(),
        })
    }

    /// Submits the next launch of a program, which arrives at once.
    fn submit(&mut self, place: usize) -> Result<()> {
        let program = &mut self.programs[place];
        let kernels = program.kernels.len() as u64;
        let kernel = &program.kernels[usize::try_from(program.submitted % kernels)?];
        program.submitted += 1;
        let (tenant, now) = (TenantId(u32::try_from(place)?), self.driver.engine().now());
        let submission = kernel.submission.clone();
        self.driver.submit(tenant, submission, now)?;
        self.owners.push(place);
        Ok(())
    }

    /// Lets programs run until a cycle.
    fn run_until(&mut self, until: u64) -> Result<()> {
        while self.now() < until {
            self.pass(until)?;
        }
        for place in 0..self.programs.len() {
            self.close(place);
        }
        Ok(())
    }

    /// Lets programs run until each has issued its instructions.
    fn run_instructions(&mut self, each: &[u64], latest: u64) -> Result<()> {
        ensure!(each.len() == self.programs.len(), "a number for each");
        while self.programs.iter().any(|program| !program.is_done) {
            ensure!(self.now() < latest, "not done in {latest} cycles");
            self.pass((self.now() + COUNT_EVERY).min(latest))?;
            let issued = self.issued();
            for (place, least) in each.iter().enumerate() {
                if !self.programs[place].is_done && issued[place] >= *least {
                    self.close(place);
                    let tenant = TenantId(u32::try_from(place)?);
                    self.driver.end_tenant(tenant);
                }
            }
        }
        Ok(())
    }

    fn now(&self) -> u64 {
        self.driver.engine().now().0
    }

    /// Lets time pass until a launch has ended, or until a cycle, and starts again what has ended.
    fn pass(&mut self, until: u64) -> Result<()> {
        let ended = self.driver.run_to_an_end(Cycles(until));
        self.count_blocks();
        if ended.is_empty() {
            ensure!(self.now() >= until, "the policy gives launches no room");
        }
        for number in ended {
            let place = self.owners[usize::try_from(number)?];
            let outcome = self.driver.outcome(number);
            let outcome = outcome.context("it was submitted")?;
            if let Some(error) = &outcome.error {
                bail!("a launch failed: {error}");
            }
            self.rows.extend(outcome.row.map(|row| (row, place)));
            let program = &mut self.programs[place];
            if program.is_done {
                continue;
            }
            program.progress.launches += 1;
            let kernels = program.kernels.len() as u64;
            let kernel = usize::try_from((program.submitted - 1) % kernels)?;
            let kernel = &mut program.kernels[kernel];
            kernel.judge(self.driver.engine_mut())?;
            if let Some(wrong) = kernel.wrong() {
                return Err(anyhow!("wrong results: {wrong}"));
            }
            self.submit(place)?;
        }
        Ok(())
    }

    /// Counts what happened to blocks.
    fn count_blocks(&mut self) {
        for event in self.driver.take_block_events() {
            let owner = usize::try_from(event.tag).ok();
            let Some(place) = owner.and_then(|number| self.owners.get(number)) else {
                continue;
            };
            self.rows.insert(event.row, *place);
            let program = &mut self.programs[*place];
            if program.is_done {
                continue;
            }
            let progress = &mut program.progress;
            match event.change {
                BlockChange::Placed => {}
                BlockChange::Retired { .. } => progress.blocks += 1,
                BlockChange::SwitchedOut { bytes } => {
                    progress.switched_out += 1;
                    progress.switched_bytes += bytes;
                }
                BlockChange::SwitchedIn { bytes } => progress.switched_bytes += bytes,
            }
        }
    }

    /// Returns how many warp instructions each program has issued.
    fn issued(&self) -> Vec<u64> {
        let mut issued = vec![0; self.programs.len()];
        for sample in Engine::samples(self.driver.engine()) {
            if let Some(place) = self.rows.get(&sample.row) {
                issued[*place] += sample.issued;
            }
        }
        issued
    }

    /// Takes down how far a program came.
    fn close(&mut self, place: usize) {
        let mut counters = gridmux_hw_model::Counters::default();
        for sample in self.driver.engine().samples() {
            if self.rows.get(&sample.row) == Some(&place) {
                counters += sample.counters;
            }
        }
        let (cycles, issued) = (self.now(), self.issued()[place]);
        let program = &mut self.programs[place];
        program.is_done = true;
        program.progress.cycles = cycles;
        program.progress.instructions = issued;
        let named = counters.named().into_iter();
        program.progress.counters = named.map(|(name, n)| (name.to_owned(), n)).collect();
    }
}
