//! The Simple Slicing predictor as the paper's hardware keeps it: for each kernel and SM (SRTF, Table 1, Algorithm 1).
//!
//! An SM takes the duration of the first block that ends there in a slice, and predicts the kernel's runtime on it at
//! every end of a block from then on. Without slices it takes one duration and predicts once.
//!
//! Rules: a launch's blocks are expected to spread evenly over SMs; a block that began before the slice counts, as in
//! the paper; a launch is named by the caller's number, and forgotten when the caller says so.

use super::simple_slicing;
use crate::ids::SmId;
use crate::units::Cycles;
use std::collections::BTreeMap;

/// When durations are taken anew.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Slicing {
    /// At every arrival and end of a kernel.
    Aware,
    /// Never: the first block of a kernel decides.
    Unaware,
}

/// The predictor.
#[derive(Clone, Debug)]
pub struct PerSm {
    sms: u16,
    slicing: Slicing,
    launches: BTreeMap<u64, Vec<OnSm>>,
}

/// A kernel on an SM (Table 1).
#[derive(Clone, Copy, Debug, Default)]
struct OnSm {
    /// Cycles for which a block was resident, until `since`.
    active: u64,
    since: u64,
    /// Blocks that are resident now.
    holds: u32,
    /// Blocks that reside when the kernel is alone.
    resident: u64,
    done: u64,
    total: u64,
    /// Duration of a block of this slice.
    t: Option<u64>,
    reslice: bool,
    prediction: Option<f64>,
}

impl OnSm {
    /// Counts the cycles until now.
    fn pass_to(&mut self, now: Cycles) {
        if self.holds > 0 {
            self.active += now.0.saturating_sub(self.since);
        }
        self.since = now.0;
    }
}

impl PerSm {
    /// Returns a predictor for a device.
    #[must_use]
    pub fn new(sms: u16, slicing: Slicing) -> Self {
        Self {
            sms,
            slicing,
            launches: BTreeMap::new(),
        }
    }

    /// Takes note of a launch of so many blocks, of which an SM holds `resident` when they are alone (`ONLAUNCH`).
    pub fn launch(&mut self, launch: u64, blocks: u64, resident: u64) {
        self.reslice();
        let on_sm = OnSm {
            resident,
            total: blocks.div_ceil(u64::from(self.sms.max(1))),
            reslice: true,
            ..OnSm::default()
        };
        self.launches.insert(launch, vec![on_sm; self.sms.into()]);
    }

    /// Takes note of a launch's end (`ONKERNELEND`); its state stays until it is forgotten.
    pub fn end(&mut self) {
        self.reslice();
    }

    /// Forgets a launch.
    pub fn forget(&mut self, launch: u64) {
        self.launches.remove(&launch);
    }

    /// Takes note of a block that starts on an SM (`ONBLOCKSTART`).
    pub fn block_start(&mut self, launch: u64, sm: SmId, now: Cycles) {
        if let Some(on_sm) = self.on_sm(launch, sm) {
            on_sm.pass_to(now);
            on_sm.holds += 1;
        }
    }

    /// Takes note of a block that ends on an SM after `ran`, and returns the prediction if it is the first of its slice
    /// there (`ONBLOCKEND`).
    pub fn block_end(&mut self, launch: u64, sm: SmId, ran: Cycles, now: Cycles) -> Option<f64> {
        let slicing = self.slicing;
        let on_sm = self.on_sm(launch, sm)?;
        on_sm.pass_to(now);
        on_sm.holds = on_sm.holds.saturating_sub(1);
        on_sm.done += 1;
        let first = std::mem::take(&mut on_sm.reslice);
        if first {
            on_sm.t = Some(ran.0);
        }
        if slicing == Slicing::Aware || first {
            let left = on_sm.total.saturating_sub(on_sm.done);
            let t = on_sm.t? as f64;
            let prediction = simple_slicing(on_sm.active as f64, left, on_sm.resident, t);
            on_sm.prediction = Some(prediction);
        }
        on_sm.prediction.filter(|_| first)
    }

    /// Returns the runtime in cycles that is predicted of a launch on an SM.
    #[must_use]
    pub fn prediction(&self, launch: u64, sm: SmId) -> Option<f64> {
        self.launches.get(&launch)?.get(sm.index())?.prediction
    }

    /// Returns for how many cycles blocks of a launch were resident on an SM, until a block last started or ended
    /// there.
    #[must_use]
    pub fn active(&self, launch: u64, sm: SmId) -> Cycles {
        let on_sm = self
            .launches
            .get(&launch)
            .and_then(|sms| sms.get(sm.index()));
        Cycles(on_sm.map_or(0, |on_sm| on_sm.active))
    }

    fn on_sm(&mut self, launch: u64, sm: SmId) -> Option<&mut OnSm> {
        self.launches.get_mut(&launch)?.get_mut(sm.index())
    }

    fn reslice(&mut self) {
        if self.slicing == Slicing::Aware {
            let all = self.launches.values_mut().flatten();
            all.for_each(|on_sm| on_sm.reslice = true);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{PerSm, Slicing};
    use crate::ids::SmId;
    use crate::units::Cycles;

    const SM: SmId = SmId(1);

    /// Runs blocks one after another on SM 1, from a time on; returns when the last ended and what was predicted.
    fn blocks(predictor: &mut PerSm, durations: &[u64], from: u64) -> (u64, Vec<Option<f64>>) {
        let mut now = from;
        let mut told = Vec::new();
        for ran in durations {
            predictor.block_start(7, SM, Cycles(now));
            now += ran;
            told.push(predictor.block_end(7, SM, Cycles(*ran), Cycles(now)));
        }
        (now, told)
    }

    #[test]
    fn the_first_block_of_a_slice_decides_on_its_sm() {
        let mut predictor = PerSm::new(2, Slicing::Aware);
        // 20 blocks on 2 SMs, one at a time.
        predictor.launch(7, 20, 1);
        let (now, told) = blocks(&mut predictor, &[100, 120], 50);
        assert_eq!(told, [Some(100.0 + 9.0 * 100.0), None]);
        assert_eq!(predictor.active(7, SM), Cycles(220));
        assert_eq!(
            predictor.prediction(7, SM),
            Some(220.0 + 8.0 * 100.0),
            "corrected by what has passed"
        );
        assert_eq!(
            predictor.prediction(7, SmId(0)),
            None,
            "another SM has seen nothing"
        );
        predictor.launch(8, 2, 1);
        // It did not run for 30 cycles, and its blocks take twice as long now.
        let (_, told) = blocks(&mut predictor, &[200, 200], now + 30);
        assert_eq!(told, [Some(420.0 + 7.0 * 200.0), None]);
        predictor.end();
        let (_, told) = blocks(&mut predictor, &[100], now + 500);
        assert_eq!(told, [Some(720.0 + 5.0 * 100.0)]);
        predictor.forget(7);
        assert_eq!(predictor.prediction(7, SM), None);
    }

    #[test]
    fn without_slices_it_predicts_once() {
        let mut predictor = PerSm::new(2, Slicing::Unaware);
        predictor.launch(7, 20, 1);
        let (now, _) = blocks(&mut predictor, &[100, 120], 50);
        predictor.launch(8, 2, 1);
        let (_, told) = blocks(&mut predictor, &[200], now);
        assert_eq!(told, [None]);
        assert_eq!(predictor.prediction(7, SM), Some(1000.0));
    }

    #[test]
    fn what_it_was_not_told_of_is_ignored() {
        let mut predictor = PerSm::new(2, Slicing::Aware);
        predictor.block_start(3, SM, Cycles(1));
        assert_eq!(predictor.block_end(3, SmId(9), Cycles(1), Cycles(2)), None);
        assert_eq!(predictor.active(3, SM), Cycles(0));
    }
}
