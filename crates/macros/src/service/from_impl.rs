//! `#[service]` on an inherent `impl`.
//!
//! The router serves each `pub` method and each method with an `#[rpc]` attribute. Functions without a receiver,
//! such as constructors, stay unchanged.

use proc_macro2::TokenStream;
use quote::{ToTokens, quote, quote_spanned};
use syn::spanned::Spanned;
use syn::{ImplItem, ImplItemFn, ItemImpl, Visibility, parse_quote};

use super::method::{METHOD, Method};
use super::{Service, check, describe, openrpc, router};
use crate::errors::Errors;
use crate::options::Options;
use crate::syntax::mentions;

/// Returns the block without our attributes, and the generated code.
pub(crate) fn expand(
    service: &Service,
    mut item: ItemImpl,
    errors: &mut Errors,
) -> (TokenStream, TokenStream) {
    let types = item.generics.type_params().map(|it| it.ident.to_string());
    let constants = item.generics.const_params().map(|it| it.ident.to_string());
    let generics: Vec<_> = types.chain(constants).collect();
    let mut methods = Vec::new();
    let (mut serves_any, mut first_private) = (false, None);
    for item in &mut item.items {
        let ImplItem::Fn(function) = item else { continue };
        let is_marked = function.attrs.iter().any(|attr| attr.path().is_ident("rpc"));
        let options = Options::take(&mut function.attrs, &METHOD, errors);
        let is_public = matches!(function.vis, Visibility::Public(_));
        let is_method = function.sig.receiver().is_some();
        if options.has("skip") || !(is_marked || (is_public && is_method)) {
            if !is_marked && is_method {
                first_private.get_or_insert_with(|| function.sig.ident.clone());
            }
            continue;
        }
        serves_any = true;
        if function.sig.ident == "into_router" {
            let write = "`into_router` is the name of the function that makes the router: call the \
                         method something else, or mark it `#[rpc(skip)]` and move it to another `impl`";
            errors.push(&function.sig.ident, write);
        }
        if function.sig.ident == "openrpc" && service.openrpc.is_some() {
            let write = "`openrpc` is the name of the function that returns the document: call the method \
                         something else, and set its name on the wire with `#[rpc(name = \"openrpc\")]`";
            errors.push(&function.sig.ident, write);
        }
        let ImplItemFn { attrs, sig, .. } = function;
        if let Some(method) = Method::new(service, attrs, &options, sig, errors) {
            check_generics(&method, &generics, errors);
            methods.push(method);
        }
    }
    // Without this message, only the answer `Method not found` shows the mistake.
    if let Some(name) = first_private.filter(|_| !serves_any) {
        let write =
            "the router would serve no method: write `pub` before the methods that it serves";
        errors.push(&name, write);
    }
    check::names(service, &methods, errors);
    // `pub` marks the served methods, even in a program, where no other crate can use them.
    item.attrs.push(parse_quote!(#[allow(unreachable_pub)]));
    (item.to_token_stream(), server(service, &item, &methods))
}

/// Reports params that use a type or const parameter of the block. A separate generated type reads the params, and it
/// does not have these parameters.
fn check_generics(method: &Method, generics: &[String], errors: &mut Errors) {
    for (argument, _) in method.params() {
        if let Some(generic) = generics.iter().find(|name| mentions(&argument.ty, name)) {
            let write = format!(
                "a param cannot use the parameter `{generic}` of the `impl`: write a concrete type"
            );
            errors.push(&argument.ty, write);
        }
    }
}

fn server(service: &Service, item: &ItemImpl, methods: &[Method]) -> TokenStream {
    let library = &service.library;
    let ty = &item.self_ty;
    let (generics, _, clause) = item.generics.split_for_impl();
    let cfgs = item.attrs.iter().filter(|attr| attr.path().is_ident("cfg"));
    let description = describe::constant(service, methods);
    let document = openrpc::for_impl(service, item, methods);
    let body = router::body(service, methods, &quote!(Self));
    let is_shared = quote_spanned! { ty.span()=>
        let _: fn() = #library::__macro::shared::<Self>;
    };
    quote! {
        #item

        #(#cfgs)*
        #[allow(unreachable_pub, dead_code)]
        impl #generics #ty #clause {
            #description

            /// A router that serves the methods of this service.
            #[allow(deprecated, unused_variables)]
            pub fn into_router(self) -> #library::Router {
                #is_shared
                #body
            }
        }

        #document
    }
}
