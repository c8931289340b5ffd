//! What kind of store is in use, for messages.

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StoreKind {
    Directory,
    Database,
}

impl StoreKind {
    /// What it consists of.
    pub(crate) fn pieces(self) -> &'static str {
        match self {
            Self::Directory => "files",
            Self::Database => "rows",
        }
    }

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Directory => "the data directory",
            Self::Database => "the database",
        }
    }
}
