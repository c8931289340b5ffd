//! What must not compile: the witness of the lock cannot be forged, copied, kept, or used after release (G15).

#[test]
fn the_witness_of_a_locked_session_cannot_be_misused() {
    trybuild::TestCases::new().compile_fail("tests/compile_fail/*.rs");
}
