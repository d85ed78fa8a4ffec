//! Counting the calls of driver libraries that are not ours, by process.
//!
//! aya loads `bypass.bpf.c` and attaches it to the file of a library, at the offset of each watched function: so it
//! holds for every process that has the file mapped, also for those that map it later. Where the library is read from
//! is up to the caller; nothing of it is run.
//!
//! Rule: the probes cost their hits while this lives, and nothing after it is dropped.

use std::collections::BTreeMap;
use std::fs::File;
use std::os::fd::AsRawFd;

use aya::maps::{Array, HashMap, MapData};
use aya::programs::UProbe;
use aya::programs::uprobe::{UProbeAttachLocation, UProbeAttachPoint, UProbeScope};
use aya::{Ebpf, EbpfLoader};

use crate::calls::{Call, Caller, watched_functions};
use crate::capability;
use crate::layout::{RawCallKey, RawCalls};
use crate::load::BYPASS;
use crate::reader::{ReadError, kernel, with_causes};
use crate::unavailable::Unavailable;

/// Most functions that are watched in all: the kernel takes their probes away one after another, each after a grace
/// period, and who detaches them waits for that and cannot be ended.
const MOST: usize = 256;

/// The program, and what it is attached to.
#[derive(Debug)]
pub struct BypassProgram {
    ebpf: Ebpf,
    /// Functions that have a probe.
    attached: usize,
}

impl BypassProgram {
    /// Loads it; nothing is watched yet.
    ///
    /// # Errors
    /// [`Unavailable::NotPermitted`] or [`Unavailable::Refused`].
    pub fn load() -> Result<Self, Unavailable> {
        if let Some(missing) = capability::missing() {
            return Err(Unavailable::NotPermitted { missing });
        }
        let refused = |error: &(dyn std::error::Error + 'static)| Unavailable::Refused {
            what: "the eBPF object `bypass`".into(),
            reason: with_causes(error),
        };
        let mut ebpf = EbpfLoader::new()
            .load(&BYPASS.0)
            .map_err(|error| refused(&error))?;
        probe_of(&mut ebpf)
            .load()
            .map_err(|error| refused(&error))?;
        Ok(Self { ebpf, attached: 0 })
    }

    /// Watches a library from now on, in every process; returns how many functions of it.
    ///
    /// # Errors
    /// [`Unavailable::NoLibrary`] where the file is no driver library, or the kernel refuses probes in it.
    pub fn watch(&mut self, library: &File) -> Result<usize, Unavailable> {
        // The kernel follows this link to the open file, wherever its path leads by now.
        let path = format!("/proc/self/fd/{}", library.as_raw_fd());
        let failed = |reason: String| {
            let shown = std::fs::read_link(&path).unwrap_or_else(|_| path.clone().into());
            Unavailable::NoLibrary {
                library: format!("{:?}", shown.display().to_string()),
                reason,
            }
        };
        let functions = watched_functions(library).map_err(failed)?;
        if self.attached + functions.len() > MOST {
            return Err(failed(format!(
                "no more than {MOST} functions are watched in all"
            )));
        }
        self.attached += functions.len();
        let probe = probe_of(&mut self.ebpf);
        for (offset, call) in &functions {
            let point = UProbeAttachPoint {
                location: UProbeAttachLocation::AbsoluteOffset(*offset),
                cookie: Some(u64::from(*call as u32)),
            };
            // A link that stands when a later one is refused counts on; dropping the program takes all away.
            probe
                .attach(point, &path, UProbeScope::AllProcesses)
                .map_err(|error| failed(with_causes(&error)))?;
        }
        Ok(functions.len())
    }

    /// Returns who called since the program was loaded, ordered by process.
    ///
    /// # Errors
    /// [`ReadError::Kernel`].
    pub fn callers(&self) -> Result<Vec<Caller>, ReadError> {
        const MAP: &str = "gridmux_calls";
        let map = self.ebpf.map(MAP).expect("bypass.bpf.c defines this map");
        let map: HashMap<&MapData, RawCallKey, RawCalls> =
            HashMap::try_from(map).map_err(|error| kernel(MAP, &error))?;
        let mut callers: BTreeMap<u32, Caller> = BTreeMap::new();
        for entry in map.iter() {
            let (key, calls) = entry.map_err(|error| kernel(MAP, &error))?;
            let caller = callers.entry(key.pid).or_insert_with(|| Caller {
                pid: key.pid,
                name: name_of(&calls.name),
                launches: 0,
                allocations: 0,
                copies: 0,
            });
            let counts = [
                (Call::Launch, &mut caller.launches),
                (Call::Allocate, &mut caller.allocations),
                (Call::Copy, &mut caller.copies),
            ];
            for (call, count) in counts {
                if call as u32 == key.call {
                    *count = calls.count;
                }
            }
        }
        Ok(callers.into_values().collect())
    }

    /// Returns how many calls were not counted because too many processes called.
    ///
    /// # Errors
    /// [`ReadError::Kernel`].
    pub fn unkept(&self) -> Result<u64, ReadError> {
        const MAP: &str = "gridmux_unkept";
        let map = self.ebpf.map(MAP).expect("bypass.bpf.c defines this map");
        let map: Array<&MapData, u64> =
            Array::try_from(map).map_err(|error| kernel(MAP, &error))?;
        map.get(&0, 0).map_err(|error| kernel(MAP, &error))
    }
}

fn probe_of(ebpf: &mut Ebpf) -> &mut UProbe {
    let program = ebpf.program_mut("gridmux_bypass");
    let program = program.expect("bypass.bpf.c defines this program");
    program.try_into().expect("its section is `uprobe`")
}

/// Returns a thread's name, which ends with a zero.
fn name_of(bytes: &[u8; 16]) -> String {
    let name = bytes.split(|byte| *byte == 0).next().unwrap_or_default();
    String::from_utf8_lossy(name).into_owned()
}
