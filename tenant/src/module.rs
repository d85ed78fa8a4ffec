//! PTX modules and their kernels.

use crate::error::ClientError;
use crate::link::{Link, LinkRef, unexpected};
use gridmux_channel::control::{self, ControlReply, ControlRequest, KernelInfo};
use gridmux_channel::memory::{Protection, SealedMemfd};
use gridmux_channel::regions::PAGE_BYTES;
use std::fs::File;
use std::os::fd::AsFd;
use std::os::unix::fs::FileExt;
use std::rc::Rc;

/// Where a module's text stands in the DMA space while it is loaded.
const MODULE_IOVA: u64 = 1 << 40;

/// A loaded module; it is unloaded when it and its kernels are dropped.
#[derive(Debug)]
pub struct Module {
    loaded: Rc<Loaded>,
}

/// A kernel of a module.
#[derive(Debug, Clone)]
pub struct Kernel {
    loaded: Rc<Loaded>,
    index: usize,
}

#[derive(Debug)]
struct Loaded {
    link: LinkRef,
    module: control::Module,
}

impl Module {
    pub(crate) fn load(link: &LinkRef, ptx: &[u8]) -> Result<Self, ClientError> {
        let reply = request_load(&mut link.borrow_mut(), ptx)?;
        let ControlReply::Loaded(module) = reply else {
            return Err(unexpected("LoadModule"));
        };
        Ok(Self {
            loaded: Rc::new(Loaded {
                link: link.clone(),
                module,
            }),
        })
    }

    /// The kernel called `name`.
    ///
    /// # Errors
    /// There is none; the error names those that there are.
    pub fn kernel(&self, name: &str) -> Result<Kernel, ClientError> {
        let kernels = self.kernels();
        match kernels.iter().position(|kernel| kernel.name == name) {
            Some(index) => Ok(Kernel {
                loaded: self.loaded.clone(),
                index,
            }),
            None => {
                let names: Vec<&str> = kernels.iter().map(|kernel| &*kernel.name).collect();
                let available = names.join(", ");
                Err(ClientError::NoKernel {
                    name: name.to_owned(),
                    available,
                })
            }
        }
    }

    /// What the module holds.
    #[must_use]
    pub fn kernels(&self) -> &[KernelInfo] {
        &self.loaded.module.kernels
    }
}

impl Kernel {
    /// What the kernel takes and uses.
    #[must_use]
    pub fn info(&self) -> &KernelInfo {
        &self.loaded.module.kernels[self.index]
    }

    pub(crate) fn belongs_to(&self, link: &LinkRef) -> bool {
        Rc::ptr_eq(link, &self.loaded.link)
    }
}

/// Puts the text into memory of its own, which is mapped only while the
/// mediator reads it.
fn request_load(link: &mut Link, ptx: &[u8]) -> Result<ControlReply, ClientError> {
    let len = ptx.len() as u64;
    let size = len.max(1).next_multiple_of(PAGE_BYTES);
    let memfd = SealedMemfd::create("gridmux-module", size)?;
    let file: File = memfd
        .as_fd()
        .try_clone_to_owned()
        .map_err(gridmux_channel::memory::MemoryError::from)?
        .into();
    file.write_all_at(ptx, 0)
        .map_err(gridmux_channel::memory::MemoryError::from)?;
    let readable = Protection {
        read: true,
        write: false,
    };
    link.session
        .dma_map(MODULE_IOVA, size, 0, readable, memfd.as_fd())?;
    let reply = link.control(&ControlRequest::LoadModule {
        iova: MODULE_IOVA,
        len,
    });
    let unmapped = link.session.dma_unmap(MODULE_IOVA, size);
    let reply = reply?;
    unmapped?;
    Ok(reply)
}

impl Drop for Loaded {
    fn drop(&mut self) {
        let mut link = self.link.borrow_mut();
        // On a lost connection the mediator has unloaded it already.
        if link.drain().is_ok() {
            let _ = link.control(&ControlRequest::UnloadModule {
                module: self.module.handle,
            });
        }
    }
}
