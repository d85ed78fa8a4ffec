//! Both ends of the rings over one real memfd: order, arguments, sleeping and
//! waking, the tenant's state, and what a hostile tenant can do.

use gridmux_channel::ring::client::ClientRings;
use gridmux_channel::ring::host::HostRings;
use gridmux_channel::ring::{
    CompletionEntry, CompletionStatus, HostState, Launch, Operation, PushError, RingError,
    RingLayout, SubmissionEntry, TenantState,
};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::epoll::{Epoll, EpollCreateFlags, EpollEvent, EpollFlags, EpollTimeout};
use std::os::fd::AsRawFd;
use std::thread;
use std::time::Duration;

const LONG: Duration = Duration::from_secs(20);

fn pair(layout: RingLayout) -> (HostRings, ClientRings) {
    let host = HostRings::create(layout).unwrap();
    let memfd = host.memfd().try_clone_to_owned().unwrap();
    let client = ClientRings::map(&memfd, host.doorbell().try_clone_to_owned().unwrap());
    (host, client.unwrap())
}

fn small() -> RingLayout {
    RingLayout::new(8, 16, 4096).unwrap()
}

fn barrier(cookie: u64) -> SubmissionEntry {
    SubmissionEntry::new(Operation::Barrier, 1, cookie, 5)
}

fn done(cookie: u64) -> CompletionEntry {
    CompletionEntry::new(cookie, CompletionStatus::Ok, 1, 2)
}

#[test]
fn both_ends_agree_on_the_layout() {
    let (host, client) = pair(small());
    assert_eq!(host.layout(), client.layout());
    assert!(RingLayout::new(12, 16, 4096).is_err());
    assert!(RingLayout::new(8, 16, 1).is_err());
}

#[test]
fn a_full_ring_refuses_and_goes_on() {
    let (mut host, mut client) = pair(small());
    for cookie in 0..8 {
        client.push(&barrier(cookie)).unwrap();
    }
    assert_eq!(client.push(&barrier(8)), Err(PushError::Full));
    for cookie in 0..8 {
        assert_eq!(host.pop().unwrap(), Some(barrier(cookie)));
    }
    assert_eq!(host.pop().unwrap(), None);
    for cookie in 8..16 {
        client.push(&barrier(cookie)).unwrap();
    }
    // Sixteen are in flight, as many as there are completion slots.
    while host.pop().unwrap().is_some() {}
    assert_eq!(client.push(&barrier(16)), Err(PushError::Full));
    for cookie in 0..16 {
        host.push_completion(done(cookie)).unwrap();
    }
    assert_eq!(host.push_completion(done(16)), Err(PushError::Full));
    assert_eq!(client.pop_completion().unwrap(), Some(done(0)));
    client.push(&barrier(16)).unwrap();
}

#[test]
fn a_release_passes_a_full_ring_and_rings_the_doorbell() {
    let (host, mut client) = pair(small());
    for cookie in 0..8 {
        client.push(&barrier(cookie)).unwrap();
    }
    assert_eq!(client.push(&barrier(8)), Err(PushError::Full));
    let _ = host.arm().unwrap();
    client.release(3, 2);
    client.release(3, 1);
    assert_eq!(
        [host.released(2), host.released(3)],
        [0, 2],
        "it never falls"
    );
    let mut poll_fds = [PollFd::new(host.doorbell(), PollFlags::POLLIN)];
    assert_eq!(poll(&mut poll_fds, PollTimeout::ZERO), Ok(1), "it rang");
    client.release(u16::MAX, 1);
    assert_eq!(host.released(u16::MAX), 0, "a stream without a word");
}

#[test]
fn arguments_arrive_whole_while_the_area_wraps() {
    let (mut host, mut client) = pair(small());
    for round in 0..2000_u64 {
        let size = usize::try_from(round % 300).unwrap();
        let args: Vec<u8> = (0..size)
            .map(|i| (i as u64 * round).to_le_bytes()[0])
            .collect();
        let args_offset = client.place_args(&args).unwrap();
        let launch = Launch {
            kernel: 1,
            grid: [1; 3],
            block: [1; 3],
            shared_bytes: 0,
            args_offset,
            args_len: u32::try_from(size).unwrap(),
            is_cooperative: false,
        };
        client
            .push(&SubmissionEntry::new(
                Operation::Launch(launch),
                0,
                round,
                0,
            ))
            .unwrap();
        if round % 3 == 2 {
            for back in (0..3).rev() {
                check_launch(&mut host, round - back);
                assert!(client.pop_completion().unwrap().is_some());
            }
        }
    }
    assert!(matches!(
        client.place_args(&[0; 4096]),
        Err(PushError::ArgumentsTooLarge(_))
    ));
}

fn check_launch(host: &mut HostRings, round: u64) {
    let entry = host.pop().unwrap().expect("it was pushed");
    let Ok(Operation::Launch(launch)) = entry.decode() else {
        panic!("{entry:?}")
    };
    let mut args = vec![0; launch.args_len as usize];
    host.read_args(launch.args_offset, &mut args).unwrap();
    for (i, byte) in args.iter().enumerate() {
        assert_eq!(*byte, (i as u64 * round).to_le_bytes()[0]);
    }
    host.push_completion(done(entry.cookie())).unwrap();
}

#[test]
fn arguments_outside_the_area_are_refused() {
    let (host, _client) = pair(small());
    for (offset, len) in [(4096, 1), (0, 4097), (4088, 16), (4, 8), (u32::MAX - 7, 64)] {
        let result = host.read_args(offset, &mut vec![0; len]);
        assert!(
            matches!(result, Err(RingError::Arguments { .. })),
            "{offset}+{len}"
        );
    }
    host.read_args(4088, &mut [0; 8]).unwrap();
}

/// Both ends sleep whenever they find nothing: a lost wake-up hangs, which the
/// long timeout turns into a failure.
#[test]
fn sleeping_ends_wake_each_other() {
    const COUNT: u64 = 2000;
    let (mut host, mut client) = pair(small());
    let mediator = thread::spawn(move || {
        let epoll = Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC).unwrap();
        let event = EpollEvent::new(EpollFlags::EPOLLIN | EpollFlags::EPOLLET, 0);
        epoll.add(host.doorbell(), event).unwrap();
        let mut served = 0;
        while served < COUNT {
            while let Some(entry) = host.pop().unwrap() {
                host.push_completion(done(entry.cookie())).unwrap();
                host.wake_if_parked();
                served += 1;
            }
            if served < COUNT && !host.arm().unwrap() {
                let mut events = [EpollEvent::empty()];
                let woken = epoll
                    .wait(&mut events, EpollTimeout::from(20_000_u16))
                    .unwrap();
                assert_eq!(woken, 1, "the doorbell was lost");
            }
            host.disarm();
        }
    });
    client.set_spin(0);
    for cookie in 0..COUNT {
        client.push(&barrier(cookie)).unwrap();
        if cookie % 7 == 0 {
            while client.in_flight() > 0 {
                let entry = wait(&mut client);
                assert_eq!(entry.status, 0);
            }
        }
    }
    while client.in_flight() > 0 {
        wait(&mut client);
    }
    mediator.join().unwrap();
}

fn wait(client: &mut ClientRings) -> CompletionEntry {
    for _ in 0..2 {
        // A wait may end early; two long ones in vain are a lost wake-up.
        if let Some(entry) = client.wait(LONG).unwrap() {
            return entry;
        }
    }
    panic!("the wake-up was lost");
}

#[test]
fn the_virtual_clock_holds_only_for_a_running_tenant() {
    let (mut host, mut client) = pair(small());
    client.set_spin(0);
    assert_eq!(host.tenant_state(), TenantState::Thinking);
    client.push(&barrier(0)).unwrap();
    assert_eq!(host.tenant_state(), TenantState::Running);
    assert!(client.wait(Duration::from_millis(1)).unwrap().is_none());
    // Whatever of it was not taken: it adds nothing.
    assert_eq!(host.tenant_state(), TenantState::Waiting);
    host.pop().unwrap();
    // What it waited for is there: it runs until it waits for the next one.
    host.stage_completion(done(0)).unwrap();
    assert_eq!(host.tenant_state(), TenantState::Waiting);
    host.publish_completions();
    assert_eq!(host.tenant_state(), TenantState::Running);
    assert!(client.wait(LONG).unwrap().is_some());
    assert_eq!(host.tenant_state(), TenantState::Running);
    client.set_state(TenantState::Thinking);
    assert_eq!(host.tenant_state(), TenantState::Thinking);
}

#[test]
fn a_client_that_says_that_it_runs_again_rings_if_nobody_looks() {
    let (mut host, mut client) = pair(small());
    let has_rung = |host: &HostRings| {
        let mut fds = [PollFd::new(host.doorbell(), PollFlags::POLLIN)];
        poll(&mut fds, PollTimeout::ZERO).unwrap() > 0
    };
    client.push(&barrier(0)).unwrap();
    host.pop().unwrap();
    client.set_state(TenantState::Thinking);
    client.resume();
    assert_eq!(host.tenant_state(), TenantState::Running);
    assert!(!has_rung(&host), "the mediator is awake");
    client.set_state(TenantState::Thinking);
    assert!(!host.arm().unwrap());
    client.resume();
    assert!(has_rung(&host));
}

#[test]
fn staged_completions_come_all_at_once() {
    let (mut host, mut client) = pair(small());
    for cookie in 0..3 {
        client.push(&barrier(cookie)).unwrap();
        host.pop().unwrap();
        host.stage_completion(done(cookie)).unwrap();
        assert!(client.pop_completion().unwrap().is_none());
    }
    host.publish_completions();
    for cookie in 0..3 {
        assert_eq!(client.pop_completion().unwrap().unwrap().cookie, cookie);
    }
}

#[test]
fn a_lost_device_ends_the_wait() {
    let (host, mut client) = pair(small());
    client.set_spin(0);
    host.push_lost_after_a_while();
    let error = loop {
        match client.wait(LONG) {
            Ok(entry) => assert!(entry.is_none()),
            Err(error) => break error,
        }
    };
    assert!(matches!(error, RingError::Closed(HostState::DeviceLost)));
}

trait LostLater {
    fn push_lost_after_a_while(self);
}

impl LostLater for HostRings {
    fn push_lost_after_a_while(self) {
        thread::spawn(move || {
            thread::sleep(Duration::from_millis(20));
            self.set_host_state(HostState::DeviceLost);
        });
    }
}

/// Writes anything anywhere into the ring memory, as a hostile tenant can.
#[test]
fn a_hostile_tenant_gets_errors_and_nothing_else() {
    let mut seed = 0x9e37_79b9_7f4a_7c15_u64;
    let mut random = || {
        seed ^= seed << 13;
        seed ^= seed >> 7;
        seed ^= seed << 17;
        seed
    };
    let mut corrupt = 0;
    for _ in 0..300 {
        let (mut host, _client) = pair(small());
        let len = host.layout().total_bytes();
        let map = memmap2::MmapOptions::new()
            .len(len)
            .map_raw(host.memfd().as_raw_fd())
            .unwrap();
        for _ in 0..50 {
            for _ in 0..20 {
                let offset = usize::try_from(random()).unwrap() % (len / 8) * 8;
                let value = random() >> (random() % 64);
                // SAFETY: the offset is aligned and inside the mapping; the
                // other side accesses the memory through atomics only.
                unsafe {
                    map.as_mut_ptr()
                        .add(offset)
                        .cast::<u64>()
                        .write_volatile(value)
                };
            }
            match host.pop() {
                Ok(Some(entry)) => drop(entry.decode()),
                Ok(None) => {}
                Err(_) => corrupt += 1,
            }
            let _ = host.push_completion(done(1));
            let _ = host.tenant_state();
            let _ = host.arm();
            host.wake_if_parked();
        }
    }
    assert!(corrupt > 0, "an impossible turn is noticed");
}

#[test]
fn an_index_that_runs_backwards_is_corrupt() {
    let (mut host, mut client) = pair(RingLayout::new(8, 8, 4096).unwrap());
    let map = memmap2::MmapOptions::new()
        .len(4096)
        .map_raw(host.memfd().as_raw_fd())
        .unwrap();
    for cookie in 0..8 {
        client.push(&barrier(cookie)).unwrap();
        host.pop().unwrap();
        host.push_completion(done(cookie)).unwrap();
    }
    // The consumer's index of the completions stands in line 2.
    // SAFETY: aligned and inside the mapping, which the rings read atomically.
    unsafe {
        map.as_mut_ptr()
            .add(2 * 128)
            .cast::<u32>()
            .write_volatile(9)
    };
    assert!(matches!(
        host.push_completion(done(8)),
        Err(PushError::Corrupt(_))
    ));
}
