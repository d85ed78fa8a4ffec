//! How well policies run mixes of workloads: system throughput (STP) and average normalised turnaround time (ANTT) of
//! programs that run together, against each alone (Eyerman and Eeckhout, IEEE Micro 28(3), 2008).
//!
//! The peer is one process with a stream for each program and without gridmux. A modelled device is reached through the
//! service alone; there, both that process and a program alone are the one tenant of a service under `fifo`.

use super::bench::Seat;
use super::job::{Program, Report, Work};
use super::{Desk, ServicePart};
use anyhow::{Context, ensure};

pub(super) const PART: ServicePart = ServicePart {
    name: "mixes",
    about: "STP and ANTT of three mixes of workloads under three policies, beside plain streams of one process",
    limit_s: 150,
    run,
};

/// The mixes and their workloads.
const MIXES: [(&str, &[&str]); 3] = [
    ("compute and memory", &["fma_loop", "vecadd"]),
    ("two of compute", &["mri_q", "black_scholes"]),
    ("three", &["matmul", "spmv", "stencil3d"]),
];
/// The policies.
const POLICIES: [&str; 3] = ["fifo", "smk-p", "gridmux"];
/// Launches over which the time of one is averaged.
const TRIAL: u32 = 4;
/// Most launches of a program, which are all submitted at once.
const MOST: f64 = 400.0;

fn run(desk: &mut Desk<'_>) -> anyhow::Result<()> {
    let is_model = desk.bench.is_model();
    let peer = match is_model {
        true => {
            "one process with a stream for each program, through a service of one tenant under fifo"
        }
        false => "one process with a stream for each program, through the system's driver library",
    };
    desk.fact("plain streams", peer);
    for (mix, workloads) in MIXES {
        let mut programs = Vec::new();
        for workload in workloads {
            programs.push(sized(desk, workload)?);
        }
        let mut alone_us = Vec::new();
        for program in &programs {
            let report = apart(desk, std::slice::from_ref(program))?;
            alone_us.extend(report.programs_us);
            let name = &program.workload;
            let us = alone_us.last().copied().unwrap_or(f64::NAN);
            desk.figure(
                format!("{mix}: {name}: launches"),
                program.launches.into(),
                "launches",
            );
            desk.figure(format!("{mix}: {name}: alone"), us, "us");
        }
        let together = apart(desk, &programs)?;
        tell(
            desk,
            mix,
            "plain streams",
            &programs,
            (&alone_us, &together.programs_us),
        );
        for policy in POLICIES {
            let seats: Vec<Seat> = programs
                .iter()
                .map(|program| {
                    let programs = vec![program.clone()];
                    Seat::new(program.workload.clone(), Work::Programs { programs })
                })
                .collect();
            let round = desk.bench.round(policy, &seats)?;
            let name = format!("{mix}, {policy}");
            desk.check_clock(&name, round.holds_expired);
            let verified = round.told.iter().all(|told| told.report.verified);
            desk.check(
                format!("{name}: results are right"),
                verified,
                "a program's are not",
            );
            let times = round
                .told
                .iter()
                .flat_map(|told| told.report.programs_us.clone());
            let times: Vec<f64> = times.collect();
            tell(desk, mix, policy, &programs, (&alone_us, &times));
        }
    }
    Ok(())
}

/// Returns a program that takes a given time alone, with the number of launches which that needs.
fn sized(desk: &mut Desk<'_>, workload: &str) -> anyhow::Result<Program> {
    let mut program = Program {
        workload: workload.to_owned(),
        size: desk.scale.choose("small", "large").to_owned(),
        launches: TRIAL,
    };
    let due_us = desk.scale.choose(300.0, 100_000.0);
    let trial = apart(desk, std::slice::from_ref(&program))?;
    let us = trial
        .programs_us
        .first()
        .context("a program without a time")?;
    let launches = (due_us / (us / f64::from(TRIAL))).clamp(1.0, MOST);
    #[allow(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "it lies between 1 and MOST"
    )]
    let launches = launches.round() as u32;
    program.launches = launches;
    Ok(program)
}

/// Runs programs in one process without gridmux, or what stands in for that.
fn apart(desk: &mut Desk<'_>, programs: &[Program]) -> anyhow::Result<Report> {
    let work = Work::Programs {
        programs: programs.to_vec(),
    };
    let report = desk.straight("a process alone", &work)?;
    let names: Vec<_> = programs.iter().map(|program| &program.workload).collect();
    ensure!(report.verified, "a result of {names:?} is wrong");
    Ok(report)
}

/// Reports how programs fared together against alone.
fn tell(
    desk: &mut Desk<'_>,
    mix: &str,
    how: &str,
    programs: &[Program],
    (alone_us, together_us): (&[f64], &[f64]),
) {
    let slowdowns: Vec<f64> = alone_us
        .iter()
        .zip(together_us)
        .map(|(alone, together)| together / alone)
        .collect();
    for (program, slowdown) in programs.iter().zip(&slowdowns) {
        let name = &program.workload;
        desk.figure(
            format!("{mix}, {how}: {name}: slowdown"),
            *slowdown,
            "ratio",
        );
    }
    let [stp, antt] = stp_and_antt(&slowdowns);
    desk.figure(format!("{mix}, {how}: STP"), stp, "programs");
    desk.figure(format!("{mix}, {how}: ANTT"), antt, "ratio");
}

/// Returns system throughput and average normalised turnaround time of these slowdowns.
fn stp_and_antt(slowdowns: &[f64]) -> [f64; 2] {
    let stp = slowdowns.iter().map(|slowdown| 1.0 / slowdown).sum();
    let antt = slowdowns.iter().sum::<f64>() / slowdowns.len() as f64;
    [stp, antt]
}

#[cfg(test)]
mod tests {
    use super::stp_and_antt;

    #[test]
    fn programs_in_turns_make_one_program_and_two_that_do_not_meet_make_two() {
        assert_eq!(stp_and_antt(&[2.0, 2.0]), [1.0, 2.0]);
        assert_eq!(stp_and_antt(&[1.0, 1.0]), [2.0, 1.0]);
        assert_eq!(stp_and_antt(&[4.0, 1.0]), [1.25, 2.5]);
    }
}
