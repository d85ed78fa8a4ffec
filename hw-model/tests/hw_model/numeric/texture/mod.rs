//! Textures and surfaces: every geometry, address mode and filter against the formulas of the CUDA C++ Programming
//! Guide's appendix "Texture Fetching", in doubles (PTX ISA sections 9.7.10 and 9.7.11).
//!
//! Here: how a kernel runs with an object's handle, the guide's formulas, and what is the same for every kind of
//! object.

mod sampling;
mod surface;

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
        ".version 8.4\n.target sm_90\n.address_size 64\n{head}\n\
         .visible .entry k(.param .u64 h, .param .u64 a, .param .u64 d)\n{{\n\
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

/// The nearest texel, at coordinates in texels.
const NEAREST: Sampler = Sampler {
    address_modes: [AddressMode::Clamp; 3],
    linear: false,
    normalized: false,
};

/// Returns the extent of a rectangle, or of `layers` of them.
fn plane(width: u32, height: u32, layers: u32) -> Extent {
    Extent::TwoD {
        width,
        height,
        layers,
    }
}

/// Returns the handle of an object.
fn object(bench: &mut Bench, object: Object) -> u64 {
    let memory = bench.gpu.memory_mut();
    memory.create_object(bench.domain, object).expect("sound")
}

/// Returns the handle of a texture.
fn texture(bench: &mut Bench, image: Image, sampler: Sampler, normalized_float: bool) -> u64 {
    let texture = Texture {
        image,
        sampler,
        normalized_float,
    };
    object(bench, Object::Texture(texture))
}

/// Returns an image of floats, one channel or four, and its texels.
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

/// Returns the guide's formulas: B(x) = x − 0.5, i = floor(B), α = frac(B) in 1/256ths.
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

#[test]
fn questions() {
    let mut bench = Bench::small();
    let extent = plane(7, 5, 0);
    let (image, _) = floats(&mut bench, extent, 4);
    let sampler = Sampler {
        address_modes: [AddressMode::Mirror; 3],
        linear: true,
        normalized: true,
    };
    let texture = texture(&mut bench, image, sampler, false);
    let surface = object(&mut bench, Object::Surface(image));
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

#[test]
fn bad_handles_are_faults() {
    let mut bench = Bench::small();
    let extent = plane(8, 8, 0);
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
    let ptx = ".version 8.0\n.target sm_80\n.address_size 64\n.visible .entry k(.param .u64 h)\n\
               {\n.reg .b32 %r<4>;\n.reg .b64 %rd<2>;\n\
               ld.param.u64 %rd0, [h];\nsuld.b.2d.b32.trap %r0, [%rd0, {0, 0}];\nret;\n}\n";
    let kernel = bench.kernel(ptx, "k");
    let params = handle.to_le_bytes();
    let launch = bench.simple(&kernel, 1, 32, &params);
    assert!(gridmux_hw_model::run_functional(&mut bench.gpu, &launch).is_err());
}
