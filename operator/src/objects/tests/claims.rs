//! The claim on the keyspace, as given to the schema Job.

use super::{environment, pod};
use crate::{
    fixtures::{CASSANDRA, EXTERNAL, cluster},
    spec::ValidatedCluster,
    templates::schema_job_name,
};

#[test]
fn a_database_of_somebody_elses_is_claimed_and_never_altered() {
    let job = |cluster: &ValidatedCluster| pod(cluster, "Job chat-schema").containers.remove(0);
    let own = "READSTATES_OWN_DATABASE=true".to_owned();
    let ours = job(&cluster(CASSANDRA));
    assert!(environment(&ours).contains(&own));
    // Its own database may have been another cluster's; a program of the release before knows no claims.
    assert!(!ours.args.unwrap().iter().any(|arg| arg == "--claim"));

    let theirs = cluster(EXTERNAL);
    assert!(!environment(&job(&theirs)).contains(&own));
    let name = schema_job_name(&theirs);
    let taking = ValidatedCluster {
        take_over_claim: Some("uid-of-lost".to_owned()),
        ..theirs
    };
    let args = job(&taking).args.unwrap();
    assert_eq!(args[args.len() - 2..], ["--take-over-claim", "uid-of-lost"]);
    // Another wish is another Job.
    assert_ne!(schema_job_name(&taking), name);
}
