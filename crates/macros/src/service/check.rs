//! Checks of the method names of a service: unique, not reserved, not empty.

use std::collections::HashMap;

use super::Service;
use super::method::Method;
use crate::errors::Errors;

/// Reports names that are taken, reserved or empty.
pub(crate) fn names(service: &Service, methods: &[Method], errors: &mut Errors) {
    if let Some(prefix) = &service.prefix
        && prefix.value().starts_with("rpc.")
    {
        return errors.push(prefix, RESERVED);
    }
    let mut owners = HashMap::new();
    for method in methods {
        for name in std::iter::once(&method.name).chain(&method.aliases) {
            let text = name.value();
            if text.is_empty() {
                errors.push(name, "a method needs a name that is not empty");
                continue;
            } else if text.starts_with("rpc.") {
                errors.push(name, RESERVED);
                continue;
            }
            let Some(owner) = owners.insert(text.clone(), method) else { continue };
            // Two methods with a `#[cfg]` each may exclude each other.
            if owner.cfgs.is_empty() || method.cfgs.is_empty() {
                let owner = &owner.ident;
                let sentence = format!(
                    "`{text}` is already the name of `{owner}`: give one of them another name, \
                     as in `#[rpc(name = \"...\")]`"
                );
                errors.push(name, sentence);
            }
        }
    }
}

const RESERVED: &str =
    "JSON-RPC reserves names that begin with `rpc.`: give the method another name";
