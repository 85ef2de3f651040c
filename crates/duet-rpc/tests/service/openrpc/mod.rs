//! OpenRPC documents: every feature of a service in one document, and single rules as rows.

mod full;
mod rules;
