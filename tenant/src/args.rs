//! Arguments of a launch, packed as the kernel's parameters ask.

use crate::buffer::Buffer;
use crate::error::ClientError;
use gridmux_channel::control::KernelInfo;

/// The arguments of a launch, in the order of the kernel's parameters. They
/// may be used for any number of launches.
///
/// The memory of a [`Buffer`] is named by its address, so the buffer must live
/// until the launch has ended (dropping it waits for that).
#[derive(Debug, Clone, Default)]
pub struct Args {
    bytes: Vec<u8>,
    list: Vec<Arg>,
}

#[derive(Debug, Clone, Copy)]
struct Arg {
    start: usize,
    len: usize,
    align: usize,
}

impl Args {
    /// Returns a list without arguments.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns the address of a buffer.
    #[must_use]
    pub fn buffer(self, buffer: &Buffer) -> Self {
        self.u64(buffer.address())
    }

    /// Returns a 32-bit unsigned integer.
    #[must_use]
    pub fn u32(self, value: u32) -> Self {
        self.bytes(&value.to_le_bytes(), 4)
    }

    /// Returns a 32-bit signed integer.
    #[must_use]
    pub fn i32(self, value: i32) -> Self {
        self.bytes(&value.to_le_bytes(), 4)
    }

    /// Returns a 64-bit unsigned integer.
    #[must_use]
    pub fn u64(self, value: u64) -> Self {
        self.bytes(&value.to_le_bytes(), 8)
    }

    /// Returns a 64-bit signed integer.
    #[must_use]
    pub fn i64(self, value: i64) -> Self {
        self.bytes(&value.to_le_bytes(), 8)
    }

    /// Returns a single-precision number.
    #[must_use]
    pub fn f32(self, value: f32) -> Self {
        self.bytes(&value.to_le_bytes(), 4)
    }

    /// Returns a double-precision number.
    #[must_use]
    pub fn f64(self, value: f64) -> Self {
        self.bytes(&value.to_le_bytes(), 8)
    }

    /// Returns the bytes of a structure passed by value, whose alignment is `align`
    /// bytes.
    #[must_use]
    pub fn bytes(mut self, bytes: &[u8], align: usize) -> Self {
        self.list.push(Arg {
            start: self.bytes.len(),
            len: bytes.len(),
            align,
        });
        self.bytes.extend_from_slice(bytes);
        self
    }

    /// Lays the arguments out in `packed` as `kernel` takes them.
    pub(crate) fn pack(
        &self,
        kernel: &KernelInfo,
        packed: &mut Vec<u8>,
    ) -> Result<(), ClientError> {
        let fail = |problem| ClientError::Arguments {
            kernel: kernel.name.clone(),
            problem,
        };
        let (takes, given) = (kernel.params.len(), self.list.len());
        if takes != given {
            return Err(fail(format!(
                "it takes {takes} parameters, {given} were given"
            )));
        }
        packed.clear();
        packed.resize(kernel.params_bytes as usize, 0);
        for (i, (param, arg)) in kernel.params.iter().zip(&self.list).enumerate() {
            let (takes, given) = (param.size as usize, arg.len);
            if takes != given {
                return Err(fail(format!(
                    "parameter {i} takes {takes} bytes, {given} were given"
                )));
            }
            if arg.align < param.align as usize || !arg.align.is_power_of_two() {
                let (takes, given) = (param.align, arg.align);
                let problem = format!("parameter {i} is aligned to {takes} bytes, not to {given}");
                return Err(fail(problem));
            }
            let start = param.offset as usize;
            let place = packed.get_mut(start..start.saturating_add(takes));
            let outside = || {
                fail(format!(
                    "parameter {i} lies outside its {} bytes",
                    kernel.params_bytes
                ))
            };
            place
                .ok_or_else(outside)?
                .copy_from_slice(&self.bytes[arg.start..arg.start + takes]);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::Args;
    use gridmux_channel::control::{KernelInfo, ParamInfo};

    fn kernel() -> KernelInfo {
        KernelInfo {
            name: "scale".into(),
            params_bytes: 16,
            params: vec![
                ParamInfo {
                    offset: 0,
                    size: 4,
                    align: 4,
                },
                ParamInfo {
                    offset: 8,
                    size: 8,
                    align: 8,
                },
            ],
            ..KernelInfo::default()
        }
    }

    fn problem(args: &Args) -> String {
        args.pack(&kernel(), &mut Vec::new())
            .unwrap_err()
            .to_string()
    }

    #[test]
    fn arguments_stand_at_their_offsets() {
        let mut packed = vec![9; 3];
        Args::new()
            .u32(7)
            .u64(1 << 40)
            .pack(&kernel(), &mut packed)
            .unwrap();
        assert_eq!(packed, [7, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0]);
    }

    #[test]
    fn what_does_not_fit_is_named() {
        assert_eq!(
            problem(&Args::new().u32(1)),
            "kernel `scale`: it takes 2 parameters, 1 were given"
        );
        assert!(problem(&Args::new().u32(1).u32(2)).contains("parameter 1 takes 8 bytes, 4"));
        assert!(
            problem(&Args::new().u32(1).bytes(&[0; 8], 4)).contains("aligned to 8 bytes, not to 4")
        );
    }
}
