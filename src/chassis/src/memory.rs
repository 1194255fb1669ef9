//! The heap of a program at rest.

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

#[cfg(test)]
mod tests {
    use super::*;

    /// Bytes that this process holds in memory: the second field, in pages.
    fn resident() -> usize {
        let text = std::fs::read_to_string("/proc/self/statm").unwrap();
        text.split(' ').nth(1).unwrap().parse::<usize>().unwrap() * 4096
    }

    #[cfg(target_env = "gnu")]
    #[test]
    fn what_was_freed_between_what_is_kept_is_returned() {
        // Small ones, because malloc returns large ones by itself; every 64th is kept.
        let mut blocks: Vec<_> = (0..32_768).map(|_| Some(vec![1_u8; 1024])).collect();
        for (number, block) in blocks.iter_mut().enumerate() {
            if number % 64 != 0 {
                *block = None;
            }
        }
        let before = resident();
        trim_heap();
        let after = resident();
        assert!(after + (16 << 20) < before, "{before} bytes, then {after}");
    }
}
