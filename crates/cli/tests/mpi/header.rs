//! Tests of `mpi.h`: it compiles, and agrees with MPICH's header for the same interface.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::process::Command;

use hikyaku_mpi_table::{constants, header};

use crate::support::{assert_success, folder, mpich, scratch, stdout};

fn write(name: &str) -> std::path::PathBuf {
    let folder = scratch(name);
    fs::write(folder.join("mpi.h"), header().unwrap()).unwrap();
    folder
}

#[test]
fn it_compiles_as_c_and_as_cpp() {
    let folder = write("header");
    fs::write(folder.join("one.c"), "#include <mpi.h>\n#include <mpi.h>\n").unwrap();
    for words in [
        ["gcc", "-std=c99", "-Wstrict-prototypes"],
        ["gcc", "-std=c17", "-Wold-style-definition"],
        ["g++", "-std=c++11", "-xc++"],
        ["g++", "-std=c++20", "-xc++"],
    ] {
        let mut compiler = Command::new(words[0]);
        compiler.args(&words[1..]).args(["-Wall", "-Wextra", "-Wpedantic", "-Werror"]);
        compiler.args(["-fsyntax-only", "-I"]).arg(&folder).arg(folder.join("one.c"));
        assert_success(&compiler.output().unwrap(), words.join(" "));
    }
    fs::remove_dir_all(folder).unwrap();
}

#[test]
fn what_lies_beside_the_libraries_is_not_stale() {
    let installed = fs::read_to_string(folder().join("include/mpi.h")).unwrap();
    assert_eq!(installed, header().unwrap());
}

/// The values of a header's constants, as a compiled program prints them.
fn values(header: &Path, scratch: &Path, names: &[&str]) -> BTreeMap<String, i64> {
    let mut source = format!("#include \"{}\"\n#include <stdio.h>\n", header.display());
    source.push_str("int main(void) {\n");
    for name in names {
        writeln!(source, "printf(\"{name} %ld\\n\", (long)MPI_{name});").unwrap();
    }
    source.push_str("return 0;\n}\n");
    let (file, program) = (scratch.join("values.c"), scratch.join("values"));
    fs::write(&file, source).unwrap();
    let compiled = Command::new("gcc").arg(&file).arg("-o").arg(&program).output().unwrap();
    assert_success(&compiled, header);
    let said = stdout(&Command::new(&program).output().unwrap());
    let pair = |line: &str| {
        let (name, value) = line.split_once(' ').unwrap();
        (name.to_owned(), value.parse().unwrap())
    };
    said.lines().map(pair).collect()
}

/// The names for which a header defines values.
fn named(text: &str) -> Vec<&str> {
    let words = text.lines().filter_map(|line| {
        let line = line.trim();
        let rest = line.strip_prefix("#define MPI_").or_else(|| line.strip_prefix("MPI_"))?;
        let end = rest.find(|letter: char| !letter.is_ascii_alphanumeric() && letter != '_')?;
        let after = rest[end..].trim_start();
        let is_value = line.starts_with('#') || after.starts_with('=');
        (is_value && rest.as_bytes()[end] == b' ').then(|| &rest[..end])
    });
    words.filter(|name| !name.starts_with("ABI_Aint") && !name.starts_with("H_")).collect()
}

#[test]
fn every_constant_has_the_value_that_mpich_gives_it() {
    let ours: Vec<&str> = constants().unwrap().iter().map(|constant| constant.name).collect();
    let Some(prefix) = mpich() else { return };
    let theirs = prefix.join("include/mpi_abi.h");
    let text = fs::read_to_string(&theirs).unwrap();
    let own_text = header().unwrap();
    let known = named(&own_text);
    assert!(known.len() >= ours.len());
    let of_theirs: Vec<&str> = named(&text)
        .into_iter()
        .filter(|name| !["ABI_Offset", "ABI_Count"].contains(name))
        .collect();
    let missing: Vec<&&str> = of_theirs.iter().filter(|name| !known.contains(name)).collect();
    assert!(missing.is_empty(), "mpi.h does not have {missing:?}");
    let folder = write("values");
    let one = values(&folder.join("mpi.h"), &folder, &of_theirs);
    let other = values(&theirs, &folder, &of_theirs);
    assert_eq!(one, other);
    assert!(one.len() > 330, "{}", one.len());
    fs::remove_dir_all(folder).unwrap();
}

/// Functions and the types of their arguments, without the arguments' names.
fn prototypes(text: &str) -> BTreeMap<String, String> {
    let lines = text.lines().map(str::trim).filter(|line| line.contains(");"));
    let function = |line: &str| {
        let (head, rest) = line.split_once('(')?;
        let (result, name) = head.rsplit_once(' ')?;
        let is_function = name.starts_with("MPI_") || name.starts_with("PMPI_");
        // A call within a macro is not a prototype.
        if !is_function || line.starts_with("typedef") || name.contains('#') {
            return None;
        }
        let arguments = rest.split(");").next()?.split(',').map(argument);
        let arguments: Vec<String> = arguments.collect();
        Some((name.to_owned(), format!("{result} ({})", arguments.join(", "))))
    };
    lines.filter_map(function).collect()
}

/// The type of an argument: an array is a pointer, and a function a pointer to it.
fn argument(text: &str) -> String {
    let text = text.trim();
    if ["void", "..."].contains(&text) {
        return text.to_owned();
    }
    let text = text.replace("const int level", "int level");
    if text.contains("[3]") {
        return "int[3] *".to_owned();
    }
    let is_array = text.ends_with("[]");
    let text = text.trim_end_matches("[]");
    let end = text.trim_end_matches(|letter: char| letter.is_ascii_alphanumeric() || letter == '_');
    let pointer = if is_array { "*" } else { "" };
    let mut kind: String = end.chars().filter(|letter| *letter != ' ').collect();
    kind.push_str(pointer);
    if kind.ends_with("cb_function") { kind + "*" } else { kind }
}

#[test]
fn every_function_has_the_arguments_that_mpich_gives_it() {
    let Some(prefix) = mpich() else { return };
    let theirs = prototypes(&fs::read_to_string(prefix.join("include/mpi_abi.h")).unwrap());
    let ours = prototypes(&header().unwrap());
    assert!(theirs.len() > 1300, "{}", theirs.len());
    for (name, arguments) in &theirs {
        assert_eq!(ours.get(name), Some(arguments), "{name}");
    }
    assert_eq!(ours.len(), theirs.len());
}
