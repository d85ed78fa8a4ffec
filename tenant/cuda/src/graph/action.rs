//! What a node does, seen from its graph: something that can be copied, checked, and turned into submissions.
//!
//! Each type of node is a file of [`crate::graph::work`]; graphs, captures and executable graphs know this trait alone.
//!
//! Rules: an action never changes; who sets a node's parameters puts another in its place. Preparing a launch finds
//! everything that can be wrong with it, so that a launch is submitted as a whole or not at all.

use super::Graph;
use super::topology::EdgeData;
use crate::context::Context;
use crate::driver::Driver;
use crate::status::{CudaResult, Status};
use crate::stream::Stream;
use gridmux_tenant::{ClientError, Mark};
use std::any::Any;
use std::fmt::{Debug, Write};
use std::sync::Arc;

/// The type of a node (`CUgraphNodeType`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u32)]
#[allow(missing_docs, reason = "the names are those of the API")]
pub enum Kind {
    Kernel = 0,
    Memcpy = 1,
    Memset = 2,
    Host = 3,
    Graph = 4,
    Empty = 5,
    WaitEvent = 6,
    EventRecord = 7,
    MemAlloc = 10,
    MemFree = 11,
}

impl Kind {
    /// Returns its name, as `CU_GRAPH_NODE_TYPE_KERNEL` without the common beginning.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Kernel => "KERNEL",
            Self::Memcpy => "MEMCPY",
            Self::Memset => "MEMSET",
            Self::Host => "HOST",
            Self::Graph => "GRAPH",
            Self::Empty => "EMPTY",
            Self::WaitEvent => "WAIT_EVENT",
            Self::EventRecord => "EVENT_RECORD",
            Self::MemAlloc => "MEM_ALLOC",
            Self::MemFree => "MEM_FREE",
        }
    }

    /// Returns whether a node of this type can be switched off in an executable graph.
    #[must_use]
    pub fn can_be_disabled(self) -> bool {
        matches!(self, Self::Kernel | Self::Memcpy | Self::Memset)
    }

    /// Returns whether a node of this type may stand in a graph that is launched from the device.
    #[must_use]
    pub fn is_for_devices(self) -> bool {
        self.can_be_disabled() || self == Self::Graph
    }
}

/// The stream in which a launch of a graph is submitted.
#[derive(Debug, Clone, Copy)]
pub struct Site<'a> {
    /// The driver.
    pub driver: &'static Driver,
    /// The stream's context.
    pub context: &'a Arc<Context>,
    /// The program's stream; its lock is held.
    pub stream: &'a Stream,
}

/// One node of one launch, which was checked: submits what the node does, in the stream of the mediator's that is
/// given, and returns the mark of the last of it.
pub type Step =
    Box<dyn FnOnce(Site<'_>, &gridmux_tenant::Stream) -> Result<Option<Mark>, ClientError>>;

/// What an executable graph says about the launch that its nodes prepare.
#[derive(Debug, Clone, Copy)]
pub struct Launching {
    /// The driver.
    pub driver: &'static Driver,
    /// Memory that an earlier launch allocated and nobody freed is free by now.
    pub frees_first: bool,
}

/// Why the action of a node in an executable graph cannot be replaced by another (`CUgraphExecUpdateResult`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u32)]
#[allow(missing_docs, reason = "the names are those of the API")]
pub enum Refusal {
    Error = 1,
    TopologyChanged = 2,
    NodeTypeChanged = 3,
    ParametersChanged = 5,
    NotSupported = 6,
    UnsupportedFunctionChange = 7,
    AttributesChanged = 8,
}

/// What a node does.
pub trait Action: Any + Debug + Send + Sync {
    /// Returns the type of nodes that do it.
    fn kind(&self) -> Kind;

    /// Returns the action for a copy of its graph; nothing if both can share this one.
    ///
    /// # Errors
    /// [`Status::NOT_SUPPORTED`]: graphs with such nodes cannot be copied.
    fn copied(&self) -> CudaResult<Option<Arc<dyn Action>>> {
        Ok(None)
    }

    /// Returns the action for an executable graph, which may keep something for its launches; nothing if this one will
    /// do.
    fn instantiated(&self) -> Option<Arc<dyn Action>> {
        None
    }

    /// Checks a launch and returns what it submits; nothing if it does nothing.
    ///
    /// # Errors
    /// What is wrong with it by now, as memory that was given back.
    fn prepare(self: Arc<Self>, launching: &Launching) -> CudaResult<Option<Step>>;

    /// Succeeds if `new`, of the same type, may take its place in an executable graph.
    ///
    /// # Errors
    /// Why not.
    fn accepts(&self, new: &dyn Action) -> Result<(), Refusal>;

    /// Returns what a node of an executable graph that does this does once its parameters are set: `new`, of the same
    /// type, with what parameters do not say, as the attributes of a kernel.
    ///
    /// # Errors
    /// Together they are nothing that can be launched.
    fn replaced(&self, new: Arc<dyn Action>) -> CudaResult<Arc<dyn Action>> {
        Ok(new)
    }

    /// Returns the graph that the node holds.
    fn child(&self) -> Option<&Arc<Graph>> {
        None
    }

    /// Writes what it does as a person reads it, one figure a line; `handles` adds handles.
    fn describe(&self, text: &mut String, handles: bool);
}

impl dyn Action {
    /// Returns it as what nodes of one type do.
    ///
    /// # Errors
    /// [`Status::INVALID_VALUE`]: it is of another type.
    pub fn of<T: Action>(self: &Arc<Self>) -> CudaResult<Arc<T>> {
        let any: Arc<dyn Any + Send + Sync> = Arc::<Self>::clone(self);
        any.downcast().map_err(|_| Status::INVALID_VALUE)
    }

    /// Returns it as what nodes of one type do, borrowed.
    pub fn as_a<T: Action>(&self) -> Option<&T> {
        (self as &dyn Any).downcast_ref()
    }
}

/// What an edge carries between kernels of which the first says itself when the second may begin.
pub const PROGRAMMATIC: EdgeData = EdgeData {
    from_port: 1,
    kind: 1,
    ..EdgeData::FULL
};

/// Checks what an edge between nodes of two types carries: nothing, or, between kernels, a dependency that the first
/// releases itself.
///
/// # Errors
/// [`Status::INVALID_VALUE`].
pub fn check_edge(data: EdgeData, from: Kind, to: Kind) -> CudaResult {
    const LAUNCH_PORT: u8 = 2;
    let is_known = match data.kind {
        0 => data.from_port == 0,
        1 => {
            [PROGRAMMATIC.from_port, LAUNCH_PORT].contains(&data.from_port)
                && (from, to) == (Kind::Kernel, Kind::Kernel)
        }
        _ => false,
    };
    match is_known && data.to_port == 0 && data.reserved == [0; 5] {
        true => Ok(()),
        false => Err(Status::INVALID_VALUE),
    }
}

/// Writes a line of a description.
pub fn line(text: &mut String, name: &str, value: impl std::fmt::Display) {
    // A string takes everything.
    let _ = write!(text, "\\n{name}: {value}");
}

#[cfg(test)]
mod tests {
    use super::{EdgeData, Kind, check_edge};

    #[test]
    fn only_kernels_release_kernels_themselves() {
        let programmatic = EdgeData {
            from_port: 1,
            kind: 1,
            ..EdgeData::FULL
        };
        assert!(check_edge(EdgeData::FULL, Kind::Host, Kind::Memset).is_ok());
        assert!(check_edge(programmatic, Kind::Kernel, Kind::Kernel).is_ok());
        assert!(check_edge(programmatic, Kind::Kernel, Kind::Memset).is_err());
        for bad in [
            EdgeData {
                kind: 2,
                ..programmatic
            },
            EdgeData {
                from_port: 0,
                ..programmatic
            },
            EdgeData {
                from_port: 3,
                ..programmatic
            },
            EdgeData {
                to_port: 1,
                ..programmatic
            },
            EdgeData {
                from_port: 1,
                ..EdgeData::FULL
            },
            EdgeData {
                reserved: [0, 0, 0, 0, 1],
                ..EdgeData::FULL
            },
        ] {
            assert!(
                check_edge(bad, Kind::Kernel, Kind::Kernel).is_err(),
                "{bad:?}"
            );
        }
    }
}
