//! `into_router`: a handler and a params type for each method.
//!
//! The handler is the same closure that a user would write by hand. For a `fn` it calls the method. For an
//! `async fn` it clones the `Arc` of the service into a future that calls the method. Each method has its own block,
//! so the names of its params type and default functions are not visible elsewhere.

use proc_macro2::TokenStream;
use quote::{format_ident, quote, quote_spanned};
use syn::spanned::Spanned;
use syn::{Ident, Type};

use super::Service;
use super::method::Method;
use super::param::{Argument, Param, Presence};
use crate::naming;
use crate::options::{serde_path, text_at_call};
use crate::syntax::last_name;

/// The statements that make the router from `self`. `receiver` is the type or trait whose methods they call.
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
    let extracted: Vec<_> =
        method.arguments.iter().filter(|argument| argument.param.is_none()).collect();
    let is_extracted = extracted.iter().map(|Argument { ty, .. }| {
        quote_spanned!(ty.span()=> let _: fn() = #library::__macro::extracted::<#ty>;)
    });
    let is_extracted: TokenStream = is_extracted.collect();
    let extracted = extracted.iter().map(|Argument { ident, ty, .. }| {
        quote!(#library::__macro::Extracted(#ident): #library::__macro::Extracted<#ty>)
    });
    let inputs = params.map(|ty| quote!(__params: #ty)).into_iter().chain(extracted);
    let outcome = outcome(service, method, receiver);
    // A `fn` gets no future, because each future type adds code to every place that polls it.
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
            #is_extracted
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
        let is_read =
            quote_spanned!(ty.span()=> let _: fn() = #library::__macro::whole_params::<#ty>;);
        // A constant does not know the parameters of an `impl` block around it. There the handler itself does not
        // compile, because its argument is both params and an extractor.
        let is_sent = (!service.is_generic).then(|| check_is_sent(library, ty));
        return (quote!(#is_sent #is_read), Some(quote!(#ty)));
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
        items.push(check_is_sent(library, &argument.ty));
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

/// The wrapper type of one param, with its own `Deserialize`. If the inner type is not `Deserialize`, the compiler
/// reports one error at that type, and not one in each place of the derived code.
fn param_type(library: &syn::Path, argument: &Argument, name: &Ident) -> TokenStream {
    let ty = &argument.ty;
    let serde = quote!(#library::__macro::serde);
    let read = quote_spanned!(ty.span()=> <#ty as #library::__macro::Param<'de>>::read);
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

/// An item that does not compile if a param has a type that implements `FromContext`. Otherwise the caller could
/// send a forged value, such as another user's login, and the handler would trust it as if the server had made it.
fn check_is_sent(library: &syn::Path, ty: &Type) -> TokenStream {
    let sentence = "the type of this param implements `FromContext`, but the caller would send it: mark the \
                    argument `#[rpc(context)]`, or give the param a type of its own";
    quote_spanned! { ty.span()=>
        const _: () = {
            use #library::__macro::NotFromContext as _;
            type __Type = #library::__macro::ParamType<#ty>;
            ::core::assert!(
                !<__Type>::IS_FROM_CONTEXT && !<__Type>::IS_FROM_CONTEXT_INSIDE,
                #sentence
            );
        };
    }
}

/// The function that returns the default of a param.
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

/// The serde attribute for a param whose name on the wire differs from the argument's name.
pub(crate) fn rename(argument: &Argument, param: &Param) -> Option<TokenStream> {
    let name = &param.name;
    (*name != naming::plain(&argument.ident)).then(|| quote!(#[serde(rename = #name)]))
}

/// The expression that calls the method, and returns `Result<T, Failure>`.
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
    // With the span of the error's type, so that the compiler reports a missing conversion there.
    let span = method.returns.error.as_ref().unwrap_or(&method.returns.ty).span();
    let failure = quote_spanned!(span=> #library::__macro::into_failure(error));
    quote! {
        match #call {
            ::core::result::Result::Ok(result) => ::core::result::Result::Ok(result),
            ::core::result::Result::Err(error) => ::core::result::Result::Err(#failure),
        }
    }
}

/// Statements that check the return type, with its span. They do not compile if serde cannot write the result, or if
/// the type is a `Result` under another name, which serde would write as an object.
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
