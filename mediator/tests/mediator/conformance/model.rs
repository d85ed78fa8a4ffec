//! The SM model as a device of the suite.

use super::rig::Machine;
use crate::modelled::client_kernel;
use gridmux_mediator::compiler::compile;
use gridmux_mediator::device::Isolation;
use gridmux_mediator::device::model::{self, ModelDevice};
use gridmux_mediator::device::{CompiledModule, Device, DeviceControl, DomainId, Timing};
use gridmux_mediator::dispatch::client::ClientKernel;
use gridmux_mediator::waker::Waker;
use gridmux_policy::shape::DeviceShape;
use gridmux_testkit::kernels::STAY;
use std::sync::Arc;
use std::time::Duration;

/// Processor time that modelling a launch may cost: more than any here needs.
pub(crate) const CPU_BUDGET: Duration = Duration::from_secs(600);

/// The model of a GPU with few SMs.
pub(crate) struct Model {
    device: Option<ModelDevice>,
    control: Arc<dyn DeviceControl>,
    module: CompiledModule,
}

impl Model {
    /// Four SMs of a V100.
    pub(crate) fn open() -> Self {
        let waker = Arc::new(Waker::new().expect("a waker"));
        let setup = model::Setup {
            timing: Timing::Timed,
            memory_bytes: 1 << 30,
            cpu_budget: CPU_BUDGET,
            isolation: Isolation::Shared,
        };
        let open = model::open("v100", Some(4), setup, &waker).expect("built in");
        Self {
            device: Some(open.device),
            control: open.control,
            module: compile(STAY.as_bytes().to_vec()).expect("the module compiles"),
        }
    }
}

impl Machine for Model {
    fn device(&mut self) -> Box<dyn Device> {
        Box::new(self.device.take().expect("asked for once"))
    }

    fn shape(&self) -> DeviceShape {
        self.control.facts().shape
    }

    fn max_shared_bytes(&self) -> u32 {
        self.control.facts().max_shared_bytes_per_block
    }

    fn domain(&mut self, _client: u16) -> DomainId {
        self.control.create_domain(1 << 24).expect("a domain")
    }

    fn kernel(&mut self, domain: DomainId, _load: u32) -> ClientKernel {
        client_kernel(&*self.control, domain, &self.module)
    }
}
