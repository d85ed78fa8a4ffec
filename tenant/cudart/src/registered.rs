//! What programs have registered: a table of their binaries, of these kernels and variables, by the addresses that they
//! are named by.
//!
//! Rules: addresses are numbers, and nothing behind one is read here. What belongs to a binary goes with it, and of
//! what was registered twice under one address, the later one counts. What the driver answered holds until the binaries
//! are loaded anew ([`Registered::forget_found`]).

use parking_lot::Mutex;
use std::collections::HashMap;
use std::ffi::CString;
use std::sync::Arc;

/// A fat binary of the program's.
#[derive(Debug)]
pub struct Binary {
    /// Its wrapper's address.
    pub image: usize,
    /// The process that registered it.
    pub process: u32,
    /// The driver's library, once it was loaded.
    pub library: Mutex<Option<u64>>,
}

/// Something of a binary, by its name on the device.
#[derive(Debug, Clone)]
pub struct Named {
    /// The binary.
    pub binary: Arc<Binary>,
    /// The name.
    pub name: CString,
}

/// All that is registered.
#[derive(Debug, Default)]
pub struct Registered {
    /// By the address of the handle that the program holds.
    binaries: HashMap<usize, Arc<Binary>>,
    /// Kernels and variables, by the program's address for each.
    kernels: HashMap<usize, Named>,
    variables: HashMap<usize, Named>,
    /// The driver's handles of kernels that were asked for, by the same.
    found: HashMap<usize, u64>,
    /// How often those were forgotten.
    round: u64,
    /// Managed variables, by where the program has the address of each.
    managed: HashMap<usize, Named>,
    /// Managed variables whose address the program was told, by that.
    told: HashMap<usize, Named>,
}

impl Registered {
    /// Adds a binary, whose wrapper stands at `image`, under a handle.
    pub fn add_binary(&mut self, handle: usize, image: usize) {
        let binary = Binary {
            image,
            process: std::process::id(),
            library: Mutex::default(),
        };
        // Should there be one of this handle, what is its own goes with it.
        self.remove_binary(handle);
        self.binaries.insert(handle, Arc::new(binary));
    }

    /// Adds a kernel of a binary, if there is such a binary.
    pub fn add_kernel(&mut self, handle: usize, stub: usize, name: CString) {
        if let Some(binary) = self.binaries.get(&handle).cloned() {
            // What was found under this stub was another one's.
            self.found.remove(&stub);
            self.kernels.insert(stub, Named { binary, name });
        }
    }

    /// Adds a variable of a binary, if there is such a binary.
    pub fn add_variable(&mut self, handle: usize, shadow: usize, name: CString) {
        if let Some(binary) = self.binaries.get(&handle).cloned() {
            self.told.remove(&shadow);
            self.variables.insert(shadow, Named { binary, name });
        }
    }

    /// Adds a managed variable of a binary, if there is such a binary; `place` is where the program has its address.
    pub fn add_managed(&mut self, handle: usize, place: usize, name: CString) {
        if let Some(binary) = self.binaries.get(&handle).cloned() {
            self.managed.insert(place, Named { binary, name });
        }
    }

    /// Removes a binary with everything of it, and returns it.
    pub fn remove_binary(&mut self, handle: usize) -> Option<Arc<Binary>> {
        let binary = self.binaries.remove(&handle)?;
        let is_its = |named: &Named| Arc::ptr_eq(&named.binary, &binary);
        let its = self.kernels.iter().filter(|(_, named)| is_its(named));
        for stub in its.map(|(stub, _)| *stub).collect::<Vec<_>>() {
            self.found.remove(&stub);
        }
        self.kernels.retain(|_, named| !is_its(named));
        self.variables.retain(|_, named| !is_its(named));
        self.managed.retain(|_, named| !is_its(named));
        self.told.retain(|_, named| !is_its(named));
        Some(binary)
    }

    /// Returns the managed variables of a binary whose addresses the program was not told, by where it has those.
    #[must_use]
    pub fn managed_of(&self, handle: usize) -> Vec<(usize, Named)> {
        let Some(binary) = self.binaries.get(&handle) else {
            return Vec::new();
        };
        let is_its = |named: &Named| Arc::ptr_eq(&named.binary, binary);
        let its = self.managed.iter().filter(|(_, named)| is_its(named));
        its.map(|(place, named)| (*place, named.clone())).collect()
    }

    /// Notes that the program was told the address of a managed variable, by which it names it from now on.
    pub fn told(&mut self, place: usize, address: usize) {
        if let Some(named) = self.managed.remove(&place) {
            self.variables.remove(&address);
            self.told.insert(address, named);
        }
    }

    /// Returns the kernel of a stub.
    #[must_use]
    pub fn kernel(&self, stub: usize) -> Option<&Named> {
        self.kernels.get(&stub)
    }

    /// Returns the stub of a kernel of the driver's, if it was asked for by one.
    #[must_use]
    pub fn stub_of(&self, kernel: u64) -> Option<usize> {
        let mut found = self.found.iter();
        found.find(|(_, of)| **of == kernel).map(|(stub, _)| *stub)
    }

    /// Returns the variable of a shadow.
    #[must_use]
    pub fn variable(&self, shadow: usize) -> Option<&Named> {
        self.variables
            .get(&shadow)
            .or_else(|| self.told.get(&shadow))
    }

    /// Returns the driver's handle of a kernel that was asked for.
    #[must_use]
    pub fn found(&self, stub: usize) -> Option<u64> {
        self.found.get(&stub).copied()
    }

    /// Returns how often the driver's handles were forgotten. Who asks the driver for one asks for this before.
    #[must_use]
    pub fn round(&self) -> u64 {
        self.round
    }

    /// Remembers the driver's handle of a kernel, which was asked for in a round, unless its stub has come to name
    /// another one meanwhile, or handles were forgotten.
    pub fn remember(&mut self, stub: usize, named: &Named, round: u64, kernel: u64) {
        let is_still =
            |now: &Named| Arc::ptr_eq(&now.binary, &named.binary) && now.name == named.name;
        if self.round == round && self.kernels.get(&stub).is_some_and(is_still) {
            self.found.insert(stub, kernel);
        }
    }

    /// Returns the binaries of which the program was not told where managed variables are.
    #[must_use]
    pub fn without_told(&self) -> Vec<Arc<Binary>> {
        let is_told = |binary: &Arc<Binary>| {
            let mut told = self.told.values();
            told.any(|named| Arc::ptr_eq(&named.binary, binary))
        };
        let binaries = self.binaries.values();
        binaries.filter(|one| !is_told(one)).cloned().collect()
    }

    /// Forgets the driver's handles of all kernels: those of binaries that were unloaded are no more.
    pub fn forget_found(&mut self) {
        self.round += 1;
        self.found.clear();
    }
}
