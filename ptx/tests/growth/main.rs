//! No shape of input makes the front end's memory grow past the bound that fuzzing holds every input to, nor with the
//! square of the input.
//!
//! A binary of its own, because it installs an allocator that counts; and one test, because the counts are the
//! process's.

#[allow(
    unreachable_pub,
    reason = "the fuzz targets are another crate, which uses the same"
)]
#[path = "../../fuzz/growth.rs"]
mod growth;

#[allow(
    dead_code,
    unreachable_pub,
    reason = "the fuzz targets are another crate, which calls more of the same functions"
)]
#[path = "../../fuzz/oracle.rs"]
mod oracle;

mod scaling;
mod shapes;

use gridmux_ptx::Module;
use gridmux_ptx::forms::Form;
use shapes::Shape;

#[global_allocator]
static ALLOCATOR: growth::Counting = growth::Counting;

/// Returns the module as dense as it may be: as written, or with as many blanks as it takes to be accepted.
fn densest(shape: &Shape, bytes: usize) -> String {
    [0, 16, 32, 128, 144, 160]
        .into_iter()
        .map(|least| shape.dense(bytes, least))
        .find(|text| Module::parse(text.as_bytes()).is_ok_and(|m| m.decode().is_ok()))
        .unwrap_or_else(|| panic!("{} are refused however thin", shape.name))
}

#[test]
fn memory_is_bounded_by_the_input() {
    scaling::check();
    // Each shape is repeated until it dwarfs the allowance.
    for shape in &shapes::read(include_str!("dense.txt")) {
        for bytes in [20 << 10, 256 << 10] {
            // A refusal is an answer, too; it is held to the same bound.
            growth::bounded(shape.dense(bytes, 0).as_bytes(), oracle::decode);
            let text = densest(shape, bytes);
            println!("{}: {} bytes", shape.name, text.len());
            growth::bounded(text.as_bytes(), oracle::decode);
            for form in Form::ALL {
                let make = |bytes: &[u8]| oracle::make(bytes, form);
                let added = |made: &Option<_>| oracle::added(made.as_ref(), text.len());
                let made = growth::bounded_besides(text.as_bytes(), make, added);
                let made = made.unwrap_or_else(|| panic!("{}: no module", shape.name));
                if bytes < 100_000 {
                    oracle::examine(made, form, oracle::lines(text.as_bytes()));
                }
            }
        }
    }
}
