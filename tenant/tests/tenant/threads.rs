//! Several threads share one client: they submit, wait and drop at once, and the state word says what all of them do.

use crate::mock::Mock;
use gridmux_tenant::{Args, ClientError, Gpu};
use std::sync::atomic::Ordering;
use std::thread;
use std::time::{Duration, Instant};

const PTX: &[u8] = b".version 8.0\n.target sm_80\n";
/// Longer than anything here takes, unless threads wait for each other for ever.
const HANGS: Duration = Duration::from_secs(120);

/// Ends the process if the test does not end: a deadlock cannot be left otherwise.
struct Watchdog(std::sync::mpsc::Sender<()>);

impl Watchdog {
    fn start(test: &'static str) -> Self {
        let (sender, receiver) = std::sync::mpsc::channel::<()>();
        thread::spawn(move || {
            if receiver.recv_timeout(HANGS) == Err(std::sync::mpsc::RecvTimeoutError::Timeout) {
                eprintln!("{test}: the threads wait for each other");
                std::process::exit(3);
            }
        });
        Self(sender)
    }
}

impl Drop for Watchdog {
    fn drop(&mut self) {
        let _ = self.0.send(());
    }
}

#[test]
fn threads_submit_wait_and_drop_at_once() {
    let _watchdog = Watchdog::start("threads_submit_wait_and_drop_at_once");
    let mock = Mock::start();
    let gpu = Gpu::connect_as(&mock.path, "test").unwrap();
    let scale = gpu.module(PTX).unwrap().kernel("scale").unwrap();
    thread::scope(|scope| {
        for number in 0..6_u16 {
            let (gpu, scale) = (&gpu, scale.clone());
            scope.spawn(move || {
                let stream = gpu.stream().unwrap();
                for round in 0..60_u16 {
                    let buffer = gpu.alloc(256).unwrap();
                    let value = f32::from(number * 100 + round);
                    let data: Vec<u8> = value.to_le_bytes().repeat(64);
                    stream.copy_to(&buffer, 0, &data).unwrap();
                    let args = Args::new().buffer(&buffer).u32(64).f32(2.0);
                    // More than the mock's rings hold, so that threads wait for room as well.
                    let events: Vec<_> = (0..8)
                        .map(|_| stream.launch(&scale, 1, 64, 0, &args).unwrap())
                        .collect();
                    for event in events.iter().skip(usize::from(round % 2)).rev() {
                        event.wait().unwrap();
                    }
                    let mut back = vec![0; 256];
                    stream.copy_from(&buffer, 0, &mut back).unwrap();
                    let expected: Vec<u8> = (value * 256.0).to_le_bytes().repeat(64);
                    assert_eq!(back, expected, "thread {number}, round {round}");
                }
                stream.synchronize().unwrap();
            });
        }
    });
    assert_eq!(mock.held_bytes.load(Ordering::Relaxed), 0);
    assert_eq!(gpu.usage().unwrap().launches, 6 * 60 * 8);
}

#[test]
fn large_copies_of_several_threads_do_not_wait_for_each_others_memory() {
    let _watchdog = Watchdog::start("large_copies");
    let mock = Mock::start();
    let gpu = Gpu::connect_as(&mock.path, "test").unwrap();
    thread::scope(|scope| {
        for number in 0..5_u8 {
            let gpu = &gpu;
            scope.spawn(move || {
                let stream = gpu.stream().unwrap();
                let len = (9 << 20) + usize::from(number);
                let buffer = gpu.alloc(len as u64).unwrap();
                let data = vec![number + 1; len];
                for _ in 0..3 {
                    stream.copy_to(&buffer, 0, &data).unwrap();
                    let mut back = vec![0; len];
                    stream.copy_from(&buffer, 0, &mut back).unwrap();
                    assert!(back == data, "thread {number}");
                }
            });
        }
    });
}

#[test]
fn any_number_of_threads_waits_for_one_event() {
    let _watchdog = Watchdog::start("one_event");
    let mock = Mock::start();
    let gpu = Gpu::connect_as(&mock.path, "test").unwrap();
    let module = gpu.module(PTX).unwrap();
    let fault = module.kernel("fault").unwrap();
    let stream = gpu.stream().unwrap();
    mock.knobs.hold.store(true, Ordering::Relaxed);
    let event = stream.launch(&fault, 1, 1, 0, &Args::new()).unwrap();
    let texts: Vec<String> = thread::scope(|scope| {
        let waiters: Vec<_> = (0..5)
            .map(|_| scope.spawn(|| event.wait().unwrap_err().to_string()))
            .collect();
        await_state(&mock, WAITING);
        mock.knobs.hold.store(false, Ordering::Relaxed);
        waiters
            .into_iter()
            .map(|waiter| waiter.join().unwrap())
            .collect()
    });
    assert!(
        texts.iter().all(|text| text.contains("read at 0x10")),
        "{texts:?}"
    );
}

const WAITING: u64 = 2;
const THINKING: u64 = 3;

fn await_state(mock: &Mock, state: u64) {
    let start = Instant::now();
    while mock.knobs.state.load(Ordering::Relaxed) != state {
        assert!(start.elapsed() < HANGS, "the state word never said {state}");
        thread::yield_now();
    }
}

#[test]
fn a_waiting_thread_keeps_no_other_from_submitting() {
    let _watchdog = Watchdog::start("a_waiting_thread");
    let mock = Mock::start();
    let gpu = Gpu::connect_as(&mock.path, "test").unwrap();
    let scale = gpu.module(PTX).unwrap().kernel("scale").unwrap();
    let (one, other) = (gpu.stream().unwrap(), gpu.stream().unwrap());
    let buffer = gpu.alloc(4).unwrap();
    let args = Args::new().buffer(&buffer).u32(1).f32(1.0);
    mock.knobs.hold.store(true, Ordering::Relaxed);
    thread::scope(|scope| {
        let waiter = scope.spawn(|| {
            let event = one.launch(&scale, 1, 1, 0, &args).unwrap();
            event.wait().unwrap();
            gpu.think();
        });
        await_state(&mock, WAITING);
        // Nothing of the waiting thread's has ended, and its lock is free.
        let event = other.launch(&scale, 1, 1, 0, &args).unwrap();
        assert!(!event.is_done().unwrap());
        gpu.think();
        await_state(&mock, WAITING);
        mock.knobs.hold.store(false, Ordering::Relaxed);
        event.wait().unwrap();
        waiter.join().unwrap();
    });
    gpu.think();
    await_state(&mock, THINKING);
}

#[test]
fn a_forked_child_is_told_to_connect_for_itself() {
    let mock = Mock::start();
    let gpu = Gpu::connect_as(&mock.path, "test").unwrap();
    let stream = gpu.stream().unwrap();
    let buffer = gpu.alloc(16).unwrap();
    // SAFETY: the child calls only what neither allocates nor locks, and leaves with `_exit`.
    let child = unsafe { nix::unistd::fork() }.unwrap();
    let nix::unistd::ForkResult::Parent { child } = child else {
        let refused =
            |result: Result<(), ClientError>| matches!(result, Err(ClientError::Forked { .. }));
        let all = refused(stream.fill(&buffer, 0, 16, 1))
            && refused(stream.synchronize())
            && refused(gpu.usage().map(|_| ()));
        drop(buffer);
        // SAFETY: ends the child without running anything of the parent's.
        unsafe { libc::_exit(if all { 7 } else { 1 }) };
    };
    let status = nix::sys::wait::waitpid(child, None).unwrap();
    assert!(
        matches!(status, nix::sys::wait::WaitStatus::Exited(_, 7)),
        "{status:?}"
    );
    assert_eq!(
        mock.held_bytes.load(Ordering::Relaxed),
        16,
        "the child gave nothing back"
    );
    stream.fill(&buffer, 0, 16, 1).unwrap();
    stream.synchronize().unwrap();
}
