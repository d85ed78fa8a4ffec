//! Plans for tests, and runs whose blocks are switched out and in at random.
//!
//! Rule: what a switch must move is computed here from the launch, another way than the model does it.

use super::{Bench, part_of};
use gridmux_hw_model::device_shape;
use gridmux_hw_model::{
    Advance, BlockChange, BlockEvent, Counters, GpuConfig, Kernel, Launch, Report, Standing,
};
use gridmux_policy::ids::{DeviceId, RowId, SmId, TenantId};
use gridmux_policy::plan::{
    Cell, DispatchOrder, Group, Plan, PlanRow, Preemption, QuotaRule, Surplus, TenantLimit,
};
use gridmux_policy::plan_builder::PlanBuilder;
use gridmux_policy::shape::{BlockShape, SmUnits};
use gridmux_policy::sm_set::SmSet;
use gridmux_policy::units::Cycles;
use gridmux_testkit::kernels::BUSY;
use gridmux_workloads::Prng;
use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZeroU16;

/// One group of a plan.
#[derive(Debug, Clone)]
pub struct GroupOf {
    pub sms: SmSet,
    pub order: DispatchOrder,
    pub preemption: Preemption,
    pub head_of_line: bool,
    pub surplus: Surplus,
}

/// A row, and what it gets on each group: as many cells as groups, or one for all.
#[derive(Debug, Clone)]
pub struct Row {
    pub row: PlanRow,
    pub cells: Vec<Cell>,
}

/// A tenant's limits: on the device, and on each group.
#[derive(Debug, Clone)]
pub struct Limit {
    pub tenant: TenantId,
    pub device: SmUnits,
    pub groups: Vec<SmUnits>,
}

impl Row {
    pub fn of_tenant(mut self, tenant: TenantId) -> Self {
        self.row.tenant = tenant;
        self
    }

    pub fn budget(mut self, budget: u64) -> Self {
        self.row.budget = Some(budget);
        self
    }

    pub fn rank(mut self, rank: u32) -> Self {
        self.row.rank = rank;
        self
    }
}

/// Returns a row of the first tenant with no start budget, ranked by its number; a weight of 0 is none.
pub fn row(row: RowId, cap: u16, weight: u16) -> Row {
    Row {
        row: PlanRow {
            row,
            tenant: TenantId(0),
            rank: row.0,
            stop: gridmux_policy::Stop::Checked,
            budget: None,
        },
        cells: vec![Cell {
            cap,
            weight: NonZeroU16::new(weight),
        }],
    }
}

/// Returns the launch's row, of the first tenant.
pub fn standing(row: RowId) -> Standing {
    Standing {
        row,
        tenant: TenantId(0),
    }
}

/// Returns a group over all SMs, filled in order of rank.
pub fn all(config: &GpuConfig, preemption: Preemption) -> GroupOf {
    GroupOf {
        sms: SmSet::first(config.sm.count),
        order: DispatchOrder::Rank,
        preemption,
        head_of_line: false,
        surplus: Surplus::Idle,
    }
}

/// Returns a plan of these groups, rows and limits.
pub fn plan_of(
    config: &GpuConfig,
    groups: &[GroupOf],
    rows: &[Row],
    limits: &[Limit],
    rule: QuotaRule,
) -> Plan {
    let mut plan = Plan::default();
    let mut builder = PlanBuilder::new(&mut plan, DeviceId(0), &device_shape(config));
    builder.quota(rule);
    let groups = groups.iter().map(|group| {
        builder.group(Group {
            sms: group.sms,
            order: group.order,
            preemption: group.preemption,
            head_of_line: group.head_of_line,
            surplus: group.surplus,
        })
    });
    let groups: Vec<_> = groups.collect();
    for row in rows {
        let place = builder.standby_row(row.row, row.cells[0]);
        for (group, cell) in groups.iter().zip(&row.cells) {
            builder.cell(*group, place, *cell);
        }
    }
    for limit in limits {
        let place = builder.limit(TenantLimit {
            tenant: limit.tenant,
            device: limit.device,
        });
        for (group, units) in groups.iter().zip(&limit.groups) {
            builder.group_limit(*group, place, *units);
        }
    }
    let done = builder.finish(&Plan::default(), |_| BlockShape::default());
    done.expect("a plan");
    plan
}

/// Returns a plan with one group that gives these rows to all SMs.
pub fn plan(config: &GpuConfig, preemption: Preemption, rows: &[Row]) -> Plan {
    let groups = [all(config, preemption)];
    plan_of(config, &groups, rows, &[], QuotaRule::default())
}

/// Returns bytes of one block's context: "register contents" and "shared memory values" (SMK, section 5.1, step 3), as
/// they are allocated: for each warp the registers of 32 threads, 4 bytes each, rounded up to the allocation unit, and
/// the block's static, dynamic and reserved shared memory, rounded up to its unit.
pub fn context_bytes(config: &GpuConfig, kernel: &Kernel, launch: &Launch<'_>) -> u64 {
    let threads: u32 = launch.block.iter().product();
    let round = |n: u64, unit: u32| n.div_ceil(u64::from(unit)) * u64::from(unit);
    let warps = u64::from(threads).div_ceil(32);
    let of_warp = round(
        u64::from(kernel.registers_per_thread) * 32,
        config.sm.register_unit,
    );
    let shared = u64::from(kernel.static_shared_bytes)
        + u64::from(launch.dynamic_shared_bytes)
        + u64::from(config.sm.reserved_shared_bytes_per_block);
    warps * of_warp * 4 + round(shared, config.sm.shared_unit_bytes)
}

/// Checks one launch's block events: every block is placed once, in ascending order, and retired once; between the
/// two it leaves and comes back by turns, and each move takes exactly `bytes`; none is started while one of the
/// launch waits to come back. Gives the number of moves each way and the most moves of one block.
pub fn check_events(events: &[BlockEvent], blocks: u64, bytes: u64) -> [u64; 3] {
    let (mut placed, mut retired) = (0, BTreeSet::new());
    let (mut away, mut here) = (BTreeSet::new(), BTreeSet::new());
    let mut moves: BTreeMap<u64, [u64; 2]> = BTreeMap::new();
    for event in events {
        let block = event.block;
        match event.change {
            BlockChange::Placed => {
                assert_eq!(block, placed, "blocks start in ascending order");
                assert!(
                    away.is_empty(),
                    "block {block} starts before {away:?} are back"
                );
                placed += 1;
                here.insert(block);
            }
            BlockChange::SwitchedOut { bytes: moved } => {
                assert_eq!(moved, bytes, "block {block} leaves");
                assert!(here.remove(&block) && away.insert(block));
                moves.entry(block).or_default()[0] += 1;
            }
            BlockChange::SwitchedIn { bytes: moved } => {
                assert_eq!(moved, bytes, "block {block} comes back");
                assert_eq!(Some(&block), away.first(), "the lowest comes back first");
                assert!(away.remove(&block) && here.insert(block));
                moves.entry(block).or_default()[1] += 1;
            }
            BlockChange::Retired { .. } => {
                assert!(here.remove(&block) && retired.insert(block));
            }
        }
    }
    assert_eq!((placed, retired.len() as u64), (blocks, blocks));
    let sum = |way: usize| moves.values().map(|moves| moves[way]).sum();
    let most = moves.values().map(|moves| moves[0]).max();
    [sum(0), sum(1), most.unwrap_or(0)]
}

/// How often, and how many at most.
#[derive(Debug, Clone, Copy)]
pub struct Disturbance {
    /// Most cycles between two attempts.
    pub gap: u32,
    /// Most blocks that leave in the whole run.
    pub most: u64,
}

/// What a disturbed launch came to.
#[derive(Debug, PartialEq)]
pub struct Disturbed {
    pub cycles: u64,
    pub counters: Counters,
    /// Most switches of one block.
    pub most_of_one: u64,
}

/// Runs a launch alone in `plan` mode while random blocks are switched out at random cycles, and checks each move.
/// The bench's plan is set and its events are recorded. `bytes` is what each move takes.
pub fn disturbed(
    bench: &mut Bench,
    (launch, bytes): (Launch<'_>, u64),
    disturbance: Disturbance,
    dice: &mut Prng,
) -> Result<Disturbed, String> {
    let blocks = launch.grid.iter().map(|n| u64::from(*n)).product();
    let accepted = bench.gpu.launch_under(standing(RowId(1)), launch);
    accepted.map_err(|error| error.to_string())?;
    let (mut reports, mut events, mut asked) = (Vec::new(), Vec::new(), 0);
    let sms = u32::from(bench.gpu.config().sm.count);
    let limit = bench.gpu.now().0 + 50_000_000;
    loop {
        let until = bench.gpu.now().0 + 1 + u64::from(dice.below(disturbance.gap));
        let advance = bench.gpu.advance(Cycles(until), &mut reports);
        events.append(&mut bench.gpu.take_block_events());
        for report in reports.drain(..) {
            match report {
                Report::Ended { end, counters, .. } => {
                    let [outs, ins, most_of_one] = check_events(&events, blocks, bytes);
                    assert_eq!([outs, ins], [counters.switches_out, counters.switches_in]);
                    assert_eq!(counters.context_written_bytes, outs * bytes);
                    assert_eq!(counters.context_read_bytes, ins * bytes);
                    assert_eq!([outs, bench.gpu.switched_blocks() as u64], [ins, 0]);
                    return Ok(Disturbed {
                        cycles: end.0,
                        counters,
                        most_of_one,
                    });
                }
                Report::Faulted { fault, .. } => return Err(fault.to_string()),
                _ => {}
            }
        }
        if advance == Advance::Idle || bench.gpu.now().0 > limit {
            return Err(format!("it does not end: {advance:?}"));
        }
        for _ in 0..1 + dice.below(4) {
            let sm = SmId(u16::try_from(dice.below(sms)).expect("small"));
            if asked < disturbance.most && bench.gpu.switch_out(sm, dice.below(4) as usize) {
                asked += 1;
            }
        }
    }
}

/// A launch of [`BUSY`].
#[derive(Debug, Clone, Copy)]
pub struct Busy {
    pub tag: u64,
    pub row: RowId,
    pub tenant: TenantId,
    pub blocks: u32,
    pub threads: u32,
    pub rounds: u32,
    pub shared_bytes: u32,
    pub budget: Option<Cycles>,
}

impl Default for Busy {
    fn default() -> Self {
        Self {
            tag: 1,
            row: RowId(1),
            tenant: TenantId(0),
            blocks: 1,
            threads: 64,
            rounds: 1000,
            shared_bytes: 0,
            budget: None,
        }
    }
}

impl Busy {
    /// Returns a launch of `blocks` blocks.
    pub fn blocks(blocks: u32) -> Self {
        Self {
            blocks,
            ..Self::default()
        }
    }

    /// Returns the same with this many rounds of the loop.
    pub fn rounds(self, rounds: u32) -> Self {
        Self { rounds, ..self }
    }
}

/// A GPU of a few SMs in `plan` mode, and everything that it said.
pub struct Stage {
    pub bench: Bench,
    pub kernel: std::sync::Arc<Kernel>,
    pub reports: Vec<Report>,
    pub events: Vec<BlockEvent>,
}

impl Stage {
    /// Returns a gtx480 of `sms` SMs under a plan.
    pub fn new(sms: u16, plan: impl FnOnce(&GpuConfig) -> Plan) -> Self {
        Self::on(part_of("gtx480", sms), plan)
    }

    /// Returns the same GPU without a front end: schedulers and quotas alone decide who issues.
    pub fn without_front_end(sms: u16, plan: impl FnOnce(&GpuConfig) -> Plan) -> Self {
        let mut config = part_of("gtx480", sms);
        config.fetch = None;
        Self::on(config, plan)
    }

    /// Returns any GPU under a plan.
    pub fn on(config: GpuConfig, plan: impl FnOnce(&GpuConfig) -> Plan) -> Self {
        let mut bench = Bench::new(config);
        let kernel = bench.kernel(BUSY, "busy");
        let plan = plan(bench.gpu.config());
        bench.gpu.set_plan(&plan);
        bench.gpu.record_block_events(true);
        Self {
            bench,
            kernel,
            reports: Vec::new(),
            events: Vec::new(),
        }
    }

    /// Obeys another plan.
    pub fn plan(&mut self, plan: impl FnOnce(&GpuConfig) -> Plan) {
        let plan = plan(self.bench.gpu.config());
        self.bench.gpu.set_plan(&plan);
    }

    /// Submits a launch; every tag has a queue of its own.
    pub fn launch(&mut self, busy: Busy) {
        let params = busy.rounds.to_le_bytes();
        let mut launch = self
            .bench
            .simple(&self.kernel, busy.blocks, busy.threads, &params);
        launch.tag = busy.tag;
        launch.queue = gridmux_hw_model::QueueId(u8::try_from(busy.tag).expect("small"));
        launch.dynamic_shared_bytes = busy.shared_bytes;
        launch.budget = busy.budget;
        let accepted = self.bench.gpu.launch_under(
            Standing {
                row: busy.row,
                tenant: busy.tenant,
            },
            launch,
        );
        accepted.expect("accepted");
    }

    /// Launches the same under each row, in this order, with tags from 1.
    pub fn launch_each(&mut self, busy: Busy, rows: [RowId; 2]) {
        for (tag, row) in (1..).zip(rows) {
            self.launch(Busy { tag, row, ..busy });
        }
    }

    /// Lets time pass until a cycle, or until nothing is left to do.
    pub fn until(&mut self, cycle: u64) {
        loop {
            let advance = self.bench.gpu.advance(Cycles(cycle), &mut self.reports);
            self.events.append(&mut self.bench.gpu.take_block_events());
            if advance != Advance::Reported {
                return;
            }
        }
    }

    /// Lets `cycles` cycles pass.
    pub fn pass(&mut self, cycles: u64) {
        self.until(self.bench.gpu.now().0 + cycles);
    }

    /// Lets everything that was launched end, in good order.
    pub fn finish(&mut self) {
        for _ in 0..10_000 {
            self.pass(10_000);
            if self.bench.gpu.idle() {
                break;
            }
        }
        assert!(self.bench.gpu.idle());
        let faulted = |r: &&Report| matches!(r, Report::Faulted { .. });
        assert_eq!(self.reports.iter().find(faulted), None);
    }

    /// Returns what a launch did, and when it ended.
    pub fn ended(&self, tag: u64) -> Option<(u64, Counters)> {
        self.reports.iter().find_map(|report| match report {
            Report::Ended {
                tag: other,
                end,
                counters,
                ..
            } if *other == tag => Some((end.0, *counters)),
            _ => None,
        })
    }

    /// Events of one kind, in order.
    pub fn those(&self, which: impl Fn(BlockChange) -> bool) -> Vec<BlockEvent> {
        let found = self.events.iter().filter(|e| which(e.change));
        found.copied().collect()
    }

    pub fn placed(&self) -> Vec<BlockEvent> {
        self.those(|change| change == BlockChange::Placed)
    }

    pub fn switched_out(&self) -> Vec<BlockEvent> {
        self.those(|change| matches!(change, BlockChange::SwitchedOut { .. }))
    }

    pub fn switched_in(&self) -> Vec<BlockEvent> {
        self.those(|change| matches!(change, BlockChange::SwitchedIn { .. }))
    }
}
