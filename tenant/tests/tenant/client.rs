//! The client end to end, against a mediator in a thread that speaks the real
//! protocol.

use crate::mock::Mock;
use gridmux_channel::ring::HostState;
use gridmux_tenant::{
    Args, Buffer, ClientError, CompletionStatus, ConnectOptions, Gpu, Stream, TypedBuffer,
};
use std::sync::atomic::Ordering;

const PTX: &[u8] = b".version 8.0\n.target sm_80\n";

fn bytes_of(values: &[f32]) -> Vec<u8> {
    values
        .iter()
        .flat_map(|value| value.to_le_bytes())
        .collect()
}

fn pattern(len: usize) -> Vec<u8> {
    (0..len)
        .map(|i| (i * 31 + i / 251).to_le_bytes()[0])
        .collect()
}

#[test]
fn data_goes_there_is_computed_upon_and_comes_back() {
    let mock = Mock::start();
    let gpu = Gpu::connect_as(&mock.path, "test").unwrap();
    assert_eq!((gpu.facts().name.as_str(), gpu.facts().sms), ("mock", 4));
    assert_eq!(gpu.welcome().name, "test");
    let module = gpu.module(PTX).unwrap();
    let scale = module.kernel("scale").unwrap();
    let stream = gpu.stream().unwrap();
    let values: Vec<f32> = (0..1000_u16).map(f32::from).collect();
    let buffer = gpu.alloc(4000).unwrap();
    stream.copy_to(&buffer, 0, &bytes_of(&values)).unwrap();
    let args = Args::new().buffer(&buffer).u32(1000).f32(3.0);
    let timing = stream
        .launch(&scale, 4, 256, 0, &args)
        .unwrap()
        .wait()
        .unwrap();
    assert!(timing.start_ns < timing.end_ns && timing.status == CompletionStatus::Ok);
    let mut result = vec![0; 4000];
    stream.copy_from(&buffer, 0, &mut result).unwrap();
    let tripled: Vec<f32> = values.iter().map(|value| value * 3.0).collect();
    assert_eq!(result, bytes_of(&tripled));
    stream.synchronize().unwrap();
}

#[test]
fn copies_of_any_size_arrive() {
    let mock = Mock::start();
    let gpu = Gpu::connect_as(&mock.path, "test").unwrap();
    let stream = gpu.stream().unwrap();
    let buffer = gpu.alloc(24 << 20).unwrap();
    for len in [0, 1, 16 << 10, (16 << 10) + 1, 1 << 20, (20 << 20) + 17] {
        let data = pattern(len);
        stream.copy_to(&buffer, 3, &data).unwrap();
        let mut back = vec![0; len];
        stream.copy_from(&buffer, 3, &mut back).unwrap();
        assert!(back == data, "{len} bytes");
    }
    stream.fill(&buffer, 1, 5, 7).unwrap();
    let mut back = [0; 8];
    stream.copy_from(&buffer, 0, &mut back).unwrap();
    assert_eq!(back[1..6], [7; 5]);
    assert_eq!(back[0], 0);
}

#[test]
fn many_launches_in_flight_all_end() {
    let mock = Mock::start();
    let gpu = Gpu::connect_as(&mock.path, "test").unwrap();
    let scale = gpu.module(PTX).unwrap().kernel("scale").unwrap();
    let stream = gpu.stream().unwrap();
    let buffer = gpu.alloc(4).unwrap();
    stream.copy_to(&buffer, 0, &bytes_of(&[1.0])).unwrap();
    let args = Args::new().buffer(&buffer).u32(1).f32(-1.0);
    let events: Vec<_> = (0..1001)
        .map(|_| stream.launch(&scale, 1, 1, 0, &args).unwrap())
        .collect();
    for event in events.iter().rev() {
        event.wait().unwrap();
        assert!(event.is_done().unwrap());
    }
    assert!(!gpu.wait_any().unwrap(), "nothing is in flight");
    gpu.think();
    let mut back = [0; 4];
    stream.copy_from(&buffer, 0, &mut back).unwrap();
    assert_eq!(f32::from_le_bytes(back), -1.0);
    assert_eq!(gpu.usage().unwrap().launches, 1001);
}

fn message<T: std::fmt::Debug>(result: Result<T, ClientError>) -> String {
    result.unwrap_err().to_string()
}

#[test]
fn errors_carry_the_mediators_text() {
    let mock = Mock::start();
    let gpu = Gpu::connect_as(&mock.path, "test").unwrap();
    assert!(message(gpu.module(b"nonsense")).contains("line 1, column 1"));
    assert!(message(gpu.module(b"")).contains("line 1, column 1"));
    assert!(message(gpu.alloc(1 << 50)).contains("out of device memory"));
    let module = gpu.module(PTX).unwrap();
    let missing = message(module.kernel("scael"));
    assert!(missing.contains("`scael`") && missing.contains("scale, fault"));
    let stream = gpu.stream().unwrap();
    let fault = module.kernel("fault").unwrap();
    let event = stream.launch(&fault, 1, 1, 0, &Args::new()).unwrap();
    let error = event.wait().unwrap_err();
    assert!(
        error.to_string().contains("kernel `fault`: read at 0x10"),
        "{error}"
    );
    assert!(!error.is_lost());
    stream.synchronize().unwrap();
    drop(stream.launch(&fault, 1, 1, 0, &Args::new()).unwrap());
    assert!(
        message(stream.synchronize()).contains("read at 0x10"),
        "an unwatched failure"
    );
    stream.synchronize().unwrap();
}

#[test]
fn launches_that_do_not_fit_are_refused_here() {
    let mock = Mock::start();
    let gpu = Gpu::connect_as(&mock.path, "test").unwrap();
    let scale = gpu.module(PTX).unwrap().kernel("scale").unwrap();
    let stream = gpu.stream().unwrap();
    let buffer = gpu.alloc(16).unwrap();
    let few = Args::new().buffer(&buffer);
    assert!(message(stream.launch(&scale, 1, 1, 0, &few)).contains("`scale`: it takes 3"));
    let args = Args::new().buffer(&buffer).u32(4).f32(1.0);
    assert!(message(stream.launch(&scale, 1, (1, 1 << 16), 0, &args)).contains("`scale`"));
    assert!(message(stream.launch(&scale, 0, 1, 0, &args).unwrap().wait()).contains("zero"));
    assert!(message(stream.copy_to(&buffer, 10, &[0; 7])).contains("outside the buffer"));
    assert!(message(stream.copy_from(&buffer, u64::MAX, &mut [0; 7])).contains("outside"));
    stream
        .launch(&scale, 1, 1, 0, &args)
        .unwrap()
        .wait()
        .unwrap();
}

#[test]
fn a_lost_device_is_reported_and_a_new_connection_works() {
    let mock = Mock::start();
    let gpu = Gpu::connect_as(&mock.path, "test").unwrap();
    let module = gpu.module(PTX).unwrap();
    let stream = gpu.stream().unwrap();
    let buffer = gpu.alloc(1 << 20).unwrap();
    let lose = module.kernel("lose_device").unwrap();
    let error = stream
        .launch(&lose, 1, 1, 0, &Args::new())
        .unwrap()
        .wait()
        .unwrap_err();
    assert!(error.is_lost(), "{error}");
    let error = loop {
        match stream
            .fill(&buffer, 0, 1, 1)
            .and_then(|()| stream.synchronize())
        {
            Ok(()) => std::thread::yield_now(),
            Err(error) => break error,
        }
    };
    assert!(error.is_lost(), "{error}");
    let again = gpu.reconnect().unwrap();
    let other = again.stream().unwrap();
    assert!(matches!(
        other.copy_to(&buffer, 0, &[1]),
        Err(ClientError::Foreign("buffer"))
    ));
    drop((stream, buffer, module, lose, gpu));
    works(&other, &again.alloc(16).unwrap());
}

#[test]
fn why_the_connection_was_closed_is_said_where_the_mediator_says_it() {
    for (state, reason) in [
        (HostState::Removed, "no more in the service's configuration"),
        (HostState::Stopped, "the service was stopped"),
        (HostState::Closed, "the mediator closed the connection"),
    ] {
        let mock = Mock::start();
        let gpu = Gpu::connect(&mock.path).unwrap();
        mock.knobs.farewell.set(state).unwrap();
        let error = (0..1_000_000).find_map(|_| gpu.alloc(16).err());
        let error = error.expect("the connection is closed");
        assert!(error.is_lost(), "{error:?}");
        assert!(error.to_string().contains(reason), "{state:?}: {error}");
    }
}

fn works(stream: &Stream, buffer: &Buffer) {
    stream.copy_to(buffer, 0, &[5; 16]).unwrap();
    let mut back = [0; 16];
    stream.copy_from(buffer, 0, &mut back).unwrap();
    assert_eq!(back, [5; 16]);
}

#[test]
fn dropped_buffers_are_given_back() {
    let mock = Mock::start();
    let gpu = Gpu::connect_as(&mock.path, "test").unwrap();
    let buffers: Vec<_> = (1..10).map(|i| gpu.alloc(i * 100).unwrap()).collect();
    assert_eq!(mock.held_bytes.load(Ordering::Relaxed), 4500);
    drop(buffers);
    assert_eq!(mock.held_bytes.load(Ordering::Relaxed), 0);
}

#[test]
fn nobody_there_is_said_clearly() {
    let text = message(Gpu::connect("/nonexistent/gridmux.sock"));
    assert!(text.contains("/nonexistent/gridmux.sock") && text.contains("gridmux serve"));
}

#[test]
fn typed_buffers_and_their_parts_hold_values() {
    let mock = Mock::start();
    let gpu = Gpu::connect_as(&mock.path, "test").unwrap();
    let stream = gpu.stream().unwrap();
    let whole = gpu.alloc_of::<f64>(100).unwrap();
    assert_eq!(whole.len(), 100);
    let values: Vec<f64> = (0..100_u8).map(f64::from).collect();
    stream.upload(&whole, &values).unwrap();
    let part = whole.slice(90..95).unwrap();
    stream.upload(&part, &[-1.0, -2.0]).unwrap();
    assert!(message(whole.slice(90..101)).contains("outside the buffer of 800 bytes"));
    assert!(message(whole.slice(u64::MAX..u64::MAX)).contains("outside"));
    assert!(message(stream.upload(&part, &[0.0; 6])).contains("outside the buffer of 40"));
    drop(whole);
    assert_eq!(
        mock.held_bytes.load(Ordering::Relaxed),
        800,
        "a part keeps it"
    );
    let mut back = [0.0; 5];
    stream.download(&part, &mut back).unwrap();
    assert_eq!(back, [-1.0, -2.0, 92.0, 93.0, 94.0]);
    let odd = part.untyped().slice(4, 20).unwrap();
    assert!(message(TypedBuffer::<u64>::of(odd.clone())).contains("u64"));
    assert_eq!(TypedBuffer::<u32>::of(odd.clone()).unwrap().len(), 5);
    assert!(TypedBuffer::<()>::of(odd).is_err());
    drop(part);
    assert_eq!(mock.held_bytes.load(Ordering::Relaxed), 0);
}

#[test]
fn memory_is_copied_and_filled_on_the_device() {
    let mock = Mock::start();
    let gpu = Gpu::connect_as(&mock.path, "test").unwrap();
    let stream = gpu.stream().unwrap();
    let (from, to) = (gpu.alloc(64).unwrap(), gpu.alloc(64).unwrap());
    stream.copy_to(&from, 0, &pattern(64)).unwrap();
    stream.fill(&to, 0, 64, 0).unwrap();
    stream.copy_on_device(&from, 8, &to, 16, 24).unwrap();
    stream.fill_u16(&to, 40, 6, 0x1234).unwrap();
    stream.fill_u32(&to, 48, 8, 0x5678_9abc).unwrap();
    let mut back = [0; 64];
    stream.copy_from(&to, 0, &mut back).unwrap();
    let mut expected = [0; 64];
    expected[16..40].copy_from_slice(&pattern(64)[8..32]);
    expected[40..46].copy_from_slice(&[0x34, 0x12, 0x34, 0x12, 0x34, 0x12]);
    expected[48..56].copy_from_slice(&[0xbc, 0x9a, 0x78, 0x56, 0xbc, 0x9a, 0x78, 0x56]);
    assert_eq!(back, expected);
    let refused = message(stream.fill_u32(&to, 2, 4, 0));
    assert!(
        refused.contains("4 bytes at") && refused.contains("elements of 4"),
        "{refused}"
    );
    assert!(message(stream.fill_u16(&to, 0, 3, 0)).contains("elements of 2"));
    assert!(message(stream.copy_on_device(&from, 60, &to, 0, 5)).contains("outside"));
    assert!(message(stream.copy_on_device(&from, 0, &to, 60, 5)).contains("outside"));
}

#[test]
fn a_modules_variable_is_memory_that_keeps_it_loaded() {
    let mock = Mock::start();
    let gpu = Gpu::connect_as(&mock.path, "test").unwrap();
    let stream = gpu.stream().unwrap();
    let module = gpu.module(PTX).unwrap();
    let table = module.global("table").unwrap();
    assert_eq!(table.bytes(), 64);
    let missing = message(module.global("tabel"));
    assert!(
        missing.contains("`tabel`") && missing.contains("table"),
        "{missing}"
    );
    drop(module);
    stream.copy_to(&table, 60, &[1, 2, 3, 4]).unwrap();
    let mut back = [0; 4];
    stream
        .copy_from(&table.slice(60, 4).unwrap(), 0, &mut back)
        .unwrap();
    assert_eq!(back, [1, 2, 3, 4]);
    assert!(message(stream.fill(&table, 64, 1, 0)).contains("outside"));
}

#[test]
fn a_stream_may_wait_for_an_event_of_its_own_connection() {
    let mock = Mock::start();
    let gpu = Gpu::connect_as(&mock.path, "test").unwrap();
    let (one, other) = (gpu.stream().unwrap(), gpu.stream().unwrap());
    mock.knobs.hold.store(true, Ordering::Relaxed);
    let event = one.record().unwrap();
    other.wait_event(&event).unwrap();
    let behind = other.record().unwrap();
    assert!(!behind.is_done().unwrap());
    mock.knobs.hold.store(false, Ordering::Relaxed);
    behind.wait().unwrap();
    event.wait().unwrap();
    other.wait_event(&event).unwrap();
    other.synchronize().unwrap();
    let foreign = Mock::start();
    let stranger = Gpu::connect_as(&foreign.path, "test").unwrap();
    let stream = stranger.stream().unwrap();
    assert!(matches!(
        stream.wait_event(&event),
        Err(ClientError::Foreign("event"))
    ));
}

#[test]
fn a_client_may_say_which_tenant_it_is() {
    let mock = Mock::start();
    let ask = |tenant: &str| {
        let options = ConnectOptions {
            name: "test".into(),
            tenant: Some(tenant.into()),
        };
        Gpu::connect_to(&mock.path, options)
    };
    let gpu = ask("mine").unwrap();
    assert_eq!(
        (gpu.welcome().tenant.as_str(), gpu.welcome().client),
        ("mine", 17)
    );
    let memory = gpu.memory_info().unwrap();
    assert_eq!(
        (memory.total_bytes, memory.free_bytes),
        (32 << 20, 32 << 20)
    );
    drop(gpu);
    assert!(message(ask("theirs")).contains("`theirs`"));
    assert!(message(ask("")).contains("1 to 32 bytes"));
    assert!(message(ask(&"x".repeat(33))).contains("has 33"));
}

#[test]
fn what_kernels_printed_is_taken_with_what_was_lost() {
    let mock = Mock::start();
    let gpu = Gpu::connect(&mock.path).unwrap();
    let printed = gpu.take_printed().unwrap();
    assert_eq!(printed.text, b"printed");
    assert_eq!(printed.lost_bytes, 3);
}

#[test]
fn a_connection_that_is_closed_before_it_is_let_in_is_made_again() {
    let mock = Mock::start_cutting(4);
    let gpu = Gpu::connect(&mock.path).unwrap();
    assert_eq!(mock.knobs.to_cut.load(Ordering::Relaxed), 0);
    assert_eq!(gpu.facts().name, "mock");
}

#[test]
fn connections_that_are_closed_all_the_time_are_an_error_in_the_end() {
    let most = u64::MAX >> 1;
    let mock = Mock::start_cutting(most);
    let error = message(Gpu::connect(&mock.path));
    assert!(error.contains("closed the connection"), "{error}");
    let tried = most - mock.knobs.to_cut.load(Ordering::Relaxed);
    assert!((3..100).contains(&tried), "{tried} attempts");
}
