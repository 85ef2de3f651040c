//! `#[service]`: a trait becomes a contract with a router and a client, an inherent `impl` a router.
//!
//! ```text
//! trait or impl ─▶ method (the model, and all checks) ─┬─▶ router    into_router
//!                                                      ├─▶ client    NAMEClient   (traits)
//!                                                      └─▶ describe  METHODS
//! ```
//!
//! If anything is wrong, the item stays as it was, without our attributes, beside the errors: so the
//! compiler does not go on to complain about a trait that does not exist.

mod check;
mod client;
mod describe;
mod from_impl;
mod from_trait;
mod method;
mod param;
mod router;

use proc_macro2::TokenStream;
use quote::quote;
use syn::{Expr, ExprPath, Ident, Item, LitStr, Path};

use crate::errors::Errors;
use crate::naming::Style;
use crate::options::{Form, Options, Place};

const TRAIT: Place = Place {
    name: "a service trait",
    words: &[
        ("callbacks", Form::Value),
        ("crate", Form::Text),
        ("positional", Form::Flag),
        ("prefix", Form::Text),
        ("rename_all", Form::Text),
        ("rename_params", Form::Text),
        ("schema", Form::Value),
    ],
    conflicts: &[],
};

const IMPL: Place = Place {
    name: "a service `impl`",
    words: &[
        ("callbacks", Form::Value),
        ("crate", Form::Text),
        ("prefix", Form::Text),
        ("rename_all", Form::Text),
        ("rename_params", Form::Text),
        ("schema", Form::Value),
    ],
    conflicts: &[],
};

/// The options of a service.
pub(crate) struct Service {
    pub(crate) library: Path,
    pub(crate) methods_style: Style,
    pub(crate) params_style: Style,
    pub(crate) prefix: Option<LitStr>,
    /// The type by which handlers ask for the client of the caller's methods.
    pub(crate) callbacks_client: Option<Ident>,
    /// The generic function that makes the schema of a type.
    pub(crate) schema: Option<ExprPath>,
    /// `true` if the client sends params by position.
    pub(crate) is_positional: bool,
    /// `true` for a trait, which has a client.
    pub(crate) has_client: bool,
}

impl Service {
    fn new(options: TokenStream, has_client: bool, errors: &mut Errors) -> Self {
        let place = if has_client { &TRAIT } else { &IMPL };
        let options = Options::parse(options, place, errors);
        let style = |word: &str, errors: &mut Errors| {
            let style = options.text(word).and_then(|name| Style::from_name(name, errors));
            style.unwrap_or(Style::Snake)
        };
        Service {
            library: options.library(errors),
            methods_style: style("rename_all", errors),
            params_style: style("rename_params", errors),
            prefix: options.text("prefix").cloned(),
            callbacks_client: callbacks_client(&options, errors),
            schema: schema(&options, errors),
            is_positional: options.has("positional"),
            has_client,
        }
    }
}

/// The name of the client of the trait that the caller serves.
fn callbacks_client(options: &Options, errors: &mut Errors) -> Option<Ident> {
    let value = options.value("callbacks")?;
    let last = match value {
        Expr::Path(path) => path.path.segments.last(),
        _ => None,
    };
    if last.is_none() {
        errors.push(value, "write the trait that the caller serves, as in `callbacks = EditorUi`");
    }
    last.map(|last| quote::format_ident!("{}Client", last.ident, span = last.ident.span()))
}

/// The function that makes schemas. Its type argument is for us to write.
fn schema(options: &Options, errors: &mut Errors) -> Option<ExprPath> {
    let value = options.value("schema")?;
    match value {
        Expr::Path(path) if path.path.segments.iter().all(|part| part.arguments.is_none()) => {
            Some(path.clone())
        }
        _ => {
            let write = "write the name of a function `fn schema_of<T: ...>() -> Value`, as in \
                         `schema = schema_of`";
            errors.push(value, write);
            None
        }
    }
}

pub(crate) fn expand(options: TokenStream, item: TokenStream) -> TokenStream {
    let mut errors = Errors::default();
    let parsed: Item = match syn::parse2(item.clone()) {
        Ok(parsed) => parsed,
        Err(error) => {
            let error = error.to_compile_error();
            return quote!(#item #error);
        }
    };
    let (kept, made) = match parsed {
        Item::Trait(item) => {
            let service = Service::new(options, true, &mut errors);
            from_trait::expand(&service, item, &mut errors)
        }
        Item::Impl(item) if item.trait_.is_none() => {
            let service = Service::new(options, false, &mut errors);
            from_impl::expand(&service, item, &mut errors)
        }
        Item::Impl(item) => {
            let write = "`#[service]` goes on the trait: its implementations need no attribute";
            errors.push(item.trait_.as_ref().map(|(path, _)| path), write);
            (quote!(#item), TokenStream::new())
        }
        other => {
            let place = proc_macro2::Span::call_site();
            let sentence = "`#[service]` goes on a trait, or on an `impl` block of a type";
            errors.add(syn::Error::new(place, sentence));
            (quote!(#other), TokenStream::new())
        }
    };
    match errors.into_tokens() {
        Some(errors) => quote!(#kept #errors),
        None => made,
    }
}
