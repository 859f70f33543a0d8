//! Listening ports of this pod, from the kernel: its containers share their network, and so this table. Reads
//! `/proc/net`, opens no socket.

use std::fs;

/// `TCP_LISTEN` of the kernel, as the table writes it.
const LISTEN: &str = "0A";

/// Whether a process listens on this port, at any address.
pub(super) fn listens(port: u16) -> bool {
    // Without IPv6 there is no second table.
    ["/proc/net/tcp", "/proc/net/tcp6"]
        .iter()
        .any(|table| fs::read_to_string(table).is_ok_and(|text| has_listener(&text, port)))
}

/// Rows are `0: 0100007F:2352 00000000:0000 0A …`: number, own address, peer, state.
fn has_listener(table: &str, port: u16) -> bool {
    let port = format!("{port:04X}");
    table.lines().skip(1).any(|row| {
        let mut words = row.split_whitespace().skip(1);
        let own = words.next().and_then(|address| address.rsplit_once(':'));
        own.is_some_and(|(_, own)| own == port) && words.nth(1) == Some(LISTEN)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: &str = "\
  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
   0: 00000000:2352 00000000:0000 0A 00000000:00000000 00:00000000 00000000   999        0 41 1 0 100 0 0 10 0
   1: 0100007F:1C9F 00000000:0000 0A 00000000:00000000 00:00000000 00000000   999        0 42 1 0 100 0 0 10 0
   2: 0A00000A:1B58 0B00000A:2710 01 00000000:00000000 00:00000000 00000000   999        0 43 1 0 100 0 0 10 0
";

    #[test]
    fn a_port_is_open_when_somebody_listens_there_and_not_when_somebody_speaks() {
        let open = |port| has_listener(TABLE, port);
        assert!(open(9042) && open(7327));
        assert!(!open(7000) && !open(10000));
        assert!(!has_listener("", 9042));
    }

    #[test]
    fn the_kernel_tells_of_a_socket_of_ours_until_it_is_closed() {
        let socket = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let port = socket.local_addr().unwrap().port();
        assert!(listens(port));
        drop(socket);
        assert!(!listens(port));
    }
}
