//! The pages of the settings.

use strum::{IntoStaticStr, VariantArray};

/// A page of the settings, in the order of the navigation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, IntoStaticStr, VariantArray)]
#[strum(const_into_str)]
pub(crate) enum SettingsPage {
    Values,
    Passkeys,
    Checks,
    Sources,
    #[strum(serialize = "Clean-up")]
    CleanUp,
    Keys,
    Clients,
    Health,
}

impl SettingsPage {
    pub(crate) fn address(self) -> &'static str {
        match self {
            Self::Values => "/settings",
            Self::Sources => "/settings/sources",
            Self::CleanUp => "/settings/cleanup",
            Self::Keys => "/settings/keys",
            Self::Passkeys => "/settings/passkeys",
            Self::Checks => "/settings/checks",
            Self::Clients => "/settings/clients",
            Self::Health => "/settings/health",
        }
    }

    pub(super) fn parse(path: &str) -> Option<Self> {
        Self::VARIANTS.iter().copied().find(|own| own.address() == path)
    }
}
