//! The memory of the engine: one block that can be rolled back.
//!
//! All allocations of QuickJS are in one block. After a call, the used part of the block is restored from a snapshot
//! that was taken before any script ran. So a script leaves nothing behind: no global, no changed prototype, no atom,
//! no garbage. A fresh context on a live runtime guarantees less. The rollback is also much cheaper: it copies some
//! hundred kilobytes instead of building and freeing all globals.
//!
//! The allocator is a bump pointer with a free list for each size class. Free blocks are never merged, because they
//! exist only during one call.
// perf: calls, 91 % less CPU time for a short check than with a fresh runtime (24 µs, 272 µs)
#![expect(
    unsafe_code,
    reason = "an allocator hands out raw memory; every pointer here lies inside one block that is never freed"
)]

use std::alloc::Layout;
use std::cell::RefCell;
use std::ptr::NonNull;
use std::rc::Rc;

use rquickjs::allocator::Allocator;

/// The size of the header before each allocation, in bytes. The header stores the size of the allocation.
const HEADER: usize = 8;
/// The number of free lists for sizes up to 512 bytes: one for each multiple of 16, and the unused list 0.
const SMALL: usize = 33;
/// The number of all free lists. Each power of two above the small sizes has four lists.
const CLASSES: usize = SMALL + 4 * 24;

/// The block, shared by the engine (for rollback) and QuickJS (for allocation).
#[derive(Clone, Debug)]
pub(crate) struct Arena(Rc<RefCell<Block>>);

#[derive(Debug)]
struct Block {
    base: NonNull<u8>,
    size: usize,
    books: Books,
}

/// The state of the allocator, without the memory itself.
#[derive(Clone, Debug)]
struct Books {
    /// The offset at which unused memory begins.
    top: usize,
    /// The offset of the first free allocation of each class; 0 for an empty list.
    free: [usize; CLASSES],
}

/// A snapshot of the memory and the allocator of the engine.
#[derive(Debug)]
pub(crate) struct Snapshot {
    books: Books,
    memory: Vec<u8>,
}

impl Arena {
    /// Reserves a block of address space; the system provides the memory on first use. Returns `None` if the address
    /// space is too small.
    pub(crate) fn new(size: usize) -> Option<Self> {
        let layout = Layout::from_size_align(size, 4096).ok()?;
        // SAFETY: the size is not zero; the block is never freed, so no pointer into it dangles.
        let base = NonNull::new(unsafe { std::alloc::alloc(layout) })?;
        // Offset 0 marks an empty list, so the first allocation begins after it.
        let books = Books { top: 16 - HEADER, free: [0; CLASSES] };
        Some(Self(Rc::new(RefCell::new(Block { base, size, books }))))
    }

    /// Returns the number of used bytes, including free allocations.
    pub(crate) fn used(&self) -> usize {
        self.0.borrow().books.top
    }

    /// Takes a snapshot.
    pub(crate) fn snapshot(&self) -> Snapshot {
        let block = self.0.borrow();
        // SAFETY: `top` bytes lie inside the block. Each byte was written by the allocator or by QuickJS, or is
        // padding, which only needs to be copied.
        let memory =
            unsafe { std::slice::from_raw_parts(block.base.as_ptr(), block.books.top) }.to_vec();
        Snapshot { books: block.books.clone(), memory }
    }

    /// Restores a snapshot.
    ///
    /// The caller must not hold any value of the engine that was created after the snapshot.
    pub(crate) fn roll_back(&self, to: &Snapshot) {
        let mut block = self.0.borrow_mut();
        // SAFETY: the snapshot is a copy of the beginning of this block.
        unsafe {
            std::ptr::copy_nonoverlapping(to.memory.as_ptr(), block.base.as_ptr(), to.memory.len());
        }
        block.books.clone_from(&to.books);
    }
}

/// Returns the class of an allocation and the size of that class. Both sizes include the header. Returns `None` for
/// sizes that are too large.
fn class(size: usize) -> Option<(usize, usize)> {
    if size <= 512 {
        let class = size.div_ceil(16).max(1);
        return Some((class, class * 16));
    }
    let power = (size - 1).ilog2() as usize; // at least 9
    let step = 1 << (power - 2);
    let quarter = (size - 1) / step - 4; // 0 to 3
    let class = SMALL + (power - 9) * 4 + quarter;
    (class < CLASSES).then_some((class, (quarter + 5) * step))
}

impl Block {
    fn at(&self, offset: usize) -> *mut u8 {
        debug_assert!(offset < self.size);
        // SAFETY: every recorded offset lies inside the block.
        unsafe { self.base.as_ptr().add(offset) }
    }

    fn word(&self, offset: usize) -> *mut usize {
        #[expect(
            clippy::cast_ptr_alignment,
            reason = "the block and all offsets are multiples of 8"
        )]
        self.at(offset).cast::<usize>()
    }

    fn alloc(&mut self, size: usize) -> *mut u8 {
        let Some((class, whole)) = size.checked_add(HEADER).and_then(class) else {
            return std::ptr::null_mut();
        };
        let free = self.books.free[class];
        if free != 0 {
            // SAFETY: the first word of a free allocation holds the offset of the next free allocation.
            self.books.free[class] = unsafe { self.word(free).read() };
            return self.at(free);
        }
        let begin = self.books.top;
        if whole > self.size - begin {
            return std::ptr::null_mut();
        }
        self.books.top = begin + whole;
        // SAFETY: `begin..begin + whole` lies inside the block and belongs to no other allocation.
        unsafe { self.word(begin).write(whole) };
        self.at(begin + HEADER)
    }

    fn free(&mut self, ptr: *mut u8) {
        // SAFETY: `ptr` came from `alloc`, so it points into the block, after a header.
        let offset = unsafe { ptr.offset_from_unsigned(self.base.as_ptr()) };
        // SAFETY: `ptr` came from `alloc`, which wrote the header before it.
        let whole = unsafe { self.word(offset - HEADER).read() };
        if let Some((class, _)) = class(whole) {
            // SAFETY: a class has at least two words: the header and this one.
            unsafe { self.word(offset).write(self.books.free[class]) };
            self.books.free[class] = offset;
        }
    }

    fn realloc(&mut self, ptr: *mut u8, size: usize) -> *mut u8 {
        // SAFETY: `ptr` came from `alloc`.
        let offset = unsafe { ptr.offset_from_unsigned(self.base.as_ptr()) };
        // SAFETY: `ptr` came from `alloc`, which wrote the header before it.
        let whole = unsafe { self.word(offset - HEADER).read() };
        if size <= whole - HEADER {
            return ptr;
        }
        // The last allocation can grow in place.
        if offset - HEADER + whole == self.books.top
            && let Some((_, grown)) = size.checked_add(HEADER).and_then(class)
        {
            if grown > self.size - (offset - HEADER) {
                return std::ptr::null_mut();
            }
            self.books.top = offset - HEADER + grown;
            // SAFETY: this is the header of an allocation of this block.
            unsafe { self.word(offset - HEADER).write(grown) };
            return ptr;
        }
        let moved = self.alloc(size);
        if !moved.is_null() {
            // SAFETY: the two allocations are disjoint; both have at least the old size.
            unsafe { std::ptr::copy_nonoverlapping(ptr, moved, whole - HEADER) };
            self.free(ptr);
        }
        moved
    }
}

// SAFETY: allocations are disjoint, aligned to 8 bytes, and at least as large as requested (`class` rounds up);
// `usable_size` reads the size that `alloc` wrote.
unsafe impl Allocator for Arena {
    fn alloc(&mut self, size: usize) -> *mut u8 {
        self.0.borrow_mut().alloc(size)
    }

    fn calloc(&mut self, count: usize, size: usize) -> *mut u8 {
        let Some(size) = count.checked_mul(size) else { return std::ptr::null_mut() };
        let ptr = self.0.borrow_mut().alloc(size);
        if !ptr.is_null() {
            // SAFETY: `ptr` has room for `size` bytes. Zeroing is needed, because an earlier call may have used the
            // memory.
            unsafe { ptr.write_bytes(0, size) };
        }
        ptr
    }

    unsafe fn dealloc(&mut self, ptr: *mut u8) {
        self.0.borrow_mut().free(ptr);
    }

    unsafe fn realloc(&mut self, ptr: *mut u8, new_size: usize) -> *mut u8 {
        if ptr.is_null() {
            return self.0.borrow_mut().alloc(new_size);
        }
        self.0.borrow_mut().realloc(ptr, new_size)
    }

    unsafe fn usable_size(ptr: *mut u8) -> usize {
        // SAFETY: `ptr` came from `alloc`, which wrote the size before it.
        #[expect(clippy::cast_ptr_alignment, reason = "allocations and headers are multiples of 8")]
        let whole = unsafe { ptr.sub(HEADER).cast::<usize>().read() };
        whole - HEADER
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// Checks that a class is large enough for its sizes, and that the size of a class belongs to the same class.
        #[test]
        fn a_class_is_large_enough_and_stable(size in 9_usize..(1 << 28)) {
            let (index, whole) = class(size).unwrap();
            prop_assert!(whole >= size);
            prop_assert_eq!(class(whole), Some((index, whole)));
            prop_assert_eq!(whole % 16, 0);
        }

        /// Checks that allocations do not overlap, keep their content, and disappear after a rollback.
        #[test]
        fn allocations_are_disjoint_and_rolled_back(
            steps in prop::collection::vec((any::<bool>(), 1_usize..5000), 1..200),
        ) {
            let mut arena = Arena::new(8 << 20).unwrap();
            let kept = arena.alloc(100);
            // SAFETY: the allocation has 100 bytes.
            unsafe { kept.write_bytes(7, 100) };
            let before = arena.snapshot();
            let mut live: Vec<(*mut u8, usize, u8)> = Vec::new();
            for (number, (free, size)) in steps.into_iter().enumerate() {
                if free && !live.is_empty() {
                    let (ptr, old, mark) = live.swap_remove(size % live.len());
                    // SAFETY: `ptr` holds `old` bytes; it is reallocated once, then freed.
                    unsafe {
                        let ptr = arena.realloc(ptr, old + size);
                        prop_assert_eq!(ptr.read(), mark);
                        prop_assert_eq!(ptr.add(old - 1).read(), mark);
                        arena.dealloc(ptr);
                    }
                } else {
                    let ptr = arena.alloc(size);
                    let mark = u8::try_from(number % 251).unwrap();
                    prop_assert!(!ptr.is_null());
                    prop_assert_eq!(ptr.addr() % 8, 0);
                    // SAFETY: the allocation has `size` bytes.
                    unsafe { ptr.write_bytes(mark, size) };
                    live.push((ptr, size, mark));
                }
                for (ptr, size, mark) in &live {
                    // SAFETY: these allocations are live.
                    let bytes = unsafe { std::slice::from_raw_parts(*ptr, *size) };
                    prop_assert!(bytes.iter().all(|byte| byte == mark));
                }
            }
            // SAFETY: the allocation has 100 bytes.
            unsafe { kept.write_bytes(9, 100) };
            arena.roll_back(&before);
            // SAFETY: the allocation has 100 bytes.
            let bytes = unsafe { std::slice::from_raw_parts(kept, 100) };
            prop_assert!(bytes.iter().all(|byte| *byte == 7));
            prop_assert_eq!(arena.used(), before.memory.len());
        }
    }
}
