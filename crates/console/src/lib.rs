//! How a person looks: the console's HTTP API, views and embedded pages.
//!
//! Nothing is here yet; the crate holds the place that the layers reserve for it, so that no other
//! crate grows into it.
