//! Mistakes in handlers, and what the compiler says about each (P7).
//!
//! The messages are those of the compiler that CI uses. `TRYBUILD=overwrite` in the environment writes them
//! again.

#[test]
fn p7_each_handler_mistake_gives_a_message_that_names_the_culprit() {
    trybuild::TestCases::new().compile_fail("tests/ui/*.rs");
}
