//! The tenants of a device host as the control thread knows them: by slot, from connection to the last byte freed.

use super::control::Outbound;
use super::session::{Session, SessionParts};
use crate::device::DeviceControl;
use crate::dispatch::accounting::TenantCounters;
use crate::dispatch::dispatcher::TENANTS;
use crate::dispatch::message::{Message, Slot};
use crate::dispatch::samples::LatencyView;
use crate::dispatch::tenant::TenantSlot;
use crate::link::{TenantIdentity, TenantStatistics};
use gridmux_channel::ring::RingLayout;
use gridmux_channel::ring::host::HostRings;
use gridmux_channel::server::{Connection, Status};
use gridmux_policy::ids::TenantId;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use std::collections::VecDeque;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::sync::Arc;

/// Departed tenants that statistics still show.
const DEPARTED: usize = 64;
/// Submissions, completions and argument bytes of a tenant's rings. There are more completions than operations that a
/// tenant can have admitted, so a tenant that reads its completions never finds the ring full.
const RINGS: (u32, u32, u32) = (1024, 1024, 1 << 20);

/// One tenant.
pub(super) struct Tenant {
    pub(super) slot: Slot,
    pub(super) connection: Connection,
    pub(super) process: OwnedFd,
    pub(super) session: Session,
    /// The dispatcher was told to let go of it.
    pub(super) leaving: bool,
    /// The dispatcher has let go of it.
    pub(super) drained: bool,
    rings: Option<HostRings>,
}

impl Tenant {
    /// Serves what its socket holds.
    pub(super) fn serve(&mut self) -> Result<(), String> {
        let status = self
            .connection
            .on_readable(&mut self.session)
            .map_err(|error| error.to_string())?;
        if status == Status::Closed {
            return Err("it closed its connection".into());
        }
        self.connection
            .on_writable()
            .map_err(|error| error.to_string())?;
        // The descriptor of a process becomes readable when the process ends; a child that inherited the connection
        // does not keep the tenant alive.
        let mut fds = [PollFd::new(self.process.as_fd(), PollFlags::POLLIN)];
        if poll(&mut fds, PollTimeout::ZERO).is_ok_and(|ready| ready > 0) {
            return Err("its process ended".into());
        }
        Ok(())
    }
}

/// All tenants.
#[derive(Default)]
pub(super) struct Tenants {
    slots: Vec<Option<Tenant>>,
    departed: VecDeque<TenantStatistics>,
}

impl Tenants {
    /// Makes a tenant for the next free slot.
    pub(super) fn make(
        &mut self,
        identity: TenantIdentity,
        connection: UnixStream,
        process: OwnedFd,
        device: &Arc<dyn DeviceControl>,
        outbound: &Outbound,
        module_bytes: u64,
    ) -> Result<Tenant, String> {
        let index = self
            .slots
            .iter()
            .position(Option::is_none)
            .unwrap_or(self.slots.len());
        if index >= TENANTS {
            return Err(format!("{TENANTS} tenants are connected"));
        }
        let slot = Slot(u16::try_from(index).map_err(|error| error.to_string())?);
        let layout =
            RingLayout::new(RINGS.0, RINGS.1, RINGS.2).map_err(|error| error.to_string())?;
        let rings = HostRings::create(layout).map_err(|error| error.to_string())?;
        let duplicate = |fd: std::os::fd::BorrowedFd<'_>| {
            fd.try_clone_to_owned().map_err(|error| error.to_string())
        };
        let (rings_memfd, doorbell) = (duplicate(rings.memfd())?, duplicate(rings.doorbell())?);
        let connection = Connection::new(connection).map_err(|error| error.to_string())?;
        // The domain comes last: whatever fails before it leaves nothing behind.
        let domain = device
            .create_domain(identity.memory_limit_bytes)
            .map_err(|error| error.to_string())?;
        let parts = SessionParts {
            slot,
            domain,
            device: Arc::clone(device),
            outbound: outbound.clone(),
            counters: Arc::new(TenantCounters::default()),
            rings_memfd,
            doorbell,
            rings_bytes: layout.total_bytes() as u64,
            module_bytes,
            identity,
        };
        Ok(Tenant {
            slot,
            connection,
            process,
            session: Session::new(parts),
            leaving: false,
            drained: false,
            rings: Some(rings),
        })
    }

    /// Takes a tenant in; returns what the dispatcher must be told.
    pub(super) fn insert(&mut self, mut tenant: Tenant) -> Message<HostRings> {
        let slot = tenant.slot;
        let index = usize::from(slot.0);
        if self.slots.len() <= index {
            self.slots.resize_with(index + 1, || None);
        }
        let identity = tenant.session.identity();
        let (id, weight) = (TenantId(identity.id), identity.weight);
        let (domain, counters) = (
            tenant.session.domain(),
            Arc::clone(tenant.session.counters()),
        );
        // `make` put the rings there and only this takes them.
        let rings = tenant.rings.take();
        self.slots[index] = Some(tenant);
        match rings {
            Some(rings) => Message::Join(
                slot,
                Box::new(TenantSlot::new(id, weight, domain, rings, counters)),
            ),
            None => Message::Leave(slot),
        }
    }

    /// The tenant in a slot.
    pub(super) fn get_mut(&mut self, slot: Slot) -> Option<&mut Tenant> {
        self.slots.get_mut(usize::from(slot.0))?.as_mut()
    }

    /// The session of a tenant.
    pub(super) fn session_of(&mut self, id: TenantId) -> Option<&mut Session> {
        self.slots
            .iter_mut()
            .flatten()
            .map(|t| &mut t.session)
            .find(|s| s.identity().id == id.0)
    }

    /// Tenants whose sockets are served.
    pub(super) fn serving(&self) -> impl Iterator<Item = &Tenant> {
        self.slots.iter().flatten().filter(|tenant| !tenant.leaving)
    }

    /// Frees everything of tenants of which nothing is in flight any more; returns their numbers.
    pub(super) fn take_gone(&mut self, device: &Arc<dyn DeviceControl>) -> Vec<u32> {
        let mut gone = Vec::new();
        for index in 0..self.slots.len() {
            let over = self.slots[index]
                .as_ref()
                .is_some_and(|t| t.drained && !t.session.compiling);
            if !over {
                continue;
            }
            let statistics = self.slots[index]
                .as_ref()
                .map(|t| self.statistics_of(t, device));
            self.departed.extend(statistics);
            while self.departed.len() > DEPARTED {
                self.departed.pop_front();
            }
            if let Some(mut tenant) = self.slots[index].take() {
                tenant.session.release();
                device.destroy_domain(tenant.session.domain());
                gone.push(tenant.session.identity().id);
            }
        }
        gone
    }

    /// Device memory that all tenants hold.
    pub(super) fn memory_used(&self, device: &Arc<dyn DeviceControl>) -> u64 {
        self.slots
            .iter()
            .flatten()
            .map(|t| device.used_bytes(t.session.domain()))
            .sum()
    }

    /// A reading of every tenant that is connected or still holds something: the device memory of all of them is the
    /// whole that is used, at every moment.
    pub(super) fn statistics(&self, device: &Arc<dyn DeviceControl>) -> Vec<TenantStatistics> {
        self.slots
            .iter()
            .flatten()
            .map(|tenant| self.statistics_of(tenant, device))
            .collect()
    }

    /// Last readings of tenants that have left.
    pub(super) fn departed(&self) -> Vec<TenantStatistics> {
        self.departed.iter().cloned().collect()
    }

    fn statistics_of(&self, tenant: &Tenant, device: &Arc<dyn DeviceControl>) -> TenantStatistics {
        let identity = tenant.session.identity().clone();
        let weights: u32 = self
            .slots
            .iter()
            .flatten()
            .map(|t| t.session.identity().weight)
            .sum();
        TenantStatistics {
            memory_used_bytes: device.used_bytes(tenant.session.domain()),
            share_asked: f64::from(identity.weight) / f64::from(weights.max(1)),
            usage: tenant.session.counters().read(),
            latency: LatencyView::of(tenant.session.counters()),
            identity,
        }
    }
}
