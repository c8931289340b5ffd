//! The pages of the settings.

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SettingsPage {
    Values,
    Sources,
    CleanUp,
    Keys,
    Passkeys,
    Checks,
    Clients,
    Health,
}

impl SettingsPage {
    pub(crate) const ALL: [Self; 8] = [
        Self::Values,
        Self::Passkeys,
        Self::Checks,
        Self::Sources,
        Self::CleanUp,
        Self::Keys,
        Self::Clients,
        Self::Health,
    ];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Values => "Values",
            Self::Sources => "Sources",
            Self::CleanUp => "Clean-up",
            Self::Keys => "Keys",
            Self::Passkeys => "Passkeys",
            Self::Checks => "Checks",
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
            Self::Checks => "/settings/checks",
            Self::Clients => "/settings/clients",
            Self::Health => "/settings/health",
        }
    }

    pub(super) fn parse(path: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|own| own.address() == path)
    }
}
