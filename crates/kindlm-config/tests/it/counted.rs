//! Counts allocated memory, a measure of work that does not depend on the machine.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

thread_local! {
    static TAKEN: Cell<u64> = const { Cell::new(0) };
}

/// The system's allocator, with a count of allocated bytes for each thread.
struct Counted;

#[global_allocator]
static COUNTED: Counted = Counted;

fn count(size: usize) {
    // The counter is already destroyed if the thread is ending. Such an allocation is not counted.
    let _ = TAKEN.try_with(|it| it.set(it.get() + size as u64));
}

#[expect(unsafe_code, reason = "an allocator; every call goes on to the system's as it came")]
// SAFETY: the system's allocator keeps the contract, and counting neither allocates nor unwinds.
unsafe impl GlobalAlloc for Counted {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size());
        // SAFETY: the caller keeps the contract of `alloc`.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, ptr: *mut u8, layout: Layout) {
        // SAFETY: the caller keeps the contract of `dealloc`.
        unsafe { System.dealloc(ptr, layout) }
    }

    unsafe fn realloc(&self, ptr: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count(size.saturating_sub(layout.size()));
        // SAFETY: the caller keeps the contract of `realloc`.
        unsafe { System.realloc(ptr, layout, size) }
    }
}

/// Runs a function. Returns its result and the bytes that this thread has allocated, including bytes that it has freed.
pub(crate) fn allocated<T>(work: impl FnOnce() -> T) -> (T, u64) {
    let before = TAKEN.get();
    let done = work();
    (done, TAKEN.get() - before)
}
