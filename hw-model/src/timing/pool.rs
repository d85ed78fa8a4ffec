//! A pool of numbered items that reuses free numbers and grows only when none is left.
//!
//! Rule: a number is valid from `take` to `give_back`; the item keeps its storage in between.

#[derive(Debug)]
pub(crate) struct Pool<T> {
    items: Vec<T>,
    free: Vec<u32>,
}

impl<T> Pool<T> {
    pub(crate) fn new() -> Self {
        Self {
            items: Vec::with_capacity(256),
            free: Vec::with_capacity(256),
        }
    }

    /// Returns a number for `item`.
    #[inline]
    pub(crate) fn take(&mut self, item: T) -> u32 {
        if let Some(number) = self.free.pop() {
            self.items[number as usize] = item;
            return number;
        }
        let number = u32::try_from(self.items.len()).unwrap_or(u32::MAX);
        self.items.push(item);
        number
    }

    #[inline]
    pub(crate) fn give_back(&mut self, number: u32) {
        self.free.push(number);
    }

    #[inline]
    pub(crate) fn get(&mut self, number: u32) -> &mut T {
        &mut self.items[number as usize]
    }
}
