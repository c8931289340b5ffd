//! What a form did, as reported on the next page.

use strum::{EnumString, IntoStaticStr};

/// What a form did, as reported on the next page.
#[derive(Clone, Copy, Debug, PartialEq, Eq, IntoStaticStr, EnumString)]
#[strum(serialize_all = "kebab-case", const_into_str)]
pub(crate) enum FormOutcome {
    Approved,
    Rejected,
    Answered,
    Closed,
    Kept,
    Unkept,
    /// A deletion that can still be undone.
    Held,
    Undone,
    Deleted,
    Imported,
    #[strum(serialize = "changed")]
    SettingsSaved,
    SourceAdded,
    SourceRemoved,
    Fetched,
    CleanedUp,
    Rotated,
    Copied,
    #[strum(serialize = "preferred")]
    PreferencesSaved,
    Enrolled,
    KeyRemoved,
    Trusted,
    #[strum(serialize = "revoked")]
    CheckUntrusted,
    Saved,
}

impl FormOutcome {
    pub(crate) fn message(self) -> &'static str {
        match self {
            Self::Approved => {
                "Approved. Tell the agent to continue with the call at the end of its last reply."
            }
            Self::Rejected => {
                "Rejected. The agent sees it with its next call, and your reason if you gave one."
            }
            Self::Answered => {
                "Answered. Tell the agent to continue with the call at the end of its last reply."
            }
            Self::Closed => {
                "Closed. The next record of the run, such as an attempt or an answer, reopens it."
            }
            Self::Kept => "Kept. Clean-up will not delete this session.",
            Self::Unkept => "No longer kept. Clean-up may delete this session once it is old.",
            Self::Held => "The session will be deleted in a few seconds. Until then you can undo it below.",
            Self::Undone => "Undone. The session was not deleted.",
            Self::Deleted => {
                "Deleted. The next clean-up frees the space of content that no other session needs."
            }
            Self::Imported => "Imported. Ask an agent to resume the run.",
            Self::SettingsSaved => "Saved in the settings file.",
            Self::SourceAdded => {
                "Added. This console uses it now. Restart your clients so that their agents can use it."
            }
            Self::SourceRemoved => {
                "Removed. This console no longer uses it. Agents use it until their clients are restarted."
            }
            Self::Fetched => "Fetched.",
            Self::CleanedUp => "Cleaned up. Below is what would be removed now.",
            Self::Rotated => "Rotated. Running servers pick up the new key by themselves.",
            Self::Copied => "Copied to your own folder for workflows.",
            Self::PreferencesSaved => "Saved. The next completed step applies it.",
            Self::Enrolled => "Enrolled. Decisions can be signed with this passkey from now on.",
            Self::KeyRemoved => "Removed. What it signed before stays proven.",
            Self::Trusted => {
                "Trusted. WorkRail runs these checks when an agent submits a step that names them."
            }
            Self::CheckUntrusted => "No longer trusted. The check is not run until you trust it again.",
            Self::Saved => {
                "Saved. Runs that are started from now on use it; started runs keep what they are pinned to."
            }
        }
    }
}
