//! Loads files of every type: at full size, with a broken row in the middle, and in the hub's
//! directory layout.

#![expect(clippy::unwrap_used, reason = "a test fails by panic")]

use std::{fs, path::Path, sync::Arc};

use parquet::{
    basic::Compression,
    data_type::{ByteArray, ByteArrayType},
    file::{properties::WriterProperties, writer::SerializedFileWriter},
    schema::parser::parse_message_type,
};
use pretty_assertions::assert_eq;
use proctor_datasets::load;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::common::{classic_row, generate, with_fields};

/// Writes rows as Parquet. Every field is text, except `FAIL_TO_PASS`, which is a list in the
/// encoding of the hub's writers.
fn write_parquet(file: &Path, rows: &[Value]) {
    write_compressed_parquet(file, rows, Compression::SNAPPY);
}

fn write_compressed_parquet(file: &Path, rows: &[Value], codec: Compression) {
    let names: Vec<&String> = rows[0].as_object().unwrap().keys().collect();
    let columns: String = names
        .iter()
        .map(|name| match name.as_str() {
            "FAIL_TO_PASS" => format!(
                "optional group {name} (LIST) {{ repeated group list {{ optional binary element (UTF8); }} }} "
            ),
            _ => format!("optional binary {name} (UTF8); "),
        })
        .collect();
    let schema = Arc::new(parse_message_type(&format!("message schema {{ {columns} }}")).unwrap());
    let properties = Arc::new(WriterProperties::builder().set_compression(codec).build());
    let mut writer =
        SerializedFileWriter::new(fs::File::create(file).unwrap(), schema, properties).unwrap();
    let mut group = writer.next_row_group().unwrap();
    for name in names {
        let mut column = group.next_column().unwrap().unwrap();
        let (mut values, mut definitions, mut repetitions) = (Vec::new(), Vec::new(), Vec::new());
        for row in rows {
            match &row[name] {
                Value::Null => definitions.push(0),
                Value::Array(items) => {
                    for (at, item) in items.iter().enumerate() {
                        values.push(ByteArray::from(item.as_str().unwrap()));
                        definitions.push(3);
                        repetitions.push(i16::from(at > 0));
                    }
                }
                value => {
                    values.push(ByteArray::from(value.as_str().unwrap()));
                    definitions.push(1);
                }
            }
        }
        let repetitions = (!repetitions.is_empty()).then_some(&repetitions[..]);
        column
            .typed::<ByteArrayType>()
            .write_batch(&values, Some(&definitions), repetitions)
            .unwrap();
        column.close().unwrap();
    }
    group.close().unwrap();
    writer.close().unwrap();
}

#[test]
fn full_dataset_loads_except_its_broken_row() {
    let dir = TempDir::new().unwrap();
    let mut lines: Vec<String> = (0..generate::SWE_BENCH_ROW_COUNT)
        .map(|at| generate::generate_swe_bench_row(at).to_string())
        .collect();
    let middle = generate::SWE_BENCH_ROW_COUNT / 2;
    let cut = lines[middle].len() / 2;
    let cut = (cut..).find(|at| lines[middle].is_char_boundary(*at)).unwrap();
    lines[middle].truncate(cut);
    fs::write(dir.path().join("rows.jsonl"), lines.join("\n")).unwrap();
    let loaded = load(&["rows.jsonl".into()], dir.path()).unwrap();
    assert_eq!(loaded.tasks.len(), generate::SWE_BENCH_ROW_COUNT - 1);
    assert_eq!(loaded.bad_rows.len(), 1);
    assert_eq!(loaded.bad_rows[0].line, Some(middle + 1));
    assert!(
        loaded.bad_rows[0].message.starts_with("not JSON: truncated"),
        "{}",
        loaded.bad_rows[0]
    );

    let mut rows: Vec<Value> =
        (0..generate::FEATUREBENCH_ROW_COUNT).map(generate::generate_featurebench_row).collect();
    rows[100]["repo_settings"] = json!("{\"test_cmd\": ");
    fs::write(dir.path().join("fb.json"), json!(rows).to_string()).unwrap();
    let loaded = load(&["fb.json".into()], dir.path()).unwrap();
    assert_eq!(loaded.tasks.len(), generate::FEATUREBENCH_ROW_COUNT - 1);
    assert_eq!(loaded.bad_rows[0].field.as_deref(), Some("repo_settings"));
    assert_eq!(loaded.bad_rows[0].id.as_deref(), rows[100]["instance_id"].as_str());
}

#[test]
fn parquet_codecs_are_read_or_reported() {
    let dir = TempDir::new().unwrap();
    let row = with_fields(classic_row(), &[("FAIL_TO_PASS", json!(["t.py::x"]))]);
    for codec in ["UNCOMPRESSED", "SNAPPY", "GZIP(6)", "ZSTD(3)"] {
        let file = dir.path().join("rows.parquet");
        write_compressed_parquet(&file, std::slice::from_ref(&row), codec.parse().unwrap());
        let loaded = load(&["rows.parquet".into()], dir.path()).unwrap();
        assert_eq!((loaded.tasks.len(), loaded.bad_rows.len()), (1, 0), "{codec}");
    }
    // Each file has one column with one string. pyarrow wrote it.
    for (codec, bytes) in [
        ("brotli", include_bytes!("common/brotli.parquet").as_slice()),
        ("lz4", include_bytes!("common/lz4.parquet").as_slice()),
    ] {
        fs::write(dir.path().join("other.parquet"), bytes).unwrap();
        let said = load(&["other.parquet".into()], dir.path()).unwrap_err().to_string();
        assert!(said.contains("other.parquet") && said.contains(codec), "{said}");
        assert!(said.contains("use snappy, zstd or gzip"), "{said}");
    }
}

#[test]
fn parquet_and_json_lines_give_the_same_tasks() {
    let dir = TempDir::new().unwrap();
    let mut rows: Vec<Value> = (0..20).map(generate::generate_swe_bench_row).collect();
    for row in &mut rows {
        row["FAIL_TO_PASS"] = json!(["tests/a.py::x", "tests/a.py::é"]);
    }
    rows[7]["patch"] = Value::Null;
    write_parquet(&dir.path().join("rows.parquet"), &rows);
    let lines: Vec<String> = rows.iter().map(Value::to_string).collect();
    fs::write(dir.path().join("rows.jsonl"), lines.join("\n")).unwrap();
    let of = |name: &str| load(&[name.to_owned()], dir.path()).unwrap();
    let (columns, lines) = (of("rows.parquet"), of("rows.jsonl"));
    assert_eq!(columns.tasks.len(), 19);
    assert_eq!(columns.tasks, lines.tasks);
    assert_eq!(columns.bad_rows[0].row, Some(8));
    assert_eq!(columns.bad_rows[0].field.as_deref(), Some("patch"));
    assert!(
        columns.bad_rows[0].to_string().contains("rows.parquet row 8"),
        "{}",
        columns.bad_rows[0]
    );
}

/// Returns a temporary directory below the target directory, and its path relative to the working
/// directory.
fn temporary_directory_below_target() -> (TempDir, String) {
    let dir = TempDir::new_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let here = std::env::current_dir().unwrap().canonicalize().unwrap();
    let there = dir.path().canonicalize().unwrap();
    let shared = here.components().zip(there.components()).take_while(|(a, b)| a == b).count();
    let up = "../".repeat(here.components().count() - shared);
    let down: std::path::PathBuf = there.components().skip(shared).collect();
    (dir, format!("{up}{}", down.display()))
}

#[test]
fn folder_is_found_from_any_spelling_of_a_relative_base() {
    let (dir, relative) = temporary_directory_below_target();
    let data = dir.path().join("set[1]/data");
    fs::create_dir_all(&data).unwrap();
    fs::write(data.join("test.jsonl"), format!("{}\n", classic_row())).unwrap();
    for base in [relative.clone(), format!("./{relative}"), format!("{relative}/.")] {
        for name in ["set[1]", "set[1]/", "./set[1]", "./set[1]/./", ".", "set[1]#split=test"] {
            let loaded = load(&[name.to_owned()], Path::new(&base)).unwrap();
            assert_eq!((loaded.tasks.len(), loaded.bad_rows.len()), (1, 0), "{base} {name}");
        }
    }
    for base in ["", ".", "./"] {
        let loaded = load(&[format!("{relative}/set[1]")], Path::new(base)).unwrap();
        assert_eq!(loaded.tasks.len(), 1, "{base:?}");
    }
    // A file that two patterns spell differently is loaded only once.
    let twice = ["set[1]", "./set[[]1]/data/*.jsonl"].map(str::to_owned);
    let loaded = load(&twice, Path::new(&relative)).unwrap();
    assert_eq!((loaded.tasks.len(), loaded.bad_rows.len()), (1, 0));
}

#[test]
fn splits_of_files_and_folders_are_chosen() {
    let dir = TempDir::new().unwrap();
    let row = |id: &str| with_fields(classic_row(), &[("instance_id", json!(id))]);
    let both = json!({"lite": [row("a")], "full": [row("a"), row("b")]});
    fs::write(dir.path().join("splits.json"), both.to_string()).unwrap();
    let of = |pattern: &str| load(&[pattern.to_owned()], dir.path());
    let full = of("splits.json#split=full").unwrap();
    assert_eq!((full.tasks.len(), full.bad_rows.len()), (2, 0));
    assert_eq!(full.tasks[0].benchmark.as_ref().unwrap().split.as_deref(), Some("full"));
    let unsaid = of("splits.json").unwrap();
    assert!(unsaid.bad_rows[0].message.contains("#split=lite"), "{}", unsaid.bad_rows[0]);

    let data = dir.path().join("set/data");
    fs::create_dir_all(&data).unwrap();
    for (split, id) in [("test", "a"), ("dev", "b")] {
        write_parquet(
            &data.join(format!("{split}-00000-of-00001.parquet")),
            &[with_fields(row(id), &[("FAIL_TO_PASS", json!(["t.py::x"]))])],
        );
    }
    assert_eq!(of("set#split=dev").unwrap().tasks[0].id.as_str(), "b");
    assert!(of("set").unwrap_err().to_string().contains("dev, test"));
    fs::write(dir.path().join("ids.json"), "[\"b\"]").unwrap();
    assert_eq!(of("splits.json#split=full&ids=ids.json").unwrap().tasks.len(), 1);
    fs::write(dir.path().join("ids.json"), "[\"b\", \"a\", \"b\"]").unwrap();
    let twice = of("splits.json#split=full&ids=ids.json").unwrap();
    let ids: Vec<_> = twice.tasks.iter().map(|task| task.id.as_str()).collect();
    assert_eq!(ids, ["b", "a"]);
    fs::write(dir.path().join("ids.json"), "[\"b\", \"z\"]").unwrap();
    let missing = of("splits.json#split=full&ids=ids.json").unwrap_err().to_string();
    assert!(missing.contains("such as z"), "{missing}");
}

#[test]
fn load_detects_the_format_from_the_content() {
    let dir = TempDir::new().unwrap();
    let row = with_fields(classic_row(), &[("FAIL_TO_PASS", json!(["t.py::x"]))]);
    write_parquet(&dir.path().join("columns.json"), std::slice::from_ref(&row));
    fs::write(dir.path().join("array.jsonl"), json!([row]).to_string()).unwrap();
    fs::write(dir.path().join("pretty.jsonl"), serde_json::to_string_pretty(&row).unwrap())
        .unwrap();
    fs::write(dir.path().join("rows.ndjson"), format!("{row}\n")).unwrap();
    for name in ["columns.json", "array.jsonl", "pretty.jsonl", "rows.ndjson"] {
        let loaded = load(&[name.to_owned()], dir.path()).unwrap();
        assert_eq!(
            (loaded.tasks.len(), loaded.bad_rows.len()),
            (1, 0),
            "{name}: {:?}",
            loaded.bad_rows
        );
    }
    fs::write(dir.path().join("notes.txt"), "no rows\n").unwrap();
    let said = load(&["notes.txt".into()], dir.path()).unwrap_err().to_string();
    assert!(said.contains("is not a dataset"), "{said}");
}
