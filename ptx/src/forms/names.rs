//! Names that a rewrite adds; none of them occurs in the module.
//!
//! All begin with one prefix, so that one look at the module's names settles them all, however often a module is
//! rewritten.

use crate::syntax::module::Module;

/// The prefix, and the names that are needed in more than one function.
pub(crate) struct Names {
    /// `gridmux`, or with a number where the module uses that.
    pub(crate) prefix: String,
    /// The control block's parameter.
    pub(crate) control: String,
    /// The dynamic shared memory: its end is where a fenced kernel may reach to, and where the words of a `worker` may
    /// stand.
    pub(crate) shared: String,
}

impl Names {
    pub(crate) fn new(module: &Module) -> Self {
        let prefix = module.unused_prefix("gridmux");
        Self {
            control: format!("{prefix}_control"),
            shared: format!("{prefix}_shared"),
            prefix,
        }
    }

    /// Returns the declaration of the dynamic shared memory, once for a module. Its alignment is what the words of a
    /// `worker` need and no more, so that it does not move the base of the tenant's own.
    pub(crate) fn shared_declaration(&self) -> String {
        format!(" .extern .shared .align 4 .b8 {}[];", self.shared)
    }
}
