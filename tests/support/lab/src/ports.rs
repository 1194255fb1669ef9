//! Ports for servers that need to know theirs before they listen.
//!
//! They are from below the kernel's ephemeral range (from 32768), so that no outgoing connection
//! takes one in between. Each process has blocks of its own, claimed by listening on a block's
//! first port for as long as it lives, so that no other process of the lab takes one either.

use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::ops::Range;
use std::sync::Mutex;

use anyhow::{Context as _, Result};

/// First ports of blocks: above those of known services, and all below the ephemeral range.
const BLOCKS: Range<u16> = 20_000..32_000;

/// Ports in a block, the first of which is the claim.
const BLOCK: u16 = 32;

/// The blocks of this process.
static MINE: Mutex<Blocks> = Mutex::new(Blocks::new());

/// So many ports of this machine on which nothing listens. Each is handed out once in a process's
/// life.
///
/// # Errors
///
/// All blocks are taken.
pub(crate) fn take<const N: usize>() -> Result<[u16; N]> {
    // A holder that panicked left the blocks whole: a port is handed out in one step.
    let mut mine = MINE
        .lock()
        .unwrap_or_else(std::sync::PoisonError::into_inner);
    let mut ports = [0; N];
    for port in &mut ports {
        *port = mine.next()?;
    }
    Ok(ports)
}

/// An address of this machine's own on which nothing listens, for a server that receives its
/// address from outside. It is handed out once in a process's life.
///
/// # Errors
///
/// All blocks are taken.
pub fn free_address() -> Result<SocketAddr> {
    let [port] = take()?;
    Ok((Ipv4Addr::LOCALHOST, port).into())
}

/// Claimed blocks, and what is left of the last.
struct Blocks {
    claims: Vec<TcpListener>,
    left: Range<u16>,
}

impl Blocks {
    const fn new() -> Self {
        Self {
            claims: Vec::new(),
            left: 0..0,
        }
    }

    fn next(&mut self) -> Result<u16> {
        loop {
            // A server of a killed process may still be there, and so may a stranger.
            for port in self.left.by_ref() {
                if listen(port).is_ok() {
                    return Ok(port);
                }
            }
            self.claim()?;
        }
    }

    /// Takes the first block that is free.
    fn claim(&mut self) -> Result<()> {
        let mut firsts = BLOCKS.step_by(usize::from(BLOCK));
        let claimed = firsts.find_map(|first| Some((first, listen(first).ok()?)));
        let (first, claim) = claimed.context("no ports are left for servers of the lab")?;
        self.claims.push(claim);
        self.left = first + 1..first + BLOCK;
        Ok(())
    }
}

/// Listens on all addresses, so that a listener on any of them is in the way.
fn listen(port: u16) -> std::io::Result<TcpListener> {
    TcpListener::bind((Ipv4Addr::UNSPECIFIED, port))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn no_port_is_handed_out_twice_nor_one_that_is_in_use() {
        // Two owners, as two processes are; each needs more than one block.
        let mut owners = [Blocks::new(), Blocks::new()];
        let mut seen = BTreeSet::new();
        let mut servers = Vec::new();
        for _ in 0..BLOCK + 5 {
            for owner in &mut owners {
                let port = owner.next().unwrap();
                assert!(BLOCKS.contains(&port) && seen.insert(port), "{port}");
                servers.push(TcpListener::bind((Ipv4Addr::LOCALHOST, port)).unwrap());
            }
        }
        // A third begins where the first two have left, and their servers still run.
        drop(owners);
        let mut third = Blocks::new();
        for _ in 0..BLOCK {
            assert!(!seen.contains(&third.next().unwrap()));
        }
    }
}
