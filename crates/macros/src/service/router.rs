//! `into_router`: one handler for each method, and a type for its params.
//!
//! The handler is the closure that one would write by hand: that of a `fn` calls the method, and that of
//! an `async fn` clones the `Arc` of the service for a future that calls it. Each method stands in a block
//! of its own, so that the types for params and the functions for defaults have no names that others
//! could see.

use proc_macro2::TokenStream;
use quote::{format_ident, quote, quote_spanned};
use syn::Ident;
use syn::spanned::Spanned;

use super::Service;
use super::method::Method;
use super::param::{Argument, Param, Presence};
use crate::naming;
use crate::options::{serde_path, text_at_call};
use crate::syntax::last_name;

/// The statements that make the router of `self`. `receiver` is the type or trait whose methods they call.
pub(crate) fn body(service: &Service, methods: &[Method], receiver: &TokenStream) -> TokenStream {
    let library = &service.library;
    let routes = methods.iter().map(|method| route(service, method, receiver));
    quote! {
        let __service = ::std::sync::Arc::new(self);
        let router = #library::Router::new();
        #(#routes)*
        router
    }
}

fn route(service: &Service, method: &Method, receiver: &TokenStream) -> TokenStream {
    let library = &service.library;
    let cfgs = &method.cfgs;
    let names = std::iter::once(&method.name).chain(&method.aliases);
    let register = if method.closes { quote!(shutdown_method) } else { quote!(method) };
    let handler = method.pace.mark(library, &quote!(::core::clone::Clone::clone(&handler)));
    let (params_type, params) = params_type(service, method);
    let extracted = method.arguments.iter().filter(|argument| argument.param.is_none());
    let extracted = extracted.map(|Argument { ident, ty, .. }| quote!(#ident: #ty));
    let inputs = params.map(|ty| quote!(__params: #ty)).into_iter().chain(extracted);
    let outcome = outcome(service, method, receiver);
    // A `fn` needs no future: it would be a type of its own, with code of its own in every place that polls.
    let body = match method.is_async {
        false => outcome,
        true => quote! {
            let __service = ::core::clone::Clone::clone(&__service);
            async move { #outcome }
        },
    };
    let check = [check_result(service, method), check_callbacks(service, method)];
    quote! {
        #(#cfgs)*
        let router = {
            #params_type
            #(#check)*
            let __service = ::core::clone::Clone::clone(&__service);
            let handler = move |#(#inputs),*| { #body };
            router #(.#register(#names, #handler))*
        };
    }
}

/// The items for the params of a method, and the type of the closure's argument.
fn params_type(service: &Service, method: &Method) -> (TokenStream, Option<TokenStream>) {
    let library = &service.library;
    if let Some(Argument { ty, .. }) = method.whole() {
        let is_read = quote_spanned!(ty.span()=> let _: fn() = #library::__macro::params::<#ty>;);
        return (is_read, Some(quote!(#ty)));
    }
    if method.params().next().is_none() {
        return (TokenStream::new(), None);
    }
    let serde = serde_path(library);
    let (mut fields, mut items) = (Vec::new(), Vec::new());
    for (argument, param) in method.params() {
        let ident = &argument.ident;
        let rename = rename(argument, param);
        let field = format_ident!("__Param_{}", naming::plain(ident));
        items.push(param_type(library, argument, &field));
        let value = match &param.presence {
            Presence::Required => None,
            Presence::Optional | Presence::Default(None) => {
                Some(quote!(::core::default::Default::default()))
            }
            Presence::Default(Some(value)) => Some(quote!(#value)),
        };
        let default = value.map(|value| {
            items.push(default(argument, &field, &value));
            let function = text_at_call(&default_name(argument).to_string());
            quote!(#[serde(default = #function)])
        });
        fields.push(quote!(#rename #default #ident: #field));
    }
    let items = quote! {
        #(#items)*
        #[derive(#library::__macro::serde::Deserialize)]
        #[serde(crate = #serde)]
        struct __Params { #(#fields),* }
    };
    (items, Some(quote!(__Params)))
}

/// A type for one param that can always be read, as far as serde's derive is concerned. If the type inside cannot,
/// that is one error, at that type, and not one in each place of the derived code.
fn param_type(library: &syn::Path, argument: &Argument, name: &Ident) -> TokenStream {
    let ty = &argument.ty;
    let serde = quote!(#library::__macro::serde);
    let read = quote_spanned!(ty.span()=> <#ty as #serde::Deserialize<'de>>::deserialize);
    quote! {
        #[allow(non_camel_case_types)]
        struct #name(#ty);

        impl<'de> #serde::Deserialize<'de> for #name {
            #[inline]
            fn deserialize<D: #serde::Deserializer<'de>>(
                deserializer: D,
            ) -> ::core::result::Result<Self, D::Error> {
                ::core::result::Result::map(#read(deserializer), #name)
            }
        }
    }
}

/// The function that makes a param which was left out.
fn default(argument: &Argument, name: &Ident, value: &TokenStream) -> TokenStream {
    let (function, ty) = (default_name(argument), &argument.ty);
    quote! {
        fn #function() -> #name {
            let value: #ty = #value;
            #name(value)
        }
    }
}

fn default_name(argument: &Argument) -> Ident {
    format_ident!("__default_{}", naming::plain(&argument.ident))
}

/// The attribute for a name that is not that of the argument.
pub(crate) fn rename(argument: &Argument, param: &Param) -> Option<TokenStream> {
    let name = &param.name;
    (*name != naming::plain(&argument.ident)).then(|| quote!(#[serde(rename = #name)]))
}

/// The result of the method as `Result<T, Failure>`.
fn outcome(service: &Service, method: &Method, receiver: &TokenStream) -> TokenStream {
    let library = &service.library;
    let arguments = method.arguments.iter().map(|Argument { ident, param, .. }| match param {
        Some(param) if param.is_whole => quote!(__params),
        Some(_) => quote!(__params.#ident.0),
        None => quote!(#ident),
    });
    let ident = &method.ident;
    let mut call = quote!(#receiver::#ident(&*__service, #(#arguments),*));
    if method.is_async {
        call = quote!(#call.await);
    }
    if method.returns.ok.is_none() {
        return quote!(::core::result::Result::Ok::<_, #library::Failure>(#call));
    }
    // At the error's type, because this is where it may turn out not to be one.
    let span = method.returns.error.as_ref().unwrap_or(&method.returns.ty).span();
    let failure = quote_spanned!(span=> #library::__macro::into_failure(error));
    quote! {
        match #call {
            ::core::result::Result::Ok(result) => ::core::result::Result::Ok(result),
            ::core::result::Result::Err(error) => ::core::result::Result::Err(#failure),
        }
    }
}

/// Statements that fail where the return type stands, if its result cannot be written as JSON, or
/// if it is a `Result` under another name, which serde would write as an object.
fn check_result(service: &Service, method: &Method) -> TokenStream {
    let library = &service.library;
    let result = method.returns.result();
    let is_plain = method.returns.ok.is_none().then(|| {
        quote_spanned! { result.span()=>
            {
                use #library::__macro::NotResult as _;
                #library::__macro::plain(<#library::__macro::Returned<#result>>::KIND);
            }
        }
    });
    let is_written = quote_spanned! { result.span()=>
        let _: fn() = #library::__macro::result::<#result>;
    };
    quote!(#is_plain #is_written)
}

/// Statements that fail where a param is the client of the caller's methods, and the service lacks `callbacks`.
fn check_callbacks(service: &Service, method: &Method) -> TokenStream {
    let library = &service.library;
    let clients = method.params().filter(|(argument, _)| {
        last_name(&argument.ty).is_some_and(|name| name.to_string().ends_with("Client"))
    });
    let checks = clients.map(|(Argument { ty, .. }, _)| {
        quote_spanned!(ty.span()=> let _: fn() = #library::__macro::not_callbacks::<#ty>;)
    });
    checks.collect()
}
