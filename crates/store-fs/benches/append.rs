//! What one append costs on the real disk, beside the same fsyncs done by hand.

fn main() {}
