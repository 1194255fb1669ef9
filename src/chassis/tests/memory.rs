//! The heap, measured in a process of its own: other tests of one process allocate meanwhile.

#![cfg(target_env = "gnu")]
#![expect(clippy::unwrap_used, reason = "a test")]

use chassis::memory::trim_heap;

/// Bytes that this process holds in memory: the second field, in pages.
fn resident() -> usize {
    let text = std::fs::read_to_string("/proc/self/statm").unwrap();
    text.split(' ').nth(1).unwrap().parse::<usize>().unwrap() * 4096
}

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
