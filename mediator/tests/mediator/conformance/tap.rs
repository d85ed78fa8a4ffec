//! Stands between a dispatcher and its device: keeps what really happened to blocks, and submits launches in time.
//!
//! Rules: blocks are seen where the device reports them, before the dispatcher hears of it, so nothing that the
//! dispatcher makes of a report is part of the truth. A stock device does not say on which SM a block is, nor which
//! block of a piece: they count in order. Permits are cut short at the next submission, so that each is found at its
//! time.

use gridmux_channel::ring::queue::Corrupt;
use gridmux_channel::ring::{
    CompletionEntry, CompletionStatus, Launch, Operation, PushError, RingError, SubmissionEntry,
    TenantState,
};
use gridmux_mediator::device::{
    Busy, Command, Device, DeviceKernelId, DeviceReport, LaunchCommand, Submission,
};
use gridmux_mediator::dispatch::port::TenantPort;
use gridmux_policy::conformance::{BlockSeen, Change, Load};
use gridmux_policy::units::Nanos;
use std::cell::RefCell;
use std::collections::{HashMap, VecDeque};
use std::rc::Rc;

/// A launch by its places: of the load, and in the load.
pub(crate) type LaunchIndex = (usize, usize);

/// Request of a launch, where that is more than its load says.
#[derive(Clone, Debug)]
pub(crate) struct Request {
    pub(crate) grid: [u32; 3],
    pub(crate) block: [u16; 3],
    pub(crate) shared_bytes: u32,
    pub(crate) args: Vec<u8>,
}

/// A piece of a launch on the device.
#[derive(Clone, Copy, Debug)]
struct Piece {
    place: LaunchIndex,
    first: u64,
    started: u64,
    ended: u64,
}

/// A launch that is to be submitted.
#[derive(Clone, Copy, Debug)]
struct Pending {
    at: Nanos,
    client: usize,
    place: LaunchIndex,
}

/// One client's rings.
#[derive(Default)]
struct Wire {
    submissions: VecDeque<(LaunchIndex, SubmissionEntry)>,
    /// The argument area, as the launch that was popped last left it.
    args: Vec<u8>,
}

/// State that the tap, the clients' ports and the test share.
pub(crate) struct Stage {
    pub(crate) device: Box<dyn Device>,
    loads: Vec<Load>,
    requests: HashMap<LaunchIndex, Request>,
    /// By device kernel: its load.
    kernels: HashMap<u32, usize>,
    /// By load: blocks handed to the device.
    issued: Vec<u64>,
    pieces: HashMap<u64, Piece>,
    /// In order of time, the next one last.
    pending: Vec<Pending>,
    until: Nanos,
    /// Time passes without the dispatcher's permit.
    passes_idle_time: bool,
    wires: Vec<Wire>,
    pub(crate) blocks: Vec<BlockSeen>,
    /// In order of admission, which numbers them from 1.
    pub(crate) admitted: Vec<LaunchIndex>,
    pub(crate) ends: HashMap<LaunchIndex, Nanos>,
}

impl Stage {
    /// `clients` says by load whose it is.
    pub(crate) fn new(
        device: Box<dyn Device>,
        loads: &[Load],
        clients: &[usize],
        until: Nanos,
    ) -> Self {
        let mut pending = Vec::new();
        for (load, of) in loads.iter().enumerate() {
            assert!(!of.computes, "no issue weights, no blocks that compute");
            for (launch, own) in of.launches.iter().enumerate() {
                pending.push(Pending {
                    at: own.at,
                    client: clients[load],
                    place: (load, launch),
                });
            }
        }
        pending.sort_by_key(|pending| pending.at);
        pending.reverse();
        let count = clients.iter().max().map_or(0, |last| last + 1);
        Self {
            device,
            loads: loads.to_vec(),
            requests: HashMap::new(),
            kernels: HashMap::new(),
            issued: vec![0; loads.len()],
            pieces: HashMap::new(),
            pending,
            until,
            passes_idle_time: false,
            wires: std::iter::repeat_with(Wire::default).take(count).collect(),
            blocks: Vec::new(),
            admitted: Vec::new(),
            ends: HashMap::new(),
        }
    }

    pub(crate) fn add_kernel(&mut self, kernel: DeviceKernelId, load: usize) {
        self.kernels.insert(kernel.0, load);
    }

    /// Has a launch ask for this.
    pub(crate) fn set_request(&mut self, place: LaunchIndex, request: Request) {
        self.requests.insert(place, request);
    }

    /// Returns what a launch asks for: as its load says, with how long its blocks stay as its argument.
    fn request(&self, place: LaunchIndex) -> Request {
        let of = &self.loads[place.0];
        let launch = &of.launches[place.1];
        let made = || Request {
            grid: [launch.blocks, 1, 1],
            block: [u16::try_from(of.block.threads).expect("a block"), 1, 1],
            shared_bytes: of.block.shared_bytes,
            args: launch.block_ns.0.to_le_bytes().to_vec(),
        };
        self.requests.get(&place).cloned().unwrap_or_else(made)
    }

    pub(crate) fn now(&self) -> Nanos {
        self.device.now()
    }

    /// Submits what is due.
    pub(crate) fn submit_due(&mut self, now: Nanos) {
        while let Some(pending) = self.pending.pop_if(|pending| pending.at <= now) {
            let (load, launch) = pending.place;
            let asked = self.request(pending.place);
            let request = Launch {
                kernel: u32::try_from(load).expect("few loads"),
                grid: asked.grid,
                block: asked.block,
                shared_bytes: asked.shared_bytes,
                args_offset: 0,
                args_len: u32::try_from(asked.args.len()).expect("short"),
                is_cooperative: false,
            };
            let cookie = (load as u64) << 32 | launch as u64;
            let stream = u16::from(self.loads[load].stream);
            let entry = SubmissionEntry::new(Operation::Launch(request), stream, cookie, 0);
            let wire = &mut self.wires[pending.client];
            wire.submissions.push_back((pending.place, entry));
        }
    }

    /// Lets time pass to the next submission while the dispatcher has nothing to do; returns false at the end.
    pub(crate) fn pass_idle_time(&mut self) -> bool {
        if self.passes_idle_time {
            return true;
        }
        let Some(next) = self.pending.last().filter(|next| next.at <= self.until) else {
            return false;
        };
        let permit = Command::PassTime { until: next.at };
        self.passes_idle_time = self.device.submit(&permit, &[]).is_ok();
        self.passes_idle_time
    }

    fn note_launch(&mut self, launch: &LaunchCommand) {
        let load = self.kernels[&launch.kernel.0];
        let blocks = launch.grid.iter().map(|n| u64::from(*n)).product::<u64>();
        // Launches of a load are cut in order, so the number of blocks before tells which one this is.
        let mut first = self.issued[load];
        let mut number = 0;
        for of in &self.loads[load].launches {
            let all = u64::from(of.blocks);
            if first < all {
                break;
            }
            first -= all;
            number += 1;
        }
        self.issued[load] += blocks;
        let piece = Piece {
            place: (load, number),
            first,
            started: 0,
            ended: 0,
        };
        self.pieces.insert(launch.tag.to_bits(), piece);
    }

    fn note_blocks(&mut self, bits: u64, blocks: u32, at: Nanos, change: Change) {
        let piece = self.pieces.get_mut(&bits).expect("it was handed over");
        let done = match change {
            Change::Started => &mut piece.started,
            _ => &mut piece.ended,
        };
        let from = piece.first + *done;
        *done += u64::from(blocks);
        let (load, launch) = piece.place;
        self.blocks
            .extend((from..from + u64::from(blocks)).map(|block| BlockSeen {
                at,
                load,
                launch,
                block,
                sm: None,
                change,
            }));
    }
}

/// The device as the dispatcher has it.
pub(crate) struct Tap(pub(crate) Rc<RefCell<Stage>>);

impl Device for Tap {
    fn submit(&mut self, command: &Command, params: &[u8]) -> Result<(), Busy> {
        let mut stage = self.0.borrow_mut();
        let stop = stage.pending.last().map_or(stage.until, |next| next.at);
        let command = match *command {
            Command::PassTime { until } => Command::PassTime {
                until: until.min(stop).min(stage.until),
            },
            other => other,
        };
        stage.device.submit(&command, params)?;
        if let Command::Launch(launch) = command {
            stage.note_launch(&launch);
        }
        Ok(())
    }

    fn poll(&mut self) -> Option<DeviceReport> {
        let mut stage = self.0.borrow_mut();
        let report = stage.device.poll()?;
        match report {
            DeviceReport::Placed { tag, blocks, at } => {
                stage.note_blocks(tag.to_bits(), blocks, at, Change::Started);
            }
            DeviceReport::Retired {
                tag, blocks, at, ..
            } => stage.note_blocks(tag.to_bits(), blocks, at, Change::Ended),
            DeviceReport::BlockEnded { .. } | DeviceReport::Ended { .. } => {}
            DeviceReport::Paused { at } => {
                stage.passes_idle_time = false;
                stage.submit_due(at);
            }
        }
        Some(report)
    }

    fn has_virtual_clock(&self) -> bool {
        true
    }

    fn lane_depth(&self) -> usize {
        self.0.borrow().device.lane_depth()
    }

    fn levels(&self) -> u8 {
        self.0.borrow().device.levels()
    }

    fn submission(&self) -> Submission {
        self.0.borrow().device.submission()
    }

    fn now(&self) -> Nanos {
        self.0.borrow().now()
    }
}

/// A client's end, which always waits and so never holds the clock.
pub(crate) struct Port {
    pub(crate) stage: Rc<RefCell<Stage>>,
    pub(crate) client: usize,
}

impl TenantPort for Port {
    fn pop(&mut self) -> Result<Option<SubmissionEntry>, Corrupt> {
        let mut stage = self.stage.borrow_mut();
        let Some((place, entry)) = stage.wires[self.client].submissions.pop_front() else {
            return Ok(None);
        };
        stage.wires[self.client].args = stage.request(place).args;
        stage.admitted.push(place);
        Ok(Some(entry))
    }

    fn read_args(&self, _offset: u32, out: &mut [u8]) -> Result<(), RingError> {
        out.copy_from_slice(&self.stage.borrow().wires[self.client].args);
        Ok(())
    }

    fn complete(&mut self, entry: CompletionEntry) -> Result<(), PushError> {
        assert_eq!(entry.status, CompletionStatus::Ok as u32, "{entry:?}");
        let place = |half: u64| usize::try_from(half & 0xffff_ffff).expect("32 bits");
        let place = (place(entry.cookie >> 32), place(entry.cookie));
        let end = Nanos(entry.end_ns);
        let before = self.stage.borrow_mut().ends.insert(place, end);
        assert!(before.is_none(), "{place:?} completes twice");
        Ok(())
    }

    fn wake(&mut self) {}

    fn arm(&mut self) {}

    fn has_work(&mut self) -> bool {
        !self.stage.borrow().wires[self.client]
            .submissions
            .is_empty()
    }

    fn released(&self, _stream: u16) -> u64 {
        0
    }

    fn disarm(&mut self) {}

    fn state(&mut self) -> TenantState {
        TenantState::Waiting
    }

    fn close(&mut self) {}

    fn stop(&mut self) {}
}
