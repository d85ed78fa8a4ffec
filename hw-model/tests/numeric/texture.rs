//! Textures and surfaces: every geometry, address mode and filter against the formulas of the CUDA C++ Programming
//! Guide's appendix "Texture Fetching", in doubles (PTX ISA sections 9.7.10 and 9.7.11).
//! Length: every kind of object stands beside its siblings and shares the runner.

use crate::support::opcode::report;
use crate::support::{Bench, functional};
use gridmux_hw_model::texture::{AddressMode, Channel, Extent, Image, Object, Sampler, Texture};
use gridmux_workloads::Prng;

/// Runs 64 threads that each load `words` words of input into `%r10…` and store `results` words from `%r0…`; `%rd9`
/// is the handle.
fn run(
    bench: &mut Bench,
    head: &str,
    body: &str,
    handle: u64,
    input: &[u32],
    words: usize,
    results: usize,
) -> Vec<u32> {
    let mut ptx = format!(
        ".version 8.4\n.target sm_90\n.address_size 64\n{head}\n.visible .entry k(.param .u64 h, .param .u64 a, .param .u64 d)\n{{\n\
         .reg .b32 %r<32>;\n.reg .b64 %rd<10>;\n.reg .b16 %h<8>;\nld.param.u64 %rd9, [h];\nld.param.u64 %rd0, [a];\n\
         mov.u32 %r31, %tid.x;\nmad.wide.u32 %rd0, %r31, {}, %rd0;\n",
        4 * words
    );
    for n in 0..words {
        ptx += &format!("ld.global.u32 %r{}, [%rd0+{}];\n", 10 + n, 4 * n);
    }
    ptx += &format!(
        "{body}\nld.param.u64 %rd1, [d];\nmad.wide.u32 %rd1, %r31, {}, %rd1;\n",
        4 * results
    );
    for n in 0..results {
        ptx += &format!("st.global.u32 [%rd1+{}], %r{n};\n", 4 * n);
    }
    ptx += "ret;\n}\n";
    let module =
        gridmux_ptx::Module::parse(ptx.as_str()).unwrap_or_else(|error| panic!("{error}\n{ptx}"));
    let program = module
        .decode()
        .unwrap_or_else(|error| panic!("{error}\n{ptx}"));
    let loaded = bench
        .gpu
        .load(bench.domain, &program, ptx.as_bytes())
        .unwrap_or_else(|error| panic!("{error}\n{ptx}"));
    if !head.is_empty() {
        bench
            .gpu
            .bind(&loaded, "object", handle)
            .expect("the reference exists");
    }
    let kernel = loaded.kernel("k").expect("the kernel");
    let data: Vec<u8> = input.iter().flat_map(|v| v.to_le_bytes()).collect();
    let (a, d) = (
        bench.buffer(&data),
        bench.buffer(&vec![0; 64 * 4 * results]),
    );
    let params: Vec<u8> = [handle, a, d]
        .iter()
        .flat_map(|v| v.to_le_bytes())
        .collect();
    let launch = bench.simple(&kernel, 1, 64, &params);
    functional(bench, &launch);
    bench.words(d, 64 * results)
}

const SIDES: [usize; 3] = [7, 5, 3];

/// An image of floats, one channel or four, and its texels.
fn floats(bench: &mut Bench, extent: Extent, channels: u32) -> (Image, Vec<f64>) {
    let mut prng = Prng::new(5);
    let [width, height, depth] = extent.sizes().map(|v| v as usize);
    let row = width * channels as usize + 4;
    let texels: Vec<f32> = (0..row * height * depth)
        .map(|_| prng.f32_in(-4.0, 4.0))
        .collect();
    let bytes: Vec<u8> = texels.iter().flat_map(|v| v.to_le_bytes()).collect();
    let image = Image {
        address: bench.buffer(&bytes),
        extent,
        row_bytes: 4 * row as u64,
        channel: Channel::F32,
        channels,
    };
    (image, texels.into_iter().map(f64::from).collect())
}

fn fold(at: i64, size: usize, mode: AddressMode) -> Option<usize> {
    let size = size as i64;
    let at = match mode {
        AddressMode::Clamp => at.clamp(0, size - 1),
        AddressMode::Border => return (0..size).contains(&at).then_some(at as usize),
        AddressMode::Wrap => at.rem_euclid(size),
        AddressMode::Mirror => {
            let round = at.div_euclid(size);
            let part = at.rem_euclid(size);
            if round % 2 == 0 {
                part
            } else {
                size - 1 - part
            }
        }
    };
    Some(at as usize)
}

/// The guide's formulas: B(x) = x − 0.5, i = floor(B), α = frac(B) in 1/256ths.
fn sampled(
    texel: &dyn Fn([usize; 3]) -> f64,
    coordinates: &[f64],
    sizes: [usize; 3],
    sampler: &Sampler,
) -> f64 {
    let mut sum = 0.0;
    for corner in 0..if sampler.linear {
        1 << coordinates.len()
    } else {
        1
    } {
        let mut weight = 1.0;
        let mut at = [0; 3];
        let mut outside = false;
        for (axis, x) in coordinates.iter().enumerate() {
            let x = if sampler.normalized {
                x * sizes[axis] as f64
            } else {
                *x
            };
            let mode = match sampler.address_modes[axis] {
                AddressMode::Wrap | AddressMode::Mirror if !sampler.normalized => {
                    AddressMode::Clamp
                }
                mode => mode,
            };
            let index = if sampler.linear {
                let b = ((x - 0.5) * 256.0).round_ties_even() / 256.0;
                let alpha = b - b.floor();
                let second = corner >> axis & 1 == 1;
                weight *= if second { alpha } else { 1.0 - alpha };
                b.floor() as i64 + i64::from(second)
            } else {
                x.floor() as i64
            };
            match fold(index, sizes[axis], mode) {
                Some(index) => at[axis] = index,
                None => outside = true,
            }
        }
        sum += if outside || weight == 0.0 {
            0.0
        } else {
            weight * texel(at)
        };
    }
    sum
}

// Length: loops over geometries and modes around one comparison.
#[test]
fn sampling() {
    let [w, h, d] = SIDES.map(|v| v as u32);
    let geometries = [
        (
            "1d",
            Extent::OneD {
                width: w,
                layers: 0,
            },
            1,
        ),
        (
            "2d",
            Extent::TwoD {
                width: w,
                height: h,
                layers: 0,
            },
            2,
        ),
        (
            "3d",
            Extent::ThreeD {
                width: w,
                height: h,
                depth: d,
            },
            3,
        ),
    ];
    let modes = [
        AddressMode::Wrap,
        AddressMode::Mirror,
        AddressMode::Clamp,
        AddressMode::Border,
    ];
    for (name, extent, dimensions) in geometries {
        for mode in modes {
            for linear in [false, true] {
                for normalized in [false, true] {
                    let mut bench = Bench::named("h200");
                    let (image, texels) = floats(&mut bench, extent, 4);
                    let sampler = Sampler {
                        address_modes: [mode; 3],
                        linear,
                        normalized,
                    };
                    let object = Object::Texture(Texture {
                        image,
                        sampler,
                        normalized_float: false,
                    });
                    let handle = bench
                        .gpu
                        .memory_mut()
                        .create_object(bench.domain, object)
                        .expect("sound");
                    let mut prng = Prng::new(9);
                    let range = if normalized { 2.5 } else { 12.0 };
                    let input: Vec<f32> = (0..64 * 4).map(|_| prng.f32_in(-range, range)).collect();
                    let words: Vec<u32> = input.iter().map(|v| v.to_bits()).collect();
                    let coordinates =
                        ["%r10", "%r10, %r11", "%r10, %r11, %r12, %r12"][dimensions - 1];
                    let body = format!(
                        "tex.{name}.v4.f32.f32 {{%r0, %r1, %r2, %r3}}, [%rd9, {{{coordinates}}}];"
                    );
                    let got = run(&mut bench, "", &body, handle, &words, 4, 4);
                    let sizes = extent.sizes().map(|v| v as usize);
                    let row = image.row_bytes as usize / 4;
                    for lane in 0..64 {
                        let at: Vec<f64> = (0..dimensions)
                            .map(|k| f64::from(input[lane * 4 + k]))
                            .collect();
                        for channel in 0..4 {
                            let texel = |[x, y, z]: [usize; 3]| {
                                texels[(z * sizes[1] + y) * row + 4 * x + channel]
                            };
                            let want = sampled(&texel, &at, sizes, &sampler);
                            let got = f64::from(f32::from_bits(got[lane * 4 + channel]));
                            assert!(
                                (got - want).abs() <= 1e-5,
                                "{body} {mode:?} {linear} {normalized} at {at:?}: {got}, not {want}"
                            );
                        }
                    }
                    report(&body);
                }
            }
        }
    }
}

#[test]
fn layers_and_references() {
    for (name, extent) in [
        (
            "a1d",
            Extent::OneD {
                width: 7,
                layers: 3,
            },
        ),
        (
            "a2d",
            Extent::TwoD {
                width: 7,
                height: 5,
                layers: 3,
            },
        ),
    ] {
        let mut bench = Bench::named("h200");
        let (image, texels) = floats(&mut bench, extent, 1);
        let sampler = Sampler {
            address_modes: [AddressMode::Clamp; 3],
            linear: false,
            normalized: false,
        };
        let object = Object::Texture(Texture {
            image,
            sampler,
            normalized_float: false,
        });
        let handle = bench
            .gpu
            .memory_mut()
            .create_object(bench.domain, object)
            .expect("sound");
        let input: Vec<u32> = (0..64_u32).flat_map(|n| [n % 3, n % 7, n % 5, 0]).collect();
        let coordinates = if name == "a1d" {
            "%r10, %r11"
        } else {
            "%r10, %r11, %r12, %r12"
        };
        // Through a reference variable of the module.
        let body =
            format!("tex.{name}.v4.f32.s32 {{%r0, %r1, %r2, %r3}}, [object, {{{coordinates}}}];");
        let got = run(
            &mut bench,
            ".global .texref object;",
            &body,
            handle,
            &input,
            4,
            4,
        );
        let row = image.row_bytes as usize / 4;
        let height = extent.sizes()[1] as usize;
        for lane in 0..64 {
            let [layer, x, y] = [0, 1, 2].map(|k| input[lane * 4 + k] as usize);
            let y = if name == "a1d" { 0 } else { y };
            let want = texels[(layer * height + y) * row + x] as f32;
            let lanes: Vec<f32> = (0..4).map(|c| f32::from_bits(got[lane * 4 + c])).collect();
            assert_eq!(lanes, [want, 0.0, 0.0, 1.0], "{body} lane {lane}");
        }
        report(&body);
    }
}

#[test]
fn formats_of_channels() {
    for (channel, normalized, want) in [
        (
            Channel::U8,
            false,
            &(|b: &[u8]| f64::from(b[0])) as &dyn Fn(&[u8]) -> f64,
        ),
        (Channel::S8, false, &|b| f64::from(b[0] as i8)),
        (Channel::U16, false, &|b| {
            f64::from(u16::from_le_bytes([b[0], b[1]]))
        }),
        (Channel::S16, false, &|b| {
            f64::from(i16::from_le_bytes([b[0], b[1]]))
        }),
        (Channel::U8, true, &|b| f64::from(b[0]) / 255.0),
        (Channel::S8, true, &|b| {
            (f64::from(b[0] as i8) / 127.0).max(-1.0)
        }),
        (Channel::U16, true, &|b| {
            f64::from(u16::from_le_bytes([b[0], b[1]])) / 65535.0
        }),
        (Channel::S16, true, &|b| {
            (f64::from(i16::from_le_bytes([b[0], b[1]])) / 32767.0).max(-1.0)
        }),
    ] {
        let mut bench = Bench::named("h200");
        let bytes: Vec<u8> = (0..64 * 4 * 2)
            .map(|n: u32| (n.wrapping_mul(37) ^ n >> 3) as u8)
            .collect();
        let size = channel.bytes() as usize;
        let image = Image {
            address: bench.buffer(&bytes),
            extent: Extent::Buffer { width: 60 },
            row_bytes: 0,
            channel,
            channels: 4,
        };
        let sampler = Sampler {
            address_modes: [AddressMode::Clamp; 3],
            linear: false,
            normalized: false,
        };
        let object = Object::Texture(Texture {
            image,
            sampler,
            normalized_float: normalized,
        });
        let handle = bench
            .gpu
            .memory_mut()
            .create_object(bench.domain, object)
            .expect("sound");
        let ty = if normalized { "f32" } else { "s32" };
        let body = format!("tex.1d.v4.{ty}.s32 {{%r0, %r1, %r2, %r3}}, [%rd9, {{%r10}}];");
        let input: Vec<u32> = (0..64).collect();
        let got = run(&mut bench, "", &body, handle, &input, 1, 4);
        for lane in 0..64 {
            for c in 0..4 {
                // Outside a buffer there are zeros.
                let exact = if lane < 60 {
                    want(&bytes[(lane * 4 + c) * size..])
                } else {
                    0.0
                };
                let want = if normalized {
                    (exact as f32).to_bits()
                } else {
                    exact as i32 as u32
                };
                assert_eq!(
                    got[lane * 4 + c],
                    want,
                    "{channel:?} {normalized} lane {lane}"
                );
            }
        }
        report(&body);
    }
}

#[test]
fn gathers() {
    let mut bench = Bench::named("h200");
    let extent = Extent::TwoD {
        width: 7,
        height: 5,
        layers: 0,
    };
    let (image, texels) = floats(&mut bench, extent, 4);
    let sampler = Sampler {
        address_modes: [AddressMode::Clamp; 3],
        linear: false,
        normalized: false,
    };
    let object = Object::Texture(Texture {
        image,
        sampler,
        normalized_float: false,
    });
    let handle = bench
        .gpu
        .memory_mut()
        .create_object(bench.domain, object)
        .expect("sound");
    let mut prng = Prng::new(13);
    let input: Vec<f32> = (0..128).map(|_| prng.f32_in(-1.0, 8.0)).collect();
    let words: Vec<u32> = input.iter().map(|v| v.to_bits()).collect();
    for (channel, name) in ["r", "g", "b", "a"].into_iter().enumerate() {
        let body =
            format!("tld4.{name}.2d.v4.f32.f32 {{%r0, %r1, %r2, %r3}}, [%rd9, {{%r10, %r11}}];");
        let got = run(&mut bench, "", &body, handle, &words, 2, 4);
        let row = image.row_bytes as usize / 4;
        for lane in 0..64 {
            let corner = |axis: usize, size: usize| {
                let b =
                    ((f64::from(input[lane * 2 + axis]) - 0.5) * 256.0).round_ties_even() / 256.0;
                [0, 1]
                    .map(|n| fold(b.floor() as i64 + n, size, AddressMode::Clamp).expect("clamped"))
            };
            let ([i0, i1], [j0, j1]) = (corner(0, 7), corner(1, 5));
            for (place, (i, j)) in [(i0, j1), (i1, j1), (i1, j0), (i0, j0)]
                .into_iter()
                .enumerate()
            {
                let want = texels[j * row + 4 * i + channel] as f32;
                assert_eq!(
                    f32::from_bits(got[lane * 4 + place]),
                    want,
                    "{body} lane {lane}"
                );
            }
        }
        report(&body);
    }
}

#[test]
fn questions() {
    let mut bench = Bench::named("h200");
    let extent = Extent::TwoD {
        width: 7,
        height: 5,
        layers: 0,
    };
    let (image, _) = floats(&mut bench, extent, 4);
    let sampler = Sampler {
        address_modes: [AddressMode::Mirror; 3],
        linear: true,
        normalized: true,
    };
    let object = Object::Texture(Texture {
        image,
        sampler,
        normalized_float: false,
    });
    let texture = bench
        .gpu
        .memory_mut()
        .create_object(bench.domain, object)
        .expect("sound");
    let surface = bench
        .gpu
        .memory_mut()
        .create_object(bench.domain, Object::Surface(image))
        .expect("sound");
    for (opcode, handle, name, want) in [
        ("txq", texture, "width", 7),
        ("txq", texture, "height", 5),
        ("txq", texture, "depth", 0),
        ("txq", texture, "channel_order", 0x10b5),
        ("txq", texture, "channel_data_type", 0x10de),
        ("txq", texture, "normalized_coords", 1),
        ("txq", texture, "filter_mode", 1),
        ("txq", texture, "addr_mode_0", 1),
        ("txq", texture, "num_mipmap_levels", 1),
        ("suq", surface, "width", 7),
        ("suq", surface, "height", 5),
        ("suq", surface, "channel_data_type", 0x10de),
    ] {
        let body = format!("{opcode}.{name}.b32 %r0, [%rd9];");
        assert_eq!(
            run(&mut bench, "", &body, handle, &[0; 64], 1, 1),
            [want; 64],
            "{body}"
        );
        report(&body);
    }
}

// Length: a load, a store and a reduction of one surface.
#[test]
fn surfaces() {
    let width = 10_usize;
    for (clamp, dimensions) in [
        ("zero", 2),
        ("clamp", 2),
        ("zero", 1),
        ("zero", 3),
        ("trap", 2),
    ] {
        let mut bench = Bench::named("h200");
        let (height, depth) = (
            if dimensions > 1 { 6 } else { 1 },
            if dimensions > 2 { 2 } else { 1 },
        );
        let extent = match dimensions {
            1 => Extent::OneD {
                width: width as u32,
                layers: 0,
            },
            2 => Extent::TwoD {
                width: width as u32,
                height: height as u32,
                layers: 0,
            },
            _ => Extent::ThreeD {
                width: width as u32,
                height: height as u32,
                depth: depth as u32,
            },
        };
        let texels: Vec<u32> = (0..(width * height * depth) as u32)
            .map(|n| n * 3 + 1)
            .collect();
        let bytes: Vec<u8> = texels.iter().flat_map(|v| v.to_le_bytes()).collect();
        let image = Image {
            address: bench.buffer(&bytes),
            extent,
            row_bytes: 4 * width as u64,
            channel: Channel::U32,
            channels: 1,
        };
        let handle = bench
            .gpu
            .memory_mut()
            .create_object(bench.domain, Object::Surface(image))
            .expect("sound");
        // Every thread has a texel of its own to write: thread n goes to x = n mod 12 - 1.
        let inside = |n: u32| {
            let [x, y, z] = [n % 12, n / 12 % 6, n / 12 % 2].map(i64::from);
            if clamp == "trap" {
                [x % 10, y, z]
            } else {
                [x - 1, y, z]
            }
        };
        let input: Vec<u32> = (0..64).flat_map(inside).map(|v| v as u32).collect();
        let list = ["%r20", "%r20, %r11", "%r20, %r11, %r12, %r12"][dimensions - 1];
        let geometry = ["1d", "2d", "3d"][dimensions - 1];
        let load = format!("suld.b.{geometry}.b32.{clamp} %r0, [%rd9, {{{list}}}];");
        let got = run(
            &mut bench,
            "",
            &format!("shl.b32 %r20, %r10, 2;\n{load}"),
            handle,
            &input,
            3,
            1,
        );
        let place = |n: usize| {
            let [x, y, z] = [0, 1, 2].map(|k| i64::from(input[3 * n + k] as i32));
            let x = if clamp == "clamp" {
                x.clamp(0, width as i64 - 1)
            } else {
                x
            };
            let (y, z) = (
                if dimensions > 1 { y } else { 0 },
                if dimensions > 2 { z } else { 0 },
            );
            (0..width as i64)
                .contains(&x)
                .then_some((z as usize * height + y as usize) * width + x as usize)
        };
        for (n, got) in got.iter().enumerate() {
            assert_eq!(
                *got,
                place(n).map_or(0, |at| texels[at]),
                "{load} thread {n}"
            );
        }
        report(&load);
        let store = format!("sust.b.{geometry}.b32.{clamp} [%rd9, {{{list}}}], %r13;");
        let reduce = format!("sured.b.max.{geometry}.u32.{clamp} [%rd9, {{{list}}}], %r14;");
        let body = format!(
            "shl.b32 %r20, %r10, 2;\nadd.u32 %r13, %r31, 1000;\n{store}\nadd.u32 %r14, %r31, 990;\n{reduce}\nmov.u32 %r0, 0;"
        );
        run(&mut bench, "", &body, handle, &input, 3, 1);
        let mut want = texels.clone();
        for n in 0..64 {
            if let Some(at) = place(n) {
                want[at] = n as u32 + 1000;
            }
        }
        // Threads that share a texel leave the largest, which the reduction cannot exceed.
        let after = bench.words(image.address, texels.len());
        for (at, got) in after.iter().enumerate() {
            let writers: Vec<u32> = (0..64)
                .filter(|n| place(*n) == Some(at))
                .map(|n| n as u32)
                .collect();
            match writers.last() {
                Some(_) => assert!(
                    writers.iter().any(|n| n + 1000 == *got),
                    "{store} texel {at}: {got}"
                ),
                None => assert_eq!(*got, texels[at], "{store} texel {at}"),
            }
        }
        report(&store);
        report(&reduce);
    }
}

#[test]
fn formatted_stores() {
    let mut bench = Bench::named("h200");
    let extent = Extent::TwoD {
        width: 8,
        height: 8,
        layers: 0,
    };
    let address = bench.buffer(&vec![0; 8 * 8 * 4]);
    let image = Image {
        address,
        extent,
        row_bytes: 32,
        channel: Channel::U8,
        channels: 4,
    };
    let handle = bench
        .gpu
        .memory_mut()
        .create_object(bench.domain, Object::Surface(image))
        .expect("sound");
    let store = "sust.p.2d.v4.b32.trap [%rd9, {%r11, %r12}], {%r10, 300, 7, %r11};";
    let body = format!("and.b32 %r11, %r31, 7;\nshr.u32 %r12, %r31, 3;\n{store}\nmov.u32 %r0, 0;");
    let input: Vec<u32> = (0..64).collect();
    run(&mut bench, "", &body, handle, &input, 1, 1);
    let want: Vec<u32> = (0..64)
        .map(|n| n | 255 << 8 | 7 << 16 | (n & 7) << 24)
        .collect();
    assert_eq!(bench.words(address, 64), want);
    report(store);
}

#[test]
fn bad_handles_are_faults() {
    let mut bench = Bench::named("h200");
    let extent = Extent::TwoD {
        width: 8,
        height: 8,
        layers: 0,
    };
    let address = bench.buffer(&vec![0; 8 * 8 * 4]);
    let image = Image {
        address,
        extent,
        row_bytes: 32,
        channel: Channel::F32,
        channels: 1,
    };
    let too_large = Image {
        row_bytes: 64,
        ..image
    };
    let memory = bench.gpu.memory_mut();
    assert!(
        memory
            .create_object(bench.domain, Object::Surface(too_large))
            .is_err()
    );
    assert!(
        memory
            .create_object(
                bench.domain,
                Object::Surface(Image {
                    channels: 3,
                    ..image
                })
            )
            .is_err()
    );
    let handle = memory
        .create_object(bench.domain, Object::Surface(image))
        .expect("sound");
    memory.destroy_object(bench.domain, handle).expect("live");
    assert!(memory.destroy_object(bench.domain, handle).is_err());
    let ptx = ".version 8.0\n.target sm_80\n.address_size 64\n.visible .entry k(.param .u64 h)\n{\n.reg .b32 %r<4>;\n.reg .b64 %rd<2>;\n\
               ld.param.u64 %rd0, [h];\nsuld.b.2d.b32.trap %r0, [%rd0, {0, 0}];\nret;\n}\n";
    let kernel = bench.kernel(ptx, "k");
    let params = handle.to_le_bytes();
    let launch = bench.simple(&kernel, 1, 32, &params);
    assert!(gridmux_hw_model::run_functional(&mut bench.gpu, &launch).is_err());
}
