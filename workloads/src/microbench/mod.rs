//! Loops around single instructions, from which latencies and rates are measured: on the SM model and on GPUs alike.
//!
//! A [`Loop`] is what is put into the template `hw-model/validation/kernels/loop.ptx`; [`loops`] has one for each
//! measurement, [`ops`] the instructions that chains and rates are measured of.

pub mod loops;
pub mod ops;

/// What is put into the template of a loop.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Loop {
    /// Instructions in front of the loop.
    pub setup: String,
    /// Instructions of one turn.
    pub body: String,
    /// Bytes of the shared array.
    pub shared_bytes: u32,
}

impl Loop {
    /// Returns the text of the module: `template`, in which `${shared_bytes}`, `${setup}`, `${body}` and `${use}` are
    /// replaced.
    #[must_use]
    pub fn text(&self, template: &str) -> String {
        let setup = format!("{}\n    {}", ops::Op::setup(), self.setup);
        template
            .replace("${shared_bytes}", &self.shared_bytes.to_string())
            .replace("${setup}", &setup)
            .replace("${body}", &self.body)
            .replace("${use}", &ops::Op::used())
    }
}
