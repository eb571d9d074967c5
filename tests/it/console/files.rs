//! The files of the page, at every path and below a prefix.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use reqwest::{Method, redirect};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use crate::gateway::Nginx;
use crate::support::client::send;
use crate::support::fixture::project_file;
use crate::support::{App, Client};

/// Returns the response to a browser that opens a page.
async fn opened(client: &Client, path: &str) -> (u16, String) {
    let browser = reqwest::Client::builder().redirect(redirect::Policy::none()).build().unwrap();
    let request = browser.get(client.url(path)).header("accept", "text/html,application/xhtml+xml");
    let response = request.send().await.unwrap();
    let location = response.headers().get("location").map(|value| value.to_str().unwrap().to_owned());
    (response.status().as_u16(), location.unwrap_or_default())
}

#[tokio::test(flavor = "multi_thread")]
async fn root_redirects_browsers_to_the_console() {
    let app = App::on_sqlite().await;
    assert_eq!(opened(&app, "/").await, (302, "console/".to_owned()));
    app.get("/").await.problem(404);
    let (key, _) = app.key(json!({"scopes": ["read"]})).await;
    assert_eq!(opened(&app, "/").await, (302, "console/".to_owned()), "the page itself needs no key");
    assert_eq!(opened(&app, "/console").await.0, 200);
    assert_eq!(app.get("/tools").await.status, 401);
    assert_eq!(app.with_key(&key).get("/tools").await.status, 200);
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "surfaces"]
async fn each_screen_has_a_path_that_finds_its_files() {
    let app = App::on_sqlite().await;
    let nginx = Nginx::before(&app).await;
    let client = nginx.client();
    for path in [
        "/console",
        "/console/",
        "/console/calls",
        "/console/calls/tc_1",
        "/console/tools/fs.read_file.js",
        "/console/sign-in",
    ] {
        let page = client.get(path).await;
        assert_eq!((page.status, page.header("content-type")), (200, "text/html; charset=utf-8"), "{path}");
        let text = page.text();
        let base = text.split_once("<base href=\"").and_then(|(_, rest)| rest.split_once('"')).expect("a base").0;
        let here = url::Url::parse(&client.url(path)).unwrap();
        let script = here.join(base).unwrap().join("app.js").unwrap();
        assert_eq!(script.path(), "/toolpost/console/app.js", "{path}");
        let answer = client.get("/console/app.js").await;
        assert_eq!((answer.status, answer.header("content-type")), (200, "text/javascript; charset=utf-8"));
    }
    client.get("/console/missing.js").await.problem(404);
    client.get("/console/lib/missing.js").await.problem(404);
    client.get("/console/vendor/missing.css").await.problem(404);
    let license = client.get("/console/vendor/preact/LICENSE.txt").await;
    assert_eq!((license.status, license.header("content-type")), (200, "text/plain; charset=utf-8"));
}

#[tokio::test(flavor = "multi_thread")]
async fn page_may_load_only_files_of_the_service() {
    let app = App::on_sqlite().await;
    for path in ["/console/", "/console/app.js", "/console/style.css"] {
        let policy = app.get(path).await.header("content-security-policy").to_owned();
        assert!(policy.starts_with("default-src 'none'; script-src 'self'; style-src 'self';"), "{path}: {policy}");
        assert!(!policy.contains("unsafe") && policy.contains("frame-ancestors 'none'"), "{path}: {policy}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn file_is_sent_as_in_the_source_compressed_and_cached() {
    let app = App::on_sqlite().await;
    let plain = app.get("/console/app.js").await;
    let request = || app.request(Method::GET, "/console/app.js");
    let compressed = send(request().header("accept-encoding", "gzip")).await;
    assert_eq!(compressed.header("content-encoding"), "gzip");
    assert_eq!(compressed.header("etag"), plain.header("etag"));
    let mut text = String::new();
    let bytes = compressed.body.as_slice();
    std::io::Read::read_to_string(&mut flate2::read::GzDecoder::new(bytes), &mut text).unwrap();
    assert_eq!(text, plain.text());
    assert_eq!(text, fs::read_to_string(project_file("console/app.js")).unwrap());
    let again = send(request().header("if-none-match", plain.header("etag"))).await;
    assert_eq!((again.status, again.text().as_str()), (304, ""));
}

/// Returns the files below a folder.
fn below(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    entries.flat_map(|path| if path.is_dir() { below(&path) } else { vec![path] }).collect()
}

#[test]
fn vendored_files_have_their_recorded_checksums() {
    let folder = project_file("console/vendor");
    let lock: Value = serde_json::from_slice(&fs::read(folder.join("lock.json")).unwrap()).unwrap();
    let mut recorded = BTreeSet::from([folder.join("lock.json")]);
    for (name, package) in lock["packages"].as_object().unwrap() {
        assert!(package["integrity"].as_str().unwrap().starts_with("sha512-"), "{name}");
        let files = package["files"].as_object().unwrap();
        assert!(files.keys().any(|file| file.ends_with("/LICENSE.txt")), "{name} has no licence");
        for (file, about) in files {
            let path = folder.join(file);
            let sum = Sha256::digest(fs::read(&path).unwrap());
            let sum: String = sum.iter().map(|byte| format!("{byte:02x}")).collect();
            assert_eq!(sum, about["sha256"].as_str().unwrap(), "{file}: run scripts/vendor-console");
            if about["specifier"].is_string() {
                recorded.insert(path.with_extension("d.ts"));
            }
            recorded.insert(path);
        }
    }
    assert_eq!(below(&folder).into_iter().collect::<BTreeSet<_>>(), recorded);
}

#[test]
fn each_import_of_the_console_is_a_file_of_it() {
    let imports = regex::Regex::new(r#"(?:^|[\s;}*])(?:from|import)\s*\(?\s*["']([^"'\n]+)["']"#).unwrap();
    let mut found = 0;
    for file in
        below(&project_file("console")).into_iter().filter(|file| file.extension().is_some_and(|end| end == "js"))
    {
        let text = fs::read_to_string(&file).unwrap();
        assert!(!text.contains("sourceMappingURL"), "{} names a source map, which is not served", file.display());
        for import in imports.captures_iter(&text) {
            found += 1;
            let target = &import[1];
            assert!(target.starts_with('.'), "{} imports {target}, which no browser finds", file.display());
            assert!(file.parent().unwrap().join(target).is_file(), "{} imports {target}", file.display());
        }
    }
    assert!(found > 50, "{found} imports");
}
