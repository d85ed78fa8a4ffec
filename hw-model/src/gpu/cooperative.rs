//! Cooperative launches: all blocks reside at once, and meet at words in device memory.
//!
//! Rule: words that were allocated for a launch are freed when it leaves the GPU, in whatever way.

use super::Gpu;
use crate::launch::{self, Launch, LaunchError, Workspace};
use crate::memory::DomainId;
use crate::plan::Standing;

impl Gpu {
    /// Queues a cooperative launch: its blocks reside all at once, and find the words of their barrier, zero at first,
    /// in the workspace (`grid.sync()` of CUDA's cooperative groups). Launches beside it must end by themselves.
    ///
    /// # Errors
    /// As [`Gpu::launch`], and [`LaunchError::NotAtOnce`], [`LaunchError::Workspace`], [`LaunchError::NoWorkspace`]
    /// and [`LaunchError::UnderPlan`].
    pub fn launch_cooperative(
        &mut self,
        request: Launch<'_>,
        workspace: Workspace,
    ) -> Result<(), LaunchError> {
        launch::check(&self.config, &request)?;
        launch::check_at_once(&self.config, &request)?;
        if self.obey.is_some() {
            return Err(LaunchError::UnderPlan);
        }
        let domain = request.domain;
        let words = self.make_workspace(domain, workspace)?;
        let owns_workspace = workspace == Workspace::OfLaunch;
        let index = match self.submit(request, Standing::NONE, false) {
            Ok(index) => index,
            Err(error) => {
                if owns_workspace {
                    self.drop_workspace(domain, words);
                }
                return Err(error);
            }
        };
        if let Some(launch) = self.launches.get_mut(index) {
            (launch.workspace, launch.owns_workspace) = (words, owns_workspace);
        }
        Ok(())
    }

    /// Returns the address of the words of a grid's barrier, which it allocates where the launch is to have its own.
    pub(super) fn make_workspace(
        &mut self,
        domain: DomainId,
        asked: Workspace,
    ) -> Result<u64, LaunchError> {
        match asked {
            Workspace::At(0) => Err(LaunchError::Workspace(0)),
            Workspace::At(address) if !address.is_multiple_of(4) => {
                Err(LaunchError::Workspace(address))
            }
            Workspace::At(address) => Ok(address),
            Workspace::OfLaunch => {
                let zeroes = [0; launch::WORKSPACE_BYTES];
                let memory = &mut self.memory;
                let address = memory.alloc(domain, zeroes.len() as u64);
                let address = address.map_err(LaunchError::NoWorkspace)?;
                let written = memory.write(domain, address, &zeroes);
                written.map_err(LaunchError::NoWorkspace)?;
                Ok(address)
            }
        }
    }

    /// Frees the words of a launch's barrier; where the domain is gone, so are they.
    pub(super) fn drop_workspace(&mut self, domain: DomainId, address: u64) {
        let addresses = vec![address];
        self.memory.free_all(domain, addresses);
    }

    /// Forgets a launch that has left the GPU.
    pub(super) fn forget_launch(&mut self, index: u32) {
        if let Some(launch) = self.launches.get(index)
            && launch.owns_workspace
        {
            let (domain, words) = (launch.domain, launch.workspace);
            self.drop_workspace(domain, words);
        }
        self.launches.remove(index);
    }
}
