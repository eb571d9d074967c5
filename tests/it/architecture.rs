//! The architecture's rules within crates: no import cycles, SQL in one module, and a maximum file length.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::LazyLock;

use regex::Regex;

use crate::support::fixture::project_file;

/// Beginnings of SQL statements, and the crate that runs them.
const SQL: [&str; 7] =
    ["SELECT ", "INSERT INTO ", "DELETE FROM ", "CREATE TABLE ", "ON CONFLICT ", "BEGIN IMMEDIATE", "sqlx::"];
const LONGEST_FILE: usize = 600;
/// The folders of crates, each with its modules. The compiler keeps crates from importing each other in a cycle.
const CRATES: [&str; 6] =
    ["src", "crates/core/src", "crates/engine/src", "crates/store/src", "crates/telemetry/src", "crates/tool/src"];

/// A source file without its tests.
struct Source {
    path: PathBuf,
    /// The path within the crate, without extension.
    relative: PathBuf,
    /// The top-level module that contains the file.
    module: String,
    lines: usize,
    /// The lines without comments and without tests.
    code: Vec<String>,
}

fn all_sources() -> Vec<Source> {
    CRATES.into_iter().flat_map(sources).collect()
}

fn sources(folder: &str) -> Vec<Source> {
    let mut paths = Vec::new();
    collect(&project_file(folder), &mut paths);
    paths.sort();
    let texts: Vec<(PathBuf, String)> =
        paths.into_iter().map(|path| (path.clone(), fs::read_to_string(path).unwrap())).collect();
    let tests: Vec<PathBuf> = texts.iter().flat_map(|(path, text)| test_modules(path, text)).collect();
    let is_test = |path: &Path| tests.iter().any(|test| path.with_extension("").starts_with(test));
    let kept = texts.into_iter().filter(|(path, _)| !is_test(path));
    let sources: Vec<Source> = kept
        .map(|(path, text)| {
            let relative = path.strip_prefix(project_file(folder)).unwrap().with_extension("");
            let module = relative.iter().next().unwrap().to_str().unwrap().to_owned();
            Source { module, lines: text.lines().count(), code: code(&text), relative, path }
        })
        .collect();
    assert!(sources.len() > 5);
    sources
}

fn collect(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            collect(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
}

/// Returns the paths, without extension, of test modules in files of their own (`#[cfg(test)] mod NAME;`).
fn test_modules(path: &Path, text: &str) -> Vec<PathBuf> {
    let mut lines = text.lines().map(str::trim);
    let mut found = Vec::new();
    while lines.any(|line| line == "#[cfg(test)]") {
        // Other attributes can precede the item.
        let item = lines.find(|line| !line.starts_with("#["));
        let name = item.and_then(|item| item.strip_suffix(';')?.split_once("mod "));
        found.extend(name.map(|(_, name)| path.with_extension("").join(name)));
    }
    found
}

/// Returns the lines without comments and without `#[cfg(test)] mod … { … }`.
fn code(text: &str) -> Vec<String> {
    let (mut kept, mut lines) = (Vec::new(), text.lines().peekable());
    while let Some(line) = lines.next() {
        if line == "#[cfg(test)]" && lines.peek().is_some_and(|next| next.contains("mod ") && next.ends_with('{')) {
            lines.by_ref().find(|line| *line == "}");
        } else if !line.trim_start().starts_with("//") {
            kept.push(line.to_owned());
        }
    }
    kept
}

/// Names of modules, each with the modules that it imports.
type Graph = BTreeMap<String, BTreeSet<String>>;

/// Returns the modules that are in cycles or between two cycles, each with its imports among them.
fn in_cycles(mut graph: Graph) -> Graph {
    loop {
        let names: BTreeSet<String> = graph.keys().cloned().collect();
        let imported: BTreeSet<String> = graph.values().flatten().cloned().collect();
        graph.retain(|name, imports| {
            imports.retain(|import| names.contains(import));
            !imports.is_empty() && imported.contains(name)
        });
        if graph.len() == names.len() {
            return graph;
        }
    }
}

/// A path of a module or an item from the crate's root, which is the empty path.
type CratePath = Vec<String>;

/// The paths within the crate that a file names.
#[derive(Default)]
struct Names {
    all: Vec<CratePath>,
    /// The paths that `use` imports, by their names in the module.
    bound: BTreeMap<String, CratePath>,
}

type Modules = BTreeMap<CratePath, Names>;

static COMMENT_OR_LITERAL: LazyLock<Regex> = LazyLock::new(|| {
    let raw = r##"r"[^"]*"|r#"(?s:.*?)"#"##;
    let string = r#""(?s:\\.|[^"\\])*""#;
    let character = r"'(?:\\[^']+|\\'|[^\\'])'";
    Regex::new(&format!("//[^\n]*|{raw}|{string}|{character}")).unwrap()
});
static USE: LazyLock<Regex> = LazyLock::new(|| Regex::new(r"\buse\s+([^;]+);").unwrap());
static INLINE_PATH: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(r"(?:^|[^\w:])((?:crate|super|self)(?:::\w+)+)").unwrap());

fn module_path(source: &Source) -> CratePath {
    if source.module == "lib" {
        return CratePath::new();
    }
    source.relative.iter().map(|part| part.to_str().unwrap().to_owned()).collect()
}

fn modules(files: impl Iterator<Item = (CratePath, String)>) -> Modules {
    let bare = |text: String| COMMENT_OR_LITERAL.replace_all(&text, "").into_owned();
    let files: BTreeMap<CratePath, String> = files.map(|(path, text)| (path, bare(text))).collect();
    let is_module = |path: &[String]| files.contains_key(path);
    files.iter().map(|(path, text)| (path.clone(), names(path, text, is_module))).collect()
}

fn names(module: &[String], text: &str, is_module: impl Fn(&[String]) -> bool) -> Names {
    let mut names = Names::default();
    for leaf in USE.captures_iter(text).flat_map(|used| leaves(&used[1])) {
        let (path, alias) = leaf.split_once(" as ").unwrap_or((&leaf, ""));
        // In a list, `self` is the path before the list.
        let path = path.trim();
        let path = path.strip_suffix("::self").unwrap_or(path);
        let Some(absolute) = absolute(module, path, &is_module) else { continue };
        let last = path.rsplit("::").next().unwrap_or_default();
        let name = if alias.is_empty() { last } else { alias.trim() };
        names.bound.insert(name.to_owned(), absolute.clone());
        names.all.push(absolute);
    }
    let text = USE.replace_all(text, "");
    names.all.extend(INLINE_PATH.captures_iter(&text).filter_map(|path| absolute(module, &path[1], &is_module)));
    names
}

/// Splits the tree of a `use` declaration into paths without lists.
fn leaves(tree: &str) -> Vec<String> {
    let tree = tree.trim();
    let Some((before, list)) = tree.split_once('{') else { return vec![tree.to_owned()] };
    let mut depth = 0;
    let members = list.strip_suffix('}').unwrap_or(list).split(|letter| {
        depth += i32::from(letter == '{') - i32::from(letter == '}');
        letter == ',' && depth == 0
    });
    let members = members.filter(|member| !member.trim().is_empty()).flat_map(leaves);
    members.map(|leaf| format!("{before}{leaf}")).collect()
}

/// Returns a path within a module as a path from the crate's root; `None` for other crates and local names.
fn absolute(module: &[String], path: &str, is_module: impl Fn(&[String]) -> bool) -> Option<CratePath> {
    let path: Vec<&str> = path.trim_start_matches('$').split("::").collect();
    let mut absolute = if path[0] == "crate" { CratePath::new() } else { module.to_vec() };
    for (index, name) in path.iter().enumerate() {
        match *name {
            "crate" | "self" => {}
            "super" => drop(absolute.pop()),
            name => absolute.push(name.to_owned()),
        }
        if index == 0 && !matches!(*name, "crate" | "self" | "super") && !is_module(&absolute) {
            return None;
        }
    }
    Some(absolute)
}

/// Returns the modules that a path leads to: the module that declares the item, and each module that re-exports it.
fn resolve(modules: &Modules, path: &[String]) -> BTreeSet<CratePath> {
    let (mut found, mut path) = (BTreeSet::new(), path.to_vec());
    loop {
        let length = (0..=path.len()).rev().find(|length| modules.contains_key(&path[..*length])).unwrap_or(0);
        let (module, item) = path.split_at(length);
        let bound = item.first().and_then(|name| modules.get(module)?.bound.get(name));
        let next = bound.map(|bound| [bound, &item[1..]].concat());
        // Stop at a visited module: following it again would never end.
        let is_new = found.insert(module.to_vec());
        match next {
            Some(next) if is_new => path = next,
            _ => return found,
        }
    }
}

/// Returns, for each module, the graph of imports among its children, including imports of their descendants.
fn sibling_imports(modules: &Modules) -> BTreeMap<CratePath, Graph> {
    let mut graphs: BTreeMap<CratePath, Graph> = BTreeMap::new();
    for (module, names) in modules {
        for other in names.all.iter().flat_map(|path| resolve(modules, path)) {
            let shared = module.iter().zip(&other).take_while(|(own, others)| own == others).count();
            if let (Some(own), Some(sibling)) = (module.get(shared), other.get(shared)) {
                let children = graphs.entry(module[..shared].to_vec()).or_default();
                children.entry(own.clone()).or_default().insert(sibling.clone());
            }
        }
    }
    graphs
}

#[test]
fn children_of_a_module_import_each_other_without_a_cycle() {
    for folder in CRATES {
        let files = sources(folder).into_iter().filter(|source| source.module != "main");
        let modules = modules(files.map(|source| (module_path(&source), source.code.join("\n"))));
        for (parent, children) in sibling_imports(&modules) {
            let left = in_cycles(children);
            assert!(left.is_empty(), "cycles within `{}` of {folder} among {left:#?}", parent.join("::"));
        }
    }
}

#[test]
fn sql_is_only_in_the_store() {
    // The types of columns are in the crate of the types.
    let is_allowed = |source: &Source| source.module == "store" || source.relative == Path::new("domain/stored");
    for source in all_sources().iter().filter(|source| !is_allowed(source)) {
        for line in &source.code {
            let found = SQL.iter().find(|sql| line.contains(**sql));
            assert!(found.is_none(), "{}: {line}", source.path.display());
        }
    }
}

#[test]
fn worker_compiles_neither_the_service_nor_its_database() {
    let mut tree = Command::new(env!("CARGO"));
    tree.args([
        "tree",
        "--locked",
        "--offline",
        "--package",
        "toolpost-worker",
        "--edges",
        "normal",
        "--prefix",
        "none",
    ]);
    let output = tree.current_dir(project_file("")).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).unwrap();
    let crates: BTreeSet<&str> = text.lines().filter_map(|line| line.split(' ').next()).collect();
    assert!(crates.contains("toolpost-tool") && crates.contains("reqwest"), "{crates:?}");
    for absent in ["toolpost", "toolpost-store", "toolpost-engine", "sqlx", "clap", "axum", "utoipa-swagger-ui", "rmcp"]
    {
        assert!(!crates.contains(absent), "{absent}");
    }
}

#[test]
fn all_crates_have_one_version() {
    // Executors and metrics show the version of their crate as that of the service.
    for member in fs::read_dir(project_file("crates")).unwrap() {
        let path = member.unwrap().path().join("Cargo.toml");
        let manifest: toml::Table = fs::read_to_string(&path).unwrap().parse().unwrap();
        assert_eq!(manifest["package"]["version"].as_str(), Some(env!("CARGO_PKG_VERSION")), "{}", path.display());
    }
}

/// Names like `Stores::unclaim` in the comments of the model.
static NAMED_FUNCTION: LazyLock<Regex> = LazyLock::new(|| Regex::new(r"`(?:\w+::)*(\w+)::([a-z_]+)`").unwrap());

#[test]
fn model_names_existing_functions() {
    let code: String = all_sources().into_iter().flat_map(|source| source.code).collect::<Vec<_>>().join("\n");
    let mut rules = Vec::new();
    collect(&project_file("tests/model/src"), &mut rules);
    let text: String = rules.iter().map(|path| fs::read_to_string(path).unwrap()).collect();
    let named: BTreeSet<(&str, &str)> = NAMED_FUNCTION
        .captures_iter(&text)
        .map(|name| name.extract())
        .map(|(_, [owner, name])| (owner, name))
        .collect();
    assert!(named.len() > 20, "{named:?}");
    for (owner, name) in named {
        assert!(code.contains(&format!("fn {name}(")) || code.contains(&format!("fn {name}<")), "{owner}::{name}");
        assert!(code.contains(&format!("impl {owner}")) || code.contains(&format!("impl<'a> {owner}")), "{owner}");
    }
}

#[test]
fn no_file_is_too_long_to_read() {
    for source in all_sources() {
        assert!(source.lines <= LONGEST_FILE, "{} has {} lines", source.path.display(), source.lines);
    }
}

#[test]
fn siblings_are_found_in_every_form() {
    let siblings = |file: &str, text: &str| {
        let others = [
            ("", "mod p;"),
            ("p", "mod a;\npub use b::{Item, c as d};\nuse self::c::Thing as Alias;\nstruct Own;"),
            ("p::a", ""),
            ("p::b", "pub use super::e::Moved;"),
            ("p::c", ""),
            ("p::c::deep", ""),
            ("p::e", ""),
        ];
        let files = others.into_iter().filter(|(other, _)| *other != file).chain([(file, text)]);
        let path = |file: &str| file.split("::").filter(|name| !name.is_empty()).map(str::to_owned).collect();
        let code = |text: &str| code(text).join("\n");
        let mut graphs = sibling_imports(&modules(files.map(|(file, text)| (path(file), code(text)))));
        let of_a = graphs.remove(["p".to_owned()].as_slice()).and_then(|mut children| children.remove("a"));
        of_a.unwrap_or_default().into_iter().collect::<Vec<_>>().join(" ")
    };
    for (file, text, expected) in [
        ("p::a", "use super::b::X;", "b"),
        ("p::a", "pub(super) use crate::p::c::{self, deep::{X, Y as Z}};", "c"),
        ("p::a", "use super::{\n    Own, b::X,\n    c,\n};", "b c"),
        ("p::a", "use $crate::p::c::X;", "c"),
        ("p::a", "fn f(x: &crate::p::b::X) -> super::c::deep::Y {}", "b c"),
        ("p::a", "use super::Item;", "b"),
        ("p::a", "use super::Alias;", "c"),
        ("p::a", "use crate::p::b::Moved;", "b e"),
        ("p::a::inner", "use super::super::b::X;", "b"),
        ("p::a::inner", "super::f(crate::p::Item::new())", "b"),
        ("p::a", "use super::Own;\nuse self::inner::X;\nuse other::b::X;\nlet my_super::b = b::x();", ""),
        (
            "p::a",
            "// super::b\nlet x = 1; // super::b\nlet y = (\"\\\"super::b\", r#\"\"super::b\"#, '\"', super::c::x);",
            "c",
        ),
        ("p::a", "fn f<'a>(x: &'a super::c::X) {}\n#[cfg(test)]\nmod tests {\n    use super::b;\n}", "c"),
    ] {
        assert_eq!(siblings(file, text), expected, "{text}");
    }
}

#[test]
fn only_modules_in_cycles_are_found() {
    let graph = |imports: &[(&str, &str)]| -> Graph {
        let all = |names: &str| names.split(' ').map(str::to_owned).collect();
        imports.iter().map(|(name, names)| ((*name).to_owned(), all(names))).collect()
    };
    assert!(in_cycles(graph(&[("a", "b c"), ("b", "c d")])).is_empty());
    let left = in_cycles(graph(&[("a", "b"), ("b", "c"), ("c", "b d"), ("d", "e")]));
    assert_eq!(left, graph(&[("b", "c"), ("c", "b")]));
}
