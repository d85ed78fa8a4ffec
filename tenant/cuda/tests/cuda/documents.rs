//! Contract: `docs/cuda.md` lists what the library covers, as the tables in its code say.

use cuda::entry_point::{all, covered};
use std::collections::BTreeSet;
use std::fmt::Write;
use std::path::Path;

/// Set it to write the document instead of comparing it.
const WRITE: &str = "GRIDMUX_WRITE_DOCS";

const HEAD: &str = "\
# The driver API of `libcuda.so.1`

This file is made from the tables in `tenant/cuda/src`; do not edit it. To make it anew:
`GRIDMUX_WRITE_DOCS=1 cargo test -p gridmux-cuda --test cuda documents`.

Every function of CUDA 13.5's driver API is exported and found by `cuGetProcAddress`. Those listed here do what NVIDIA
documents, or return `CUDA_ERROR_NOT_SUPPORTED` for what the last section names; all others return that code, and are
named once on stderr.
";

const LIMITS: &str = "\
## Not covered

Not yet: of graphs conditional nodes, semaphores, batches of operations on words or of copies, and launches from the
device; clusters, peers, and memory shared between processes (`cuIpc…`, handles that are exported). Of textures:
references of modules, cubes, mipmaps, views, sRGB, border colours other than zero, and compressed, normalised and video
formats. Of virtual memory: mappings for reading alone, and of the host. Programs that are linked with the static CUDA
runtime must be linked again with `-cudart shared`, and then find gridmux's `libcudart.so.13` or `.12`.

A process has 32 streams on the device, which any number of its streams share; each context takes one of them, and a
context that finds none can launch nothing: `CUDA_ERROR_OUT_OF_MEMORY`.

Host memory, managed memory, textures and virtual memory are there on modelled devices; on a GPU they return
`CUDA_ERROR_NOT_SUPPORTED`, and the device's attributes say so.

Kernels reach pinned and managed memory at the addresses that it has in the program, at the same time as the program,
without copies. Atomic operations of kernels on it are atomic towards the program as well, but for those of 16 bytes
(`HOST_NATIVE_ATOMIC_SUPPORTED` is 0 all the same).
Registered memory has a device address of its own, which `cuMemHostGetDevicePointer` gives
(`CAN_USE_HOST_POINTER_FOR_REGISTERED_MEM` is 0): it must be whole pages that the program has for itself, as
`aligned_alloc(4096, …)` or `mmap` give them, and no other thread may access them during that call and
`cuMemHostUnregister`, because they get other pages with the same bytes; memory that is registered with
`CU_MEMHOSTREGISTER_DEVICEMAP` gets them during `cuMemHostRegister`, when no thread knows it yet. Managed memory counts
as device memory and cannot be larger; advice and prefetches are noted and move nothing. A process has at most 4,096
pieces of memory of its own that kernels reach, and 255 pinned ones. Of pinned memory a tenant's kernels reach as much
as it may have device memory, and 1 GiB at least; copies reach the rest.
";

fn document() -> String {
    let mut text = String::from(HEAD);
    for (title, table) in covered() {
        let symbols: BTreeSet<&str> = table.iter().map(|entry| entry.symbol).collect();
        let symbols: Vec<String> = symbols.iter().map(|symbol| format!("`{symbol}`")).collect();
        write!(text, "\n## {title}\n\n").expect("a string takes everything");
        let mut width = 0;
        for (index, symbol) in symbols.iter().enumerate() {
            let is_last = index + 1 == symbols.len();
            let item = format!("{symbol}{}", if is_last { "\n" } else { "," });
            if width > 0 && width + 1 + item.len() > 120 {
                text.push('\n');
                width = 0;
            }
            if width > 0 {
                text.push(' ');
                width += 1;
            }
            width += item.len();
            text.push_str(&item);
        }
    }
    let count = |is_covered: bool| {
        let symbols = all().filter(|entry| entry.is_covered == is_covered);
        symbols
            .map(|entry| entry.symbol)
            .collect::<BTreeSet<_>>()
            .len()
    };
    let (has, lacks) = (count(true), count(false));
    write!(
        text,
        "\n{LIMITS}\n{has} symbols are covered, {lacks} are not.\n"
    )
    .expect("a string takes everything");
    text
}

#[test]
fn the_document_lists_what_is_covered() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/cuda.md");
    let made = document();
    if std::env::var_os(WRITE).is_some() {
        std::fs::write(&path, &made).expect("the document can be written");
    }
    let kept = std::fs::read_to_string(&path).expect("the document is there");
    assert!(
        kept == made,
        "docs/cuda.md is not current: run {WRITE}=1 cargo test -p gridmux-cuda --test cuda documents"
    );
}
