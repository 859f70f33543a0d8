//! What a run learns of actions whose results cannot be seen.

use super::Action;
use crate::inventory::Tried;

impl Tried {
    /// Takes note of an action that was done, where what it changes cannot be seen.
    pub fn note(&mut self, action: &Action) {
        match action {
            Action::Watch { durable: _, seen } => self.watched = Some(*seen),
            Action::GrowFilesystem { .. } => self.grown = true,
            Action::LimitWait { .. } => self.waits_limited = true,
            Action::ReadThrough { .. } => self.read_through = true,
            Action::Stop { .. }
            | Action::Fail { .. }
            | Action::Remove { .. }
            | Action::CreateStripe { .. }
            | Action::StartStripe { .. }
            | Action::ForgetLineage { .. }
            | Action::ForgetMirror(_)
            | Action::CreateMirror { .. }
            | Action::StartMirror { .. }
            | Action::StartMirrorFromFast { .. }
            | Action::ReAddDurable { .. }
            | Action::Mark { .. }
            | Action::SettleMarks { .. }
            | Action::ReAdd { .. }
            | Action::Add { .. }
            | Action::WriteMostly { .. }
            | Action::WriteLineage { .. }
            | Action::Format { .. }
            | Action::Set { .. }
            | Action::AddBitmap { .. }
            | Action::GrowMirror { .. }
            | Action::Mount { .. } => {}
        }
    }
}
