//! Runs of small kernels: how far each comes, and when it ends.

use super::{Corun, Until, stage};
use crate::model::Sized;
use crate::world::Contender;
use gridmux_hw_model::GpuConfig;
use gridmux_workloads::{Size, by_name};

fn kernel(name: &str) -> Sized {
    let workload = by_name(name).expect("a kernel");
    Sized {
        workload,
        params: workload.params(Size::Tiny, 1),
    }
}

fn corun(programs: &[&[&str]], until: Until) -> Corun {
    let gpu = GpuConfig::builtin("gtx980").expect("built in");
    let program = |names: &&[&str]| names.iter().map(|name| kernel(name)).collect();
    Corun {
        gpu: gpu.scaled_to_sms(2),
        programs: programs.iter().map(program).collect(),
        policy: Contender::named("even"),
        until,
        sample_every: 10_000,
        free_switches: false,
    }
}

#[test]
fn programs_loop_until_the_horizon_and_slow_each_other_down() {
    let both = corun(&[&["tea"], &["vecadd", "reduction"]], Until::Cycles(60_000));
    let ran = stage::run(&both).expect("runs");
    assert_eq!(ran, stage::run(&both).expect("runs"), "to the cycle");
    assert!(
        ran.cycles >= 60_000 && ran.cycles < 61_000,
        "{}",
        ran.cycles
    );
    let alone = [0, 1].map(|place| {
        let one = Corun {
            programs: vec![both.programs[place].clone()],
            ..both.clone()
        };
        stage::run(&one).expect("runs").programs.remove(0)
    });
    let stp = ran.stp(&[&alone[0], &alone[1]]);
    assert!(stp > 1.0 && stp <= 2.01, "{stp}");
    for (together, alone) in ran.programs.iter().zip(&alone) {
        assert!(together.launches > 1 && together.blocks > together.launches);
        assert!(together.ipc() <= alone.ipc() * 1.01);
        let counted = together.counters["warp_instructions"];
        assert!(together.instructions > 0 && together.instructions <= counted);
    }
}

#[test]
fn a_program_that_has_issued_its_instructions_leaves_the_device() {
    let until = Until::Instructions {
        each: vec![4_000, 200_000],
        latest: 10_000_000,
    };
    let ran = stage::run(&corun(&[&["vecadd"], &["tea"]], until)).expect("runs");
    let [first, second] = [0, 1].map(|place| &ran.programs[place]);
    assert!(first.cycles < second.cycles, "{ran:?}");
    assert_eq!(second.cycles, ran.cycles);
    assert!((4_000..8_000).contains(&first.instructions), "{first:?}");
    assert!(second.instructions >= 200_000, "{second:?}");
}

#[test]
fn a_run_that_is_not_done_in_time_fails() {
    let until = Until::Instructions {
        each: vec![u64::MAX],
        latest: 20_000,
    };
    let error = stage::run(&corun(&[&["tea"]], until)).expect_err("too late");
    assert!(error.to_string().contains("not done"), "{error}");
}
