//! The binary's allocator: most of the work of a run is making and dropping small texts.
#![expect(unsafe_code, reason = "an allocator hands out raw memory, and this one is written in C")]

use std::alloc::{GlobalAlloc, Layout};

use libmimalloc_sys as mi;

/// mimalloc. The crate of that name asks for the alignment of everything, and takes a longer way for what would be aligned
/// anyway: an eighth more instructions for an allocation, and more where blocks are larger than a kilobyte.
pub(crate) struct Mimalloc;

/// The minimum alignment of every block of at least this size: `MI_MAX_ALIGN_SIZE` in `mimalloc/types.h`. Smaller
/// blocks are aligned to the power of two that they fill.
const ALIGNED_ANYWAY: usize = 16;

fn is_aligned_anyway(size: usize, align: usize) -> bool {
    align <= ALIGNED_ANYWAY && align <= size
}

// SAFETY: each method hands its arguments on to the C function that does what `GlobalAlloc` asks of the method. Blocks of
// all these functions may be given to `mi_free` and to both ways of `mi_realloc`, whichever made them. They are as large
// as was asked for, and aligned as was asked for, the ones by the function and the others as above. None of the functions
// unwinds; where there is no memory they give back null.
unsafe impl GlobalAlloc for Mimalloc {
    #[inline]
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let (size, align) = (layout.size(), layout.align());
        // SAFETY: see above.
        unsafe {
            if is_aligned_anyway(size, align) {
                mi::mi_malloc(size).cast()
            } else {
                mi::mi_malloc_aligned(size, align).cast()
            }
        }
    }

    #[inline]
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        let (size, align) = (layout.size(), layout.align());
        // SAFETY: see above.
        unsafe {
            if is_aligned_anyway(size, align) {
                mi::mi_zalloc(size).cast()
            } else {
                mi::mi_zalloc_aligned(size, align).cast()
            }
        }
    }

    #[inline]
    unsafe fn dealloc(&self, block: *mut u8, _layout: Layout) {
        // SAFETY: see above.
        unsafe { mi::mi_free(block.cast()) }
    }

    #[inline]
    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        let align = layout.align();
        // SAFETY: see above.
        unsafe {
            if is_aligned_anyway(size, align) {
                mi::mi_realloc(block.cast(), size).cast()
            } else {
                mi::mi_realloc_aligned(block.cast(), size, align).cast()
            }
        }
    }
}

/// Lets the allocator keep unused memory for 50 ms instead of a second. Reading a suite of 100,000 tests then
/// takes a tenth less memory, at no cost that can be measured.
pub(crate) fn give_memory_back_soon() {
    /// `mi_option_purge_delay` in `mimalloc.h`, in milliseconds; the bindings have no name for it.
    const PURGE_DELAY: mi::mi_option_t = 15;
    // SAFETY: it writes one number into a table of the allocator, which checks the index; no other thread runs yet.
    unsafe { mi::mi_option_set(PURGE_DELAY, 50) };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_are_aligned_as_asked_and_keep_what_they_hold() {
        for align in (0..8).map(|it| 1_usize << it) {
            for size in (1..200).chain([1000, 1023, 1024, 1025, 3000, 1 << 17, 5 << 20]) {
                let layout = Layout::from_size_align(size, align).unwrap();
                // SAFETY: the blocks are used within their sizes, and given back with the layouts that they have.
                unsafe {
                    let is_aligned = |it: *mut u8| !it.is_null() && it.addr().is_multiple_of(align);
                    let zeroed = Mimalloc.alloc_zeroed(layout);
                    assert!(is_aligned(zeroed), "{size} {align}");
                    assert_eq!((zeroed.read(), zeroed.add(size - 1).read()), (0, 0));
                    Mimalloc.dealloc(zeroed, layout);
                    let mut block = Mimalloc.alloc(layout);
                    assert!(is_aligned(block), "{size} {align}");
                    block.write(7);
                    for (from, to) in [(size, size * 3), (size * 3, 1)] {
                        let layout = Layout::from_size_align(from, align).unwrap();
                        block = Mimalloc.realloc(block, layout, to);
                        assert!(is_aligned(block) && block.read() == 7, "{size} {align}");
                    }
                    Mimalloc.dealloc(block, Layout::from_size_align(1, align).unwrap());
                }
            }
        }
    }
}
