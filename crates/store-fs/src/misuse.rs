//! What must not compile: the witness of the lock cannot be forged, copied, kept, or used after release, and a plan
//! cannot be carried out twice (G15). A twin that compiles comes with each example: it shows that nothing but the line
//! with the comment is wrong.
//!
//! # A caller that was given a reader cannot append, even if the value behind it could
//!
//! ```compile_fail,E0277
//! # use workrail_model::plan::AppendPlan;
//! # use workrail_ports::session_store::{LockedSession, SessionReader};
//! fn append(reader: &mut dyn SessionReader, plan: AppendPlan) { // a reader
//!     let _ = LockedSession::append(reader, plan);
//! }
//! ```
//!
//! ```compile_fail,E0277
//! # use workrail_model::plan::AppendPlan;
//! # use workrail_ports::session_store::{LockedSession, SessionReader};
//! fn append<R: SessionReader>(reader: &mut R, plan: AppendPlan) { // a reader
//!     let _ = LockedSession::append(reader, plan);
//! }
//! ```
//!
//! ```
//! # use workrail_model::plan::AppendPlan;
//! # use workrail_ports::session_store::{LockedSession, SessionReader};
//! fn append<R: LockedSession>(locked: &mut R, plan: AppendPlan) {
//!     let _ = LockedSession::append(locked, plan);
//! }
//! ```
//!
//! # A use case that asks for a reader cannot take the lock
//!
//! ```compile_fail,E0277
//! # use workrail_model::id::SessionId;
//! # use workrail_ports::session_store::{SessionReader, SessionStore};
//! fn lock<R: SessionReader>(reader: &R, session: SessionId) { // a reader
//!     let _ = SessionStore::lock(reader, session);
//! }
//! ```
//!
//! ```
//! # use workrail_model::id::SessionId;
//! # use workrail_ports::session_store::SessionStore;
//! fn lock<S: SessionStore>(store: &S, session: SessionId) {
//!     let _ = SessionStore::lock(store, session);
//! }
//! ```
//!
//! # A released session cannot be appended to
//!
//! ```compile_fail,E0382
//! # use workrail_model::{id::SessionId, plan::AppendPlan};
//! # use workrail_ports::session_store::{LockedSession, SessionStore};
//! # use workrail_store_fs::{LocalStore, disk::Disk};
//! fn append(store: &LocalStore<Disk>, session: SessionId, plan: AppendPlan) {
//!     let mut locked = store.lock(session).unwrap();
//!     drop(locked); // released
//!     let _ = locked.append(plan);
//! }
//! ```
//!
//! ```
//! # use workrail_model::{id::SessionId, plan::AppendPlan};
//! # use workrail_ports::session_store::{LockedSession, SessionStore};
//! # use workrail_store_fs::{LocalStore, disk::Disk};
//! fn append(store: &LocalStore<Disk>, session: SessionId, plan: AppendPlan) {
//!     let mut locked = store.lock(session).unwrap();
//!     let _ = locked.append(plan);
//! }
//! ```
//!
//! # A witness cannot be used after it was moved
//!
//! ```compile_fail,E0382
//! # use workrail_model::id::SessionId;
//! # use workrail_ports::session_store::{LockedSession, SessionStore};
//! # use workrail_store_fs::{LocalStore, LockedLocalSession, disk::Disk};
//! fn keep(_: LockedLocalSession<'_, Disk>) {}
//! fn read(store: &LocalStore<Disk>, session: SessionId) {
//!     let locked = store.lock(session).unwrap();
//!     keep(locked); // moved
//!     let _ = locked.cursor();
//! }
//! ```
//!
//! ```
//! # use workrail_model::id::SessionId;
//! # use workrail_ports::session_store::{LockedSession, SessionStore};
//! # use workrail_store_fs::{LocalStore, LockedLocalSession, disk::Disk};
//! fn keep(_: LockedLocalSession<'_, Disk>) {}
//! fn read(store: &LocalStore<Disk>, session: SessionId) {
//!     let locked = store.lock(session).unwrap();
//!     let _ = locked.cursor();
//!     keep(locked);
//! }
//! ```
//!
//! # Only the store can make a witness
//!
//! ```compile_fail
//! # use workrail_model::id::SessionId;
//! # use workrail_store_fs::{LocalStore, LockedLocalSession, disk::Disk};
//! fn forge(store: &LocalStore<Disk>, session: SessionId) -> LockedLocalSession<'_, Disk> {
//!     LockedLocalSession { store, session } // made by hand
//! }
//! ```
//!
//! ```
//! # use workrail_model::id::SessionId;
//! # use workrail_ports::session_store::SessionStore;
//! # use workrail_store_fs::{LocalStore, LockedLocalSession, disk::Disk};
//! fn take(store: &LocalStore<Disk>, session: SessionId) -> LockedLocalSession<'_, Disk> {
//!     store.lock(session).unwrap()
//! }
//! ```
//!
//! # A witness outlives neither its store nor has a copy
//!
//! ```compile_fail,E0515
//! # use workrail_model::id::SessionId;
//! # use workrail_ports::session_store::SessionStore;
//! # use workrail_store_fs::{LocalStore, LockedLocalSession, disk::Disk};
//! fn take(store: LocalStore<Disk>, session: SessionId) -> LockedLocalSession<'static, Disk> { // the store ends here
//!     store.lock(session).unwrap()
//! }
//! ```
//!
//! ```compile_fail,E0308
//! # use workrail_store_fs::{LockedLocalSession, disk::Disk};
//! fn twice<'a>(locked: LockedLocalSession<'a, Disk>) -> [LockedLocalSession<'a, Disk>; 2] {
//!     [(&locked).clone(), locked] // a copy
//! }
//! ```
//!
//! ```
//! # use workrail_store_fs::{LockedLocalSession, disk::Disk};
//! fn once<'a>(locked: LockedLocalSession<'a, Disk>) -> [LockedLocalSession<'a, Disk>; 1] {
//!     [locked]
//! }
//! ```
//!
//! # A plan is carried out once and has no copy
//!
//! ```compile_fail,E0382
//! # use workrail_model::plan::AppendPlan;
//! # use workrail_ports::session_store::LockedSession;
//! fn append<L: LockedSession>(locked: &mut L, plan: AppendPlan) {
//!     let _ = locked.append(plan);
//!     let _ = locked.append(plan); // again
//! }
//! ```
//!
//! ```compile_fail,E0599
//! # use workrail_model::plan::AppendPlan;
//! # use workrail_ports::session_store::LockedSession;
//! fn append<L: LockedSession>(locked: &mut L, plan: AppendPlan) {
//!     let _ = locked.append(plan.clone()); // a copy
//! }
//! ```
//!
//! ```
//! # use workrail_model::plan::AppendPlan;
//! # use workrail_ports::session_store::LockedSession;
//! fn append<L: LockedSession>(locked: &mut L, plan: AppendPlan) {
//!     let _ = locked.append(plan);
//! }
//! ```
