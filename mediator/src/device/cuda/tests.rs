//! Tests of the whole backend: what needs no driver, and one pass over a real GPU where there is one.

use super::module::Module;
use super::tables::{Function, KernelEntry, Tables};
use super::{OpenCuda, blocks_of, find_copy, open};
use crate::device::cuda::allocator::Range;
use crate::device::cuda::buffer::HostBuffer;
use crate::device::{
    AllocationUnits, BufferId, Command, CopyCommand, Device, DeviceError, DeviceKernelId,
    Direction, DomainId, KernelLimits, Lane, LaunchCommand, MemsetCommand, Outcome, Params, Report,
    Tag,
};
use crate::waker::Waker;
use gridmux_channel::memory::{Protection, SealedMemfd, TenantBuffer};
use gridmux_channel::ring::CompletionStatus;
use gridmux_policy::shape::DeviceShape;
use std::os::fd::AsFd;
use std::ptr;
use std::sync::Arc;

const H200: DeviceShape = DeviceShape {
    sms: 132,
    threads: 2048,
    blocks: 32,
    registers: 65536,
    shared_bytes: 233_472,
};

fn limits() -> KernelLimits {
    KernelLimits {
        id: DeviceKernelId(0),
        params_bytes: 8,
        static_shared_bytes: 0,
        registers_per_thread: 32,
        max_threads_per_block: 1024,
        units: AllocationUnits {
            registers: 256,
            shared_bytes: 128,
            reserved_shared_bytes: 1024,
        },
    }
}

fn tag(lane: u8) -> Tag {
    Tag {
        lane: Lane(lane),
        generation: 1,
    }
}

fn launch(grid: [u32; 3], block: [u32; 3]) -> LaunchCommand {
    LaunchCommand {
        tag: tag(0),
        domain: DomainId(0),
        kernel: DeviceKernelId(0),
        grid,
        block,
        dynamic_shared_bytes: 0,
        budget_cycles: 0,
        params: Params::EMPTY,
    }
}

fn tenant_buffer(bytes: u64) -> TenantBuffer {
    let memfd = SealedMemfd::create("test", bytes).unwrap();
    let protection = Protection {
        read: true,
        write: true,
    };
    TenantBuffer::new(
        memfd.as_fd().try_clone_to_owned().unwrap(),
        0,
        bytes,
        protection,
    )
    .unwrap()
}

#[test]
fn no_more_blocks_count_as_resident_than_the_sms_hold() {
    let entry = KernelEntry {
        domain: DomainId(0),
        function: Function(ptr::null_mut()),
        limits: limits(),
        module: Arc::new(Module::none()),
    };
    let small = blocks_of(&launch([10, 2, 1], [256, 1, 1]), &entry, &H200);
    assert_eq!((small.all, small.resident), (20, 20));
    let large = blocks_of(&launch([100_000, 1, 1], [256, 1, 1]), &entry, &H200);
    assert_eq!((large.all, large.resident), (100_000, 132 * 8));
    let huge = blocks_of(
        &launch([u32::MAX, 65535, 65535], [1024, 1, 1]),
        &entry,
        &H200,
    );
    assert_eq!((huge.all, huge.resident), (u32::MAX, 132 * 2));
}

#[test]
fn a_copy_must_stay_inside_an_allocation_and_its_buffer() {
    let ranges: Arc<[Range]> = Arc::new([Range {
        start: 0x10_0000,
        bytes: 4096,
    }]);
    let buffer = Arc::new(HostBuffer::map(&tenant_buffer(4096), false).unwrap());
    let tables = Tables {
        allocations: Arc::new([(0, ranges)].into_iter().collect()),
        buffers: Arc::new([(5, buffer)].into_iter().collect()),
        ..Tables::default()
    };
    let good = CopyCommand {
        tag: tag(0),
        domain: DomainId(0),
        direction: Direction::FromDevice,
        buffer: BufferId(5),
        buffer_offset: 0,
        address: 0x10_0000,
        bytes: 4096,
    };
    assert!(find_copy(&tables, &good).is_ok());
    for (bad, status) in [
        (
            CopyCommand {
                bytes: 4097,
                ..good
            },
            CompletionStatus::BadAddress,
        ),
        (
            CopyCommand { address: 0, ..good },
            CompletionStatus::BadAddress,
        ),
        (
            CopyCommand {
                domain: DomainId(1),
                ..good
            },
            CompletionStatus::BadAddress,
        ),
        (
            CopyCommand {
                buffer: BufferId(6),
                ..good
            },
            CompletionStatus::BadIova,
        ),
        (
            CopyCommand {
                buffer_offset: 1,
                ..good
            },
            CompletionStatus::BadIova,
        ),
        (
            CopyCommand {
                buffer_offset: u64::MAX,
                ..good
            },
            CompletionStatus::BadIova,
        ),
    ] {
        assert_eq!(
            find_copy(&tables, &bad).err().map(|(status, _)| status),
            Some(status),
            "{bad:?}"
        );
    }
}

/// A kernel that writes its thread's number plus a parameter.
const PTX: &str = "
.version 7.0
.target sm_70
.address_size 64
.visible .entry iota(.param .u64 out, .param .u32 add)
{
    .reg .b32 %r<6>;
    .reg .b64 %rd<4>;
    ld.param.u64 %rd1, [out];
    ld.param.u32 %r1, [add];
    cvta.to.global.u64 %rd1, %rd1;
    mov.u32 %r2, %ctaid.x;
    mov.u32 %r3, %ntid.x;
    mov.u32 %r4, %tid.x;
    mad.lo.u32 %r5, %r2, %r3, %r4;
    mul.wide.u32 %rd2, %r5, 4;
    add.u64 %rd3, %rd1, %rd2;
    add.u32 %r5, %r5, %r1;
    st.global.u32 [%rd3], %r5;
    ret;
}
";

/// Submits a command and collects its reports up to the end.
fn run(device: &mut super::CudaDevice, command: &Command) -> Vec<Report> {
    device.submit(command).unwrap();
    let mut reports = Vec::new();
    loop {
        match device.poll() {
            Some(report @ Report::Ended { .. }) => {
                reports.push(report);
                return reports;
            }
            Some(report) => reports.push(report),
            None => std::thread::yield_now(),
        }
    }
}

fn is_done(reports: &[Report]) -> bool {
    matches!(reports.last(), Some(Report::Ended { outcome: Outcome::Done, start, end, .. }) if start <= end)
}

#[test]
fn a_real_gpu_loads_launches_and_copies() {
    let waker = Arc::new(Waker::new().unwrap());
    let OpenCuda {
        mut device,
        control,
    } = match open("0", &waker) {
        Ok(open) => open,
        Err(DeviceError::NoDevice(reason)) => {
            println!("SKIPPED: no CUDA driver ({reason})");
            return;
        }
        Err(error) => panic!("{error}"),
    };
    let domain = control.create_domain(1 << 30).unwrap();
    let buffer = Arc::new(tenant_buffer(4096));
    let id = control.register_buffer(Arc::clone(&buffer)).unwrap();
    // The slice form appends its control struct; the kernel is launched as it was written.
    let mut module = crate::host::compile(PTX.into()).unwrap();
    module.ptx = PTX.into();
    let kernels = control.load(domain, &module).unwrap();
    assert_eq!(kernels[0].limits.max_threads_per_block, 1024);
    let address = control.alloc(domain, 4096).unwrap();

    let (fill_tag, launch_tag, copy_tag) = (tag(1), tag(2), tag(3));
    let fill = MemsetCommand {
        tag: fill_tag,
        domain,
        address,
        bytes: 4096,
        value: 0xee,
    };
    assert!(is_done(&run(&mut device, &Command::Memset(fill))));
    let mut launch = launch([7, 1, 1], [128, 1, 1]);
    (launch.tag, launch.domain, launch.kernel) = (launch_tag, domain, kernels[0].limits.id);
    let bytes = launch.params.resize(12).unwrap();
    bytes[..8].copy_from_slice(&address.to_le_bytes());
    bytes[8..].copy_from_slice(&1000_u32.to_le_bytes());
    let reports = run(&mut device, &Command::Launch(launch));
    assert!(is_done(&reports), "{reports:?}");
    assert!(
        matches!(reports[0], Report::Placed { blocks: 7, .. }),
        "{reports:?}"
    );
    assert!(
        matches!(reports[1], Report::Retired { blocks: 7, .. }),
        "{reports:?}"
    );
    let copy = CopyCommand {
        tag: copy_tag,
        domain,
        direction: Direction::FromDevice,
        buffer: id,
        buffer_offset: 0,
        address,
        bytes: 4096,
    };
    assert!(is_done(&run(&mut device, &Command::Copy(copy))));
    let mut out = vec![0; 4096];
    buffer.read_at(0, &mut out).unwrap();
    let words: Vec<u32> = out
        .chunks_exact(4)
        .map(|w| u32::from_le_bytes(w.try_into().unwrap()))
        .collect();
    assert!(
        (0..896).zip(&words).all(|(i, word)| i + 1000 == *word),
        "{words:?}"
    );
    assert!(
        words[896..].iter().all(|word| *word == 0xeeee_eeee),
        "{words:?}"
    );

    let outside = CopyCommand {
        bytes: 4097,
        ..copy
    };
    let ended = run(&mut device, &Command::Copy(outside));
    let refused = Outcome::Failed(CompletionStatus::BadAddress);
    assert!(
        matches!(ended[..], [Report::Ended { outcome, .. }] if outcome == refused),
        "{ended:?}"
    );
    assert!(control.take_fault(copy_tag).is_some());
    control.free(domain, address).unwrap();
    assert!(matches!(
        control.free(domain, address),
        Err(DeviceError::BadAddress { .. })
    ));
    assert_eq!(control.used_bytes(domain), 0);
    control.destroy_domain(domain);

    // The dispatcher looks at the new tables, so that the next call frees what the old ones held.
    assert_eq!(device.poll(), None);
    let next = control.create_domain(1 << 30).unwrap();
    let address = control.alloc(next, 4096).unwrap();
    let copy = CopyCommand {
        domain: next,
        address,
        ..copy
    };
    assert!(is_done(&run(&mut device, &Command::Copy(copy))));
    buffer.read_at(0, &mut out).unwrap();
    assert!(
        out.iter().all(|byte| *byte == 0),
        "the next tenant finds what the last one left"
    );
    control.unregister_buffer(id);
    control.destroy_domain(next);
    assert_eq!(device.poll(), None);
    assert!(matches!(
        control.load(domain, &module),
        Err(DeviceError::Backend(_))
    ));
    module.ptx = b"this is not PTX".to_vec();
    let Err(DeviceError::Load(log)) = control.load(domain, &module) else {
        panic!("nonsense was loaded");
    };
    assert!(log.contains("ptxas"), "{log}");
    assert!(!device.is_lost());
}
