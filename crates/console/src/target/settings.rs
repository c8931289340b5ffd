//! The pages of the settings.

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SettingsPage {
    Values,
    Sources,
    CleanUp,
    Keys,
    Passkeys,
    Clients,
    Health,
}

impl SettingsPage {
    pub(crate) const ALL: [Self; 7] =
        [Self::Values, Self::Passkeys, Self::Sources, Self::CleanUp, Self::Keys, Self::Clients, Self::Health];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Values => "Values",
            Self::Sources => "Sources",
            Self::CleanUp => "Clean-up",
            Self::Keys => "Keys",
            Self::Passkeys => "Passkeys",
            Self::Clients => "Clients",
            Self::Health => "Health",
        }
    }

    pub(crate) fn address(self) -> &'static str {
        match self {
            Self::Values => "/settings",
            Self::Sources => "/settings/sources",
            Self::CleanUp => "/settings/cleanup",
            Self::Keys => "/settings/keys",
            Self::Passkeys => "/settings/passkeys",
            Self::Clients => "/settings/clients",
            Self::Health => "/settings/health",
        }
    }

    pub(super) fn parse(path: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|own| own.address() == path)
    }
}
