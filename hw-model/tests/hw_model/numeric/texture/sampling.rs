//! Reading textures: geometries, address modes, filters, layers, formats of channels, and gathers.

use super::{NEAREST, SIDES, floats, fold, plane, run, sampled, texture};
use crate::support::Bench;
use crate::support::opcode::report;
use gridmux_hw_model::texture::{AddressMode, Channel, Extent, Image, Sampler};
use gridmux_workloads::Prng;

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
        ("2d", plane(w, h, 0), 2),
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
                    let mut bench = Bench::small();
                    let (image, texels) = floats(&mut bench, extent, 4);
                    let sampler = Sampler {
                        address_modes: [mode; 3],
                        linear,
                        normalized,
                    };
                    let handle = texture(&mut bench, image, sampler, false);
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
        ("a2d", plane(7, 5, 3)),
    ] {
        let mut bench = Bench::small();
        let (image, texels) = floats(&mut bench, extent, 1);
        let handle = texture(&mut bench, image, NEAREST, false);
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
        let mut bench = Bench::small();
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
        let handle = texture(&mut bench, image, NEAREST, normalized);
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
    let mut bench = Bench::small();
    let extent = plane(7, 5, 0);
    let (image, texels) = floats(&mut bench, extent, 4);
    let handle = texture(&mut bench, image, NEAREST, false);
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
