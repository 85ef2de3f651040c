//! `FromRemote`: generated code that finds the variant for an error that a remote returned.
//!
//! The code selects the variant. If the data does not fit, the error has the same code but is not this variant.
//! Transparent variants follow, in the order of the source. A variant without fields accepts data that no other variant
//! can read, so it is tried again last. Internal variants cannot be read, because their content never goes onto the
//! wire.

use proc_macro2::TokenStream;
use quote::{quote, quote_spanned};
use syn::spanned::Spanned;

use super::ErrorType;
use super::variant::{Kind, Shape, Variant};
use crate::options::serde_path;

pub(crate) fn item(error: &ErrorType) -> TokenStream {
    let ErrorType { ident, library, variants, .. } = error;
    let own = variants.iter().filter_map(|variant| match variant.kind {
        Kind::Code { code, .. } => {
            let read = read(error, variant);
            Some(quote!(if remote.code == #code { #read }))
        }
        _ => None,
    });
    let others = variants.iter().filter_map(|variant| match variant.kind {
        Kind::Transparent => {
            let (field, ty) = (&variant.fields[0].ident, &variant.fields[0].ty);
            let made = variant.with_fields();
            Some(quote_spanned! { ty.span()=>
                if let ::core::option::Option::Some(#field) =
                    <#ty as #library::error::FromRemote>::from_remote(remote)
                {
                    return ::core::option::Option::Some(#made);
                }
            })
        }
        _ => None,
    });
    let without_fields = variants.iter().filter_map(|variant| match variant.kind {
        Kind::Code { code, .. } if variant.fields.is_empty() => {
            let made = variant.with_fields();
            Some(quote! {
                if remote.code == #code {
                    return ::core::option::Option::Some(#made);
                }
            })
        }
        _ => None,
    });
    quote! {
        impl #library::error::FromRemote for #ident {
            #[allow(unused_variables)]
            fn from_remote(
                remote: &#library::RemoteError,
            ) -> ::core::option::Option<Self> {
                #(#own)*
                #(#others)*
                #(#without_fields)*
                ::core::option::Option::None
            }
        }
    }
}

/// The statements that return a variant if the data of the error fits.
fn read(error: &ErrorType, variant: &Variant) -> TokenStream {
    let library = &error.library;
    let made = variant.with_fields();
    let fields: Vec<_> = variant.fields.iter().map(|field| &field.ident).collect();
    let types: Vec<_> = variant.fields.iter().map(|field| &field.ty).collect();
    let (items, pattern, ty) = match (variant.shape, &*fields) {
        (_, []) => (TokenStream::new(), quote!(()), quote!(())),
        (Shape::Named, _) => {
            let serde = serde_path(library);
            let items = quote! {
                #[derive(#library::__macro::serde::Deserialize)]
                #[serde(crate = #serde)]
                struct __Data { #(#fields: #types),* }
            };
            (items, quote!(__Data { #(#fields),* }), quote!(__Data))
        }
        (_, [one]) => (TokenStream::new(), quote!(#one), quote!(#(#types)*)),
        _ => (TokenStream::new(), quote!((#(#fields,)*)), quote!((#(#types,)*))),
    };
    quote! {
        #items
        if let ::core::option::Option::Some(#pattern) = #library::__macro::data::<#ty>(remote) {
            return ::core::option::Option::Some(#made);
        }
    }
}
