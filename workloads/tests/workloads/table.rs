//! What every workload promises: launches that repeat, fit their PTX, and are judged strictly.

use gridmux_workloads::{Arg, Params, Role, Size, by_name, workloads};

#[test]
fn equal_seeds_give_equal_cases_and_others_differ() {
    for workload in workloads() {
        let case = workload.case(Size::Tiny, 3);
        assert_eq!(
            case.args,
            workload.case(Size::Tiny, 3).args,
            "{}",
            workload.name
        );
        if workload.name != "fma_loop" {
            assert_ne!(
                case.args,
                workload.case(Size::Tiny, 4).args,
                "{}",
                workload.name
            );
        }
    }
}

/// Returns the parameter types as the PTX declares them, in order.
fn declared_params(ptx: &str, entry: &str) -> Vec<String> {
    let start = ptx
        .find(&format!(".entry {entry}("))
        .expect("the entry is in the module");
    let list = &ptx[start..start + ptx[start..].find(')').expect("the parameter list ends")];
    list.lines()
        .filter_map(|line| line.trim().strip_prefix(".param ."))
        .map(|line| {
            line.split_whitespace()
                .next()
                .unwrap_or_default()
                .to_owned()
        })
        .collect()
}

#[test]
fn arguments_fit_the_declared_parameters() {
    for workload in workloads() {
        let case = workload.case(Size::Tiny, 1);
        let given: Vec<&str> = case
            .args
            .iter()
            .map(|arg| match arg {
                Arg::U32(_) => "u32",
                Arg::S32(_) => "s32",
                Arg::U64(_) | Arg::Buffer { .. } => "u64",
                Arg::F32(_) => "f32",
                Arg::F64(_) => "f64",
            })
            .collect();
        assert_eq!(
            declared_params(workload.ptx, workload.entry),
            given,
            "{}",
            workload.name
        );
    }
}

#[test]
fn parameters_pack_by_natural_alignment() {
    let case = by_name("stencil3d")
        .expect("in the table")
        .case(Size::Tiny, 1);
    let packed = case.pack_params(&[0x1122, 0x3344]);
    assert_eq!(packed.len(), 8 + 8 + 5 * 4);
    assert_eq!(packed[8..16], 0x3344_u64.to_le_bytes());
    assert_eq!(packed[24..28], 9_u32.to_le_bytes());
}

#[test]
fn buffers_as_they_were_before_the_launch_are_wrong() {
    for workload in workloads() {
        let case = workload.case(Size::Tiny, 1);
        let outputs = case.initial_outputs();
        assert!(!outputs.is_empty(), "{}", workload.name);
        case.verify(&outputs).expect_err(workload.name);
        case.verify::<Vec<u8>>(&[]).expect_err(workload.name);
    }
}

#[test]
fn sizes_grow_and_fit_hardware_limits() {
    for workload in workloads() {
        let [tiny, small, large] = Size::ALL.map(|size| workload.case(size, 1));
        assert!(
            tiny.buffer_bytes() <= small.buffer_bytes()
                && small.buffer_bytes() < large.buffer_bytes()
        );
        assert!(
            tiny.blocks() > 1,
            "{}: a single block cannot be sliced",
            workload.name
        );
        for case in [tiny, small, large] {
            let threads: u32 = case.block.iter().product();
            assert!(
                (1..=1024).contains(&threads) && case.grid[1] <= 65_535 && case.grid[2] <= 65_535
            );
            assert!(
                case.args
                    .iter()
                    .all(|arg| !matches!(arg, Arg::Buffer { bytes, .. } if bytes.is_empty()))
            );
            assert!(
                case.args
                    .iter()
                    .any(|arg| matches!(arg, Arg::Buffer { role, .. } if *role != Role::In))
            );
        }
    }
}

#[test]
fn parameters_over_the_limits_are_refused_by_name() {
    for workload in workloads() {
        let params = |elements| Params {
            elements,
            rounds: 1,
            seed: 1,
        };
        let error = workload
            .case_with(params(0))
            .expect_err(workload.name)
            .to_string();
        assert!(
            error.contains(workload.name) && error.contains("elements"),
            "{error}"
        );
        workload
            .case_with(params(workload.limits.elements + 1))
            .expect_err(workload.name);
        workload.case_with(params(1)).expect(workload.name);
    }
}

#[test]
fn sizes_are_parsed_and_printed() {
    for size in Size::ALL {
        assert_eq!(size.to_string().parse(), Ok(size));
    }
    assert!(
        "huge"
            .parse::<Size>()
            .expect_err("no such size")
            .to_string()
            .contains("small")
    );
}

/// Returns the numbers in the buffer of an argument.
fn f32s(arg: &Arg) -> Vec<f32> {
    let Arg::Buffer { bytes, .. } = arg else {
        panic!("{arg:?} is no buffer");
    };
    let (chunks, _) = bytes.as_chunks();
    chunks.iter().map(|c| f32::from_le_bytes(*c)).collect()
}

/// Checks that a kernel which drops the last product of each row does not pass the tolerance of the dot product.
#[test]
fn a_dropped_product_is_found() {
    let case = by_name("matmul")
        .expect("in the table")
        .case(Size::Small, 2);
    let n = case.params.elements as usize;
    let (a, b) = (f32s(&case.args[0]), f32s(&case.args[1]));
    let product = |terms: usize| -> Vec<u8> {
        let cell = |cell: usize| {
            (0..terms).fold(0.0f32, |sum, k| {
                a[cell / n * n + k].mul_add(b[k * n + cell % n], sum)
            })
        };
        (0..n * n).flat_map(|i| cell(i).to_le_bytes()).collect()
    };
    case.verify(&[product(n)]).expect("the whole product");
    case.verify(&[product(n - 1)])
        .expect_err("one product in each row is missing");
}
