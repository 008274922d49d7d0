//! Tests of the search for imports.

use kindlm_types::FileError;
use serde_json::json;

use super::*;

struct Texts(Vec<(&'static str, &'static str)>);

impl Files for Texts {
    fn read_file(&self, path: &str) -> Result<Arc<str>, FileError> {
        let found = self.0.iter().find(|(name, _)| *name == path);
        found
            .map(|(_, text)| Arc::from(*text))
            .ok_or_else(|| FileError::NotFound { path: path.to_owned(), folder: "here".to_owned() })
    }

    fn glob(&self, _: &str) -> Result<Vec<String>, FileError> {
        Ok(Vec::new())
    }
}

fn find_parts(files: &Texts, path: &str) -> Arc<Parts> {
    Programs::new(files).find_parts(path)
}

fn found(parts: &Parts) -> String {
    parts.keys().map(String::as_str).collect::<Vec<_>>().join(" ")
}

#[test]
fn imports_of_a_program_are_followed() {
    for (main, text, other, expected) in [
        ("a.mjs", "import {h} from './b.mjs';", "b.mjs", true),
        ("a.mjs", "import './b.mjs'", "b.mjs", true),
        ("a.mjs", "export * from \"./b.mjs\"", "b.mjs", true),
        ("a.mjs", "const b = await import(`./b.mjs`)", "b.mjs", true),
        ("a.js", "const b = require('./b')", "b.js", true),
        ("a.js", "const b = require('./b')", "b.json", true),
        ("a.js", "const b = require('./b')", "b/index.cjs", true),
        ("a.js", "const b = require('.')", "index.js", true),
        ("a.ts", "import b from './b.js'", "b.ts", true),
        ("lib/a.js", "require('../b.js')", "b.js", true),
        ("lib/a.js", "require('./b.js')", "lib/b.js", true),
        ("lib/a.js", "fs.readFileSync('data/b.csv')", "data/b.csv", true),
        ("lib/a.js", "path.join(__dirname, 'b.json')", "lib/b.json", true),
        ("a.js", "// don't\nrequire(\"./b.js\") // isn't", "b.js", true),
        ("a.js", "it's; require('./b.js')", "b.js", true),
        ("a.js", "require('b')", "b.js", false),
        ("a.py", "import b", "b.py", true),
        ("a.py", "import os, b as c", "b.py", true),
        ("lib/a.py", "from b import c", "b.py", true),
        ("lib/a.py", "from .b import c", "lib/b.py", true),
        ("lib/a.py", "    from . import (b, c)", "lib/b.py", true),
        ("lib/a.py", "from .. import b", "b.py", true),
        ("lib/a.py", "from . import (\n    c,  # a (c)\n    b,\n)\n", "lib/b.py", true),
        ("a.py", "from lib import(c,\n b)", "lib/b.py", true),
        ("a.py", "import os, \\\n    b\nprint(1)", "b.py", true),
        ("a.py", "from c import (d\n)\nimport b", "b.py", true),
        ("a.py", "\"\"\"\nfrom here (on\n\"\"\"\nimport b", "b.py", true),
        ("a.py", "from b.c import d", "b/c/d.py", true),
        ("a.py", "import b.c", "b/__init__.py", true),
        ("a.py", "open('b.json')", "b.json", true),
        ("a.rb", "require_relative 'b'", "b.rb", true),
        ("a.sh", "exec python3 ./b.py \"$@\"", "b.py", true),
        ("a.txt", "see './b.js'", "b.js", false),
        ("agent", "#!/usr/bin/env python3\nimport b", "b.py", true),
        ("bin/agent", "#!/usr/bin/env -S node --x\nrequire('../b')", "b.js", true),
        ("agent", "#!/bin/bash\nruby b.rb", "b.rb", true),
        ("agent", "#!/usr/bin/python3.12\nimport b", "b.py", true),
        ("agent", "import b", "b.py", false),
    ] {
        let files = Texts(vec![(main, text), (other, "")]);
        let parts = find_parts(&files, main);
        assert_eq!(parts.contains_key(other), expected, "{main}: {text}: {}", found(&parts));
        assert!(parts.contains_key(main));
    }
}

#[test]
fn import_cycles_end_and_their_files_count() {
    let files = |last| {
        Texts(vec![
            ("a.js", "require('./b')"),
            ("b.js", "require('./a'); require('./c')"),
            ("c.js", last),
        ])
    };
    let (one, other) = (find_parts(&files("1"), "a.js"), find_parts(&files("2"), "./a.js"));
    assert_eq!(found(&one), "a.js b.js c.js");
    assert_ne!(one["c.js"], other["c.js"]);
    assert_eq!(one["a.js"], other["a.js"]);
    assert!(find_parts(&files(""), "absent.js").is_empty());
}

#[test]
fn a_configuration_names_files() {
    let files = Texts(vec![
        ("model.sh", "exec node run.js"),
        ("run.js", ""),
        ("t.js", ""),
        ("replies.yaml", ""),
        ("README.md", ""),
        ("bin/agent", ""),
        ("bin/data", ""),
        ("data", ""),
    ]);
    for (config, expected) in [
        (json!({"command": "FLAG=1 ./model.sh --x=run.js"}), "model.sh run.js"),
        (json!({"command": "echo README"}), ""),
        (json!({"command": "./bin/agent --fast"}), "bin/agent"),
        (json!({"command": "./agent", "cwd": "./bin"}), "bin/agent"),
        (json!({"command": "./agent"}), ""),
        (json!({"command": "cat data"}), "data"),
        (
            json!({"command": "cd bin; sh \"$KINDLM_SUITE/model.sh\" ${KINDLM_SUITE}/data"}),
            "data model.sh run.js",
        ),
        (json!({"command": "cat <data >out"}), "data"),
        (json!({"command": "node run.js 2>&1 > 'data'; cat data"}), "run.js"),
        (json!({"command": "sh -c 'node run.js < data'"}), "data run.js"),
        (json!({"command": "cd bin && ./agent data"}), "bin/agent bin/data data"),
        (json!({"command": "sh", "args": ["-c", "node run.js"]}), "run.js"),
        (json!({"transformResponse": "file://./t.js:read"}), "t.js"),
        (json!({"answerCalls": "const it = await import('./t.js'); return it.read(args)"}), "t.js"),
        (json!({"body": {"nested": ["file://t.js"]}}), "t.js"),
        (json!({"file": "./replies.yaml"}), "replies.yaml"),
        (json!({"url": "http://host/t.js", "body": "t.js"}), ""),
    ] {
        assert_eq!(found(&Programs::new(&files).named_in(&config)), expected, "{config}");
    }
}

/// Files that count the successful reads.
struct Counted(Texts, std::sync::atomic::AtomicU32);

impl Files for Counted {
    fn read_file(&self, path: &str) -> Result<Arc<str>, FileError> {
        let read = self.0.read_file(path);
        self.1.fetch_add(read.is_ok().into(), std::sync::atomic::Ordering::Relaxed);
        read
    }

    fn glob(&self, _: &str) -> Result<Vec<String>, FileError> {
        Ok(Vec::new())
    }
}

#[test]
fn each_file_is_read_once_however_often_it_is_asked_for() {
    let texts = Texts(vec![("agent.py", "import tools"), ("tools.py", ""), ("other.py", "")]);
    let files = Counted(texts, 0.into());
    let programs = Programs::new(&files);
    let first = programs.of_command("python3 agent.py 'row 0'").unwrap();
    let reads = files.1.load(std::sync::atomic::Ordering::Relaxed);
    for row in 0..100 {
        let line = format!("python3 agent.py 'row {row}'");
        assert_eq!(programs.of_command(&line), Some(first));
    }
    assert_eq!(found(&programs.named_in(&json!({"file": "agent.py"}))), "agent.py tools.py");
    assert_eq!(files.1.load(std::sync::atomic::Ordering::Relaxed), reads);
    assert_ne!(programs.of_command("python3 other.py"), Some(first));
    assert_eq!(programs.of_command("echo hello"), None);
}

/// Files that all have this many bytes. Reading a whole file fails the test.
struct Large(u64);

impl Files for Large {
    fn read_file(&self, path: &str) -> Result<Arc<str>, FileError> {
        Err(FileError::TooLarge { path: path.to_owned(), bytes: self.0, limit: 64 })
    }

    fn glob(&self, _: &str) -> Result<Vec<String>, FileError> {
        Ok(Vec::new())
    }

    fn tree(
        &self,
        _: &str,
        _: kindlm_types::TreeLimits,
    ) -> Result<kindlm_types::FileTree, FileError> {
        panic!("this would read all of it")
    }
}

#[test]
fn a_file_that_is_too_large_counts_by_its_size() {
    let digest = |bytes| Programs::new(&Large(bytes)).find_parts("a.bin")["a.bin"];
    assert_eq!(digest(100), digest(100));
    assert_ne!(digest(100), digest(200));
}
