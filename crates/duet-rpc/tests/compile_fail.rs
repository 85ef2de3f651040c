//! Mistakes in handlers, and the compiler's message for each (P7).
//!
//! The expected messages come from the compiler version of CI. `TRYBUILD=overwrite` in the environment
//! updates them.

#[test]
fn p7_each_handler_mistake_gives_a_message_that_names_the_culprit() {
    trybuild::TestCases::new().compile_fail("tests/ui/*.rs");
}
