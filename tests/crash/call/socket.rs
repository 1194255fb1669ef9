//! The peer of a socket.

use std::fs;
use std::net::Ipv4Addr;

use nix::unistd::Pid;

/// What a connection over the network is called by.
pub(super) const TCP: &str = "tcp ";

/// What any other socket is called.
pub(super) const LOCAL: &str = "a socket of this host";

/// What a socket is called whose peer connected to the program, as a probe does.
pub(super) const ASKER: &str = "an asker";

/// State of a socket that listens. Source: `linux/net/tcp_states.h`.
const LISTENS: &str = "0A";

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
    let peer = peer.unwrap_or_else(|| LOCAL.to_owned());
    Some(format!("{peer}, {length} bytes"))
}

/// The peer of the connection with this number. Source: proc(5), `/proc/net/tcp`.
fn peer(table: &str, number: &str) -> Option<String> {
    let sockets: Vec<Vec<_>> = table
        .lines()
        .map(|line| line.split_whitespace().collect())
        .collect();
    let found = sockets
        .iter()
        .find(|fields| fields.get(9) == Some(&number))?;
    let port = |fields: &[&str]| Some(fields.get(1)?.rsplit_once(':')?.1.to_owned());
    let own = port(found);
    let listens = |fields: &Vec<&str>| fields.get(3) == Some(&LISTENS) && port(fields) == own;
    if sockets.iter().any(listens) {
        return Some(ASKER.to_owned());
    }
    let (address, port) = found.get(2)?.split_once(':')?;
    let port = u16::from_str_radix(port, 16).ok()?;
    // The last word of a mapped address is that of version 4, in the machine's order.
    let word = address.get(address.len().checked_sub(8)?..)?;
    let address = Ipv4Addr::from(u32::from_str_radix(word, 16).ok()?.to_ne_bytes());
    Some(format!("{TCP}{address}:{port}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As Linux 6.1 writes it, shortened.
    const TABLE: &str = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n   \
        0: 0A00580A:B3F2 0100580A:192B 01 00000000:00000000 02:000009A1 00000000     0        0 31275 2 0\n";

    #[test]
    fn a_peer_is_found_by_number() {
        assert_eq!(peer(TABLE, "31275").unwrap(), "tcp 10.88.0.1:6443");
        assert_eq!(peer(TABLE, "31276"), None);
    }

    #[test]
    fn who_connected_to_the_program_is_an_asker() {
        let table = format!(
            "{TABLE}   1: 0100007F:225D 00000000:0000 0A 00000000:00000000 00:00000000 00000000 0 0 7 1 0\n   \
             2: 0100007F:225D 0100007F:B3F0 01 00000000:00000000 00:00000000 00000000 0 0 8 1 0\n"
        );
        assert_eq!(peer(&table, "8").unwrap(), ASKER);
        assert_eq!(peer(&table, "31275").unwrap(), "tcp 10.88.0.1:6443");
    }
}
