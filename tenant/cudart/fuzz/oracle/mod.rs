//! What must hold for anything that programs register, in whatever order; a violation panics.
//!
//! The crate's tests run the same function over every case that fuzzing has found, so that a mended fault stays mended.

use cudart::registered::Registered;
use std::collections::HashSet;
use std::ffi::{CStr, CString};

/// Handles and addresses that cases name; few, so that they name the same ones again.
const HANDLES: u8 = 5;
const ADDRESSES: u8 = 6;
const NAMES: [&CStr; 4] = [c"", c"fill", c"_Z4fillPi", c"\xff\x80"];

/// What happened under one address, told by the serial number of the binary that it was registered with.
struct Added {
    address: usize,
    serial: usize,
    name: CString,
    /// The driver's handle, if it was asked for.
    found: Option<u64>,
    /// The program was told the address of a managed variable.
    is_told: bool,
}

/// All that happened, from which it follows what is registered: the last that was added under an address, if its binary
/// is there still.
#[derive(Default)]
struct Story {
    /// Handle, wrapper's address and serial number of the binaries that are there.
    binaries: Vec<(usize, usize, usize)>,
    kernels: Vec<Added>,
    variables: Vec<Added>,
    /// Managed variables that the program was not told of, by where it has the address of each.
    managed: Vec<Added>,
}

impl Story {
    fn serial(&self, handle: usize) -> Option<usize> {
        let mut binaries = self.binaries.iter();
        binaries
            .find(|binary| binary.0 == handle)
            .map(|binary| binary.2)
    }

    fn last<'a>(&self, of: &'a [Added], address: usize) -> Option<&'a Added> {
        let last = of.iter().rev().find(|added| added.address == address)?;
        let mut binaries = self.binaries.iter();
        binaries
            .any(|binary| binary.2 == last.serial)
            .then_some(last)
    }

    /// Returns whether the program was told where a managed variable of a binary is.
    fn is_told(&self, serial: usize) -> bool {
        (0..usize::from(ADDRESSES)).any(|address| {
            let last = self.last(&self.variables, address);
            last.is_some_and(|last| last.is_told && last.serial == serial)
        })
    }

    /// Takes note that the program was told where the managed variable of a place is.
    fn tell(&mut self, place: usize, address: usize) {
        let Some(last) = self.last(&self.managed, place) else {
            return;
        };
        let told = Added {
            address,
            serial: last.serial,
            name: last.name.clone(),
            found: None,
            is_told: true,
        };
        self.managed.retain(|added| added.address != place);
        self.variables.push(told);
    }

    fn image(&self, serial: usize) -> Option<usize> {
        let mut binaries = self.binaries.iter();
        binaries
            .find(|binary| binary.2 == serial)
            .map(|binary| binary.1)
    }
}

/// Checks that after each step exactly what the story says is registered.
pub fn registered(case: &[u8]) {
    let mut registered = Registered::default();
    let mut story = Story::default();
    let mut serials = 0;
    for step in case.chunks_exact(4) {
        let handle = usize::from(step[1] % HANDLES);
        let address = usize::from(step[2] % ADDRESSES);
        let name = NAMES[usize::from(step[3]) % NAMES.len()].to_owned();
        let added = |serial| Added {
            address,
            serial,
            name: name.clone(),
            found: None,
            is_told: false,
        };
        match step[0] % 8 {
            0 => {
                serials += 1;
                registered.add_binary(handle, address);
                story.binaries.retain(|binary| binary.0 != handle);
                story.binaries.push((handle, address, serials));
            }
            1 => {
                registered.add_kernel(handle, address, name.clone());
                let serial = story.serial(handle);
                story.kernels.extend(serial.map(added));
            }
            2 => {
                registered.add_variable(handle, address, name.clone());
                let serial = story.serial(handle);
                story.variables.extend(serial.map(added));
            }
            3 => {
                let was_there = story.serial(handle).is_some();
                let removed = registered.remove_binary(handle);
                assert_eq!(removed.is_some(), was_there);
                story.binaries.retain(|binary| binary.0 != handle);
            }
            4 => {
                registered.add_managed(handle, address, name.clone());
                let serial = story.serial(handle);
                story.managed.extend(serial.map(added));
            }
            5 => {
                let told = usize::from(step[3] % ADDRESSES);
                registered.told(address, told);
                story.tell(address, told);
            }
            6 => {
                registered.forget_found();
                for kernel in &mut story.kernels {
                    kernel.found = None;
                }
            }
            // The driver finds a kernel, sometimes one that has another name by now, or of a library that is gone.
            _ => {
                let Some(mut named) = registered.kernel(address).cloned() else {
                    continue;
                };
                let is_same = step[3] & 1 == 0 || named.name == name;
                if !is_same {
                    named.name = name;
                }
                let kernel = u64::from(step[3]);
                let is_late = step[3] % 7 == 0;
                let round = registered.round().wrapping_sub(is_late.into());
                registered.remember(address, &named, round, kernel);
                let last = story
                    .kernels
                    .iter_mut()
                    .rev()
                    .find(|added| added.address == address);
                if let Some(last) = last.filter(|_| is_same && !is_late) {
                    last.found = Some(kernel);
                }
            }
        }
        compare(&registered, &story);
    }
}

fn compare(registered: &Registered, story: &Story) {
    let mut images = HashSet::new();
    for address in 0..usize::from(ADDRESSES) {
        let due = story.last(&story.kernels, address);
        let kernel = registered.kernel(address);
        assert_eq!(
            kernel.map(|named| &named.name),
            due.map(|added| &added.name)
        );
        assert_eq!(registered.found(address), due.and_then(|added| added.found));
        let image = due.and_then(|added| story.image(added.serial));
        assert_eq!(kernel.map(|named| named.binary.image), image);
        images.extend(image);
        let due = story.last(&story.variables, address);
        let variable = registered.variable(address);
        assert_eq!(
            variable.map(|named| &named.name),
            due.map(|added| &added.name)
        );
    }
    assert!(images.len() <= story.binaries.len());
    for handle in 0..usize::from(HANDLES) {
        let mut managed: Vec<_> = registered
            .managed_of(handle)
            .into_iter()
            .map(|(place, named)| (place, named.name))
            .collect();
        managed.sort();
        let serial = story.serial(handle);
        let due = (0..usize::from(ADDRESSES)).filter_map(|place| {
            let last = story.last(&story.managed, place)?;
            (Some(last.serial) == serial).then(|| (place, last.name.clone()))
        });
        assert_eq!(managed, due.collect::<Vec<_>>());
    }
    let mut kept: Vec<usize> = registered
        .without_told()
        .iter()
        .map(|binary| binary.image)
        .collect();
    kept.sort_unstable();
    let untold = story
        .binaries
        .iter()
        .filter(|binary| !story.is_told(binary.2));
    let mut due: Vec<usize> = untold.map(|binary| binary.1).collect();
    due.sort_unstable();
    assert_eq!(kept, due);
}
