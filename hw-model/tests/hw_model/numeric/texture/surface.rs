//! Reading, writing and reducing surfaces.

use super::{object, plane, run};
use crate::support::Bench;
use crate::support::opcode::report;
use gridmux_hw_model::texture::{Channel, Extent, Image, Object};

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
        let mut bench = Bench::small();
        let (height, depth) = (
            if dimensions > 1 { 6 } else { 1 },
            if dimensions > 2 { 2 } else { 1 },
        );
        let extent = match dimensions {
            1 => Extent::OneD {
                width: width as u32,
                layers: 0,
            },
            2 => plane(width as u32, height as u32, 0),
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
        let handle = object(&mut bench, Object::Surface(image));
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
                .then(|| (z as usize * height + y as usize) * width + x as usize)
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
            "shl.b32 %r20, %r10, 2;\nadd.u32 %r13, %r31, 1000;\n{store}\nadd.u32 %r14, %r31, 990;\n{reduce}\n\
             mov.u32 %r0, 0;"
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
    let mut bench = Bench::small();
    let extent = plane(8, 8, 0);
    let address = bench.buffer(&vec![0; 8 * 8 * 4]);
    let image = Image {
        address,
        extent,
        row_bytes: 32,
        channel: Channel::U8,
        channels: 4,
    };
    let handle = object(&mut bench, Object::Surface(image));
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
