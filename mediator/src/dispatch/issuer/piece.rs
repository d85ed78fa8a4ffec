//! The next piece of an operation: whether it may go now, how it is cut ([`super::window`]), and how it is handed over.
//!
//! Rules: no tenant takes more lanes than its equal part, with a part for a tenant that may yet come; a tenant whose
//! launches keep ending at their budget waits until no other has one open, and one that is paused until it may go on.
//! Several launches of a stream may be on the device at once, in one lane, which keeps their order.

use super::Issuer;
use super::lanes::Flight;
use super::levels::Grade;
use super::queue::Active;
use super::submission::had_its_turn;
use super::window::{Behind, Piece, Situation, WINDOW_NS, starting_percent, two_slices_percent};
use crate::device::{Command, Device, LaneId, LaunchCommand, Level, Tag};
use crate::dispatch::admission::client::ClientSlot;
use crate::dispatch::admission::clients::ClientTable;
use crate::dispatch::admission::operation::{LaunchWork, Operation, Work};
use crate::dispatch::feed::PolicyFeed;
use crate::dispatch::feed::accounts::Accounts;
use crate::dispatch::feed::rows::{LastPiece, Row};
use crate::dispatch::feed::why::Why;
use gridmux_bpf::probes;
use gridmux_launch::Control;
use gridmux_launch::boxes::{Grid, SubBox, next_box};
use gridmux_policy::plan::Stop;
use gridmux_policy::shape::{Held, SmUnits};
use gridmux_policy::units::Nanos;

/// Result of one attempt to issue an operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::dispatch) enum Attempt {
    /// Something was issued.
    Issued,
    /// Cap, limit, budget or stream order hold it up: under a strict head of line nothing overtakes it.
    Blocked(Why),
    /// Its tenant holds its part of the lanes, has no turn left in this round, or has to wait for others; these may go
    /// on.
    NotItsTurn(Why),
    /// The device takes nothing more at present.
    DeviceFull(Why),
}

/// The next piece of a launch, as [`Issuer::cut`] finds it.
struct Cut {
    /// Level of a piece that goes to an empty lane.
    level: Level,
    /// None where nothing can go now.
    piece: Option<Piece>,
    /// It has begun, and that is because the plan has it give room up or wait for some.
    is_preempted: bool,
    /// Why nothing can go, where that is so.
    why: Why,
}

impl<D: Device> Issuer<D> {
    /// Hands the next piece of an operation over, if it may go now.
    pub(in crate::dispatch) fn try_issue<P>(
        &mut self,
        clients: &mut ClientTable<P>,
        feed: &mut PolicyFeed,
        active: Active,
        now: Nanos,
    ) -> Attempt {
        let operation = clients.operation(active.op());
        let Some((account, operation)) = feed.accounts.get(active.tenant).zip(operation) else {
            return Attempt::NotItsTurn(Why::Idle);
        };
        if account.is_paused() {
            return Attempt::NotItsTurn(Why::Paused);
        }
        let no_lane = self.lanes.free() == 0;
        let over_quota = account.lanes >= self.lanes_each(&feed.accounts);
        let Work::Launch(launch) = &operation.work else {
            return match (no_lane, over_quota) {
                (true, _) => Attempt::DeviceFull(Why::Queues),
                (_, true) => Attempt::NotItsTurn(Why::Queues),
                _ => self.issue_transfer(clients, feed, active, now),
            };
        };
        let (row, is_gang, wave) = (launch.row, launch.is_gang, launch.wave);
        if self.is_submitting(now) {
            return Attempt::DeviceFull(Why::Submission);
        }
        let waits = feed.accounts.waits_for_others(account, now);
        let had_its_turn = had_its_turn(feed, active.tenant, row);
        if waits {
            return Attempt::NotItsTurn(Why::Behind);
        }
        if had_its_turn {
            return Attempt::NotItsTurn(Why::Submission);
        }
        feed.announce(clients, active.op(), now);
        let kind = (active.tenant, is_gang);
        if let Some(kept_back) = self.gang.keep_back(kind, &feed.accounts, now) {
            if is_gang {
                feed.accounts.gangs.insert(active.tenant);
            }
            return kept_back;
        }
        let binds = feed.policy.row(row, active.tenant).binds(wave);
        let grades = self.grades(feed, (row, active, binds), now);
        if self.has_enough_ahead(feed, grades.0.level) {
            return Attempt::DeviceFull(Why::Order);
        }
        let Some(cut) = self.cut(clients, feed, active, grades) else {
            // Its own launches before it in its stream end first.
            return Attempt::Blocked(Why::Nothing);
        };
        let Some(piece) = cut.piece else {
            if cut.is_preempted {
                self.note_preempted(clients, active.op(), Nanos::ZERO, now);
            }
            return Attempt::Blocked(cut.why);
        };
        match piece.behind {
            None if no_lane => Attempt::DeviceFull(Why::Queues),
            None if over_quota => Attempt::NotItsTurn(Why::Queues),
            Some(lane) if !self.lanes.has_room(lane) => Attempt::Blocked(Why::Nothing),
            _ => self.issue_piece(clients, feed, active, (piece, cut.level, now)),
        }
    }

    /// Returns the lanes that each tenant may hold: equal parts, with one for a tenant that may yet come, which would
    /// otherwise wait for what never ends.
    fn lanes_each(&self, accounts: &Accounts) -> u32 {
        (self.lanes.count() / (accounts.wanting + 1)).max(1)
    }

    /// Cuts the next piece of a launch.
    fn cut<P>(
        &self,
        clients: &ClientTable<P>,
        feed: &PolicyFeed,
        active: Active,
        (grade, beyond): (Grade, Option<Grade>),
    ) -> Option<Cut> {
        let client = clients.get(active.slot)?;
        let operation = client.operations.get(active.id)?;
        let Work::Launch(launch) = &operation.work else {
            return None;
        };
        let account = feed.accounts.get(active.tenant);
        let (row, account) = feed.rows.get(launch.row).zip(account)?;
        let view = feed.policy.row(launch.row, active.tenant);
        let after = match before(client, launch) {
            None => None,
            // A gang has its turn when its blocks can start.
            Some(_) if launch.is_gang => return None,
            // Behind several lanes, or behind something that is no launch, it waits.
            Some(before) => Some(self.behind(one_lane(before)?, launch)),
        };
        // Where nothing binds, nothing is handed over beyond it; where something does, that bounds the backlog too.
        let is_alone = feed.accounts.busy.len() < 2;
        let stops = view.stop == Stop::Checked || view.binds(launch.wave);
        // What is lent is to harm nobody, and a gang keeps those back that lend it.
        let may_borrow = !launch.is_gang || view.limit == SmUnits::MAX;
        let beyond = beyond.filter(|_| may_borrow);
        let is_free = (grade.is_lent && may_borrow) || !stops;
        let ahead = match is_free || !launch.may_be_cut() {
            true => 0,
            false => self.ahead_percent(feed, row),
        };
        let is_asked = is_free || beyond.is_some() || row.is_unproven();
        let backlog = is_asked.then(|| self.lanes.backlog(active.tenant));
        let limit = view.limit.percent(100 + ahead);
        // Else a gang would wait for ever behind what its tenant's other launches borrow.
        let charged = match may_borrow {
            true => account.charged,
            false => Held::default(),
        };
        let situation = Situation {
            launch,
            row,
            view,
            is_free,
            limit_room: charged.room_within(&feed.shape, limit, &launch.shape),
            over_limit: account.charged.dominant(&feed.shape) > limit,
            ahead,
            in_flight: operation.in_flight,
            window_ns: match self.lends(feed) && !is_alone {
                true => self.slice_ns().min(WINDOW_NS),
                false => WINDOW_NS,
            },
            backlog: backlog.unwrap_or_default(),
            device: &feed.shape,
            after,
        };
        // A stream that is to go at another level goes there when its lane is empty.
        let may_follow = |level: Level| {
            after.is_none_or(|after| is_alone || self.lanes.level(after.lane) == level)
        };
        let within = may_follow(grade.level).then_some((grade.level, situation));
        let beyond =
            beyond.filter(|beyond| !self.is_enough(beyond.level) && may_follow(beyond.level));
        let lent = Situation {
            is_free: true,
            ..situation
        };
        let beyond = beyond.map(|beyond| (beyond.level, lent));
        let mut ways = within.into_iter().chain(beyond);
        let found = ways.find_map(|(level, way)| Some((level, way.next_piece()?)));
        let (level, piece) = found.unzip();
        Some(Cut {
            level: level.unwrap_or(grade.level),
            piece,
            is_preempted: piece.is_none() && situation.is_preempted(),
            why: piece.map_or_else(|| situation.why_no_piece(), |_| Why::Nothing),
        })
    }

    /// Returns what a row that can be cut may have on the device beyond cap and limit, as a part of these in percent.
    fn ahead_percent(&self, feed: &PolicyFeed, row: &Row) -> u64 {
        match self.lends(feed) {
            true => two_slices_percent(self.slice_ns(), row),
            false => starting_percent(self.slice_waits_ns(feed), row.lasts_ns()),
        }
    }

    fn behind(&self, lane: LaneId, launch: &LaunchWork) -> Behind {
        let last = self.lanes.last(lane);
        let last = last.filter(|last| last.row == Some(launch.row));
        Behind {
            lane,
            blocks: last.map_or(0, |last| last.blocks),
        }
    }

    fn issue_piece<P>(
        &mut self,
        clients: &mut ClientTable<P>,
        feed: &mut PolicyFeed,
        active: Active,
        (piece, level, now): (Piece, Level, Nanos),
    ) -> Attempt {
        let tenant = active.tenant;
        let preempts = piece.behind.is_none() && self.preempts(level, tenant);
        let Some(client) = clients.get_mut(active.slot) else {
            return Attempt::NotItsTurn(Why::Idle);
        };
        let Some(operation) = client.operations.get(active.id) else {
            return Attempt::NotItsTurn(Why::Idle);
        };
        let sequence = operation.sequence;
        let Work::Launch(launch) = &operation.work else {
            return Attempt::NotItsTurn(Why::Idle);
        };
        let slice = box_of(launch, &piece);
        // A box may hold fewer blocks than asked for.
        let blocks = u32::try_from(slice.blocks()).unwrap_or(u32::MAX);
        let block_ns = feed.rows.get(launch.row).map_or(0, Row::lasts_ns);
        let flight = Flight {
            row: Some(launch.row),
            shape: launch.shape,
            first_block: launch.issued,
            blocks,
            charge: piece.charge.min(blocks),
            block_ns,
            work_ns: block_ns.saturating_mul(blocks.into()) / u64::from(launch.wave.max(1)),
            is_fresh: piece.behind.is_none(),
            is_gang: launch.is_gang,
            preempts,
            admitted: active.admitted,
            ..Flight::new(active.op(), tenant, now)
        };
        let control = Control::slice(slice.offset, launch.grid).to_bytes();
        let control = launch.has_control.then_some(&control);
        let params = client.params.with_control(launch.params, control);
        let tag = match piece.behind {
            Some(lane) => self.lanes.append(lane, flight),
            None => self.lanes.take(flight, level),
        };
        let Some(tag) = tag else {
            return Attempt::DeviceFull(Why::Queues);
        };
        let command = Command::Launch(LaunchCommand {
            tag,
            level: self.lanes.level(tag.lane),
            launch: sequence,
            is_last: launch.issued + u64::from(blocks) == launch.blocks,
            domain: client.domain,
            kernel: launch.kernel,
            grid: slice.dims,
            first_block: slice.offset,
            block: launch.block,
            dynamic_shared_bytes: launch.dynamic_shared_bytes,
            is_cooperative: launch.is_cooperative,
            budget_cycles: self.budget_cycles,
            params_bytes: u32::try_from(params.len()).unwrap_or(u32::MAX),
        });
        if self.device.submit(&command, params).is_err() {
            self.lanes.release(tag);
            return Attempt::DeviceFull(Why::Queues);
        }
        if flight.is_gang {
            self.gang.begin(tag, tenant, now);
        }
        self.count_issued(clients, feed, (tag, &flight), now);
        Attempt::Issued
    }

    fn count_issued<P>(
        &mut self,
        clients: &mut ClientTable<P>,
        feed: &mut PolicyFeed,
        (tag, flight): (Tag, &Flight),
        now: Nanos,
    ) {
        let wall_ns = self.issue_wall_ns();
        let (tenant, blocks) = (flight.tenant, u64::from(flight.blocks));
        self.take_turn(feed, tenant, flight.row);
        if let Some(account) = feed.accounts.get_mut(tenant) {
            account.counters.slice();
            account.charged.add(&flight.shape, flight.charge);
        }
        feed.accounts.change(tenant, 0, flight.is_fresh.into());
        if let Some(row) = flight.row.and_then(|row| feed.rows.get_mut(row)) {
            row.charged += flight.charge;
            row.slices += u32::from(flight.is_fresh);
            row.starts += blocks;
        }
        let Some((_, operation)) = clients.operation_mut(flight.op) else {
            return;
        };
        operation.note_issued_piece(wall_ns);
        if let Work::Launch(launch) = &mut operation.work {
            launch.issued += blocks;
            launch.lanes |= 1 << tag.lane.0;
            if let Some(row) = feed.rows.get_mut(launch.row) {
                row.last_piece = Some(LastPiece {
                    blocks: flight.blocks,
                    launch_blocks: launch.blocks,
                    work_ns: flight.work_ns,
                });
            }
            let args = operation.probe_args(tenant, self.device_id, now.0);
            probes::slice_start(args, flight.first_block, blocks);
        }
    }
}

/// Returns the operation before a launch in its stream, if it was on the device when the launch became active and still
/// is.
fn before<'a, P>(client: &'a ClientSlot<P>, launch: &LaunchWork) -> Option<&'a Operation> {
    let (id, sequence) = launch.after?;
    let before = client.operations.get(id)?;
    (before.sequence == sequence && before.in_flight > 0).then_some(before)
}

/// Returns the blocks of a piece, as a box of the grid.
fn box_of(launch: &LaunchWork, piece: &Piece) -> SubBox {
    match u64::from(piece.blocks) == launch.blocks {
        true => SubBox {
            offset: [0; 3],
            dims: launch.grid,
        },
        false => next_box(Grid(launch.grid), launch.issued, piece.blocks),
    }
}

/// Returns the lane of a launch that is in one lane only.
pub(super) fn one_lane(operation: &Operation) -> Option<LaneId> {
    let Work::Launch(launch) = &operation.work else {
        return None;
    };
    let lane = u8::try_from(launch.lanes.trailing_zeros()).ok()?;
    (launch.lanes.count_ones() == 1).then_some(LaneId(lane))
}
