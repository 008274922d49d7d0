//! The assertions about the form of the output: JSON, XML, HTML, SQL.

mod contains_html;
mod contains_json;
mod contains_sql;
mod contains_xml;
mod is_html;
mod is_json;
mod is_sql;
mod is_xml;
mod matches;
mod output_equals;
mod output_matches;
mod schema;
mod xml;

use crate::Registration;

/// The assertions of this group, in the order of their evaluation.
pub(crate) static REGISTRY: &[&Registration] = &[
    &schema::REGISTRATION,
    &is_json::REGISTRATION,
    &contains_json::REGISTRATION,
    &is_xml::REGISTRATION,
    &contains_xml::REGISTRATION,
    &is_html::REGISTRATION,
    &contains_html::REGISTRATION,
    &is_sql::REGISTRATION,
    &contains_sql::REGISTRATION,
    &matches::REGISTRATION,
    &output_equals::REGISTRATION,
    &output_matches::REGISTRATION,
];
