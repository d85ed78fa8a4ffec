//! A database in memory: what reads a file of a service that has ended, without writing to it.

use crate::lock::CountedMutex;
use redb::StorageBackend;
use std::io;

/// The bytes of a database.
#[derive(Debug)]
pub(super) struct MemoryBackend(CountedMutex<Vec<u8>>);

impl MemoryBackend {
    pub(super) fn new(bytes: Vec<u8>) -> Self {
        Self(CountedMutex::new(bytes))
    }
}

fn out_of_range() -> io::Error {
    io::ErrorKind::UnexpectedEof.into()
}

/// Returns the places of `length` bytes from `offset` on, if they can be places at all.
fn range(offset: u64, length: usize) -> Result<std::ops::Range<usize>, io::Error> {
    let from = usize::try_from(offset).map_err(|_| out_of_range())?;
    let to = from.checked_add(length).ok_or_else(out_of_range)?;
    Ok(from..to)
}

impl StorageBackend for MemoryBackend {
    fn len(&self) -> Result<u64, io::Error> {
        Ok(self.0.lock().len() as u64)
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> Result<(), io::Error> {
        let bytes = self.0.lock();
        let found = bytes.get(range(offset, out.len())?);
        out.copy_from_slice(found.ok_or_else(out_of_range)?);
        Ok(())
    }

    fn set_len(&self, len: u64) -> Result<(), io::Error> {
        let len = usize::try_from(len).map_err(|_| out_of_range())?;
        self.0.lock().resize(len, 0);
        Ok(())
    }

    fn sync_data(&self) -> Result<(), io::Error> {
        Ok(())
    }

    fn write(&self, offset: u64, data: &[u8]) -> Result<(), io::Error> {
        let mut bytes = self.0.lock();
        let place = bytes.get_mut(range(offset, data.len())?);
        place.ok_or_else(out_of_range)?.copy_from_slice(data);
        Ok(())
    }
}
