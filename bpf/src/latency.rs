//! The always-on launch latency: loads the programs, owns their maps and pins.
//!
//! Rules: the supervisor holds this for as long as launches are to be measured; dropping it removes the pins and
//! stops the timer. The producer's descriptor goes to one device host at a time. Read after [`LatencyProgram::drain`].

use std::ffi::OsStr;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;

use libbpf_rs::{MapCore, MapFlags, Object, ProgramInput, ProgramMut};

use crate::drain::{self, Drained};
use crate::histogram::TenantHistogram;
use crate::instance::InstanceName;
use crate::layout::{RawTunables, Stats, bytes_of};
use crate::load::{self, CORE, TIMER};
use crate::pins;
use crate::reader::{self, ReadError};
use crate::unavailable::Unavailable;
use crate::{Admission, LatencyOptions};

/// The maps that the timer's object takes from the core object.
const SHARED_MAPS: [&str; 5] = [
    "gridmux_samples",
    HISTOGRAMS,
    "gridmux_empty",
    TENANTS,
    STATS,
];
const HISTOGRAMS: &str = "gridmux_latency";
const STATS: &str = "gridmux_stats";
const OWNER: &str = "gridmux_owner";
const TENANTS: &str = "gridmux_tenants";
const DRAIN: &str = "gridmux_drain";
/// The maps that readers need beside the program that drains, each with the name of its pin.
const PINNED_MAPS: [(&str, &str); 3] = [
    (HISTOGRAMS, "histograms"),
    (STATS, "stats"),
    (OWNER, "owner"),
];

/// The loaded programs of one instance.
#[derive(Debug)]
pub struct LatencyProgram {
    instance: InstanceName,
    core: Object,
    timer: Result<Object, Unavailable>,
    pinned: Result<(), Unavailable>,
}

impl LatencyProgram {
    /// Loads, pins and starts the programs with [`LatencyOptions::default`].
    ///
    /// # Errors
    /// See [`LatencyProgram::load_with`].
    pub fn load(instance: &str) -> Result<Self, Unavailable> {
        Self::load_with(instance, LatencyOptions::default())
    }

    /// Loads, pins and starts the programs. Pins that a dead process left under this name are replaced.
    ///
    /// # Errors
    /// Every [`Unavailable`] except `Pin`: where pinning fails the program works without (see
    /// [`LatencyProgram::pinned`]).
    pub fn load_with(instance: &str, options: LatencyOptions) -> Result<Self, Unavailable> {
        let instance = InstanceName::new(instance)?;
        let tunables = RawTunables {
            period_ns: options.drain_period_ns.clamp(1_000_000, 1_000_000_000),
            registered_only: u32::from(options.admission == Admission::Registered),
            reserved: 0,
        };
        let core = load::load("core", CORE, |open| load::set_tunables(open, tunables))?;
        if let Some(owner) = reader::owner_of(&instance).filter(pins::is_alive) {
            return Err(Unavailable::InstanceInUse {
                instance: instance.to_string(),
                pid: owner.pid,
            });
        }
        sweep();
        let timer = start_timer(&core, tunables);
        let mut program = Self {
            instance,
            core,
            timer,
            pinned: Ok(()),
        };
        program.write_owner()?;
        program.pinned = program.pin();
        Ok(program)
    }

    /// Returns the name under which readers find the pins.
    pub fn instance(&self) -> &InstanceName {
        &self.instance
    }

    /// Returns the ring that a [`crate::Recorder`] maps; to be sent to the device host.
    pub fn producer_fd(&self) -> BorrowedFd<'_> {
        self.map_fd("gridmux_samples")
    }

    /// Returns why the pins do not stand, if so.
    pub fn pinned(&self) -> Result<(), &Unavailable> {
        self.pinned.as_ref().copied()
    }

    /// Returns why the kernel does not drain by itself, if so: then [`LatencyProgram::drain`] has to be called every
    /// few milliseconds, or the ring fills.
    pub fn drains_itself(&self) -> Result<(), &Unavailable> {
        self.timer.as_ref().map(|_| ())
    }

    /// Aggregates what the ring holds now.
    ///
    /// # Errors
    /// The kernel's; `InvalidData` when a producer wrote positions or lengths that make no sense. Then nothing more
    /// will come out of this ring, and the instance has to be loaded anew.
    pub fn drain(&self) -> io::Result<()> {
        let program = self.program(DRAIN);
        let outcome = drain::until_empty(|| {
            program
                .test_run(ProgramInput::default())
                .map(|output| output.return_value)
        });
        match outcome.map_err(io::Error::other)? {
            Drained::Empty => Ok(()),
            Drained::Broken(code) => {
                let text = format!(
                    "the sample ring is broken ({})",
                    io::Error::from_raw_os_error(code)
                );
                Err(io::Error::new(io::ErrorKind::InvalidData, text))
            }
        }
    }

    /// Returns all histograms, drained first; ordered by tenant, device and kind. Works without pins.
    ///
    /// # Errors
    /// See [`ReadError`].
    pub fn histograms(&self) -> Result<Vec<TenantHistogram>, ReadError> {
        self.drain_to_read()?;
        reader::histograms_of_fd(self.map_owned(HISTOGRAMS)?)
    }

    /// Returns what became of the samples, drained first.
    ///
    /// # Errors
    /// See [`ReadError`].
    pub fn stats(&self) -> Result<Stats, ReadError> {
        // Broken rings are told by the statistics themselves.
        let _ = self.drain();
        reader::stats_of_fd(self.map_owned(STATS)?)
    }

    /// Lets a tenant's samples in; needed with [`Admission::Registered`] only.
    ///
    /// # Errors
    /// The kernel's, when 4,096 tenants are registered.
    pub fn register(&self, tenant: u32) -> io::Result<()> {
        self.map(TENANTS)
            .update(&tenant.to_ne_bytes(), &1u32.to_ne_bytes(), MapFlags::ANY)
            .map_err(io::Error::other)
    }

    fn drain_to_read(&self) -> Result<(), ReadError> {
        match self.drain() {
            Err(error) if error.kind() != io::ErrorKind::InvalidData => Err(ReadError::Kernel {
                what: "the sample ring".into(),
                reason: error.to_string(),
            }),
            _ => Ok(()),
        }
    }

    fn write_owner(&self) -> Result<(), Unavailable> {
        let owner = pins::own_identity();
        self.map(OWNER)
            .update(&0u32.to_ne_bytes(), bytes_of(&owner), MapFlags::ANY)
            .map_err(|error| Unavailable::Refused {
                what: "writing the owner map".into(),
                reason: error.to_string(),
            })
    }

    fn pin(&mut self) -> Result<(), Unavailable> {
        let folder = pins::make_folder(&self.instance)?;
        let pins: Result<(), libbpf_rs::Error> = (|| {
            for mut map in self.core.maps_mut() {
                let name = map.name().to_owned();
                if let Some((_, pin)) = PINNED_MAPS.iter().find(|(map, _)| name == **map) {
                    map.pin(folder.join(pin))?;
                }
            }
            self.program(DRAIN).pin(folder.join("drain"))
        })();
        pins.map_err(|error| pin_refusal(&folder, &error))
    }

    fn map(&self, name: &str) -> libbpf_rs::Map<'_> {
        let found = self.core.maps().find(|map| map.name() == OsStr::new(name));
        found.expect("core.bpf.c defines every map that this file names")
    }

    fn map_fd(&self, name: &str) -> BorrowedFd<'_> {
        use std::os::fd::AsRawFd;
        // SAFETY: the descriptor belongs to `self.core`, which lives as long as the borrow.
        unsafe { BorrowedFd::borrow_raw(self.map(name).as_fd().as_raw_fd()) }
    }

    fn map_owned(&self, name: &str) -> Result<OwnedFd, ReadError> {
        self.map_fd(name)
            .try_clone_to_owned()
            .map_err(|error| ReadError::Kernel {
                what: name.into(),
                reason: error.to_string(),
            })
    }

    fn program(&self, name: &str) -> ProgramMut<'_> {
        let found = self
            .core
            .progs_mut()
            .find(|program| program.name() == OsStr::new(name));
        found.expect("core.bpf.c defines every program that this file names")
    }
}

impl Drop for LatencyProgram {
    fn drop(&mut self) {
        if self.pinned.is_ok() {
            // Nothing to be done about an error here; a later instance of this name replaces the pins.
            let _ = pins::remove_folder(&self.instance);
        }
    }
}

/// Removes the pins of processes that were killed, whatever their instance was called.
fn sweep() {
    for instance in crate::instance::list() {
        let owner = reader::owner_of(&instance);
        if owner.is_some_and(|owner| !pins::is_alive(&owner)) {
            // Who may not remove them leaves them.
            let _ = pins::remove_folder(&instance);
        }
    }
}

/// Loads the timer's object over the core object's maps and arms it.
fn start_timer(core: &Object, tunables: RawTunables) -> Result<Object, Unavailable> {
    let timer = load::load("timer", TIMER, |open| {
        load::set_tunables(open, tunables)?;
        load::share_maps(open, core, &SHARED_MAPS)
    })?;
    let refused = |reason: String| Unavailable::Refused {
        what: "arming the drain timer".into(),
        reason,
    };
    let armed = timer
        .progs_mut()
        .find(|program| program.name() == OsStr::new("gridmux_arm"))
        .expect("timer.bpf.c defines `gridmux_arm`")
        .test_run(ProgramInput::default())
        .map_err(|error| refused(error.to_string()))?;
    match armed.return_value {
        0 => Ok(timer),
        code => Err(refused(format!("code {code}"))),
    }
}

fn pin_refusal(folder: &Path, error: &libbpf_rs::Error) -> Unavailable {
    Unavailable::Pin {
        path: folder.into(),
        reason: error.to_string(),
    }
}
