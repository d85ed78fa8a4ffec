//! The parameters of a launch as the driver takes them: a pointer to each, of the size that the kernel declares.
//!
//! A packed buffer in their place (`CU_LAUNCH_PARAM_BUFFER_POINTER`) would have to be laid out as the driver's compiler
//! lays parameters out, which depends on the target where one is aligned to more than 16 bytes. With pointers only the
//! sizes have to be right, and those are declared.
//!
//! Rules: the room for the pointers is made once; a launch allocates nothing. No pointer leaves the launch's own
//! bytes, but that to the control block of a launch that is stamped, which is a copy with the stamps' place in it.

use crate::device::PARAM_BYTES;
use gridmux_launch::Stamps;
use gridmux_ptx::Kernel;
use gridmux_ptx::control::CONTROL_BYTES;
use gridmux_ptx::kernel::Entry;
use std::ffi::c_void;
use std::ptr;
use std::sync::Arc;

/// Most parameters of a launch: none is shorter than a byte.
const MOST: usize = PARAM_BYTES;

/// Where one parameter stands among the bytes of a launch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Place {
    /// Offset in bytes.
    pub(super) offset: u32,
    /// Size in bytes.
    pub(super) bytes: u32,
}

/// The places of all parameters of an entry, in order.
pub(super) type Places = Arc<[Place]>;

/// Returns the places of an entry's parameters.
pub(super) fn places(kernel: &Kernel, entry: &Entry) -> Places {
    let layout = kernel.layout(entry);
    layout
        .map(|(offset, bytes)| Place { offset, bytes })
        .collect()
}

/// Returns whether bytes hold all parameters, and there is room for the pointers to them.
pub(super) fn fit(params: &[u8], places: &[Place]) -> bool {
    let ends = places
        .iter()
        .map(|place| place.offset.saturating_add(place.bytes));
    places.len() <= MOST && ends.max().unwrap_or(0) as usize == params.len()
}

/// Room for the pointers of one launch, and for its control block.
pub(super) struct Arguments {
    pointers: Box<[*mut c_void]>,
    control: Box<[u8; CONTROL_BYTES as usize]>,
}

impl Arguments {
    /// Makes the room.
    pub(super) fn new() -> Self {
        Self {
            pointers: vec![ptr::null_mut(); MOST].into(),
            control: Box::new([0; CONTROL_BYTES as usize]),
        }
    }

    /// Points at each parameter, in order; `None` where one does not lie in the bytes or there are too many. The
    /// pointers are good as long as the bytes, and until the next call. Where there are stamps, the first parameter is
    /// the control block.
    pub(super) fn of(
        &mut self,
        params: &[u8],
        places: &[Place],
        stamps: Option<Stamps>,
    ) -> Option<&mut [*mut c_void]> {
        let room = self.pointers.get_mut(..places.len())?;
        for (pointer, place) in room.iter_mut().zip(places) {
            let start = place.offset as usize;
            let bytes = params.get(start..start.checked_add(place.bytes as usize)?)?;
            *pointer = bytes.as_ptr().cast_mut().cast();
        }
        if let Some(stamps) = stamps {
            let first = places
                .first()
                .filter(|first| first.bytes == CONTROL_BYTES)?;
            let control = params.get(first.offset as usize..)?.first_chunk()?;
            *self.control = *control;
            stamps.put(&mut self.control);
            room[0] = self.control.as_mut_ptr().cast();
        }
        Some(room)
    }
}

#[cfg(test)]
mod tests {
    use super::{Arguments, MOST, Place, fit, places};
    use gridmux_launch::{Control, Sampling, Stamps};
    use gridmux_ptx::Module;
    use gridmux_ptx::forms::{Form, Options, rewrite};

    const MAP: &str = ".version 8.0\n.target sm_90\n.address_size 64\n\
        .entry k(.param .u32 n, .param .align 64 .b8 map[128], .param .u8 last) { ret; }\n";

    fn places_in(form: Form) -> Vec<(u32, u32)> {
        let module = Module::parse(MAP).unwrap();
        let program = module.decode().unwrap();
        let made = rewrite(&module, &program, &Options::default(), |_| form);
        let kernel = &made.kernels[0];
        let places = places(kernel, &kernel.entries[0]);
        places.iter().map(|p| (p.offset, p.bytes)).collect()
    }

    #[test]
    fn each_parameter_has_its_declared_size_and_the_control_block_comes_first() {
        assert_eq!(places_in(Form::WHOLE), [(0, 4), (64, 128), (192, 1)]);
        let sliced = [(0, 64), (64, 4), (128, 128), (256, 1)];
        assert_eq!(places_in(Form::SLICE), sliced);
    }

    #[test]
    fn pointers_stay_in_the_bytes() {
        let mut arguments = Arguments::new();
        let params: Vec<u8> = (0..16).collect();
        let place = |offset, bytes| Place { offset, bytes };
        let found = arguments
            .of(&params, &[place(0, 4), place(8, 8)], None)
            .unwrap();
        let at = |n: usize| params[n..].as_ptr().addr();
        let found: Vec<_> = found.iter().map(|pointer| pointer.addr()).collect();
        assert_eq!(found, [at(0), at(8)]);
        assert!(fit(&params, &[place(0, 4), place(8, 8)]) && fit(&[], &[]));
        assert!(!fit(&params, &[place(0, 4)]) && !fit(&params, &[]));
        assert_eq!(arguments.of(&[], &[], None).map(|none| none.len()), Some(0));
        for wrong in [
            place(8, 9),
            place(16, 1),
            place(u32::MAX, 1),
            place(1, u32::MAX),
        ] {
            assert!(arguments.of(&params, &[wrong], None).is_none(), "{wrong:?}");
            assert!(!fit(&params, &[wrong]), "{wrong:?}");
        }
        assert!(
            arguments
                .of(&params, &vec![place(0, 1); MOST], None)
                .is_some()
        );
        assert!(
            arguments
                .of(&params, &vec![place(0, 1); MOST + 1], None)
                .is_none()
        );
    }

    #[test]
    fn a_stamped_launch_has_a_control_block_of_its_own() {
        let mut arguments = Arguments::new();
        let sampling = Sampling::of([100, 1, 1], 64).unwrap();
        let address = 0x7000_0000_1000;
        let stamps = Stamps { address, sampling };
        let own = Control::slice([1, 2, 3], [4, 5, 6]);
        let params = own.before(&[9; 4]);
        let places = [
            Place {
                offset: 0,
                bytes: 64,
            },
            Place {
                offset: 64,
                bytes: 4,
            },
        ];
        let found = arguments.of(&params, &places, Some(stamps)).unwrap();
        assert_eq!(found[1].addr(), params[64..].as_ptr().addr());
        // SAFETY: the first pointer is to the 64 bytes of the arguments' own control block, which lives.
        let control = unsafe { *found[0].cast::<[u8; 64]>() };
        let stamped = Control {
            stamps: Some(stamps),
            ..own
        };
        assert_eq!(control, stamped.to_bytes());
        assert_eq!(
            params[..64],
            own.to_bytes(),
            "the launch's own is left alone"
        );
        // A kernel without a control block.
        assert!(arguments.of(&params, &places[1..], Some(stamps)).is_none());
        assert!(arguments.of(&params, &[], Some(stamps)).is_none());
    }
}
