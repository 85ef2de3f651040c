//! `#[service]` on a trait.

use proc_macro2::TokenStream;
use quote::{ToTokens, quote};
use syn::{ItemTrait, TraitItem, TraitItemFn, parse_quote};

use super::method::{METHOD, Method};
use super::{Service, check, client, openrpc, router};
use crate::errors::Errors;
use crate::options::Options;

/// Returns the trait without our attributes, and the generated code.
pub(crate) fn expand(
    service: &Service,
    mut item: ItemTrait,
    errors: &mut Errors,
) -> (TokenStream, TokenStream) {
    check_trait(&item, errors);
    let mut methods = Vec::new();
    // The indexes of the served methods.
    let mut served = Vec::new();
    for (place, item) in item.items.iter_mut().enumerate() {
        let TraitItem::Fn(function) = item else {
            let write = "a service trait can contain only methods: move this to another trait";
            errors.push(item, write);
            continue;
        };
        let options = Options::take(&mut function.attrs, &METHOD, errors);
        if options.has("skip") {
            continue;
        }
        check_ident(service, function, errors);
        let TraitItemFn { attrs, sig, .. } = function;
        if let Some(method) = Method::new(service, attrs, &options, sig, errors) {
            methods.push(method);
            served.push(place);
        }
    }
    check::names(service, &methods, errors);
    let mut kept = item.clone();
    kept.attrs.push(parse_quote!(#[allow(async_fn_in_trait)]));
    for (place, method) in served.into_iter().zip(&methods) {
        if let TraitItem::Fn(function) = &mut item.items[place] {
            return_future(function, method);
        }
    }
    (kept.to_token_stream(), contract(service, item, &methods))
}

/// Turns an `async fn` into a function that returns a `Send` future.
fn return_future(function: &mut TraitItemFn, method: &Method) {
    if function.sig.asyncness.take().is_none() {
        return;
    }
    let result = &method.returns.ty;
    function.sig.output = parse_quote! {
        -> impl ::core::future::Future<Output = #result> + ::core::marker::Send
    };
    if let Some(body) = &function.default {
        function.default = Some(parse_quote!({ async move #body }));
    }
}

fn contract(service: &Service, mut item: ItemTrait, methods: &[Method]) -> TokenStream {
    let library = &service.library;
    let ident = &item.ident;
    let cfgs = item.attrs.iter().filter(|attr| attr.path().is_ident("cfg")).cloned();
    let cfgs: Vec<_> = cfgs.collect();
    let client = client::items(service, &item.vis, ident, &cfgs, methods);
    let document = openrpc::for_trait(service, &item, &client::name(ident), &cfgs, methods);
    let body = router::body(service, methods, &quote!(<Self as #ident>));
    // A program may use only the client.
    item.attrs.push(parse_quote!(#[allow(dead_code)]));
    item.supertraits.push(parse_quote!(::core::marker::Send));
    item.supertraits.push(parse_quote!(::core::marker::Sync));
    item.supertraits.push(parse_quote!('static));
    item.colon_token.get_or_insert_default();
    item.items.push(parse_quote! {
        /// A router that serves the methods of this service.
        #[allow(deprecated, unused_variables)]
        fn into_router(self) -> #library::Router
        where
            Self: ::core::marker::Sized,
        {
            #body
        }
    });
    quote!(#item #client #document)
}

fn check_trait(item: &ItemTrait, errors: &mut Errors) {
    if !item.generics.params.is_empty() {
        let write = "a service trait cannot be generic, because its client is one type: \
                     write concrete types in its methods";
        errors.push(&item.generics, write);
    }
    if let Some(word) = item.unsafety.map(ToTokens::into_token_stream) {
        errors.push(&word, format!("a service trait is a plain trait: remove `{word}`"));
    }
}

/// Reports method names that the generated code uses.
fn check_ident(service: &Service, function: &TraitItemFn, errors: &mut Errors) {
    let ident = &function.sig.ident;
    let owner = match &*ident.to_string() {
        "openrpc" if service.openrpc.is_some() => "the client's function that returns the document",
        "into_router" => "the trait's function that makes the router",
        "new" => "the client's constructor",
        _ => return,
    };
    let sentence = format!(
        "`{ident}` is the name of {owner}: call the method something else, and set its name on the \
         wire with `#[rpc(name = \"{ident}\")]`"
    );
    errors.push(ident, sentence);
}
