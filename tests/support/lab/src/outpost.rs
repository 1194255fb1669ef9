//! A network namespace of a lab without a host, for programs that reach hosts and their pods as a
//! cluster's own programs do.
//!
//! This machine has no route to pods: labs beside each other have the same networks of pods.

use std::net::Ipv4Addr;

use anyhow::Result;

use crate::network::Port;
use crate::place::Lab;

/// Before the last octet of a host's address, the network of its pods.
///
/// Source: `host/containers.rs`.
const POD_NETWORKS: [u8; 2] = [10, 98];

/// The namespace. Gone when dropped; what runs in it ends before.
#[derive(Debug)]
pub struct Outpost {
    port: Port,
    /// Kept as long as the namespace.
    _lab: Lab,
}

impl Outpost {
    /// Makes one that reaches these hosts and their pods. All hosts of the lab are made before:
    /// their addresses are counted.
    ///
    /// # Errors
    ///
    /// It exists, or the lab is full.
    pub fn make(lab: &Lab, name: &str, hosts: &[Ipv4Addr]) -> Result<Self> {
        let port = lab.plug(name)?;
        for host in hosts {
            port.route(&pods_of(*host), *host)?;
        }
        Ok(Self {
            port,
            _lab: lab.clone(),
        })
    }

    /// Its address in the lab's network.
    pub fn address(&self) -> Ipv4Addr {
        self.port.address()
    }

    /// The words before a command that runs in it.
    pub fn enter(&self) -> [String; 2] {
        let namespace = self.port.namespace();
        [
            "nsenter".to_owned(),
            format!("--net={}", namespace.display()),
        ]
    }
}

fn pods_of(host: Ipv4Addr) -> String {
    let ([a, b], [.., last]) = (POD_NETWORKS, host.octets());
    format!("{a}.{b}.{last}.0/24")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pods_of_a_host_have_its_number() {
        assert_eq!(pods_of(Ipv4Addr::new(10, 97, 3, 12)), "10.98.12.0/24");
    }
}
