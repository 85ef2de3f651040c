//! `METHODS`: the constant that describes a service.

use proc_macro2::TokenStream;
use quote::{quote, quote_spanned};
use syn::Type;
use syn::spanned::Spanned;

use super::Service;
use super::method::Method;
use super::param::Presence;

pub(crate) fn constant(service: &Service, methods: &[Method]) -> TokenStream {
    let library = &service.library;
    let methods = methods.iter().map(|method| with_cfgs(service, method));
    quote! {
        /// The methods of the service, in the order of its source.
        pub const METHODS: &'static [#library::service::MethodInfo] = &[#(#methods),*];
    }
}

fn with_cfgs(service: &Service, method: &Method) -> TokenStream {
    let (cfgs, info) = (&method.cfgs, self::method(service, method));
    quote!(#(#cfgs)* #info)
}

/// The value for a method. `MethodInfo` is `#[non_exhaustive]`, so a function of the library makes it, and the
/// generated code sets its fields.
pub(crate) fn method(service: &Service, method: &Method) -> TokenStream {
    let library = &service.library;
    let Method { name, aliases, docs, is_notification, is_idempotent, .. } = method;
    let option = |text: &Option<syn::LitStr>| match text {
        Some(text) => quote!(::core::option::Option::Some(#text)),
        None => quote!(::core::option::Option::None),
    };
    let (deprecated, since) = (option(&method.deprecated), option(&method.since));
    let form = match (method.whole(), method.is_positional) {
        (Some(_), _) => quote!(Whole),
        (None, true) => quote!(Positional),
        (None, false) => quote!(Named),
    };
    // A notification has no result, even if its method returns `()`.
    let result_schema = match method.is_notification {
        true => quote!(::core::option::Option::None),
        false => schema(service, method.returns.result()),
    };
    let params = method.params().map(|(argument, param)| {
        let (name, docs) = (&param.name, &param.docs);
        let schema = schema(service, &argument.ty);
        let is_required = matches!(param.presence, Presence::Required);
        quote!({
            let mut param = #library::__macro::param_info(#name);
            param.docs = #docs;
            param.is_required = #is_required;
            param.schema = #schema;
            param
        })
    });
    quote! {
        {
            const PARAMS: &[#library::service::ParamInfo] = &[#(#params),*];
            let mut method = #library::__macro::method_info(#name);
            method.aliases = &[#(#aliases),*];
            method.docs = #docs;
            method.params = PARAMS;
            method.result_schema = #result_schema;
            method.params_form = #library::service::ParamsForm::#form;
            method.is_notification = #is_notification;
            method.is_idempotent = #is_idempotent;
            method.deprecated = #deprecated;
            method.since = #since;
            method
        }
    }
}

/// The schema function for a type, if the service has one.
fn schema(service: &Service, ty: &Type) -> TokenStream {
    let Some(function) = &service.schema else {
        return quote!(::core::option::Option::None);
    };
    // With the span of the type, so that the compiler reports a missing schema there.
    let function = quote_spanned!(ty.span()=> #function::<#ty>);
    quote!(::core::option::Option::Some(#function))
}
