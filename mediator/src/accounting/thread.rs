//! The thread that writes accounts, so that the supervisor never waits for a disk.
//!
//! Rule: orders wait in a short queue; where it is full the supervisor keeps what it has and says it later.

use super::keeper::Keeper;
use super::queue::Queue;
use super::report::{UsageQuery, UsageReport};
use super::{FLUSH_PAUSE, unix_now};
use crossbeam::channel::{Receiver, RecvTimeoutError, Sender, TrySendError, bounded, unbounded};
use std::io;
use std::path::Path;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Orders that wait at most.
const ORDERS: usize = 64;
/// Orders that wait while a question is still taken: flushes do not wait behind many of them.
const BEFORE_A_QUESTION: usize = 4;
/// Time between two looks at whether the thread has ended.
const LOOK: Duration = Duration::from_millis(2);

/// An answer: the number of the question, and the use or why it cannot be told.
pub type Answer = (u64, Result<UsageReport, String>);

enum Order {
    Flush(Queue),
    Report(u64, UsageQuery),
}

/// The thread, as the supervisor has it.
#[derive(Debug)]
pub struct Accountant {
    orders: Sender<Order>,
    answers: Receiver<Answer>,
    thread: JoinHandle<()>,
    /// It has ended, which was said.
    is_lost: bool,
}

impl Accountant {
    /// Starts the thread, which opens the file.
    ///
    /// # Errors
    /// The system has no thread.
    pub fn start(path: &Path) -> io::Result<Self> {
        let (orders, taken) = bounded(ORDERS);
        let (said, answers) = unbounded();
        let path = path.to_owned();
        let thread = std::thread::Builder::new()
            .name("accounts".into())
            .spawn(move || keep(&path, &taken, &said))?;
        Ok(Self {
            orders,
            answers,
            thread,
            is_lost: false,
        })
    }

    /// Has what waits written, if the thread has room for it.
    pub fn flush(&mut self, queue: &mut Queue) {
        if queue.is_empty() {
            return;
        }
        let order = Order::Flush(std::mem::take(queue));
        match self.orders.try_send(order) {
            Err(TrySendError::Full(Order::Flush(back))) => *queue = back,
            Err(TrySendError::Disconnected(Order::Flush(back))) => {
                *queue = back;
                if !std::mem::replace(&mut self.is_lost, true) {
                    tracing::error!(
                        "the thread that writes use has ended; use is kept in memory until the service is restarted"
                    );
                }
            }
            _ => {}
        }
    }

    /// Asks a question, which [`Accountant::answers`] has the answer to; returns whether the thread has room for it.
    #[must_use]
    pub fn ask(&self, number: u64, query: UsageQuery) -> bool {
        let is_quiet = self.orders.len() < BEFORE_A_QUESTION;
        is_quiet && self.orders.try_send(Order::Report(number, query)).is_ok()
    }

    /// Returns the answers that have come.
    pub fn answers(&self) -> impl Iterator<Item = Answer> {
        self.answers.try_iter()
    }

    /// Writes what is left and ends; returns whether it did so in time.
    pub fn stop(self, rest: Queue, patience: Duration) -> bool {
        let Self {
            orders,
            answers: _,
            thread,
            is_lost: _,
        } = self;
        let deadline = Instant::now() + patience;
        let was_handed_over = orders.send_timeout(Order::Flush(rest), patience).is_ok();
        drop(orders);
        while !thread.is_finished() && Instant::now() < deadline {
            std::thread::sleep(LOOK);
        }
        thread.is_finished() && was_handed_over
    }
}

fn keep(path: &Path, orders: &Receiver<Order>, answers: &Sender<Answer>) {
    let mut keeper = Keeper::new(path);
    let mut next = None;
    loop {
        let order = next
            .take()
            .map_or_else(|| orders.recv_timeout(FLUSH_PAUSE), Ok);
        match order {
            Ok(Order::Flush(mut queue)) => {
                // All that waits is one transaction, so that a slow disk catches up.
                while let Ok(order) = orders.try_recv() {
                    match order {
                        Order::Flush(more) => queue.merge(more),
                        report @ Order::Report(..) => {
                            next = Some(report);
                            break;
                        }
                    }
                }
                keeper.flush(queue, unix_now());
            }
            Ok(Order::Report(number, query)) => {
                // Nobody waits for it where the service ends.
                let _ = answers.send((number, keeper.report(query)));
            }
            // A file that could not be used may be tried again.
            Err(RecvTimeoutError::Timeout) => keeper.flush(Queue::default(), unix_now()),
            Err(RecvTimeoutError::Disconnected) => return keeper.end(unix_now()),
        }
    }
}
