//! Methods, params, errors and examples.

use std::collections::HashSet;

use super::Reader;
use super::place::Place;
use super::reference::last_name;
use crate::error::ApiError;
use crate::json::Json;
use crate::model::{ErrorSpec, Example, Method, Param, ParamStructure, ResultSpec};

impl<'a> Reader<'a> {
    /// Reads a list of methods.
    pub(super) fn methods(&mut self, list: &Place<'a>) -> Result<Vec<Method>, ApiError> {
        let (mut methods, mut names) = (Vec::new(), HashSet::new());
        for entry in list.entries()? {
            let place = self.follow(entry.clone())?;
            let method = self.method(&place)?;
            if !names.insert(method.name.clone()) {
                return Err(entry.error(format!("the method {:?} is there twice", method.name)));
            }
            methods.push(method);
        }
        Ok(methods)
    }

    fn method(&mut self, place: &Place<'a>) -> Result<Method, ApiError> {
        place.object()?;
        let tags = place.member_entries("tags")?.into_iter();
        let tags =
            tags.map(|tag| self.follow(tag)?.required("name")?.text()).collect::<Result<_, _>>()?;
        let result = place.member("result").map(|it| self.follow(it)).transpose()?;
        let free_params = place.member("x-params");
        Ok(Method {
            name: place.required("name")?.text()?,
            summary: place.member_text("summary")?,
            description: place.member_text("description")?,
            is_deprecated: place.member_flag("deprecated")?,
            deprecation: place.member_text("x-deprecated")?,
            since: place.member_text("x-since")?,
            is_idempotent: place.member_flag("x-idempotent")?,
            aliases: texts(&place.member_entries("x-aliases")?)?,
            tags,
            params: self.params(place)?,
            free_params: free_params.map(|it| self.schema(&it)).transpose()?,
            param_structure: param_structure(place)?,
            result: result.map(|it| self.result(&it)).transpose()?,
            errors: self.errors(place)?,
            examples: self.examples(place)?,
        })
    }

    fn params(&mut self, method: &Place<'a>) -> Result<Vec<Param>, ApiError> {
        let (mut params, mut names) = (Vec::new(), HashSet::new());
        for entry in method.member_entries("params")? {
            let place = self.follow(entry.clone())?;
            place.object()?;
            let name = place.required("name")?.text()?;
            if !names.insert(name.clone()) {
                return Err(entry.error(format!("the param {name:?} is there twice")));
            }
            params.push(Param {
                name,
                summary: place.member_text("summary")?,
                description: place.member_text("description")?,
                is_required: place.member_flag("required")?,
                is_deprecated: place.member_flag("deprecated")?,
                schema: self.schema_or_any(&place, "schema")?,
            });
        }
        Ok(params)
    }

    fn result(&mut self, place: &Place<'a>) -> Result<ResultSpec, ApiError> {
        place.object()?;
        Ok(ResultSpec {
            name: place.member_text("name")?.unwrap_or_default(),
            summary: place.member_text("summary")?,
            description: place.member_text("description")?,
            schema: self.schema_or_any(place, "schema")?,
        })
    }

    fn errors(&mut self, method: &Place<'a>) -> Result<Vec<ErrorSpec>, ApiError> {
        let mut errors = Vec::new();
        let details = method.member("x-errors");
        for entry in method.member_entries("errors")? {
            let pointer = entry.pointer.clone();
            let place = self.follow(entry)?;
            place.object()?;
            let code = place.required("code")?.integer()?;
            let detail = details.as_ref().and_then(|it| it.member(&code.to_string()));
            let text = |name: &str| detail.as_ref().map_or(Ok(None), |it| it.member_text(name));
            let key = (place.pointer != pointer).then(|| last_name(&place.pointer));
            let data_schema = detail.as_ref().and_then(|it| it.member("data"));
            errors.push(ErrorSpec {
                name: text("name")?.or(key),
                code,
                message: place.required("message")?.text()?,
                data: place.value.get("data").cloned(),
                data_schema: data_schema.map(|it| self.schema(&it)).transpose()?,
                summary: text("summary")?,
                description: text("description")?,
            });
        }
        Ok(errors)
    }

    fn examples(&mut self, method: &Place<'a>) -> Result<Vec<Example>, ApiError> {
        let mut examples = Vec::new();
        for entry in method.member_entries("examples")? {
            let place = self.follow(entry)?;
            place.object()?;
            let params = place.member_entries("params")?.into_iter();
            let params = params.map(|param| self.example_value(param)).collect::<Result<_, _>>()?;
            let result = place.member("result").map(|it| self.example_value(it)).transpose()?;
            examples.push(Example {
                name: place.member_text("name")?.unwrap_or_default(),
                description: match place.member_text("description")? {
                    None => place.member_text("summary")?,
                    text => text,
                },
                params,
                result: result.map(|(_, value)| value),
            });
        }
        Ok(examples)
    }

    /// The name and the value of an example. One whose value is elsewhere (`externalValue`) has the address instead.
    fn example_value(&mut self, place: Place<'a>) -> Result<(String, Json), ApiError> {
        let place = self.follow(place)?;
        let value = place.value.get("value").or_else(|| place.value.get("externalValue"));
        Ok((place.member_text("name")?.unwrap_or_default(), value.cloned().unwrap_or(Json::Null)))
    }
}

fn texts(places: &[Place<'_>]) -> Result<Vec<String>, ApiError> {
    places.iter().map(Place::text).collect()
}

fn param_structure(method: &Place<'_>) -> Result<ParamStructure, ApiError> {
    let Some(place) = method.member("paramStructure") else { return Ok(ParamStructure::default()) };
    let name = place.text()?;
    let all = [ParamStructure::ByName, ParamStructure::ByPosition, ParamStructure::Either];
    all.into_iter().find(|it| it.name() == name).ok_or_else(|| {
        place.error(format!("expected by-name, by-position or either, found {name:?}"))
    })
}
