//! Counts the operations of a simulated disk and injects the fault that a test asks for.

use std::sync::Arc;

use workrail_ports::file_system::{FsError, FsErrorKind, FsOp, RelPath};

/// What fails, and when. `at_op` counts from zero over all operations: the fault hits the operation that begins when
/// `SimFs::all_op_count()` is `at_op`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fault {
    pub at_op: u64,
    pub kind: FaultKind,
    pub mode: FaultMode,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FaultMode {
    /// Only the operation `at_op`.
    Once,
    /// The operation `at_op` and every later one that the kind applies to.
    Forever,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FaultKind {
    /// Any operation fails without effect.
    Error(FsErrorKind),
    /// An append writes half of its bytes, then fails with `NoSpace`; others are not affected.
    ShortWrite,
    /// A sync (of a file or a directory) fails with `Io`, and what was pending there is never
    /// written by any later sync, though it is still seen; others are not affected.
    FsyncLies,
    /// The operation may have begun, but it and all later ones fail with `Io`.
    PowerCut,
}

/// How the fault changes the current operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FaultEffect {
    None,
    Short,
    Lie,
    PowerCut,
}

#[derive(Clone, Debug, Default)]
pub(super) struct Meter {
    pub(super) all: u64,
    pub(super) mutating: u64,
    pub(super) hits: u64,
    /// Shared, because copying it for a fork at every operation would make a run quadratic.
    pub(super) trace: Arc<Vec<(FsOp, RelPath)>>,
    fault: Option<Fault>,
    power: Power,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Power {
    #[default]
    On,
    Off,
}

impl Meter {
    pub(super) fn arm(&mut self, fault: Fault) {
        self.fault = Some(fault);
        self.hits = 0;
    }

    pub(super) fn disarm(&mut self) {
        self.fault = None;
        self.power = Power::On;
    }

    /// Counts the operation, and decides how it must fail.
    pub(super) fn enter(&mut self, op: FsOp, path: &RelPath) -> Result<FaultEffect, FsErrorKind> {
        let index = self.all;
        self.all += 1;
        if is_mutating(op) {
            self.mutating += 1;
            Arc::make_mut(&mut self.trace).push((op, path.clone()));
        }
        if self.power == Power::Off {
            return Err(FsErrorKind::Io);
        }
        let Some(kind) = self.fault.filter(|fault| fault.meets(index, op)).map(|fault| fault.kind) else {
            return Ok(FaultEffect::None);
        };
        self.hits += 1;
        match kind {
            FaultKind::Error(kind) => Err(kind),
            FaultKind::ShortWrite => Ok(FaultEffect::Short),
            FaultKind::FsyncLies => Ok(FaultEffect::Lie),
            FaultKind::PowerCut => {
                self.power = Power::Off;
                Ok(FaultEffect::PowerCut)
            }
        }
    }
}

impl Fault {
    fn meets(&self, index: u64, op: FsOp) -> bool {
        let due = match self.mode {
            FaultMode::Once => index == self.at_op,
            FaultMode::Forever => index >= self.at_op,
        };
        due && match self.kind {
            FaultKind::Error(_) | FaultKind::PowerCut => true,
            FaultKind::ShortWrite => op == FsOp::Write,
            FaultKind::FsyncLies => matches!(op, FsOp::SyncFile | FsOp::SyncDir),
        }
    }
}

pub(super) fn failure(op: FsOp, path: &RelPath, kind: FsErrorKind) -> FsError {
    FsError { op, path: path.clone(), kind, detail: format!("simulated {kind:?}") }
}

fn is_mutating(op: FsOp) -> bool {
    match op {
        FsOp::CreateDir
        | FsOp::CreateFile
        | FsOp::Write
        | FsOp::SetLen
        | FsOp::SyncFile
        | FsOp::SyncDir
        | FsOp::Rename
        | FsOp::Remove => true,
        FsOp::OpenAppend | FsOp::OpenDir | FsOp::Read | FsOp::List | FsOp::Stat | FsOp::Lock => false,
    }
}
