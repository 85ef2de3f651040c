//! Collected errors of one item, so that the compiler reports all of them and not only the first.

use proc_macro2::TokenStream;
use quote::ToTokens;

#[derive(Default)]
pub(crate) struct Errors(Option<syn::Error>);

impl Errors {
    /// Adds an error at these tokens of the user's code.
    pub(crate) fn push(&mut self, culprit: impl ToTokens, sentence: impl std::fmt::Display) {
        self.add(syn::Error::new_spanned(culprit, sentence));
    }

    pub(crate) fn add(&mut self, error: syn::Error) {
        match &mut self.0 {
            Some(errors) => errors.combine(error),
            None => self.0 = Some(error),
        }
    }

    /// Tokens that make the compiler report the errors; `None` if there are none.
    pub(crate) fn into_tokens(self) -> Option<TokenStream> {
        self.0.map(|errors| errors.to_compile_error())
    }
}
