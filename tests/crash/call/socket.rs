//! The peer of a socket.

use std::fs;
use std::net::Ipv4Addr;

use nix::unistd::Pid;

/// What a connection over the network is called by.
pub(super) const TCP: &str = "tcp ";

/// What any other socket is called.
pub(super) const LOCAL: &str = "a socket of this host";

/// The peer of a socket, and how many bytes are sent there; none if the descriptor is no socket.
///
/// The length distinguishes requests whose content cannot be read.
pub(super) fn to(pid: Pid, descriptor: u64, length: u64) -> Option<String> {
    let descriptor = descriptor & 0xffff_ffff;
    let link = fs::read_link(format!("/proc/{pid}/fd/{descriptor}")).ok()?;
    let number = link.to_str()?.strip_prefix("socket:[")?.strip_suffix(']')?;
    let connections = |table| {
        let table = fs::read_to_string(format!("/proc/{pid}/net/{table}")).unwrap_or_default();
        peer(&table, number)
    };
    let peer = connections("tcp").or_else(|| connections("tcp6"));
    let peer = peer.map_or_else(|| LOCAL.to_owned(), |peer| format!("{TCP}{peer}"));
    Some(format!("{peer}, {length} bytes"))
}

/// The peer of the connection with this number. Source: proc(5), `/proc/net/tcp`.
fn peer(table: &str, number: &str) -> Option<String> {
    let fields = |line: &str| {
        line.split_whitespace()
            .map(ToOwned::to_owned)
            .collect::<Vec<_>>()
    };
    let found = table
        .lines()
        .map(fields)
        .find(|fields| fields.get(9).is_some_and(|inode| inode == number))?;
    let (address, port) = found.get(2)?.split_once(':')?;
    let port = u16::from_str_radix(port, 16).ok()?;
    // The last word of a mapped address is that of version 4, in the machine's order.
    let word = address.get(address.len().checked_sub(8)?..)?;
    let address = Ipv4Addr::from(u32::from_str_radix(word, 16).ok()?.to_ne_bytes());
    Some(format!("{address}:{port}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As Linux 6.1 writes it, shortened.
    const TABLE: &str = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n   \
        0: 0A00580A:B3F2 0100580A:192B 01 00000000:00000000 02:000009A1 00000000     0        0 31275 2 0\n";

    #[test]
    fn a_peer_is_found_by_number() {
        assert_eq!(peer(TABLE, "31275").unwrap(), "10.88.0.1:6443");
        assert_eq!(peer(TABLE, "31276"), None);
    }
}
