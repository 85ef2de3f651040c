//! Typed client of a trait.
//!
//! Its methods return a `Call`, or a future for a notification. None of them is an `async fn`: the compiler would
//! inspect their bodies to decide if their futures are `Send`, which is a cycle (E0391) for a service whose
//! callbacks call the service back.

use proc_macro2::TokenStream;
use quote::{format_ident, quote};
use syn::{Ident, Visibility};

use super::method::Method;
use super::param::{Argument, Presence};
use super::router::rename;
use super::{Service, describe};
use crate::options::serde_path;

/// The name of the client of a trait.
pub(crate) fn name(service_trait: &Ident) -> Ident {
    format_ident!("{}Client", service_trait)
}

pub(crate) fn items(
    service: &Service,
    vis: &Visibility,
    service_trait: &Ident,
    cfgs: &[syn::Attribute],
    methods: &[Method],
) -> TokenStream {
    let library = &service.library;
    let client = name(service_trait);
    let docs = format!("Typed client of [`{service_trait}`].");
    let new_docs = format!(
        "A client of [`{service_trait}`] for this remote: a `Peer`, a `Client`, or the `Peers` of a server, which \
         all get each notification."
    );
    let description = describe::constant(service, methods);
    let functions = methods.iter().map(|method| function(service, method));
    quote! {
        #(#cfgs)*
        #[doc = #docs]
        #[derive(::core::clone::Clone, ::core::fmt::Debug)]
        #[allow(unreachable_pub)]
        #vis struct #client {
            remote: #library::service::CallTarget,
        }

        #(#cfgs)*
        #[allow(unreachable_pub, dead_code, clippy::too_many_arguments)]
        impl #client {
            #description

            #[doc = #new_docs]
            pub fn new(remote: impl ::core::convert::Into<#library::service::CallTarget>) -> Self {
                #client { remote: ::core::convert::Into::into(remote) }
            }

            #(#functions)*
        }

        #(#cfgs)*
        impl #library::FromContext for #client {
            fn from_context(cx: #library::Context) -> ::core::result::Result<Self, #library::Failure> {
                ::core::result::Result::Ok(#client::new(#library::Context::peer(&cx)))
            }
        }
    }
}

fn function(service: &Service, method: &Method) -> TokenStream {
    let library = &service.library;
    let Method { ident, name, cfgs, doc_attrs, .. } = method;
    let deprecated = method.deprecated.as_ref().map(|note| quote!(#[deprecated(note = #note)]));
    let arguments = method.params().map(|(Argument { ident, ty, .. }, _)| quote!(#ident: #ty));
    let (params_type, params) = params(service, method);
    let attributes = quote!(#(#cfgs)* #(#doc_attrs)* #deprecated);
    if method.is_notification {
        return quote! {
            #attributes
            pub fn #ident(&self, #(#arguments),*) -> impl ::core::future::Future<
                Output = ::core::result::Result<(), #library::Error>,
            > + ::core::marker::Send + use<> {
                #params_type
                let __params = #params;
                let __remote = ::core::clone::Clone::clone(&self.remote);
                async move { #library::service::CallTarget::notify(&__remote, #name, __params).await }
            }
        };
    }
    let result = method.returns.result();
    quote! {
        #attributes
        pub fn #ident(&self, #(#arguments),*) -> #library::Call<#result> {
            #params_type
            #library::service::CallTarget::call(&self.remote, #name, #params)
        }
    }
}

/// The items for the params of a method, and the value that is sent.
fn params(service: &Service, method: &Method) -> (TokenStream, TokenStream) {
    if let Some(Argument { ident, .. }) = method.whole() {
        return (TokenStream::new(), quote!(#ident));
    }
    let idents: Vec<_> = method.params().map(|(argument, _)| &argument.ident).collect();
    if idents.is_empty() {
        return (TokenStream::new(), quote!(()));
    }
    let items =
        if method.is_positional { by_position(service, method) } else { by_name(service, method) };
    (items, quote!(__Params { #(#idents),* }))
}

fn by_name(service: &Service, method: &Method) -> TokenStream {
    let library = &service.library;
    let serde = serde_path(library);
    let fields = method.params().map(|(argument, param)| {
        let Argument { ident, ty, .. } = argument;
        let rename = rename(argument, param);
        let skip = matches!(param.presence, Presence::Optional)
            .then(|| quote!(#[serde(skip_serializing_if = "::core::option::Option::is_none")]));
        quote!(#rename #skip #ident: #ty)
    });
    quote! {
        #[derive(#library::__macro::serde::Serialize)]
        #[serde(crate = #serde)]
        struct __Params { #(#fields),* }
    }
}

/// A type that serialises the params as an array, without trailing `None`s.
fn by_position(service: &Service, method: &Method) -> TokenStream {
    let library = &service.library;
    let serde = quote!(#library::__macro::serde);
    let params: Vec<_> = method.params().collect();
    let fields = params.iter().map(|(Argument { ident, ty, .. }, _)| quote!(#ident: #ty));
    let is_optional = |place: &usize| matches!(params[*place].1.presence, Presence::Optional);
    let trailing = (0..params.len()).rev().take_while(is_optional).map(|place| {
        let ident = &params[place].0.ident;
        let behind = place + 1;
        quote! {
            if count == #behind && ::core::option::Option::is_none(&self.#ident) {
                count = #place;
            }
        }
    });
    let trailing: Vec<_> = trailing.collect();
    let count = match trailing.is_empty() {
        true => quote!(let count: usize),
        false => quote!(let mut count: usize),
    };
    let length = params.len();
    let elements = params.iter().enumerate().map(|(place, (Argument { ident, .. }, _))| {
        quote! {
            if count > #place {
                #serde::ser::SerializeSeq::serialize_element(&mut elements, &self.#ident)?;
            }
        }
    });
    quote! {
        struct __Params { #(#fields),* }

        impl #serde::Serialize for __Params {
            fn serialize<S: #serde::Serializer>(
                &self,
                serializer: S,
            ) -> ::core::result::Result<S::Ok, S::Error> {
                #count = #length;
                #(#trailing)*
                let mut elements =
                    serializer.serialize_seq(::core::option::Option::Some(count))?;
                #(#elements)*
                #serde::ser::SerializeSeq::end(elements)
            }
        }
    }
}
