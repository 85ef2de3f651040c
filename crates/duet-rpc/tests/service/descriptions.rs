//! `METHODS`: the description of a service.

use duet_rpc::service::{MethodInfo, ParamsForm};
use serde_json::Value;

/// A library.
#[duet_rpc::service]
trait Library {
    /// Lends a book.
    ///
    /// The reader brings it back.
    #[rpc(idempotent, since = "1.2", aliases("borrow"))]
    async fn lend(
        &self,
        /// Its number.
        book: u64,
        /// In days.
        #[rpc(default = 30)]
        days: u32,
        note: Option<String>,
    ) -> bool;

    #[rpc(notification, deprecated = "use `lend`", positional)]
    async fn give(&self, book: u64);

    async fn search(&self, #[rpc(whole)] query: Value) -> Vec<u64>;
}

#[test]
fn p7_a_service_describes_its_methods() {
    let [lend, give, search] = LibraryClient::METHODS else { panic!("three methods") };
    assert_eq!(lend.name, "lend");
    assert_eq!(lend.aliases, ["borrow"]);
    assert_eq!(lend.docs, "Lends a book.\n\nThe reader brings it back.");
    assert_eq!(lend.summary(), "Lends a book.");
    assert_eq!((lend.is_idempotent, lend.is_notification, lend.since), (true, false, Some("1.2")));
    let params: Vec<_> =
        lend.params.iter().map(|param| (param.name, param.docs, param.is_required)).collect();
    let expect = [("book", "Its number.", true), ("days", "In days.", false), ("note", "", false)];
    assert_eq!(params, expect);
    assert_eq!((give.is_notification, give.deprecated), (true, Some("use `lend`")));
    let forms = [lend, give, search].map(|method: &MethodInfo| method.params_form);
    assert_eq!(forms, [ParamsForm::Named, ParamsForm::Positional, ParamsForm::Whole]);
    assert_eq!(lend.to_string(), "lend(book, days?, note?)");
}
