//! The heap of a program at rest.

/// Has all threads share one heap. To be called before there is a second thread.
///
/// An allocator with a heap for each thread keeps what each of them freed, and none can use what
/// another one has: the update service with the real graph peaked at 75 MB instead of 51 MB. It is
/// for programs whose threads seldom allocate at the same time.
///
/// Does nothing where the C library is not glibc.
pub fn share_heap() {
    #[cfg(target_env = "gnu")]
    {
        #[expect(unsafe_code, reason = "a call of the C library that nix does not have")]
        // SAFETY: it takes two numbers and sets a limit of the allocator, under its lock. Source:
        // mallopt(3).
        let _is_set = unsafe { libc::mallopt(libc::M_ARENA_MAX, 1) };
    }
}

/// Returns free memory of the heap to the system.
///
/// An allocator keeps what was freed for the next time. A daemon that works for seconds and rests
/// for weeks would keep its peak: of 4.5 MB after an update, 0.4 MB are in use. It takes about a
/// millisecond, so it is called where work ends, not where memory is freed.
///
/// Does nothing where the C library is not glibc.
pub fn trim_heap() {
    #[cfg(target_env = "gnu")]
    {
        #[expect(unsafe_code, reason = "a call of the C library that nix does not have")]
        // SAFETY: it takes a number, touches nothing but the allocator's own, under its locks, and
        // may be called from any thread at any time. Source: malloc_trim(3).
        let _is_less = unsafe { libc::malloc_trim(0) };
    }
}
