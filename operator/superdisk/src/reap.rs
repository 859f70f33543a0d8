//! Takes down super-disks whose pod is gone: an agent that was killed leaves mount and arrays on the node, and
//! the network disk must not be detached under them.
//!
//! For each record in the state folder, in this order, and the first that holds decides:
//!
//! | what is seen | what is done |
//! |---|---|
//! | the record cannot be read | said; the others are gone on with |
//! | a process holds the volume's lock | left: it is in use |
//! | the record names no pod | left: its pod is not known |
//! | the pod's folder is there | left: its agent may come back |
//! | none of that | taken down in order, then forgotten |
//!
//! The lock is held from the look to the end, so that an agent that starts meanwhile waits for it. Arrays without
//! a record of ours are never touched, whatever their name.

use std::path::Path;

use serde::Serialize;

use crate::claim::{Claim, ClaimError, Record, StateFolder, Unread};

/// The surroundings of the reaper.
pub trait Node {
    /// Whether the kubelet still has a folder for this pod. An error when that cannot be told.
    fn has_pod(&self, pod: &str) -> std::io::Result<bool>;
    /// Takes a super-disk down; what was in the way otherwise.
    fn take_down(&self, record: &Record) -> Result<(), String>;
}

/// What became of one record.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Reaped {
    pub volume: String,
    /// What became of it.
    pub outcome: Outcome,
}

/// What became of a super-disk.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Outcome {
    /// A process holds it.
    Minded,
    /// The record does not say which pod it was for.
    NoPod,
    /// Its pod is still on this node.
    PodIsThere(String),
    /// It was taken down and forgotten.
    TakenDown,
    /// It would have been.
    WouldTakeDown,
    /// It could not be taken down, or not be judged: tried again next time.
    Failed(String),
}

impl Outcome {
    /// In words, as the end of a line that begins with the volume.
    #[must_use]
    pub fn words(&self) -> String {
        match self {
            Self::Minded => "left: a process holds it".to_owned(),
            Self::NoPod => "left: its record names no pod".to_owned(),
            Self::PodIsThere(pod) => format!("left: its pod {pod} is on this node"),
            Self::TakenDown => "taken down: its pod is gone".to_owned(),
            Self::WouldTakeDown => "would be taken down: its pod is gone".to_owned(),
            Self::Failed(why) => format!("FAILED: {why}"),
        }
    }
}

/// Goes through all records of a state folder.
pub fn reap(
    folder: &Path,
    records: &[Result<Record, Unread>],
    dry_run: bool,
    node: &dyn Node,
) -> Vec<Reaped> {
    let one = |record: &Result<Record, Unread>| match record {
        Ok(record) => Reaped {
            volume: record.volume.clone(),
            outcome: judge(folder, record, dry_run, node),
        },
        Err(Unread {
            volume,
            path,
            source,
        }) => Reaped {
            volume: volume.clone(),
            outcome: Outcome::Failed(format!(
                "failed to read its record {}: {source}; remove it if the super-disk's pod is gone and nothing of it runs",
                path.display()
            )),
        },
    };
    records.iter().map(one).collect()
}

fn judge(folder: &Path, record: &Record, dry_run: bool, node: &dyn Node) -> Outcome {
    // Held to the end of this function.
    let _claim = match Claim::take(folder, &record.volume) {
        Ok(claim) => claim,
        Err(ClaimError::Taken(_)) => return Outcome::Minded,
        Err(ClaimError::Io { path, source }) => {
            return Outcome::Failed(format!("{}: {source}", path.display()));
        }
    };
    let Some(pod) = &record.pod else {
        return Outcome::NoPod;
    };
    match node.has_pod(pod) {
        Ok(true) => return Outcome::PodIsThere(pod.clone()),
        Ok(false) if dry_run => return Outcome::WouldTakeDown,
        Ok(false) => {}
        Err(error) => return Outcome::Failed(format!("the kubelet's folder of pods: {error}")),
    }
    let taken_down = node.take_down(record).and_then(|()| {
        let forgotten = StateFolder::new(folder, &record.volume).forget();
        forgotten.map_err(|error| error.to_string())
    });
    match taken_down {
        Ok(()) => Outcome::TakenDown,
        Err(why) => Outcome::Failed(why),
    }
}

/// Looks for a pod's folder. The folder of all pods must be there: without it every pod would seem gone.
pub fn has_pod(kubelet: &Path, pod: &str) -> std::io::Result<bool> {
    let pods = kubelet.join("pods");
    std::fs::read_dir(&pods)?;
    let whole = !pod.is_empty() && !pod.contains('/') && pod != "." && pod != "..";
    if !whole {
        return Err(std::io::Error::other(format!("{pod:?} is no UID of a pod")));
    }
    pods.join(pod).try_exists()
}

#[cfg(test)]
mod tests {
    use std::{cell::RefCell, fs};

    use tempfile::TempDir;

    use super::*;
    use crate::claim::records;

    /// A node with a kubelet, a state folder, and super-disks that can be taken down unless they are `stuck`.
    struct World {
        root: TempDir,
        stuck: bool,
        taken_down: RefCell<Vec<String>>,
    }

    fn world() -> World {
        let root = TempDir::new().unwrap();
        fs::create_dir_all(root.path().join("kubelet/pods")).unwrap();
        World {
            root,
            stuck: false,
            taken_down: RefCell::default(),
        }
    }

    impl World {
        fn state(&self) -> std::path::PathBuf {
            self.root.path().join("state")
        }

        fn pod(&self, uid: &str) -> &Self {
            fs::create_dir(self.root.path().join("kubelet/pods").join(uid)).unwrap();
            self
        }

        fn disk(&self, volume: &str, pod: Option<&str>) -> &Self {
            let record = Record {
                volume: volume.to_owned(),
                pod: pod.map(str::to_owned),
                mount: "/data".into(),
                durable: "/dev/sdb".into(),
                local: vec![],
                local_count: 1,
            };
            let state = StateFolder::new(&self.state(), volume);
            state.save("record", &record).unwrap();
            state.save("memory", &0).unwrap();
            self
        }

        fn reaped(&self, dry_run: bool) -> Vec<(String, Outcome)> {
            let all = records(&self.state()).unwrap();
            let reaped = reap(&self.state(), &all, dry_run, self);
            reaped
                .into_iter()
                .map(|one| (one.volume, one.outcome))
                .collect()
        }
    }

    impl Node for World {
        fn has_pod(&self, pod: &str) -> std::io::Result<bool> {
            has_pod(&self.root.path().join("kubelet"), pod)
        }

        fn take_down(&self, record: &Record) -> Result<(), String> {
            if self.stuck {
                return Err("it is in use by cat (9)".to_owned());
            }
            self.taken_down.borrow_mut().push(record.volume.clone());
            Ok(())
        }
    }

    #[test]
    fn only_what_nobody_minds_and_whose_pod_is_gone_is_taken_down() {
        let world = world();
        world
            .disk("gone", Some("1"))
            .disk("here", Some("2"))
            .disk("minded", Some("3"))
            .disk("unknown", None)
            .pod("2");
        let _agent = Claim::take(&world.state(), "minded").unwrap();
        let expect = |gone| {
            vec![
                ("gone".to_owned(), gone),
                ("here".to_owned(), Outcome::PodIsThere("2".to_owned())),
                ("minded".to_owned(), Outcome::Minded),
                ("unknown".to_owned(), Outcome::NoPod),
            ]
        };
        assert_eq!(world.reaped(true), expect(Outcome::WouldTakeDown));
        assert!(
            world.taken_down.borrow().is_empty(),
            "a dry run touches nothing"
        );
        assert_eq!(world.reaped(false), expect(Outcome::TakenDown));
        assert_eq!(*world.taken_down.borrow(), ["gone"]);
        let left: Vec<_> = world
            .reaped(false)
            .into_iter()
            .map(|(volume, _)| volume)
            .collect();
        assert_eq!(left, ["here", "minded", "unknown"], "it is forgotten");
    }

    #[test]
    fn what_cannot_be_taken_down_is_kept_for_the_next_time() {
        let world = World {
            stuck: true,
            ..world()
        };
        world.disk("gone", Some("1"));
        let failed = Outcome::Failed("it is in use by cat (9)".to_owned());
        assert_eq!(world.reaped(false), [("gone".to_owned(), failed.clone())]);
        assert_eq!(world.reaped(false), [("gone".to_owned(), failed)]);
    }

    #[test]
    fn a_record_that_cannot_be_read_is_said_and_keeps_no_other_from_being_reaped() {
        let world = world();
        world.disk("b", Some("1"));
        fs::write(world.state().join("a.record.json"), "").unwrap();
        let reaped = world.reaped(false);
        let [(first, Outcome::Failed(why)), (second, Outcome::TakenDown)] = &reaped[..] else {
            panic!("{reaped:?}");
        };
        assert_eq!([first, second], ["a", "b"]);
        assert!(why.contains("a.record.json: EOF"), "{why}");
    }

    #[test]
    fn without_the_kubelets_folder_no_pod_is_taken_for_gone() {
        let world = world();
        world.disk("gone", Some("1"));
        fs::remove_dir_all(world.root.path().join("kubelet")).unwrap();
        let reaped = world.reaped(false);
        assert!(matches!(&reaped[0].1, Outcome::Failed(_)), "{reaped:?}");
        assert!(world.taken_down.borrow().is_empty());
    }

    #[test]
    fn a_pod_named_like_a_path_is_not_looked_for() {
        let world = world();
        for pod in ["", ".", "..", "../pods"] {
            assert!(world.has_pod(pod).is_err(), "{pod:?}");
        }
    }
}
