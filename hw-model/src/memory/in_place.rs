//! Device memory in place: bytes that are read and written where they are, so that a copy is one pass.
//!
//! Rule: a span lies inside one allocation, and the borrow of [`Memory`] keeps everybody else from it. Where that does
//! not hold, because others have the memory mapped, there is no reference, and bytes are copied.

use super::{Domain, DomainId, Memory, MemoryError};

impl Domain {
    /// Returns where bytes stand that this process alone has.
    fn own_span(&self, address: u64, bytes: u64) -> Result<*mut u8, MemoryError> {
        if self.is_shared(address) {
            return Err(MemoryError::Shared { address });
        }
        self.span(address, bytes)
    }
}

impl Memory {
    /// Returns device bytes, to be read in place.
    ///
    /// # Errors
    /// As [`Memory::read`]; [`MemoryError::Shared`].
    pub fn bytes(&self, domain: DomainId, address: u64, bytes: u64) -> Result<&[u8], MemoryError> {
        let host = self.domain(domain)?.own_span(address, bytes)?;
        // SAFETY: `span` found all the bytes inside one allocation, which lies inside the domain's mapping; `&self`
        // keeps the mapping alive, and nothing writes to it meanwhile, because that takes `&mut self` or a run of a
        // kernel, which the caller's borrow excludes as well; no other process has the pages.
        Ok(unsafe { std::slice::from_raw_parts(host, usize::try_from(bytes).unwrap_or(0)) })
    }

    /// Returns device bytes, to be written in place.
    ///
    /// # Errors
    /// As [`Memory::read`]; [`MemoryError::Shared`].
    pub fn bytes_mut(
        &mut self,
        domain: DomainId,
        address: u64,
        bytes: u64,
    ) -> Result<&mut [u8], MemoryError> {
        let host = self.domain(domain)?.own_span(address, bytes)?;
        // SAFETY: as in `bytes`; `&mut self` excludes every other access, and no other process has the pages.
        Ok(unsafe { std::slice::from_raw_parts_mut(host, usize::try_from(bytes).unwrap_or(0)) })
    }

    /// Copies device bytes to another place of the same domain; the two may overlap.
    ///
    /// # Errors
    /// As [`Memory::read`].
    pub fn copy_within(
        &mut self,
        domain: DomainId,
        from: u64,
        to: u64,
        bytes: u64,
    ) -> Result<(), MemoryError> {
        let owner = self.domain(domain)?;
        let (source, target) = (owner.span(from, bytes)?, owner.span(to, bytes)?);
        // SAFETY: `span` found both inside allocations, hence inside the mapping; `copy` allows that they overlap, and
        // `&mut self` excludes every other access of this process. Where a file's pages stand at either end others may
        // write to them meanwhile: then the bytes are what either wrote, in some order.
        unsafe { std::ptr::copy(source, target, usize::try_from(bytes).unwrap_or(0)) };
        Ok(())
    }

    /// Fills device bytes with one element again and again; a part of an element at the end stays as it is.
    ///
    /// # Errors
    /// As [`Memory::read`].
    pub fn fill_with<const N: usize>(
        &mut self,
        domain: DomainId,
        address: u64,
        bytes: u64,
        element: [u8; N],
    ) -> Result<(), MemoryError> {
        let host = self.domain(domain)?.span(address, bytes)?;
        for place in 0..usize::try_from(bytes).unwrap_or(0) / N {
            // SAFETY: `span` found all the bytes inside one allocation, hence inside the mapping, and the element lies
            // inside them; `&mut self` excludes every other access of this process, others' are as in `copy_within`.
            unsafe { host.add(place * N).cast::<[u8; N]>().write(element) };
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::Memory;

    #[test]
    fn bytes_are_reached_in_place_and_only_inside_an_allocation() {
        let mut memory = Memory::default();
        let d = memory.create_domain(1 << 20).expect("domain");
        let a = memory.alloc(d, 64).expect("fits");
        memory.fill_with(d, a, 64, [1, 2]).expect("inside");
        memory.bytes_mut(d, a + 4, 2).expect("inside").fill(9);
        memory.copy_within(d, a, a + 2, 6).expect("inside");
        let bytes = memory.bytes(d, a, 10).expect("inside");
        assert_eq!(bytes, [1, 2, 1, 2, 1, 2, 9, 9, 1, 2]);
        assert!(memory.bytes(d, a, 65).is_err() && memory.bytes_mut(d, a + 65, 1).is_err());
        assert!(memory.copy_within(d, a, a + 32, 33).is_err());
        assert!(memory.fill_with(d, a + 60, 8, [0]).is_err());
        // What ends a byte short of an element leaves that alone.
        memory.fill_with(d, a, 7, [5, 5, 5, 5]).expect("inside");
        assert_eq!(memory.bytes(d, a, 8), Ok(&[5, 5, 5, 5, 1, 2, 9, 9][..]));
    }
}
