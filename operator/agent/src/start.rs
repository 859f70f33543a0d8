//! The start file: what the database's own container reads before it starts the image's entrypoint. In:
//! a start order. Out: lines of shell, with nothing in them but what parsed as an address or an identity.

use std::net::IpAddr;

use crate::wire::{Node, Start};

/// How an engine's start file says what is ordered.
#[derive(Debug)]
pub(crate) struct Dialect {
    /// Variable with the addresses to join by.
    pub(crate) seeds: &'static str,
    /// Lines for a node whose own address is of IPv6.
    pub(crate) ipv6: &'static str,
    /// The line by which a node takes the place of this one, past those that are down.
    pub(crate) replace: fn(&Node, &[String]) -> Result<String, String>,
}

/// The text of the start file of the node with this address.
///
/// # Errors
/// What in the order is not what it should be.
pub(crate) fn file(dialect: &Dialect, own: IpAddr, order: &Start) -> Result<String, String> {
    let Start {
        pod_uid: _,
        seeds,
        replace,
        ignore_dead,
    } = order;
    if seeds.is_empty() {
        return Err("an order needs at least one seed".to_owned());
    }
    let seeds: Vec<String> = seeds
        .iter()
        .map(|s| address(s).map(|a| a.to_string()))
        .collect::<Result<_, _>>()?;
    let seeds = seeds.join(",");
    let replace = match replace {
        Some(lost) => (dialect.replace)(lost, ignore_dead)?,
        None => String::new(),
    };
    let family = match own {
        IpAddr::V4(_) => "",
        IpAddr::V6(_) => dialect.ipv6,
    };
    Ok(format!(
        "{family}export {}='{seeds}'\n{replace}",
        dialect.seeds
    ))
}

/// What parses as an address.
///
/// # Errors
/// Anything else.
pub(crate) fn address(text: &str) -> Result<IpAddr, String> {
    text.parse()
        .map_err(|_| format!("{text:?} is not an address"))
}

/// What can be the identity of a node.
///
/// # Errors
/// Anything else.
pub(crate) fn identity(text: &str) -> Result<&str, String> {
    let fits = !text.is_empty() && text.chars().all(|c| c == '-' || c.is_ascii_hexdigit());
    fits.then_some(text)
        .ok_or_else(|| format!("{text:?} is not a host ID"))
}

#[cfg(test)]
mod tests {
    use readstates_operator_api::Engine;

    use super::*;
    use crate::{engine::Profile, wire::NodeState};

    const OWN: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(10, 0, 0, 1));

    fn file(engine: Engine, own: IpAddr, order: &Start) -> Result<String, String> {
        super::file(&Profile::of(engine).start, own, order)
    }

    fn order(replace: bool) -> Start {
        let lost = Node {
            host_id: "7c0f-01".to_owned(),
            address: "10.0.0.9".to_owned(),
            up: false,
            state: NodeState::Normal,
            load_bytes: None,
        };
        Start {
            pod_uid: "uid".to_owned(),
            seeds: vec!["10.0.0.1".to_owned(), "10.0.0.2".to_owned()],
            replace: replace.then_some(lost),
            ignore_dead: Vec::new(),
        }
    }

    #[test]
    fn each_engine_reads_seeds_and_replacement_in_its_own_words() {
        let seeds = "='10.0.0.1,10.0.0.2'\n";
        assert_eq!(
            file(Engine::Cassandra, OWN, &order(false)).unwrap(),
            format!("export CASSANDRA_SEEDS{seeds}")
        );
        assert_eq!(
            file(Engine::Cassandra, OWN, &order(true)).unwrap(),
            format!(
                "export CASSANDRA_SEEDS{seeds}export JVM_EXTRA_OPTS=\"${{JVM_EXTRA_OPTS:-}} \
                 -Dcassandra.replace_address_first_boot=10.0.0.9\"\n"
            )
        );
        assert_eq!(
            file(Engine::Scylla, OWN, &order(true)).unwrap(),
            format!(
                "export SCYLLA_SEEDS{seeds}export SCYLLA_REPLACE='--replace-node-first-boot 7c0f-01'\n"
            )
        );
    }

    #[test]
    fn a_node_of_ipv6_serves_clients_on_every_address_of_its_pod() {
        let own = "fd00:10::5".parse().unwrap();
        let mut order = order(true);
        order.seeds = vec!["fd00:10:0:0:0:0:0:7".to_owned()];
        order.replace.as_mut().unwrap().address = "fd00:10:0:0:0:0:0:9".to_owned();
        let cassandra = file(Engine::Cassandra, own, &order).unwrap();
        assert_eq!(
            cassandra,
            "export CASSANDRA_RPC_ADDRESS='\"::\"'\n\
             export JVM_EXTRA_OPTS=\"${JVM_EXTRA_OPTS:-} -Djava.net.preferIPv4Stack=false\"\n\
             export CASSANDRA_SEEDS='fd00:10::7'\n\
             export JVM_EXTRA_OPTS=\"${JVM_EXTRA_OPTS:-} -Dcassandra.replace_address_first_boot=fd00:10::9\"\n"
        );
        let scylla = file(Engine::Scylla, own, &order).unwrap();
        assert!(
            scylla.starts_with(
                "export SCYLLA_ADDRESSES='--rpc-address :: --enable-ipv6-dns-lookup 1'\n"
            ),
            "{scylla}"
        );
        assert!(!file(Engine::Scylla, OWN, &order).unwrap().contains("::'"));
    }

    #[test]
    fn nothing_that_a_shell_would_run_gets_into_it() {
        let mut odd = order(false);
        odd.seeds = vec!["$(reboot)".to_owned()];
        assert!(file(Engine::Cassandra, OWN, &odd).is_err());
        let mut dead = order(true);
        dead.ignore_dead = vec!["7c0f-02".to_owned(), "7c0f-03".to_owned()];
        let text = file(Engine::Scylla, OWN, &dead).unwrap();
        let options =
            "--replace-node-first-boot 7c0f-01 --ignore-dead-nodes-for-replace 7c0f-02,7c0f-03'";
        assert!(text.contains(options), "{text}");
        dead.ignore_dead.push("x; reboot".to_owned());
        assert!(file(Engine::Scylla, OWN, &dead).is_err());
        let mut odd = order(true);
        odd.replace.as_mut().unwrap().host_id = "x; reboot".to_owned();
        assert!(file(Engine::Scylla, OWN, &odd).is_err());
        odd.seeds.clear();
        assert!(file(Engine::Scylla, OWN, &odd).is_err());
    }
}
