//! Kernels by which readers once escaped the fence, broke the context, or got a text that does not assemble: names that
//! hide others, strings and line markers that two lexers read differently, parameters that compilers place otherwise,
//! addresses in 32 bits. `found/` has them, each in a file.

use super::attack;
use gridmux_ptx::Module;
use std::fs;
use std::path::Path;

#[test]
fn what_once_escaped_does_so_no_more() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/forms/fence/found");
    let mut seen = 0;
    for file in fs::read_dir(folder).expect("the folder is there") {
        let path = file.expect("it can be listed").path();
        let name = path.file_stem().unwrap_or_default().to_string_lossy();
        let ptx = fs::read_to_string(&path).expect("it is text");
        seen += 1;
        if Module::parse(&*ptx)
            .and_then(|module| module.decode())
            .is_err()
        {
            continue;
        }
        attack(&name, &ptx, |outcome, what| {
            println!("{what}: {outcome:?}");
        });
    }
    assert!(seen > 20, "{seen} files");
}
