//! A dispatcher that is told to stop: what is in flight may still complete, what does not is cut off when it is told
//! again, and every client is told.

use crate::scripted::{Rig, launch, named, submit};
use gridmux_mediator::dispatch::{Message, Turn};

/// Returns a dispatcher whose device ends nothing unless the test lets it.
fn rig() -> Rig {
    Rig::on_real_clock(named("fifo"), 64)
}

#[test]
fn what_is_in_flight_is_waited_for_until_stop_is_said_again() {
    let mut rig = rig();
    let wire = rig.join(0, 1);
    let small = |cookie| launch(cookie, [1, 1, 1], [32, 1, 1]);
    submit(&wire, small(1));
    rig.settle(100);
    assert_eq!(rig.bench.borrow().in_flight.len(), 1);
    rig.tell(Message::Stop);
    submit(&wire, small(2));
    rig.settle(100);
    assert_eq!(rig.bench.borrow().launched.len(), 1, "nothing new begins");
    assert!(!wire.borrow().stopped, "what is in flight may still end");
    rig.tell(Message::Stop);
    assert_eq!(rig.dispatcher.turn(), Turn::Stopped);
    assert!(wire.borrow().stopped && wire.borrow().completions.is_empty());
}

#[test]
fn a_client_has_what_completed_before_it_is_told() {
    let mut rig = rig();
    let (one, other) = (rig.join(0, 1), rig.join(1, 1));
    submit(&one, launch(1, [1, 1, 1], [32, 1, 1]));
    rig.settle(100);
    rig.tell(Message::Stop);
    rig.settle(100);
    rig.bench.borrow_mut().pass_time();
    while rig.dispatcher.turn() != Turn::Stopped {
        assert!(!one.borrow().stopped);
    }
    assert_eq!(one.borrow().completions.len(), 1);
    assert!(one.borrow().stopped && other.borrow().stopped);
}
