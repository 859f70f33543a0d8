//! Answers of a super-disk's agent, as they come. The agent may be of a later release, with words that are not known here.

use serde::{Deserialize, Deserializer, de::DeserializeOwned};
use serde_json::Value;

/// What an agent answers to `GET /state`, as far as it matters here. It says more.
#[derive(Deserialize, Clone, Debug, PartialEq, Eq)]
pub struct AgentState {
    /// Whether the filesystem is mounted where the database looks for it.
    pub mounted: bool,
    pub condition: Condition,
    /// Why it was not put together.
    pub refusal: Option<Refusal>,
    /// What failed last.
    pub last_error: Option<String>,
    /// What runs.
    pub facts: Option<Facts>,
    /// Which legs cannot keep their lineage header in both slots. An agent of an earlier release does not say.
    #[serde(default)]
    pub broken_slots: BrokenSlots,
}

/// Of each leg, whether one of the two slots of its lineage header cannot be written.
#[derive(Deserialize, Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BrokenSlots {
    pub durable: bool,
    pub fast: bool,
}

/// How a super-disk is, in the agent's words.
#[derive(Deserialize, Clone, Debug, PartialEq, Eq)]
#[serde(tag = "is", rename_all = "kebab-case")]
pub enum Condition {
    /// No array runs.
    NotAssembled,
    /// The network disk is lost, or was, and nobody has decided what that means.
    DurableLost {
        /// Whether writes are stopped.
        frozen: bool,
        /// What is wrong with it; `None` for all that is not told apart here.
        #[serde(default, deserialize_with = "known")]
        why: Option<DurableLoss>,
    },
    /// A copy between the legs that the agent did not start is being undone.
    WrongWay,
    /// Both legs are in sync.
    Healthy,
    /// The local disks are being filled.
    Rebuilding,
    /// The local disks are lost.
    FastLost {
        /// What their repair waits for; `None` for something that is not known here.
        #[serde(deserialize_with = "known")]
        waiting_on: Option<WaitingOn>,
    },
    /// Something that is not known here.
    #[serde(other)]
    Unknown,
}

fn known<'de, D, T>(deserializer: D) -> Result<Option<T>, D::Error>
where
    D: Deserializer<'de>,
    T: DeserializeOwned,
{
    let value = Value::deserialize(deserializer)?;
    Ok(T::deserialize(value).ok())
}

/// What is wrong with a lost network disk.
#[derive(Deserialize, Clone, Copy, Debug, PartialEq, Eq)]
#[serde(rename_all = "kebab-case")]
pub enum DurableLoss {
    /// Nothing any more: somebody has given it back, and writes are stopped all the same.
    Returned,
}

/// What the repair of the local disks waits for.
#[derive(Deserialize, Clone, Copy, Debug, PartialEq, Eq)]
#[serde(rename_all = "kebab-case")]
pub enum WaitingOn {
    /// Nothing.
    Step,
    /// Disks.
    LocalDevices {
        /// That many are there.
        found: u32,
        /// That many are needed.
        wanted: u32,
    },
    /// The next attempt, at that time.
    Pause(u64),
    /// A readable network disk: the copy stopped at this sector of it.
    DurableUnreadable {
        /// Of 512 bytes.
        sector: u64,
    },
    /// The next day, at that time: all attempts failed.
    GivenUp(u64),
}

#[derive(Deserialize, Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// Its stable code.
    pub code: String,
    /// What is wrong and what to do.
    pub text: String,
}

/// What runs.
#[derive(Deserialize, Clone, Debug, PartialEq, Eq)]
pub struct Facts {
    /// The mirror of both legs.
    pub mirror: Option<Mirror>,
}

/// The mirror of both legs.
#[derive(Deserialize, Clone, Debug, PartialEq, Eq)]
pub struct Mirror {
    /// Capacity of the mirror, in bytes.
    pub bytes: u64,
    /// What it does besides serving.
    pub sync: Sync,
}

/// What a mirror does besides serving.
#[derive(Deserialize, Clone, Debug, PartialEq, Eq)]
pub struct Sync {
    /// Sectors done, and sectors to do.
    pub progress: Option<(u64, u64)>,
    /// Present speed.
    pub kib_per_second: u64,
}
