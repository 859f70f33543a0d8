//! The start file: what the database's own container reads before it starts the image's entrypoint. In:
//! a start order. Out: lines of shell, with nothing in them but what parsed as an address or an identity.

use std::{
    net::IpAddr,
    path::{Path, PathBuf},
};

use crate::{args::EngineName, layout::Layout, wire::Start};

/// Clients reach Cassandra by every address of the pod, and its JVM, which its image keeps to IPv4, speaks IPv6. Quoted:
/// YAML takes a colon at the end for a key.
const CASSANDRA_IPV6: &str = "\
export CASSANDRA_RPC_ADDRESS='\"::\"'
export JVM_EXTRA_OPTS=\"${JVM_EXTRA_OPTS:-} -Djava.net.preferIPv4Stack=false -Djava.net.preferIPv6Addresses=true\"
";
/// The same of `ScyllaDB`.
const SCYLLA_IPV6: &str = "export SCYLLA_ADDRESSES='--rpc-address :: --enable-ipv6-dns-lookup 1'\n";

/// The text of the start file of the node with this address.
///
/// # Errors
/// What in the order is not what it should be.
pub(super) fn file(engine: EngineName, own: IpAddr, order: &Start) -> Result<String, String> {
    let family = match (own, engine) {
        (IpAddr::V4(_), _) => "",
        (IpAddr::V6(_), EngineName::Cassandra) => CASSANDRA_IPV6,
        (IpAddr::V6(_), EngineName::Scylla) => SCYLLA_IPV6,
    };
    Ok(family.to_owned() + &ordered(engine, order)?)
}

fn ordered(engine: EngineName, order: &Start) -> Result<String, String> {
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
    let (name, replace) = match (engine, replace) {
        (EngineName::Cassandra, None) => ("CASSANDRA_SEEDS", None),
        (EngineName::Cassandra, Some(lost)) => {
            let lost = address(&lost.address)?;
            let option = format!("-Dcassandra.replace_address_first_boot={lost}");
            (
                "CASSANDRA_SEEDS",
                Some(format!(
                    "export JVM_EXTRA_OPTS=\"${{JVM_EXTRA_OPTS:-}} {option}\"\n"
                )),
            )
        }
        (EngineName::Scylla, None) => ("SCYLLA_SEEDS", None),
        (EngineName::Scylla, Some(lost)) => {
            let lost = identity(&lost.host_id)?;
            let dead = ignore_dead.iter().map(|id| identity(id));
            let dead = dead.collect::<Result<Vec<_>, _>>()?.join(",");
            // Cassandra does not wait for them.
            let ignored = if dead.is_empty() {
                String::new()
            } else {
                format!(" --ignore-dead-nodes-for-replace {dead}")
            };
            (
                "SCYLLA_SEEDS",
                Some(format!(
                    "export SCYLLA_REPLACE='--replace-node-first-boot {lost}{ignored}'\n"
                )),
            )
        }
    };
    Ok(format!(
        "export {name}='{seeds}'\n{}",
        replace.unwrap_or_default()
    ))
}

/// The file with figures of the disk under `data`, for `ScyllaDB`, which measures them first where there is none.
/// `None` while a measurement could not be trusted: then it starts without, and a later start measures.
pub(super) fn figures(data: &Path, layout: &Layout) -> Option<PathBuf> {
    let file = data.join(format!(".readstates-io-{}.yaml", layout.key));
    (file.exists() || layout.busy.is_none()).then_some(file)
}

/// The line that says so.
pub(super) fn figures_line(file: &Path) -> String {
    format!("export SCYLLA_IO='{}'\n", file.display())
}

fn address(text: &str) -> Result<IpAddr, String> {
    text.parse()
        .map_err(|_| format!("{text:?} is not an address"))
}

fn identity(text: &str) -> Result<&str, String> {
    let fits = !text.is_empty() && text.chars().all(|c| c == '-' || c.is_ascii_hexdigit());
    fits.then_some(text)
        .ok_or_else(|| format!("{text:?} is not a host ID"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::{Node, NodeState};

    const OWN: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(10, 0, 0, 1));

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
            file(EngineName::Cassandra, OWN, &order(false)).unwrap(),
            format!("export CASSANDRA_SEEDS{seeds}")
        );
        assert_eq!(
            file(EngineName::Cassandra, OWN, &order(true)).unwrap(),
            format!(
                "export CASSANDRA_SEEDS{seeds}export JVM_EXTRA_OPTS=\"${{JVM_EXTRA_OPTS:-}} \
                 -Dcassandra.replace_address_first_boot=10.0.0.9\"\n"
            )
        );
        assert_eq!(
            file(EngineName::Scylla, OWN, &order(true)).unwrap(),
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
        let cassandra = file(EngineName::Cassandra, own, &order).unwrap();
        assert_eq!(
            cassandra,
            "export CASSANDRA_RPC_ADDRESS='\"::\"'\n\
             export JVM_EXTRA_OPTS=\"${JVM_EXTRA_OPTS:-} -Djava.net.preferIPv4Stack=false \
             -Djava.net.preferIPv6Addresses=true\"\n\
             export CASSANDRA_SEEDS='fd00:10::7'\n\
             export JVM_EXTRA_OPTS=\"${JVM_EXTRA_OPTS:-} -Dcassandra.replace_address_first_boot=fd00:10::9\"\n"
        );
        let scylla = file(EngineName::Scylla, own, &order).unwrap();
        assert!(
            scylla.starts_with(
                "export SCYLLA_ADDRESSES='--rpc-address :: --enable-ipv6-dns-lookup 1'\n"
            ),
            "{scylla}"
        );
        assert!(
            !file(EngineName::Scylla, OWN, &order)
                .unwrap()
                .contains("::'")
        );
    }

    #[test]
    fn a_disk_is_measured_once_for_each_layout_and_never_while_it_resyncs() {
        let dir = tempfile::tempdir().unwrap();
        let layout = |key: &str, busy: Option<&str>| Layout {
            key: key.to_owned(),
            busy: busy.map(str::to_owned),
        };
        let figures = |key, busy| figures(dir.path(), &layout(key, busy));
        assert_eq!(figures("one", Some("resync")), None);
        let file = figures("one", None).unwrap();
        assert_eq!(
            figures_line(&file),
            format!(
                "export SCYLLA_IO='{}/.readstates-io-one.yaml'\n",
                dir.path().display()
            )
        );
        // Measured: valid as long as the layout is the same, whatever the array does.
        std::fs::write(&file, "disks: []").unwrap();
        assert_eq!(figures("one", Some("resync")), Some(file));
        assert_eq!(figures("two", Some("resync")), None);
        assert!(figures("two", None).is_some());
    }

    #[test]
    fn nothing_that_a_shell_would_run_gets_into_it() {
        let mut odd = order(false);
        odd.seeds = vec!["$(reboot)".to_owned()];
        assert!(file(EngineName::Cassandra, OWN, &odd).is_err());
        let mut dead = order(true);
        dead.ignore_dead = vec!["7c0f-02".to_owned(), "7c0f-03".to_owned()];
        let text = file(EngineName::Scylla, OWN, &dead).unwrap();
        let options =
            "--replace-node-first-boot 7c0f-01 --ignore-dead-nodes-for-replace 7c0f-02,7c0f-03'";
        assert!(text.contains(options), "{text}");
        dead.ignore_dead.push("x; reboot".to_owned());
        assert!(file(EngineName::Scylla, OWN, &dead).is_err());
        let mut odd = order(true);
        odd.replace.as_mut().unwrap().host_id = "x; reboot".to_owned();
        assert!(file(EngineName::Scylla, OWN, &odd).is_err());
        odd.seeds.clear();
        assert!(file(EngineName::Scylla, OWN, &odd).is_err());
    }
}
