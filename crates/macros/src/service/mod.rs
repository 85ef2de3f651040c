//! `#[service]`: generates a router and a client from a trait, or a router from an inherent `impl`.
//!
//! ```text
//! trait or impl ─▶ method (the model, and all checks) ─┬─▶ router    into_router
//!                                                      ├─▶ client    NAMEClient   (traits)
//!                                                      ├─▶ describe  METHODS
//!                                                      └─▶ openrpc   openrpc()
//! ```
//!
//! After an error, the output is the item without our attributes, and the errors. The compiler then does not report
//! a missing trait as well.

mod check;
mod client;
mod describe;
mod from_impl;
mod from_trait;
mod method;
mod openrpc;
mod param;
mod router;

use proc_macro2::TokenStream;
use quote::quote;
use syn::{Expr, ExprPath, Ident, Item, LitStr, Path};

use crate::errors::Errors;
use crate::naming::Style;
use crate::options::{Form, OptionTable, Options};

const TRAIT: OptionTable = OptionTable {
    name: "a service trait",
    options: &[
        ("callbacks", Form::Value),
        ("crate", Form::Text),
        ("openrpc", Form::Flag),
        ("positional", Form::Flag),
        ("prefix", Form::Text),
        ("rename_all", Form::Text),
        ("rename_params", Form::Text),
        ("schema", Form::Value),
    ],
    conflicts: &[],
};

const IMPL: OptionTable = OptionTable {
    name: "a service `impl`",
    options: &[
        ("callbacks", Form::Value),
        ("crate", Form::Text),
        ("openrpc", Form::Flag),
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
    /// The client type of the caller's methods, which methods may take as an argument.
    pub(crate) callbacks_client: Option<Ident>,
    /// The path of that type.
    pub(crate) callbacks: Option<Path>,
    /// The option `openrpc`, if it is given.
    pub(crate) openrpc: Option<Ident>,
    /// The generic function that returns the schema of a type.
    pub(crate) schema: Option<ExprPath>,
    /// `true` if the client sends params by position.
    pub(crate) is_positional: bool,
    /// `true` for a trait, which has a client.
    pub(crate) has_client: bool,
    /// `true` for an `impl` block with type parameters.
    pub(crate) is_generic: bool,
}

impl Service {
    fn new(options: TokenStream, has_client: bool, errors: &mut Errors) -> Self {
        let table = if has_client { &TRAIT } else { &IMPL };
        let options = Options::parse(options, table, errors);
        let style = |word: &str, errors: &mut Errors| {
            let style = options.text(word).and_then(|name| Style::from_name(name, errors));
            style.unwrap_or(Style::Snake)
        };
        let callbacks = callbacks(&options, errors);
        let callbacks_client = callbacks.as_ref().and_then(|it| it.segments.last());
        Service {
            library: options.library(errors),
            methods_style: style("rename_all", errors),
            params_style: style("rename_params", errors),
            prefix: options.text("prefix").cloned(),
            callbacks_client: callbacks_client.map(|last| last.ident.clone()),
            callbacks,
            openrpc: options.ident("openrpc").cloned(),
            schema: schema(&options, errors),
            is_positional: options.has("positional"),
            has_client,
            is_generic: false,
        }
    }
}

/// The path of the client of the trait that the caller serves.
fn callbacks(options: &Options, errors: &mut Errors) -> Option<Path> {
    let value = options.value("callbacks")?;
    let Expr::Path(ExprPath { path, .. }) = value else {
        errors.push(value, "write the trait that the caller serves, as in `callbacks = EditorUi`");
        return None;
    };
    let mut path = path.clone();
    let last = path.segments.last_mut()?;
    last.ident = quote::format_ident!("{}Client", last.ident, span = last.ident.span());
    Some(path)
}

/// The schema function. The generated code adds its type argument.
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
            let mut service = Service::new(options, false, &mut errors);
            service.is_generic = !item.generics.params.is_empty();
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
