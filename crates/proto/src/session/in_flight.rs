//! The requests that were begun and not answered (M11).

use std::collections::HashSet;

use crate::message::{ErrorObject, Id, Reason, Reply};

/// The ids of the requests in flight on one connection.
#[derive(Clone, Debug, Default)]
pub struct InFlight {
    ids: HashSet<Id>,
}

impl InFlight {
    /// Begins a request. If its id is taken, it is refused, and the one that has the id is not
    /// disturbed.
    ///
    /// ```
    /// use duet_rpc_proto::{message::Id, session::InFlight};
    ///
    /// let mut in_flight = InFlight::default();
    /// assert!(in_flight.begin(&Id::from(1)).is_ok());
    /// assert!(in_flight.begin(&Id::from("1")).is_ok());
    /// assert!(in_flight.begin(&Id::from(1)).is_err());
    /// assert!(in_flight.finish(&Id::from(1)));
    /// assert!(in_flight.begin(&Id::from(1)).is_ok());
    /// ```
    pub fn begin(&mut self, id: &Id) -> Result<(), Reply> {
        if self.ids.insert(id.clone()) {
            return Ok(());
        }
        let error = ErrorObject::invalid_request_because(Reason::DuplicateId);
        Err(Reply { id: id.clone(), error })
    }

    /// Ends a request; `false` if there was none of this id.
    pub fn finish(&mut self, id: &Id) -> bool {
        self.ids.remove(id)
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.ids.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.ids.is_empty()
    }
}
