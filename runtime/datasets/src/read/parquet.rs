//! Reads a Parquet file row by row.

use std::fs::File;

use parquet::{
    basic::Compression,
    file::reader::{FileReader, SerializedFileReader},
    record::{Field, Row},
};
use serde_json::{Map, Number, Value};

use super::raw_row::RawRow;
use crate::errors::{RowError, RowLocation};

pub(super) fn read_rows(file: File, on_row: &mut dyn FnMut(RawRow)) -> Result<(), String> {
    let reader = SerializedFileReader::new(file).map_err(|error| error.to_string())?;
    if let Some(codec) = unsupported_codec(&reader) {
        return Err(format!("unsupported compression {codec}; use snappy, zstd or gzip"));
    }
    let rows = reader.get_row_iter(None).map_err(|error| error.to_string())?;
    for (index, row) in rows.enumerate() {
        let failed = row.is_err();
        let value = row.map(row_to_json).map_err(|error| {
            RowError::invalid_row(format!("cannot be read: {error}; the following rows are lost"))
        });
        on_row(RawRow { location: RowLocation::Row(index + 1), split: None, key: None, value });
        if failed {
            break;
        }
    }
    Ok(())
}

/// Returns the first unsupported codec. The reader's own error would mention crate features.
fn unsupported_codec(reader: &SerializedFileReader<File>) -> Option<&'static str> {
    let groups = reader.metadata().row_groups().iter();
    groups.flat_map(|group| group.columns()).find_map(|column| match column.compression() {
        Compression::BROTLI(_) => Some("brotli"),
        Compression::LZ4 | Compression::LZ4_RAW => Some("lz4"),
        Compression::LZO => Some("lzo"),
        _ => None,
    })
}

fn row_to_json(row: Row) -> Value {
    let columns = row.into_columns();
    Value::Object(columns.into_iter().map(|(name, field)| (name, field_to_json(field))).collect())
}

fn field_to_json(field: Field) -> Value {
    let number = |number: f64| Number::from_f64(number).map_or(Value::Null, Value::Number);
    match field {
        Field::Null => Value::Null,
        Field::Bool(value) => value.into(),
        Field::Byte(value) => value.into(),
        Field::Short(value) => value.into(),
        Field::Int(value) => value.into(),
        Field::Long(value) => value.into(),
        Field::UByte(value) => value.into(),
        Field::UShort(value) => value.into(),
        Field::UInt(value) => value.into(),
        Field::ULong(value) => value.into(),
        Field::Float(value) => number(value.into()),
        Field::Double(value) => number(value),
        Field::Str(text) => Value::String(text),
        // Some writers store text as bytes without marking it as text.
        Field::Bytes(bytes) => match std::str::from_utf8(bytes.data()) {
            Ok(text) => text.into(),
            Err(_) => Value::Null,
        },
        Field::Group(row) => row_to_json(row),
        Field::ListInternal(list) => list.elements().iter().cloned().map(field_to_json).collect(),
        Field::MapInternal(map) => {
            let key = |field: &Field| match field {
                Field::Str(text) => text.clone(),
                other => other.to_string(),
            };
            let pairs =
                map.entries().iter().map(|(name, field)| (key(name), field_to_json(field.clone())));
            Value::Object(pairs.collect::<Map<_, _>>())
        }
        // Times and decimals become text in their display form.
        other => other.to_string().into(),
    }
}
