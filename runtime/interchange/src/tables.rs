//! Writes tables as Parquet, JSON Lines or CSV. `proctor_report` defines the columns.

use std::io::{self, Write};

use parquet::{
    basic::Compression,
    data_type::{BoolType, ByteArray, ByteArrayType, DoubleType, Int64Type},
    errors::ParquetError,
    file::{metadata::KeyValue, properties::WriterProperties, writer::SerializedFileWriter},
    schema::parser::parse_message_type,
};
use proctor_report::{Cell, ColumnInfo, ColumnKind, TableInfo, csv_line};
use serde_json::{Map, Value};

/// Number of rows in a Parquet row group. The rows stay in memory until their group is written.
const ROWS_PER_GROUP: usize = 20_000;
/// The Parquet metadata key for the descriptions of the columns.
const COLUMNS_KEY: &str = "proctor.columns";

/// A file format for tables.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TableFormat {
    Csv,
    JsonLines,
    Parquet,
}

impl TableFormat {
    /// Returns the file extension without the dot.
    pub fn extension(self) -> &'static str {
        match self {
            Self::Csv => "csv",
            Self::JsonLines => "jsonl",
            Self::Parquet => "parquet",
        }
    }
}

/// Writes a table row by row. Call [`TableWriter::close`] to complete the file.
pub struct TableWriter<W: Write + Send> {
    columns: Vec<ColumnInfo>,
    rows: Vec<Vec<Cell>>,
    row_count: u64,
    sink: Sink<W>,
}

enum Sink<W: Write + Send> {
    Csv(W),
    JsonLines(W),
    Parquet(Box<SerializedFileWriter<W>>),
}

impl<W: Write + Send> TableWriter<W> {
    /// Starts to write a table to `out`.
    ///
    /// # Errors
    /// Returns an error if `out` cannot be written.
    pub fn new(format: TableFormat, table: &TableInfo, mut out: W) -> io::Result<Self> {
        let columns = table.columns.clone();
        let sink = match format {
            TableFormat::Csv => {
                let names: Vec<&str> = columns.iter().map(|column| column.name).collect();
                writeln!(out, "{}", names.join(","))?;
                Sink::Csv(out)
            }
            TableFormat::JsonLines => Sink::JsonLines(out),
            TableFormat::Parquet => Sink::Parquet(Box::new(parquet_file(table, out)?)),
        };
        Ok(Self { columns, rows: Vec::new(), row_count: 0, sink })
    }

    /// Adds a row, with one value per column in column order.
    ///
    /// # Errors
    /// Returns an error if the file cannot be written.
    pub fn push(&mut self, cells: Vec<Cell>) -> io::Result<()> {
        self.row_count += 1;
        match &mut self.sink {
            Sink::Csv(out) => out.write_all(csv_line(&cells).as_bytes()),
            Sink::JsonLines(out) => {
                writeln!(out, "{}", Value::Object(row_to_object(&self.columns, cells)))
            }
            Sink::Parquet(writer) => {
                self.rows.push(cells);
                if self.rows.len() >= ROWS_PER_GROUP {
                    write_group(writer, &self.columns, &self.rows).map_err(io::Error::other)?;
                    self.rows.clear();
                }
                Ok(())
            }
        }
    }

    /// Writes the remaining rows, and returns the total number of rows written.
    ///
    /// # Errors
    /// Returns an error if the file cannot be written.
    pub fn close(self) -> io::Result<u64> {
        match self.sink {
            Sink::Csv(mut out) | Sink::JsonLines(mut out) => out.flush()?,
            Sink::Parquet(mut writer) => {
                if !self.rows.is_empty() {
                    write_group(&mut writer, &self.columns, &self.rows)
                        .map_err(io::Error::other)?;
                }
                (*writer).close().map_err(io::Error::other)?;
            }
        }
        Ok(self.row_count)
    }
}

/// Converts a row to a JSON object. Unknown values are written as null, so that every row has all
/// keys.
fn row_to_object(columns: &[ColumnInfo], cells: Vec<Cell>) -> Map<String, Value> {
    let value = |cell: Cell| match cell {
        Cell::Null => Value::Null,
        Cell::Text(text) => text.into(),
        Cell::Integer(number) => number.into(),
        Cell::Number(number) => number.into(),
        Cell::Boolean(value) => value.into(),
    };
    columns.iter().zip(cells).map(|(column, cell)| (column.name.to_owned(), value(cell))).collect()
}

fn parquet_file<W: Write + Send>(table: &TableInfo, out: W) -> io::Result<SerializedFileWriter<W>> {
    let fields: String = table
        .columns
        .iter()
        .map(|column| match column.kind {
            ColumnKind::Text => format!("optional binary {} (UTF8); ", column.name),
            ColumnKind::Integer => format!("optional int64 {}; ", column.name),
            ColumnKind::Number => format!("optional double {}; ", column.name),
            ColumnKind::Boolean => format!("optional boolean {}; ", column.name),
        })
        .collect();
    let schema = parse_message_type(&format!("message {} {{ {fields} }}", table.name))
        .map_err(io::Error::other)?;
    let about = serde_json::to_string(&table.columns)?;
    let properties = WriterProperties::builder()
        .set_compression(Compression::SNAPPY)
        .set_key_value_metadata(Some(vec![KeyValue::new(COLUMNS_KEY.to_owned(), about)]))
        .build();
    SerializedFileWriter::new(out, schema.into(), properties.into()).map_err(io::Error::other)
}

fn write_group<W: Write + Send>(
    writer: &mut SerializedFileWriter<W>,
    columns: &[ColumnInfo],
    rows: &[Vec<Cell>],
) -> Result<(), ParquetError> {
    let mut group = writer.next_row_group()?;
    for (at, column) in columns.iter().enumerate() {
        let Some(mut out) = group.next_column()? else { break };
        let cells = || rows.iter().map(move |row| row.get(at).unwrap_or(&Cell::Null));
        match column.kind {
            ColumnKind::Text => {
                let (values, levels) = present_values(cells(), |cell| match cell {
                    Cell::Text(text) => Some(ByteArray::from(text.as_str())),
                    _ => None,
                });
                out.typed::<ByteArrayType>().write_batch(&values, Some(&levels), None)?;
            }
            ColumnKind::Integer => {
                let (values, levels) = present_values(cells(), |cell| match cell {
                    Cell::Integer(number) => Some(*number),
                    _ => None,
                });
                out.typed::<Int64Type>().write_batch(&values, Some(&levels), None)?;
            }
            ColumnKind::Number => {
                let (values, levels) = present_values(cells(), |cell| match cell {
                    Cell::Number(number) => Some(*number),
                    _ => None,
                });
                out.typed::<DoubleType>().write_batch(&values, Some(&levels), None)?;
            }
            ColumnKind::Boolean => {
                let (values, levels) = present_values(cells(), |cell| match cell {
                    Cell::Boolean(value) => Some(*value),
                    _ => None,
                });
                out.typed::<BoolType>().write_batch(&values, Some(&levels), None)?;
            }
        }
        out.close()?;
    }
    group.close()?;
    Ok(())
}

/// Returns the values that are not null and, for each row, whether it has a value.
fn present_values<'a, T>(
    cells: impl Iterator<Item = &'a Cell>,
    value_of: impl Fn(&Cell) -> Option<T>,
) -> (Vec<T>, Vec<i16>) {
    let (mut values, mut levels) = (Vec::new(), Vec::new());
    for cell in cells {
        let value = value_of(cell);
        levels.push(i16::from(value.is_some()));
        values.extend(value);
    }
    (values, levels)
}

#[cfg(test)]
mod tests {
    use parquet::{
        file::reader::{FileReader as _, SerializedFileReader},
        record::Field,
    };
    use proctor_report::tables;

    use super::*;

    fn sample_table() -> TableInfo {
        let [trials, ..] = tables();
        let kept = ["task", "steps", "cost_usd", "resolved"];
        let columns = trials.columns.into_iter().filter(|column| kept.contains(&column.name));
        TableInfo { name: "trials", columns: columns.collect() }
    }

    fn write_table(format: TableFormat, rows: &[Vec<Cell>]) -> Vec<u8> {
        let mut out = Vec::new();
        let mut writer = TableWriter::new(format, &sample_table(), &mut out).unwrap();
        for row in rows {
            writer.push(row.clone()).unwrap();
        }
        assert_eq!(writer.close().unwrap(), rows.len() as u64);
        out
    }

    /// Columns: task, resolved, steps, cost_usd.
    fn sample_rows() -> Vec<Vec<Cell>> {
        vec![
            vec!["größe,1".into(), true.into(), 7_u64.into(), 0.25.into()],
            vec!["t2".into(), Cell::Null, Cell::Null, Cell::Null],
        ]
    }

    #[test]
    fn jsonl_and_csv_have_every_column() {
        let text = String::from_utf8(write_table(TableFormat::JsonLines, &sample_rows())).unwrap();
        let lines: Vec<Value> =
            text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        assert_eq!(lines[0]["task"], "größe,1");
        assert_eq!(lines[1]["cost_usd"], Value::Null);
        assert_eq!(lines[1].as_object().unwrap().len(), 4);
        let text = String::from_utf8(write_table(TableFormat::Csv, &sample_rows())).unwrap();
        let sheet: Vec<&str> = text.lines().collect();
        let head = ["task,resolved,steps,cost_usd", "\"größe,1\",true,7,0.25", "t2,,,"];
        assert_eq!(sheet, head);
    }

    #[test]
    fn parquet_has_values_nulls_and_column_metadata() {
        // The rows do not fit in a single group.
        let mut all = sample_rows();
        all.extend(std::iter::repeat_n(sample_rows().remove(0), ROWS_PER_GROUP));
        let bytes = write_table(TableFormat::Parquet, &all);
        let reader = SerializedFileReader::new(bytes::Bytes::from(bytes)).unwrap();
        assert_eq!(reader.num_row_groups(), 2);
        let about = reader.metadata().file_metadata().key_value_metadata().unwrap();
        let about = about.iter().find(|one| one.key == COLUMNS_KEY).unwrap();
        assert!(about.value.as_ref().unwrap().contains("US dollars"));
        let rows_read: Vec<_> = reader.get_row_iter(None).unwrap().map(Result::unwrap).collect();
        assert_eq!(rows_read.len(), all.len());
        let fields = |at: usize| rows_read[at].get_column_iter().cloned_fields();
        assert_eq!(
            fields(0),
            [Field::Str("größe,1".into()), Field::Bool(true), Field::Long(7), Field::Double(0.25),]
        );
        assert_eq!(fields(1)[1..], [Field::Null, Field::Null, Field::Null]);
    }

    #[test]
    fn empty_table_has_its_columns() {
        let bytes = write_table(TableFormat::Parquet, &[]);
        let reader = SerializedFileReader::new(bytes::Bytes::from(bytes)).unwrap();
        assert_eq!(reader.metadata().file_metadata().schema().get_fields().len(), 4);
    }

    /// The fields of a row, by value.
    trait Fields {
        fn cloned_fields(self) -> Vec<Field>;
    }

    impl<'a, I: Iterator<Item = (&'a String, &'a Field)>> Fields for I {
        fn cloned_fields(self) -> Vec<Field> {
            self.map(|(_, field)| field.clone()).collect()
        }
    }
}
