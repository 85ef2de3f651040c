//! `From<E> for Failure`, `Display` and `Error`: generated code that writes an error.

use proc_macro2::TokenStream;
use quote::{quote, quote_spanned};
use syn::spanned::Spanned;

use super::ErrorType;
use super::variant::{Kind, Shape, Variant};
use crate::options::serde_path;

pub(crate) fn items(error: &ErrorType) -> TokenStream {
    let ErrorType { ident, library, variants, .. } = error;
    let arms = variants.iter().map(|variant| {
        let (pattern, failure) = (variant.with_fields(), failure(error, variant));
        quote!(#pattern => #failure)
    });
    let into_failure = quote! {
        impl ::core::convert::From<#ident> for #library::Failure {
            fn from(error: #ident) -> Self {
                match error { #(#arms),* }
            }
        }
    };
    let made_of = variants.iter().filter(|variant| variant.is_from).map(|variant| {
        let (ty, made) = (&variant.fields[0].ty, variant.with_fields());
        let field = &variant.fields[0].ident;
        quote! {
            impl ::core::convert::From<#ty> for #ident {
                fn from(#field: #ty) -> Self {
                    #made
                }
            }
        }
    });
    let display = (!error.has_own_display).then(|| display(error));
    quote!(#into_failure #(#made_of)* #display)
}

fn failure(error: &ErrorType, variant: &Variant) -> TokenStream {
    let library = &error.library;
    let fields: Vec<_> = variant.fields.iter().map(|field| &field.ident).collect();
    match &variant.kind {
        Kind::Transparent => {
            let (field, span) = (fields[0], variant.fields[0].ty.span());
            quote_spanned!(span=> <#library::Failure as ::core::convert::From<_>>::from(#field))
        }
        Kind::Internal => match fields.first() {
            Some(field) => {
                let span = variant.fields[0].ty.span();
                quote_spanned!(span=> #library::Failure::internal(#field))
            }
            None => {
                let cause = format!("{}::{}", error.ident, variant.ident);
                quote!(#library::Failure::internal(#cause))
            }
        },
        Kind::Code { code, message, .. } => {
            let failure = quote!(#library::Failure::new(#code, #message));
            match (variant.shape, &*fields) {
                (_, []) => failure,
                (Shape::Named, _) => {
                    let data = named_data(error, variant);
                    quote!({ #data #failure.with_data(__Data { #(#fields),* }) })
                }
                (_, [one]) => quote!(#failure.with_data(#one)),
                _ => quote!(#failure.with_data((#(#fields,)*))),
            }
        }
    }
}

/// The type that writes named fields as an object.
fn named_data(error: &ErrorType, variant: &Variant) -> TokenStream {
    let library = &error.library;
    let serde = serde_path(library);
    let fields = variant.fields.iter().map(|field| {
        let (ident, ty) = (&field.ident, &field.ty);
        quote!(#ident: #ty)
    });
    quote! {
        #[derive(#library::__macro::serde::Serialize)]
        #[serde(crate = #serde)]
        struct __Data { #(#fields),* }
    }
}

/// `Display` and `Error`. An internal error shows its cause here, because the remote never receives this text.
fn display(error: &ErrorType) -> TokenStream {
    let ident = &error.ident;
    let arms = error.variants.iter().map(|variant| {
        let pattern = variant.with_fields();
        let field = variant.fields.first().map(|field| &field.ident);
        let path = &variant.path;
        match (&variant.kind, field) {
            (Kind::Code { message, .. }, _) => quote!(#path { .. } => __f.write_str(#message)),
            (Kind::Internal, Some(field)) => {
                quote!(#pattern => ::core::write!(__f, "Internal error: {}", #field))
            }
            (Kind::Transparent, Some(field)) => {
                quote!(#pattern => ::core::fmt::Display::fmt(#field, __f))
            }
            _ => quote!(#path { .. } => __f.write_str("Internal error")),
        }
    });
    let arms: Vec<_> = arms.collect();
    // An enum without variants has no value to show.
    let shown = match arms.is_empty() {
        true => quote!(match *self {}),
        false => quote!(match self { #(#arms),* }),
    };
    let f = if arms.is_empty() { quote!(_) } else { quote!(__f) };
    quote! {
        impl ::core::fmt::Display for #ident {
            fn fmt(&self, #f: &mut ::core::fmt::Formatter<'_>) -> ::core::fmt::Result {
                #shown
            }
        }

        impl ::core::error::Error for #ident {}
    }
}
