//! A kernel whose workers take tickets, as the host sees it.
//!
//! Rule: what the host knows of the device is an [`Observation`], which is old when it arrives; a decision that
//! needs a fresh one waits for it ([`Workers::wants_observation`]).

use super::{Launch, Write};
use crate::control;

/// What was read from the instance's memory after the last call.
#[derive(Debug, Clone, Copy)]
pub struct Observation<'a> {
    /// The word at [`control::NEXT_AT`].
    pub next: u32,
    /// The word at [`control::PLACED_AT`].
    pub placed: u32,
    /// The high halves of the place words ([`control::place_offset`]), one for each SM: workers that are counted, and
    /// those that found no ticket left.
    pub members: &'a [u32],
}

/// The host's state of one instance.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Workers {
    tickets: u32,
    caps: Box<[u32]>,
    /// A cap of at least this many workers binds nobody: the `most` of [`Workers::deal`], `u32::MAX` without it.
    unbound: u32,
    /// Workers of the first launch, whose first tickets are dealt; zero without. And whether it is still to be made.
    dealt: u32,
    deals: bool,
    /// That launch is in flight: it may have workers that are not counted, on any SM.
    uncounted: bool,
    /// The caller wants it stopped: the caps on the device are zero.
    stopped: bool,
    /// A fault was recorded: nothing more starts.
    faulted: bool,
    /// Workers launched so far.
    launched: u32,
    /// Launches in flight.
    flying: smallvec::SmallVec<[u32; 4]>,
    /// The newest observation, and whether nothing has happened since that could make it misleading.
    next: u32,
    placed: u32,
    members: Box<[u32]>,
    fresh: bool,
}

impl Workers {
    /// Returns an instance that has launched nothing: `tickets` is [`control::Control::total`], and there is one cap
    /// for each SM. `None` when there is no ticket.
    #[must_use]
    pub fn new(tickets: u32, caps: &[u32]) -> Option<Self> {
        (tickets > 0).then(|| Self {
            tickets,
            caps: caps.into(),
            unbound: u32::MAX,
            dealt: 0,
            deals: false,
            uncounted: false,
            stopped: false,
            faulted: false,
            launched: 0,
            flying: smallvec::SmallVec::new(),
            next: 0,
            placed: 0,
            members: vec![0; caps.len()].into(),
            fresh: true,
        })
    }

    /// Deals the first tickets out with the first launch, one to each worker, so that these begin without a round trip
    /// to memory. `most` is the number of these workers that an SM can hold: caps that are no lower bind nobody, and
    /// workers need not be counted before they see one that does. Nothing is dealt unless that is so of all caps.
    ///
    /// While workers of that launch run nobody knows how many are missing; where a cap has fallen and rises again,
    /// others come when all of them have left. With `most` zero nothing is dealt.
    ///
    /// A dealt ticket is accepted: its worker runs it whatever has become of the caps when it starts. So deal only
    /// where the device has room for the launch at once, and to a kernel that allows it
    /// ([`KernelForm::may_deal`](crate::forms::KernelForm::may_deal)).
    #[must_use]
    pub fn deal(mut self, most: u32) -> Self {
        if most == 0 {
            return self;
        }
        self.unbound = most;
        for cap in &mut self.caps {
            *cap = (*cap).min(most);
        }
        if self.caps.iter().all(|cap| *cap == most) {
            self.dealt = self.missing();
            self.deals = self.dealt > 0;
            self.next = self.dealt;
        }
        self
    }

    /// Returns the bytes of the instance's memory before its first launch: counters and places.
    #[must_use]
    pub fn memory(&self) -> Vec<u8> {
        let sms = u32::try_from(self.caps.len()).unwrap_or(u32::MAX);
        let mut bytes = vec![0; control::instance_bytes(sms) as usize];
        bytes[control::NEXT_AT as usize..][..4].copy_from_slice(&self.dealt.to_le_bytes());
        let places = bytes[control::place_offset(0) as usize..].chunks_exact_mut(8);
        for (place, cap) in places.zip(&self.caps) {
            place[..4].copy_from_slice(&self.cap_word(*cap).to_le_bytes());
        }
        bytes
    }

    /// Returns how a cap is told to the device.
    fn cap_word(&self, cap: u32) -> u32 {
        match cap >= self.unbound {
            true => control::CAP_UNBOUND,
            false => cap.min(control::CAP_UNBOUND - 2),
        }
    }

    /// Changes the caps; the writes to make. Where a cap falls, workers leave at a block boundary until as many are
    /// left; where it rises, missing workers come with the next launches.
    ///
    /// # Panics
    /// If the number of SMs differs from the one at the beginning.
    pub fn set_caps(&mut self, caps: &[u32]) -> Vec<Write> {
        assert_eq!(caps.len(), self.caps.len(), "one cap for each SM");
        let caps: Box<[u32]> = caps.iter().map(|cap| (*cap).min(self.unbound)).collect();
        let old = std::mem::replace(&mut self.caps, caps.clone());
        match self.stopped {
            true => Vec::new(),
            false => self.write_caps(&old, &caps),
        }
    }

    /// Stops at block boundaries: what runs goes on to the end of the tickets that it holds, nothing starts. The writes
    /// to make.
    #[must_use]
    pub fn stop(&mut self) -> Vec<Write> {
        if std::mem::replace(&mut self.stopped, true) {
            return Vec::new();
        }
        self.write_caps(&self.caps.clone(), &vec![0; self.caps.len()])
    }

    /// Goes on after [`Workers::stop`], at any time; workers that have not left yet stay. The writes to make.
    #[must_use]
    pub fn resume(&mut self) -> Vec<Write> {
        if !std::mem::replace(&mut self.stopped, false) {
            return Vec::new();
        }
        self.write_caps(&vec![0; self.caps.len()], &self.caps.clone())
    }

    fn write_caps(&mut self, old: &[u32], new: &[u32]) -> Vec<Write> {
        // Who is missing is known only behind these writes.
        self.fresh = false;
        let changes = (0..)
            .zip(old.iter().zip(new))
            .filter(|(_, (old, new))| old != new);
        changes
            .map(|(sm, (_, &cap))| Write {
                at: control::place_offset(sm),
                value: self.cap_word(cap),
            })
            .collect()
    }

    /// The counters hold a recorded fault ([`control::FAULT_KIND_AT`]). The device has closed itself: what runs goes on
    /// to the end of its tickets, nothing starts, and the instance ends with its launches. A worker that left for the
    /// fault leaves its place taken, as one does that found no ticket: the memory serves another instance only after
    /// that instance's [`Workers::memory`] was written to it.
    pub fn fault_recorded(&mut self) {
        self.faulted = true;
    }

    /// Returns whether it ends for a recorded fault, so that not all blocks may have run.
    #[must_use]
    pub fn is_faulted(&self) -> bool {
        self.faulted
    }

    /// The launch to make now, if any. Call again until it returns `None`.
    pub fn next_launch(&mut self) -> Option<Launch> {
        if self.stopped || self.faulted || !self.fresh {
            return None;
        }
        if std::mem::replace(&mut self.deals, false) {
            self.uncounted = true;
            return Some(self.launch(self.dealt, true));
        }
        let blocks = self.missing();
        (blocks != 0).then(|| self.launch(blocks, false))
    }

    fn launch(&mut self, blocks: u32, dealt: bool) -> Launch {
        let number = (0..).find(|n| !self.flying.contains(n)).unwrap_or(u32::MAX);
        // Dealt workers do not tell when they are placed: nobody is launched while their launch is there.
        let announced = if dealt { 0 } else { blocks };
        self.launched = self.launched.wrapping_add(announced);
        self.flying.push(number);
        // Until these workers are placed the counts say that they are missing.
        self.fresh = false;
        let announce = Write {
            at: control::LAUNCHED_AT,
            value: self.launched,
        };
        Launch {
            announce,
            number,
            blocks,
            dealt,
        }
    }

    /// All workers of a launch have left the device.
    pub fn launch_ended(&mut self, number: u32) {
        self.flying.retain(|other| *other != number);
        if number == 0 {
            // The first launch is gone; later ones of this number count themselves anyway.
            self.uncounted = false;
        }
        self.fresh = false;
    }

    /// Takes note of what was read from memory after the last call of any other method, and after what that asked to
    /// write had arrived.
    pub fn observe(&mut self, seen: &Observation<'_>) {
        self.next = seen.next;
        self.placed = seen.placed;
        let known = self.members.len().min(seen.members.len());
        self.members[..known].copy_from_slice(&seen.members[..known]);
        // With workers still to be placed the counts are not the whole truth.
        self.fresh = seen.placed == self.launched;
    }

    /// Returns whether the next step waits for an observation. When a launch waits for room that may last.
    #[must_use]
    pub fn wants_observation(&self) -> bool {
        !self.fresh && !self.has_ended()
    }

    /// Returns whether nothing of it is on the device: it has ended, or was stopped and has drained.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        self.flying.is_empty()
    }

    /// Returns whether every launch has ended, and every block has run or a fault was recorded; the memory may be
    /// reused, once the next instance's [`Workers::memory`] was written to it.
    #[must_use]
    pub fn has_ended(&self) -> bool {
        let taken = self.next >= self.tickets && !self.deals;
        self.flying.is_empty() && (taken || self.faulted)
    }

    /// Tickets that were taken, as last observed; when nothing is on the device their blocks have run, and no others.
    #[must_use]
    pub fn progress(&self) -> u32 {
        match self.deals {
            // Dealt, but to nobody yet.
            true => 0,
            false => self.next.min(self.tickets),
        }
    }

    /// Returns whether it is stopped.
    #[must_use]
    pub fn is_stopped(&self) -> bool {
        self.stopped
    }

    /// Tickets of the instance.
    #[must_use]
    pub fn tickets(&self) -> u32 {
        self.tickets
    }

    /// Workers of the first launch, when their first tickets are dealt.
    #[must_use]
    pub fn dealt(&self) -> u32 {
        self.dealt
    }

    /// Returns the caps as last set.
    #[must_use]
    pub fn caps(&self) -> &[u32] {
        &self.caps
    }

    /// Takes `placed` off the counters of launches, which only ever count, and forgets what a stale observation said.
    /// States that differ by this alone behave alike, which makes a search through all of them finite.
    pub fn rebase(&mut self, placed: u32) {
        self.launched = self.launched.wrapping_sub(placed);
        self.placed = self.placed.wrapping_sub(placed);
        if !self.fresh {
            self.placed = 0;
            self.members.fill(0);
            if self.next < self.tickets {
                self.next = 0;
            }
        }
        self.next = self.next.min(self.tickets);
        self.flying.sort_unstable();
    }

    /// Free places, and no more workers than there are tickets left.
    fn missing(&self) -> u32 {
        if self.placed != self.launched || self.uncounted {
            return 0;
        }
        let free = |(cap, members): (&u32, &u32)| cap.saturating_sub(*members);
        let free = self
            .caps
            .iter()
            .zip(&self.members)
            .map(free)
            .fold(0, u32::saturating_add);
        free.min(self.tickets.saturating_sub(self.next))
    }
}

#[cfg(test)]
mod tests {
    use super::{Observation, Workers};
    use crate::control::{CAP_UNBOUND, NEXT_AT, NEXT_CLOSED, place_offset};

    fn word(bytes: &[u8], at: u32) -> u32 {
        let word = bytes[at as usize..][..4].try_into().expect("a word");
        u32::from_le_bytes(word)
    }

    #[test]
    fn dealt_tickets_are_taken_before_the_first_launch_and_not_missed_by_it() {
        let mut workers = Workers::new(9, &[2, 7]).expect("fine").deal(2);
        let bytes = workers.memory();
        let caps = [0, 1].map(|sm| word(&bytes, place_offset(sm)));
        assert_eq!((word(&bytes, NEXT_AT), caps), (4, [CAP_UNBOUND; 2]));
        let launch = workers.next_launch().expect("there are places");
        assert_eq!((launch.blocks, launch.dealt), (4, true));
        // Nobody is counted, and nobody is missed.
        let seen = |next, members| Observation {
            next,
            placed: 0,
            members,
        };
        workers.observe(&seen(4, &[0, 0]));
        assert_eq!(workers.next_launch(), None);
        // A cap that fell and rose: some may have counted themselves, others not have seen it.
        assert_eq!(workers.set_caps(&[1, 2])[0].value, 1);
        assert_eq!(workers.set_caps(&[2, 2])[0].value, CAP_UNBOUND);
        workers.observe(&seen(6, &[1, 0]));
        assert_eq!(workers.next_launch(), None);
        let _ = (workers.stop(), workers.resume());
        workers.observe(&seen(6, &[1, 0]));
        assert_eq!(workers.next_launch(), None);
        // When they have left, who is missing is known.
        workers.launch_ended(launch.number);
        workers.observe(&seen(7, &[0, 0]));
        let launch = workers.next_launch().expect("tickets are left");
        assert_eq!((launch.blocks, launch.dealt), (2, false));
    }

    #[test]
    fn an_instance_whose_tickets_are_all_dealt_has_not_ended_before_its_launch() {
        let mut workers = Workers::new(2, &[2]).expect("fine").deal(2);
        assert_eq!((workers.has_ended(), workers.progress()), (false, 0));
        let _ = workers.stop();
        assert_eq!((workers.next_launch(), workers.has_ended()), (None, false));
        let _ = workers.resume();
        let seen = |placed| Observation {
            next: 2,
            placed,
            members: &[0],
        };
        workers.observe(&seen(0));
        let launch = workers.next_launch().expect("it has not begun");
        assert!(launch.dealt);
        workers.launch_ended(launch.number);
        workers.observe(&seen(0));
        assert_eq!((workers.has_ended(), workers.progress()), (true, 2));
    }

    #[test]
    fn nothing_is_dealt_where_a_cap_binds() {
        let mut workers = Workers::new(9, &[2, 1]).expect("fine").deal(2);
        assert_eq!(word(&workers.memory(), NEXT_AT), 0);
        let launch = workers.next_launch().expect("there are places");
        assert_eq!((launch.blocks, launch.dealt), (3, false));
    }

    #[test]
    fn a_recorded_fault_ends_an_instance_whose_places_stay_taken() {
        let mut workers = Workers::new(9, &[2, 1]).expect("fine");
        let launch = workers.next_launch().expect("there are places");
        assert_eq!(launch.blocks, 3);
        // One worker left for a fault: its place is taken, and there are no tickets any more.
        let seen = Observation {
            next: NEXT_CLOSED + 2,
            placed: 3,
            members: &[1, 0],
        };
        workers.observe(&seen);
        workers.fault_recorded();
        assert_eq!(workers.next_launch(), None);
        assert!(!workers.has_ended(), "its launch is still there");
        workers.launch_ended(launch.number);
        workers.observe(&seen);
        assert_eq!(workers.next_launch(), None);
        assert!(workers.has_ended() && workers.is_faulted());
        assert!(!workers.wants_observation());
        // The next instance's memory has every place free.
        let next = Workers::new(4, &[2, 1]).expect("fine").memory();
        let at = place_offset(0) as usize;
        assert_eq!(
            next[at..at + 16],
            [2, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0]
        );
    }
}
