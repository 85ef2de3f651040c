//! Options in `#[rpc(...)]` and `#[service(...)]`.
//!
//! An [`OptionTable`] lists the options of one kind of item, with their forms. The parser reports an option that is
//! unknown, given twice, in the wrong form, or in conflict with another option, and suggests a correct one.

use proc_macro2::{Span, TokenStream};
use quote::quote;
use syn::parse::Parser;
use syn::punctuated::Punctuated;
use syn::{Attribute, Expr, ExprLit, Ident, Lit, LitStr, Meta, Path, Token, parse_quote};

use crate::errors::Errors;

/// The form of an option.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Form {
    /// `quick`
    Flag,
    /// `name = "add"`
    Text,
    /// `aliases("plus", "sum")`
    Texts,
    /// `code = 1001`, `callbacks = EditorUi`
    Value,
    /// `default` or `default = 1`
    FlagOrValue,
}

/// The options of one kind of item.
pub(crate) struct OptionTable {
    /// The kind of item, as error messages name it: "a method".
    pub(crate) name: &'static str,
    pub(crate) options: &'static [(&'static str, Form)],
    /// Pairs of options that exclude each other, and the reason.
    pub(crate) conflicts: &'static [(&'static str, &'static str, &'static str)],
}

/// The options of one item, each in a form that its table allows.
#[derive(Default)]
pub(crate) struct Options(Vec<(Ident, Meta)>);

impl Options {
    /// Removes `#[rpc(...)]` from the attributes of an item, and reads it.
    pub(crate) fn take(
        attrs: &mut Vec<Attribute>,
        table: &OptionTable,
        errors: &mut Errors,
    ) -> Self {
        let (ours, others) = attrs.drain(..).partition(|attr| attr.path().is_ident("rpc"));
        *attrs = others;
        Options::from_attrs(&ours, table, errors)
    }

    /// Reads `#[rpc(...)]` among the attributes of an item.
    pub(crate) fn from_attrs(
        attrs: &[Attribute],
        table: &OptionTable,
        errors: &mut Errors,
    ) -> Self {
        let mut options = Options::default();
        for attr in attrs.iter().filter(|attr| attr.path().is_ident("rpc")) {
            match &attr.meta {
                Meta::Path(_) => {}
                Meta::List(list) => options.read(list.tokens.clone(), table, errors),
                Meta::NameValue(_) => errors.push(attr, "write `#[rpc(...)]`"),
            }
        }
        options.check_conflicts(table, errors);
        options
    }

    /// Reads the options in an attribute's parentheses.
    pub(crate) fn parse(tokens: TokenStream, table: &OptionTable, errors: &mut Errors) -> Self {
        let mut options = Options::default();
        options.read(tokens, table, errors);
        options.check_conflicts(table, errors);
        options
    }

    fn read(&mut self, tokens: TokenStream, table: &OptionTable, errors: &mut Errors) {
        let metas = match Punctuated::<Meta, Token![,]>::parse_terminated.parse2(tokens) {
            Ok(metas) => metas,
            Err(error) => return errors.add(error),
        };
        for meta in metas {
            let known = meta.path().get_ident().and_then(|ident| {
                let found = table.options.iter().find(|(option, _)| ident == option);
                found.map(|(_, form)| (ident.clone(), *form))
            });
            let Some((option, form)) = known else {
                errors.push(meta.path(), unknown(meta.path(), table));
                continue;
            };
            if self.get(&option.to_string()).is_some() {
                errors.push(&option, format!("`{option}` is given twice: remove one"));
            } else if let Some(write) = wrong_form(&option, form, &meta) {
                errors.push(&meta, write);
            } else {
                self.0.push((option, meta));
            }
        }
    }

    fn check_conflicts(&self, table: &OptionTable, errors: &mut Errors) {
        for (one, other, reason) in table.conflicts {
            if let (Some(_), Some((option, _))) = (self.get(one), self.get(other)) {
                errors.push(option, format!("`{other}` contradicts `{one}`: {reason}"));
            }
        }
    }

    fn get(&self, option: &str) -> Option<&(Ident, Meta)> {
        self.0.iter().find(|(name, _)| name == option)
    }

    /// The name of an option in the source, if the option is given.
    pub(crate) fn ident(&self, option: &str) -> Option<&Ident> {
        self.get(option).map(|(name, _)| name)
    }

    pub(crate) fn has(&self, option: &str) -> bool {
        self.get(option).is_some()
    }

    pub(crate) fn value(&self, option: &str) -> Option<&Expr> {
        match self.get(option) {
            Some((_, Meta::NameValue(pair))) => Some(&pair.value),
            _ => None,
        }
    }

    pub(crate) fn text(&self, option: &str) -> Option<&LitStr> {
        self.value(option).and_then(literal)
    }

    pub(crate) fn texts(&self, option: &str) -> Vec<LitStr> {
        match self.get(option) {
            Some((_, Meta::List(list))) => texts(list.tokens.clone()).unwrap_or_default(),
            _ => Vec::new(),
        }
    }

    /// The path of the library: the value of `crate = "..."`. Default: `::duet_rpc`.
    pub(crate) fn library(&self, errors: &mut Errors) -> Path {
        let default = || parse_quote!(::duet_rpc);
        let Some(text) = self.text("crate") else { return default() };
        match text.parse_with(Path::parse_mod_style) {
            Ok(path) => path,
            Err(_) => {
                errors
                    .push(text, "write the path of the library, as in `crate = \"my::duet_rpc\"`");
                default()
            }
        }
    }
}

fn unknown(path: &Path, table: &OptionTable) -> String {
    let names: Vec<_> = table.options.iter().map(|(option, _)| format!("`{option}`")).collect();
    let path = quote!(#path).to_string();
    format!("`{path}` is not an option of {}; the options are {}", table.name, names.join(", "))
}

/// The suggestion for an option in the wrong form; `None` if the form is right.
fn wrong_form(option: &Ident, form: Form, meta: &Meta) -> Option<String> {
    let is_right = match (form, meta) {
        (Form::Flag | Form::FlagOrValue, Meta::Path(_)) => true,
        (Form::Value | Form::FlagOrValue, Meta::NameValue(_)) => true,
        (Form::Text, Meta::NameValue(pair)) => literal(&pair.value).is_some(),
        (Form::Texts, Meta::List(list)) => {
            texts(list.tokens.clone()).is_some_and(|texts| !texts.is_empty())
        }
        _ => false,
    };
    let write = match form {
        Form::Flag => format!("`{option}`, without a value"),
        Form::Text => format!("`{option} = \"...\"`"),
        Form::Texts => format!("`{option}(\"...\", \"...\")`"),
        Form::Value => format!("`{option} = ...`"),
        Form::FlagOrValue => format!("`{option}` or `{option} = ...`"),
    };
    (!is_right).then(|| format!("write {write}"))
}

fn literal(value: &Expr) -> Option<&LitStr> {
    match value {
        Expr::Lit(ExprLit { lit: Lit::Str(text), .. }) => Some(text),
        _ => None,
    }
}

fn texts(tokens: TokenStream) -> Option<Vec<LitStr>> {
    let list = Punctuated::<LitStr, Token![,]>::parse_terminated.parse2(tokens);
    list.ok().map(|texts| texts.into_iter().collect())
}

/// The text of doc comments, line by line.
pub(crate) fn docs(attrs: &[Attribute]) -> String {
    let lines = attrs.iter().filter(|attr| attr.path().is_ident("doc")).filter_map(|attr| {
        let Meta::NameValue(pair) = &attr.meta else { return None };
        let text = literal(&pair.value)?.value();
        Some(text.strip_prefix(' ').unwrap_or(&text).trim_end().to_owned())
    });
    lines.collect::<Vec<_>>().join("\n").trim().to_owned()
}

/// A string literal with the span of the macro call.
pub(crate) fn text_at_call(text: &str) -> LitStr {
    LitStr::new(text, Span::call_site())
}

/// The path of serde, for its attribute `#[serde(crate = "...")]`.
pub(crate) fn serde_path(library: &Path) -> LitStr {
    text_at_call(&quote!(#library::__macro::serde).to_string().replace(' ', ""))
}
