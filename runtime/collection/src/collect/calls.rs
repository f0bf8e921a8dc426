//! Calls between functions, as recorded while the tests were traced.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use super::records::Record;

/// A Python code object.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(super) struct CodeObject {
    /// Path of the code's file, relative to the work directory.
    pub(super) file: String,
    pub(super) line: usize,
    pub(super) name: String,
}

/// The numbers of the caller and the callee. The caller is `None` if the test runner made the call.
pub(super) type Edge = (Option<usize>, usize);

/// The calls made in the process that ran one test file.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct FileCalls {
    /// Calls made outside of tests: during imports and test collection, and between tests.
    pub(super) imports: BTreeSet<Edge>,
    /// Calls during each test, including its fixtures.
    pub(super) tests: BTreeMap<String, BTreeSet<Edge>>,
}

/// The calls made by a test suite.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Calls {
    pub(super) code: Vec<CodeObject>,
    pub(super) files: BTreeMap<String, FileCalls>,
    /// Observed types by code object number, then by parameter name. The return value has an empty
    /// parameter name.
    #[serde(default)]
    pub(super) types: BTreeMap<usize, ObservedTypes>,
}

pub(super) type ObservedTypes = BTreeMap<String, BTreeSet<String>>;

impl Calls {
    /// Adds the calls recorded in one run. Code objects are renumbered, because each process
    /// numbers its own code objects.
    pub(super) fn add_records(&mut self, records: &[Record]) {
        let mut known: BTreeMap<CodeObject, usize> =
            self.code.iter().cloned().enumerate().map(|(number, code)| (code, number)).collect();
        let mut processes: BTreeMap<(&str, u64), BTreeMap<i64, usize>> = BTreeMap::new();
        for record in records {
            let Record::Calls { file: Some(file), process, test, code, edges, types } = record
            else {
                continue;
            };
            let numbers = processes.entry((file, *process)).or_default();
            for (number, file, line, name) in code {
                let code = CodeObject { file: file.clone(), line: *line, name: name.clone() };
                let next = self.code.len();
                let place = *known.entry(code.clone()).or_insert(next);
                if place == next {
                    self.code.push(code);
                }
                numbers.insert(i64::from(*number), place);
            }
            for (number, parameter, kind) in types {
                let Some(place) = numbers.get(&i64::from(*number)) else { continue };
                let seen = self.types.entry(*place).or_default();
                seen.entry(parameter.clone()).or_default().insert(kind.clone());
            }
            let calls = self.files.entry(file.clone()).or_default();
            let to = match test {
                Some(test) => calls.tests.entry(test.clone()).or_default(),
                None => &mut calls.imports,
            };
            to.extend(edges.iter().filter_map(|(caller, called)| {
                let called = *numbers.get(&i64::from(*called))?;
                Some((numbers.get(caller).copied(), called))
            }));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn add_records_renumbers_code_objects_across_processes() {
        let lines = [
            r#"{"t":"calls","file":"t.py","process":1,"test":null,"code":[[0,"m.py",1,"f"]],"edges":[[-1,0]]}"#,
            r#"{"t":"calls","file":"t.py","process":1,"test":"t.py::a","code":[[1,"m.py",5,"g"]],"edges":[[0,1]]}"#,
            r#"{"t":"calls","file":"t.py","process":2,"test":"t.py::a","code":[[0,"m.py",5,"g"]],"edges":[[-1,0]],
                "types":[[0,"a","int"],[0,"","str"]]}"#,
            r#"{"t":"calls","file":"u.py","process":2,"test":null,"code":[[7,"m.py",5,"g"]],"edges":[],
                "types":[[7,"a","None"]]}"#,
        ];
        let records: Vec<Record> =
            lines.iter().map(|line| serde_json::from_str(line).unwrap()).collect();
        let mut calls = Calls::default();
        calls.add_records(&records);
        assert_eq!(calls.code.len(), 2);
        let of = |list: &[&str]| list.iter().map(|&it| it.to_owned()).collect::<BTreeSet<_>>();
        let types = [("".to_owned(), of(&["str"])), ("a".to_owned(), of(&["None", "int"]))];
        assert_eq!(calls.types, [(1, types.into())].into());
        let file = &calls.files["t.py"];
        assert_eq!(file.imports, [(None, 0)].into());
        assert_eq!(file.tests["t.py::a"], [(Some(0), 1), (None, 1)].into());
    }
}
