//! `openrpc`: the function that returns the OpenRPC document of a service.
//!
//! The library's macro `__openrpc!` is around the code: without the feature `openrpc` of the library, it is an error
//! that names the feature.

use proc_macro2::TokenStream;
use quote::{format_ident, quote, quote_spanned};
use syn::spanned::Spanned;
use syn::{Attribute, Ident, ItemImpl, ItemTrait, Path};

use super::method::Method;
use super::param::{Argument, Param, Presence};
use super::{Service, describe};
use crate::naming;
use crate::options::docs;
use crate::syntax::last_name;

/// The generated items for a trait; nothing without the option `openrpc`.
pub(crate) fn for_trait(
    service: &Service,
    item: &ItemTrait,
    client: &Ident,
    cfgs: &[Attribute],
    methods: &[Method],
) -> Option<TokenStream> {
    let option = service.openrpc.as_ref()?;
    let library = &service.library;
    let function = function(service, &item.ident, &item.attrs, methods);
    Some(shield(
        library,
        option,
        &quote! {
            #(#cfgs)*
            #[allow(unreachable_pub, dead_code)]
            impl #client {
                #function
            }

            #(#cfgs)*
            impl #library::openrpc::HasDocument for #client {
                fn document() -> #library::openrpc::Document {
                    #client::openrpc()
                }
            }
        },
    ))
}

/// The generated items for an `impl` block; nothing without the option `openrpc`.
pub(crate) fn for_impl(
    service: &Service,
    item: &ItemImpl,
    methods: &[Method],
) -> Option<TokenStream> {
    let option = service.openrpc.as_ref()?;
    let ty = &item.self_ty;
    let (generics, _, clause) = item.generics.split_for_impl();
    let cfgs = item.attrs.iter().filter(|attr| attr.path().is_ident("cfg"));
    let name = last_name(ty).cloned().unwrap_or_else(|| format_ident!("service"));
    let function = function(service, &name, &item.attrs, methods);
    Some(shield(
        &service.library,
        option,
        &quote! {
            #(#cfgs)*
            #[allow(unreachable_pub, dead_code)]
            impl #generics #ty #clause {
                #function
            }
        },
    ))
}

/// The code inside of `__openrpc!`, whose error the compiler reports at the option.
fn shield(library: &Path, option: &Ident, code: &TokenStream) -> TokenStream {
    let call = quote_spanned!(option.span()=> __openrpc!);
    quote!(#library::#call { #code })
}

fn function(
    service: &Service,
    name: &Ident,
    attrs: &[Attribute],
    methods: &[Method],
) -> TokenStream {
    let library = &service.library;
    let (title, docs) = (naming::plain(name), docs(attrs));
    let methods = methods.iter().map(|method| add_method(service, method));
    let callbacks = service
        .callbacks
        .as_ref()
        .map(|client| quote_spanned!(client.span()=> __methods.callbacks::<#client>();));
    quote! {
        /// The OpenRPC document of the service.
        pub fn openrpc() -> #library::openrpc::Document {
            #library::openrpc::Document::of_service(
                #title,
                ::core::option_env!("CARGO_PKG_VERSION"),
                #docs,
                |__methods| {
                    #(#methods)*
                    #callbacks
                },
            )
        }
    }
}

fn add_method(service: &Service, method: &Method) -> TokenStream {
    let library = &service.library;
    let cfgs = &method.cfgs;
    let info = describe::method(service, method);
    let params = method.params().map(|(argument, param)| param_types(service, argument, param));
    let result = (!method.is_notification).then(|| {
        let ty = method.returns.result();
        quote_spanned!(ty.span()=> __types.result = ::core::option::Option::Some(#library::openrpc::schema::<#ty>);)
    });
    let is_fallible = method.returns.ok.is_some() && !method.is_notification;
    let errors = is_fallible.then(|| {
        let whole = &method.returns.ty;
        let ty = match &method.returns.error {
            Some(ty) => quote!(#ty),
            None => quote!(<#whole as #library::__macro::ResultType>::Error),
        };
        let span = method.returns.error.as_ref().unwrap_or(whole).span();
        quote_spanned!(span=> __types.errors = ::core::option::Option::Some(#library::openrpc::errors::<#ty>);)
    });
    quote! {
        #(#cfgs)*
        {
            #[allow(unused_mut)]
            let mut __types = <#library::openrpc::MethodTypes as ::core::default::Default>::default();
            #(#params)*
            #result
            #errors
            __methods.add(#info, __types);
        }
    }
}

/// The statement that adds the schema and the default of a param.
fn param_types(service: &Service, argument: &Argument, param: &Param) -> TokenStream {
    let library = &service.library;
    let ty = &argument.ty;
    let value = match &param.presence {
        Presence::Required | Presence::Optional => None,
        Presence::Default(None) => Some(quote!(::core::default::Default::default())),
        Presence::Default(Some(value)) => Some(quote!(#value)),
    };
    let function = format_ident!("__default_{}", naming::plain(&argument.ident));
    let default = value.as_ref().map(|value| {
        quote! {
            fn #function() -> ::core::option::Option<#library::__macro::Value> {
                #[allow(unused_imports)]
                use #library::__macro::NotWritten as _;
                let value: #ty = #value;
                #library::__macro::DefaultValue(value).json()
            }
        }
    });
    let pointer = match &value {
        Some(_) => quote!(::core::option::Option::Some(#function)),
        None => quote!(::core::option::Option::None),
    };
    let schema = quote_spanned!(ty.span()=> #library::openrpc::schema::<#ty>);
    quote! {
        #default
        __types.params.push((#schema, #pointer));
    }
}
