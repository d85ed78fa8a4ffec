//! What never asks the allocator for anything: readers of plans, and policies whose tables have grown.
//!
//! A binary of its own, because it counts the calls of the whole program's allocator.

mod published_plan;

use gridmux_testkit::allocator::CountingAllocator;

#[global_allocator]
static ALLOCATOR: CountingAllocator = CountingAllocator;
