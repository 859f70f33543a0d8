//! TLS between database nodes is switched on and off while they serve: what pods have at each moment, and what a user sees.

use k8s_openapi::api::core::v1::Pod;
use kube::api::ListParams;
use readstates_operator_api::{InternodeTls, ReadStateCluster, labels};
use serde_json::{Value, json};

use crate::{
    certificates::{good, put},
    database::{at_rest, goes_on, up, with_members},
    world::{World, condition, with_world},
};

/// Three nodes that speak TLS with their clients, and so with each other.
fn with_internode(on: bool) -> Value {
    let mut members = with_members(1, 2);
    members["spec"]["database"]["tls"] = json!({ "secretName": "certs", "internode": on });
    members
}

/// How a node connects and what it accepts, by the options of its JVM.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Node {
    connects_over_tls: bool,
    accepts_tls: bool,
    accepts_plain_text: bool,
}

async fn nodes(world: &World) -> Vec<Node> {
    let ours = ListParams::default().labels(&format!("{}=database", labels::COMPONENT));
    let pods = world.api::<Pod>().list(&ours).await.unwrap();
    pods.items.iter().map(node).collect()
}

fn node(pod: &Pod) -> Node {
    let containers = &pod.spec.as_ref().unwrap().containers;
    let database = containers.iter().find(|c| c.name == "database").unwrap();
    let mut variables = database.env.iter().flatten();
    let options = variables.find(|v| v.name == "JVM_EXTRA_OPTS").unwrap();
    let options = options.value.as_ref().unwrap();
    let setting = |name: &str| {
        let name = format!("-Dcassandra.settings.server_encryption_options.{name}=");
        options.split(' ').find_map(|one| one.strip_prefix(&name))
    };
    let tls = setting("internode_encryption") == Some("all");
    let both = setting("optional") == Some("true");
    assert_eq!(setting("keystore").is_some(), tls || both, "{options}");
    Node {
        connects_over_tls: tls,
        accepts_tls: tls || both,
        accepts_plain_text: !tls || both,
    }
}

fn understand_each_other(nodes: &[Node]) {
    for from in nodes {
        for to in nodes {
            let accepted = if from.connects_over_tls {
                to.accepts_tls
            } else {
                to.accepts_plain_text
            };
            assert!(accepted, "{from:?} cannot connect to {to:?}");
        }
    }
}

fn stage(chat: &ReadStateCluster) -> InternodeTls {
    let status = chat.status.as_ref().unwrap();
    status.database_internode_tls.unwrap()
}

/// Goes on until the nodes have come to this stage; the stages on the way.
async fn comes_to(world: &World, wanted: InternodeTls) -> Vec<InternodeTls> {
    let mut stages = Vec::new();
    for _ in 0..80 {
        let chat = world.reconcile("chat").await;
        understand_each_other(&nodes(world).await);
        if stages.last() != Some(&stage(&chat)) {
            stages.push(stage(&chat));
        }
        if stage(&chat) == wanted {
            return stages;
        }
        Box::pin(goes_on(world)).await;
    }
    panic!("it stays at {stages:?}");
}

#[test]
fn nodes_understand_each_other_at_every_moment_while_tls_between_them_is_switched_on_and_off() {
    use InternodeTls::{Accepted, Disabled, Preferred, Required};
    with_world(async |world| {
        put(&world, "certs", &good(&world)).await;
        let chat = up(&world, &with_internode(false)).await;
        assert_eq!(stage(&chat), Disabled);

        world.replace(with_internode(true)).await.unwrap();
        let stages = comes_to(&world, Required).await;
        assert_eq!(&stages[stages.len() - 3..], [Accepted, Preferred, Required]);
        let chat = at_rest(&world).await;
        let only_tls = Node {
            connects_over_tls: true,
            accepts_tls: true,
            accepts_plain_text: false,
        };
        assert_eq!(nodes(&world).await, vec![only_tls.clone(); 3]);
        assert!(condition(&chat, "RequiresUpdate").starts_with("False"));

        // Half-way back a user changes their mind.
        world.replace(with_internode(false)).await.unwrap();
        comes_to(&world, Accepted).await;
        Box::pin(goes_on(&world)).await;
        world.reconcile("chat").await;
        world.replace(with_internode(true)).await.unwrap();
        comes_to(&world, Required).await;
        at_rest(&world).await;
        assert_eq!(nodes(&world).await, vec![only_tls; 3]);

        world.replace(with_internode(false)).await.unwrap();
        let stages = comes_to(&world, Disabled).await;
        assert_eq!(&stages[stages.len() - 3..], [Preferred, Accepted, Disabled]);
        at_rest(&world).await;
        let nodes = nodes(&world).await;
        assert!(nodes.iter().all(|node| !node.accepts_tls), "{nodes:?}");
    });
}
