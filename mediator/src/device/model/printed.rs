//! The output of kernels' `printf`, kept until the clients ask for it.
//!
//! Rule: each client has room for [`MOST_BYTES`]; what finds none is counted.

use crate::device::DomainId;
use gridmux_hw_model::Printed;
use std::collections::HashMap;

/// Text of a client that is kept until it asks, the size of CUDA's own buffer (`cudaLimitPrintfFifoSize`).
const MOST_BYTES: usize = 1 << 20;

/// Output that nobody has asked for yet.
#[derive(Debug, Default)]
pub(super) struct PrintedTexts(HashMap<u32, (Vec<u8>, u64)>);

impl PrintedTexts {
    /// Adds what launches printed.
    pub(super) fn keep(&mut self, printed: Vec<Printed>) {
        for Printed {
            domain,
            text,
            lost_bytes,
            ..
        } in printed
        {
            let (kept, lost) = self.0.entry(domain.0).or_default();
            // Once something was lost nothing follows it, so that the text has no gap.
            let room = match *lost {
                0 => MOST_BYTES.saturating_sub(kept.len()),
                _ => 0,
            };
            let end = text.floor_char_boundary(room);
            kept.extend_from_slice(&text.as_bytes()[..end]);
            *lost += lost_bytes + (text.len() - end) as u64;
        }
    }

    /// Takes a client's text, and how many bytes were lost behind it.
    pub(super) fn take(&mut self, domain: DomainId) -> (Vec<u8>, u64) {
        self.0.remove(&domain.0).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::{MOST_BYTES, PrintedTexts};
    use crate::device::DomainId;
    use gridmux_hw_model::Printed;
    use gridmux_hw_model::memory;

    fn printed(domain: u32, text: &str) -> Printed {
        Printed {
            tag: 1,
            domain: memory::DomainId(domain),
            text: text.to_owned(),
            lost_bytes: 0,
        }
    }

    #[test]
    fn each_client_gets_its_own_text_once() {
        let mut texts = PrintedTexts::default();
        texts.keep(vec![printed(0, "a"), printed(1, "x"), printed(0, "b")]);
        assert_eq!(texts.take(DomainId(0)), (b"ab".to_vec(), 0));
        assert_eq!(texts.take(DomainId(0)), (Vec::new(), 0));
        assert_eq!(texts.take(DomainId(1)), (b"x".to_vec(), 0));
    }

    #[test]
    fn what_finds_no_room_is_counted() {
        let mut texts = PrintedTexts::default();
        texts.keep(vec![printed(0, &"-".repeat(MOST_BYTES - 1))]);
        // A letter of two bytes finds room for one, and nothing overtakes it.
        texts.keep(vec![printed(0, "é"), printed(0, "z")]);
        let (text, lost) = texts.take(DomainId(0));
        assert_eq!((text.len(), lost), (MOST_BYTES - 1, 3));
        texts.keep(vec![printed(0, "again")]);
        assert_eq!(texts.take(DomainId(0)), (b"again".to_vec(), 0));
    }
}
