//! What must hold for any texture or surface that a tenant describes, and any coordinates of its kernels; a violation
//! panics.
//!
//! An object is made if its texels lie inside one allocation, and only then. A kernel that uses it ends or faults; it
//! reads texels of the image or zero, where no filter mixes them, and writes inside the image alone.
//!
//! The crate's tests run the same function over every case that fuzzing has found, so that a mended fault stays mended.

use gridmux_hw_model::texture::{AddressMode, Channel, Extent, Image, Object, Sampler, Texture};
use gridmux_hw_model::{
    DomainId, Gpu, GpuConfig, Kernel, Launch, Level, QueueId, RunError, run_functional,
};
use std::cell::RefCell;
use std::sync::Arc;

/// Bytes of the allocation that images lie in, and of the ones before and behind it.
const BYTES: usize = 4096;
/// Threads of a launch, one warp.
const THREADS: usize = 32;
/// Words of coordinates for each thread, and of results.
const WORDS: usize = 4;
/// Coordinates by geometry, as PTX lists them.
const GEOMETRIES: [(&str, &str); 5] = [
    ("1d", "%r10"),
    ("2d", "%r10, %r11"),
    ("3d", "%r10, %r11, %r12, %r12"),
    ("a1d", "%r10, %r11"),
    ("a2d", "%r10, %r11, %r12, %r12"),
];
/// What the oracle fills memory with: no byte of it is zero.
const FIRST: u8 = 1;

/// A device with a kernel for each way to use an object.
struct Device {
    gpu: Gpu,
    domain: DomainId,
    kernels: Vec<Arc<Kernel>>,
    /// Three allocations: the one in the middle holds images.
    memory: [u64; 3],
    coordinates: u64,
    results: u64,
}

thread_local! {
    static DEVICE: RefCell<Device> = RefCell::new(Device::new());
}

/// Returns each way to use an object.
fn ways() -> Vec<String> {
    let mut ways = Vec::new();
    for (geometry, place) in GEOMETRIES {
        for (result, coordinate) in [
            ("f32", "f32"),
            ("f32", "s32"),
            ("u32", "f32"),
            ("s32", "s32"),
        ] {
            ways.push(format!(
                "tex.{geometry}.v4.{result}.{coordinate} {{%r0, %r1, %r2, %r3}}, [%rd9, {{{place}}}];"
            ));
        }
        for outside in ["trap", "clamp", "zero"] {
            ways.push(format!(
                "suld.b.{geometry}.v4.b32.{outside} {{%r0, %r1, %r2, %r3}}, [%rd9, {{{place}}}];"
            ));
            ways.push(format!(
                "suld.b.{geometry}.b8.{outside} %h0, [%rd9, {{{place}}}];"
            ));
            ways.push(format!(
                "sust.b.{geometry}.v2.b32.{outside} [%rd9, {{{place}}}], {{%r10, %r11}};"
            ));
            ways.push(format!(
                "sust.b.{geometry}.b8.{outside} [%rd9, {{{place}}}], %h0;"
            ));
        }
    }
    ways.push("tld4.r.2d.v4.f32.f32 {%r0, %r1, %r2, %r3}, [%rd9, {%r10, %r11}];".to_owned());
    ways.push("sured.b.add.1d.u32.trap [%rd9, {%r10}], %r11;".to_owned());
    ways.push("sured.b.min.2d.s32.clamp [%rd9, {%r10, %r11}], %r12;".to_owned());
    ways
}

impl Device {
    fn new() -> Self {
        let config = GpuConfig::builtin("h200").expect("built in");
        let mut gpu = Gpu::new(config.scaled_to_sms(1));
        let memory = gpu.memory_mut();
        let domain = memory.create_domain(1 << 20).expect("address space");
        let mut alloc = |bytes| memory.alloc(domain, bytes).expect("it fits");
        let [before, images, behind] = [BYTES as u64; 3].map(&mut alloc);
        let [coordinates, results] = [(THREADS * WORDS * 4) as u64; 2].map(&mut alloc);
        let mut ptx = ".version 8.4\n.target sm_90\n.address_size 64\n".to_owned();
        let ways = ways();
        for (number, way) in ways.iter().enumerate() {
            ptx += &kernel(number, way);
        }
        let module = gridmux_ptx::Module::parse(ptx.as_str()).expect("it is PTX");
        let program = module.decode().expect("it is typed");
        let loaded = gpu
            .load(domain, &program, ptx.as_bytes())
            .expect("it is modelled");
        let kernels = (0..ways.len()).map(|number| loaded.kernel(&format!("k{number}")));
        Self {
            kernels: kernels.map(|kernel| kernel.expect("it is there")).collect(),
            gpu,
            domain,
            memory: [before, images, behind],
            coordinates,
            results,
        }
    }

    /// Fills the images' memory and what lies around it.
    fn fill(&mut self) {
        let memory = self.gpu.memory_mut();
        for (byte, address) in (FIRST..).zip(self.memory) {
            memory
                .fill(self.domain, address, BYTES as u64, byte)
                .expect("it is there");
        }
    }

    /// Runs a kernel; false: it faulted.
    fn run(&mut self, kernel: usize, handle: u64, coordinates: &[u8]) -> bool {
        let memory = self.gpu.memory_mut();
        memory
            .write(self.domain, self.coordinates, coordinates)
            .expect("it is there");
        let words = [handle, self.coordinates, self.results];
        let params: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        let launch = Launch {
            queue: QueueId(0),
            level: Level::LOWEST,
            tag: 1,
            domain: self.domain,
            kernel: Arc::clone(&self.kernels[kernel]),
            grid: [1; 3],
            block: [32, 1, 1],
            dynamic_shared_bytes: 0,
            params: &params,
            budget: None,
        };
        match run_functional(&mut self.gpu, &launch) {
            Ok(_) => true,
            Err(RunError::Fault(_)) => false,
            Err(error) => panic!("{error}"),
        }
    }

    fn bytes(&self, address: u64) -> Vec<u8> {
        let mut bytes = vec![0; BYTES];
        let memory = self.gpu.memory();
        memory
            .read(self.domain, address, &mut bytes)
            .expect("it is there");
        bytes
    }
}

/// Returns the text of a kernel in which each thread uses an object one way.
fn kernel(number: usize, way: &str) -> String {
    format!(
        ".visible .entry k{number}(.param .u64 h, .param .u64 a, .param .u64 d)\n{{\n\
         .reg .b32 %r<16>; .reg .b64 %rd<10>; .reg .b16 %h<2>;\n\
         ld.param.u64 %rd9, [h]; ld.param.u64 %rd0, [a]; ld.param.u64 %rd1, [d];\n\
         mov.u32 %r15, %tid.x; mad.wide.u32 %rd0, %r15, 16, %rd0; mad.wide.u32 %rd1, %r15, 16, %rd1;\n\
         ld.global.v4.u32 {{%r10, %r11, %r12, %r13}}, [%rd0]; cvt.u16.u32 %h0, %r13;\n{way}\n\
         st.global.v4.u32 [%rd1], {{%r0, %r1, %r2, %r3}};\nret;\n}}\n"
    )
}

/// The bytes of a case, read from front to back; zeroes behind its end.
struct Case<'a>(&'a [u8]);

impl Case<'_> {
    fn take<const N: usize>(&mut self) -> [u8; N] {
        let mut bytes = [0; N];
        let (now, left) = self.0.split_at(self.0.len().min(N));
        bytes[..now.len()].copy_from_slice(now);
        self.0 = left;
        bytes
    }

    fn byte(&mut self) -> u8 {
        self.take::<1>()[0]
    }

    fn wide(&mut self) -> u64 {
        u64::from_le_bytes(self.take())
    }

    /// Returns one of these.
    fn one_of<T: Copy>(&mut self, all: &[T]) -> T {
        all[usize::from(self.byte()) % all.len()]
    }

    /// Returns a size: mostly a small one.
    fn size(&mut self) -> u32 {
        match self.byte() {
            255 => u32::from_le_bytes(self.take()),
            small => u32::from(small % 40),
        }
    }

    fn image(&mut self, memory: [u64; 3]) -> Image {
        let [width, height, depth] = [(); 3].map(|()| self.size());
        let extent = match self.byte() % 4 {
            0 => Extent::Buffer { width },
            1 => Extent::OneD {
                width,
                layers: depth,
            },
            2 => Extent::TwoD {
                width,
                height,
                layers: depth,
            },
            _ => Extent::ThreeD {
                width,
                height,
                depth,
            },
        };
        let (address, row_bytes) = match self.byte() {
            255 => (self.wide(), self.wide()),
            step => (
                self.one_of(&memory) + u64::from(step % 16),
                u64::from(self.byte()) * u64::from(step % 5),
            ),
        };
        Image {
            address,
            extent,
            row_bytes,
            channel: self.one_of(&[
                Channel::U8,
                Channel::U16,
                Channel::U32,
                Channel::S8,
                Channel::S16,
                Channel::S32,
                Channel::F16,
                Channel::F32,
            ]),
            channels: self.one_of(&[1, 2, 4, 1, 3, 0, u32::MAX]),
        }
    }

    fn object(&mut self, memory: [u64; 3]) -> Object {
        use AddressMode::{Border, Clamp, Mirror, Wrap};
        let image = self.image(memory);
        let sampler = Sampler {
            address_modes: [(); 3].map(|()| self.one_of(&[Wrap, Mirror, Clamp, Border])),
            linear: self.byte() & 1 != 0,
            normalized: self.byte() & 1 != 0,
        };
        match self.byte() % 3 {
            0 => Object::Surface(image),
            1 => Object::Sampler(sampler),
            _ => Object::Texture(Texture {
                image,
                sampler,
                normalized_float: self.byte() & 1 != 0,
            }),
        }
    }
}

/// Returns the addresses of an image from its first byte to its last, if each is one.
fn span(image: &Image) -> Option<std::ops::Range<u64>> {
    let [width, height, depth] = image.extent.sizes().map(u128::from);
    let texel = u128::from(image.channel.bytes()) * u128::from(image.channels);
    let rows = height.checked_mul(depth)?.checked_sub(1)?;
    let bytes = rows
        .checked_mul(image.row_bytes.into())?
        .checked_add(width.checked_mul(texel)?)?;
    let end = u128::from(image.address).checked_add(bytes)?;
    Some(image.address..u64::try_from(end).ok()?)
}

/// Checks an object and one launch that uses it, or that uses what is none. Returns whether there was an object.
pub fn texture(case: &[u8]) -> bool {
    DEVICE.with_borrow_mut(|device| {
        let mut case = Case(case);
        let object = case.object(device.memory);
        let made = device.gpu.memory_mut().create_object(device.domain, object);
        if let (Ok(_), Some(image)) = (&made, object.image()) {
            let span = span(image).expect("an image that was made has addresses");
            let is_inside = |start: &u64| *start <= span.start && span.end <= *start + BYTES as u64;
            assert!(device.memory.iter().any(is_inside), "{image:?}");
            assert!(matches!(image.channels, 1 | 2 | 4), "{image:?}");
        }
        let handle = match (&made, case.byte()) {
            (Ok(handle), 0..=250) => *handle,
            _ => case.wide(),
        };
        let kernel = usize::from(case.byte()) % device.kernels.len();
        let coordinates: Vec<u8> = (0..THREADS * WORDS)
            .flat_map(|_| match case.byte() {
                0 => case.take::<4>(),
                small => (i32::from(small) - 128).to_le_bytes(),
            })
            .collect();
        device.fill();
        let ended = device.run(kernel, handle, &coordinates);
        let image = made.as_ref().ok().and_then(|_| object.image());
        compare(device, image);
        if ended && let (Ok(_), Object::Texture(texture)) = (&made, &object) {
            compare_texels(device, texture, kernel);
        }
        if let Ok(handle) = made {
            let memory = device.gpu.memory_mut();
            memory
                .destroy_object(device.domain, handle)
                .expect("it was made");
        }
        made.is_ok()
    })
}

/// Checks that all that was written lies inside the image.
fn compare(device: &Device, image: Option<&Image>) {
    let inside = image.and_then(span).unwrap_or(0..0);
    for (byte, start) in (FIRST..).zip(device.memory) {
        for (address, found) in (start..).zip(device.bytes(start)) {
            assert!(
                found == byte || inside.contains(&address),
                "{address:#x} of {image:?}"
            );
        }
    }
}

/// Checks what a texture of unfiltered words gave: each is the images' word, zero, or what a missing channel is.
fn compare_texels(device: &Device, texture: &Texture, kernel: usize) {
    let is_words = texture.image.channel == Channel::U32 && !texture.sampler.linear;
    let ways = ways();
    // Fetches of integers, which come as they are.
    if !is_words || !ways[kernel].contains(".u32.f32") {
        return;
    }
    let mut results = vec![0; THREADS * WORDS * 4];
    let memory = device.gpu.memory();
    memory
        .read(device.domain, device.results, &mut results)
        .expect("it is there");
    for word in results.chunks_exact(4) {
        let is_texel = (FIRST..).take(3).any(|byte| word == [byte; 4]);
        let word = u32::from_le_bytes(word.try_into().expect("four bytes"));
        assert!(is_texel || word < 2, "{word:#x} of {texture:?}");
    }
}
