//! The mediator's side of region 1: a request comes in, its reply stays to be
//! read until the next request.
//!
//! Allocation, modules and streams are asked for here and not in the rings: such
//! requests are rare, may take long, and carry text of any length, none of which
//! a ring of 64-byte entries serves.

use super::{ControlCode, ControlError, ControlReply, ControlRequest};
use nix::errno::Errno;

/// The mediator's side of the mailbox: one request at a time, one reply kept.
#[derive(Debug, Default)]
pub struct Mailbox {
    reply: Vec<u8>,
}

impl Mailbox {
    /// Takes what a tenant wrote to region 1. `Some` is a request to execute,
    /// after which [`Mailbox::answer`] is called; until then a read finds a
    /// length of zero. A malformed request is answered here.
    ///
    /// # Errors
    /// `EINVAL` at an offset other than 0.
    pub fn write(&mut self, offset: u64, data: &[u8]) -> Result<Option<ControlRequest>, Errno> {
        if offset != 0 {
            return Err(Errno::EINVAL);
        }
        self.reply.clear();
        match ControlRequest::decode(data) {
            Ok(request) => Ok(Some(request)),
            Err(error) => {
                let error = ControlError::new(ControlCode::BadRequest, error.to_string());
                self.answer(&ControlReply::Error(error));
                Ok(None)
            }
        }
    }

    /// Puts the reply where the tenant reads it, or an error in its place where it is too long; returns whether it is
    /// the reply.
    pub fn answer(&mut self, reply: &ControlReply) -> bool {
        let encoded = reply.encode();
        let is_sent = encoded.is_ok();
        let encoded = encoded.or_else(|error| {
            let text = format!("the reply cannot be sent: {error}");
            ControlReply::Error(ControlError::new(ControlCode::Limit, text)).encode()
        });
        let encoded = encoded.unwrap_or_default();
        let length = u32::try_from(encoded.len()).unwrap_or(0);
        self.reply.clear();
        self.reply.extend_from_slice(&length.to_ne_bytes());
        self.reply.extend_from_slice(&encoded);
        is_sent
    }

    /// Copies what a tenant reads from region 1; beyond the reply it is zero.
    ///
    /// # Errors
    /// None now; the signature is that of the handler.
    pub fn read(&self, offset: u64, out: &mut [u8]) -> Result<(), Errno> {
        out.fill(0);
        let start = usize::try_from(offset).unwrap_or(usize::MAX);
        if let Some(rest) = self.reply.get(start..) {
            let len = rest.len().min(out.len());
            out[..len].copy_from_slice(&rest[..len]);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::Mailbox;
    use crate::control::{ControlReply, ControlRequest, Module};

    fn read_all(mailbox: &Mailbox) -> ControlReply {
        let mut head = [0; 4];
        mailbox.read(0, &mut head).unwrap();
        let mut body = vec![0; u32::from_ne_bytes(head) as usize];
        mailbox.read(4, &mut body).unwrap();
        ControlReply::decode(&body).unwrap()
    }

    #[test]
    fn a_request_is_executed_and_its_reply_is_read() {
        let mut mailbox = Mailbox::default();
        let request = ControlRequest::Alloc { bytes: 77 };
        let bytes = request.encode().unwrap();
        assert_eq!(mailbox.write(0, &bytes), Ok(Some(request)));
        let mut head = [9; 4];
        mailbox.read(0, &mut head).unwrap();
        assert_eq!(
            head, [0; 4],
            "a request that is not answered reads as length zero"
        );
        mailbox.answer(&ControlReply::Loaded(Module::default()));
        assert_eq!(read_all(&mailbox), ControlReply::Loaded(Module::default()));
    }

    #[test]
    fn a_reply_that_is_too_long_becomes_an_error() {
        let mut mailbox = Mailbox::default();
        assert!(mailbox.answer(&ControlReply::Text("short".into())));
        assert!(!mailbox.answer(&ControlReply::Text("x".repeat(5 << 20))));
        assert!(matches!(read_all(&mailbox), ControlReply::Error(_)));
    }

    #[test]
    fn malformed_requests_are_answered_with_an_error() {
        let mut mailbox = Mailbox::default();
        for bytes in [&[][..], &[200], &[0, 255, 255, 255], &[6, 0, 0]] {
            assert_eq!(mailbox.write(0, bytes), Ok(None));
            assert!(
                matches!(read_all(&mailbox), ControlReply::Error(_)),
                "{bytes:?}"
            );
        }
        assert!(mailbox.write(8, &[]).is_err());
    }
}
