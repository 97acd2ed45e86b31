//! A key that a fork does not copy: its page is empty in the child. One of the few files with `unsafe`, because the
//! system hands out pages only as pointers.
#![allow(unsafe_code)]

use std::ptr::null_mut;
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous};
use rustix::param::page_size;

/// A key in a page of its own, which is never unmapped. The third word is not 0 while the key is there.
pub(super) struct Key(&'static [AtomicU64; 3]);

impl Key {
    /// Stores the key. `None` if the system has no such pages.
    pub(super) fn new(key: u128) -> Option<Self> {
        let (size, access) = (page_size(), ProtFlags::READ | ProtFlags::WRITE);
        // SAFETY: the system chooses the place, so nothing that is in use is mapped over.
        let page = unsafe { mmap_anonymous(null_mut(), size, access, MapFlags::PRIVATE) }.ok()?;
        // SAFETY: it is the page from above, and whole.
        unsafe { madvise(page, size, Advice::LinuxWipeOnFork) }.ok()?;
        // SAFETY: a page is larger and more strictly aligned than three words, all bits 0 are valid for them,
        // and it stays mapped for as long as the process lives.
        let words = unsafe { &*page.cast::<[AtomicU64; 3]>() };
        words[0].store(key as u64, Ordering::Relaxed);
        words[1].store((key >> 64) as u64, Ordering::Relaxed);
        words[2].store(1, Ordering::Release);
        Some(Self(words))
    }

    /// Reads the key. `None` in a process that was forked since.
    pub(super) fn read(&self) -> Option<[u64; 2]> {
        let [first, second, is_there] = self.0;
        let is_there = is_there.load(Ordering::Acquire) != 0;
        is_there.then(|| [first.load(Ordering::Relaxed), second.load(Ordering::Relaxed)])
    }
}

#[cfg(all(test, not(shuttle)))]
mod tests {
    use super::*;

    #[test]
    fn a_forked_process_finds_no_key() {
        let key = Key::new(1 << 64 | 2).expect("a page");
        assert_eq!(key.read(), Some([2, 1]));
        // SAFETY: the child reads three words and ends, and runs nothing else.
        let child = unsafe { libc::fork() };
        if child == 0 {
            let code = if key.read().is_none() { 0 } else { 1 };
            // SAFETY: it ends the child alone.
            unsafe { libc::_exit(code) };
        }
        assert!(child > 0, "no child could be made");
        let mut status = -1;
        // SAFETY: the child is ours, and `status` is a place to write to.
        unsafe { libc::waitpid(child, &raw mut status, 0) };
        assert_eq!(status, 0, "the child has the key");
        assert_eq!(key.read(), Some([2, 1]));
    }
}
