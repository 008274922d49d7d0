//! JSON Schemas of configuration types.

use std::fmt;

use schemars::generate::SchemaSettings;
use schemars::{JsonSchema, SchemaGenerator};
use serde_json::{Map, Value};

/// A generator of JSON Schemas with common definitions (`$defs`).
///
/// The schemas are for deserialization, in draft 2020-12.
pub struct Definitions(SchemaGenerator);

/// Returns the schema of a type for deserialization, like [`Definitions::schema_for`].
///
/// A table of assertions can store a pointer to this function.
pub fn schema_of<T: JsonSchema>(definitions: &mut Definitions) -> Value {
    definitions.schema_for::<T>()
}

impl Default for Definitions {
    fn default() -> Self {
        let settings = SchemaSettings::draft2020_12().for_deserialize();
        Self(settings.with(|settings| settings.meta_schema = None).into_generator())
    }
}

impl fmt::Debug for Definitions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Definitions").finish_non_exhaustive()
    }
}

impl Definitions {
    /// Returns the schema of a type for deserialization. Nested types become definitions.
    pub fn schema_for<T: JsonSchema>(&mut self) -> Value {
        T::json_schema(&mut self.0).to_value()
    }

    /// Returns a reference to the definition of a type, or the schema itself if [`JsonSchema::inline_schema`] is true.
    pub fn reference<T: JsonSchema>(&mut self) -> Value {
        self.0.subschema_for::<T>().to_value()
    }

    /// Adds a definition under a name; `#/$defs/<name>` refers to it.
    pub fn add(&mut self, name: &str, schema: Value) {
        self.0.definitions_mut().insert(name.to_owned(), schema);
    }

    /// Consumes the generator and returns all definitions by name.
    pub fn take(mut self) -> Map<String, Value> {
        self.0.take_definitions(true)
    }
}
