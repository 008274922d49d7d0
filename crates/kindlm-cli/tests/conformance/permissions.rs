//! The permissions of scripts: network through the real client, files on the real disk.

use std::sync::Arc;
use std::time::Duration;

use kindlm_script::ScriptHost;
use kindlm_testing::{MockReply, MockServer};
use kindlm_types::script::{
    ScriptOutcome, ScriptPermissions, ScriptQuestion, ScriptRuntime, ScriptSource, ScriptValue,
};

use crate::workers::host;

/// Runs a script with these permissions, and returns its result as text.
async fn run_permitted(host: &ScriptHost, permissions: ScriptPermissions, code: &str) -> String {
    let source = ScriptSource::Body { params: Vec::new(), code: code.into() };
    let question = ScriptQuestion::new(ScriptRuntime::QuickJs, source)
        .with_permissions(Arc::new(permissions))
        .with_timeout(Duration::from_mins(1));
    match host.run(&question).await.unwrap().outcome {
        ScriptOutcome::Returned(ScriptValue::Json(value)) => value.to_string(),
        ScriptOutcome::Returned(other) => format!("{other:?}"),
        ScriptOutcome::Threw { message, .. } => format!("threw {}", message.unwrap_or_default()),
    }
}

fn net(hosts: &[String]) -> ScriptPermissions {
    ScriptPermissions { net: hosts.to_vec(), ..ScriptPermissions::default() }
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap()
}

#[test]
fn fetch_follows_no_redirect_to_other_hosts() {
    let inside = MockServer::start().unwrap();
    let outside = MockServer::answering(|_| MockReply::raw(200, "text/plain", "secret")).unwrap();
    let (a, b) = (inside.address().to_string(), outside.address().to_string());
    let folder = tempfile::tempdir().unwrap();
    let host = host(folder.path());
    let get = |to: &str| {
        format!(
            "const it = await fetch('http://{to}/x', {{ headers: {{ authorization: 'own' }} }}); return [it.status, await it.text()]"
        )
    };
    let refused = format!("threw fetch of {b} is not permitted: add `{b}` to `scripts.net`");
    runtime().block_on(async {
        inside.push(MockReply::raw(200, "text/plain", "hello"));
        assert_eq!(
            run_permitted(&host, net(std::slice::from_ref(&a)), &get(&a)).await,
            r#"[200,"hello"]"#
        );
        let sent = inside.requests();
        assert_eq!(sent[0].header("authorization"), Some("own"));

        assert_eq!(run_permitted(&host, net(std::slice::from_ref(&a)), &get(&b)).await, refused);
        assert!(run_permitted(&host, net(&[]), &get(&a)).await.contains("is not permitted"));

        inside.push(MockReply::redirect(302, &format!("http://{b}/secret")));
        assert_eq!(run_permitted(&host, net(std::slice::from_ref(&a)), &get(&a)).await, refused);
        assert_eq!(outside.count(), 0, "nothing may be sent to a host that is not permitted");

        // If both hosts are permitted, the redirect is followed, without the credentials of the first host.
        inside.push(MockReply::redirect(302, &format!("http://{b}/y")));
        assert_eq!(
            run_permitted(&host, net(&[a.clone(), b.clone()]), &get(&a)).await,
            r#"[200,"secret"]"#
        );
        assert_eq!(outside.requests()[0].header("authorization"), None);

        inside.push(MockReply::redirect(302, "file:///etc/passwd"));
        let text = run_permitted(&host, net(std::slice::from_ref(&a)), &get(&a)).await;
        assert!(text.starts_with("threw fetch failed: `file:` is neither"), "{text}");
    });
}

#[cfg(unix)]
#[test]
fn files_are_read_in_permitted_folders_and_no_link_leads_out() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().canonicalize().unwrap();
    std::fs::create_dir_all(root.join("suite/data/deep")).unwrap();
    std::fs::create_dir_all(root.join("elsewhere")).unwrap();
    for (file, text) in [
        ("suite/data/in.txt", "in"),
        ("suite/data/deep/in.txt", "deep"),
        ("suite/beside.txt", "beside"),
        ("elsewhere/out.txt", "out"),
    ] {
        std::fs::write(root.join(file), text).unwrap();
    }
    for (to, link) in [
        ("elsewhere/out.txt", "suite/data/link.txt"),
        ("elsewhere", "suite/data/folder"),
        ("suite/data/in.txt", "suite/data/home.txt"),
    ] {
        std::os::unix::fs::symlink(root.join(to), root.join(link)).unwrap();
    }
    let host = host(&root.join("suite"));
    let permitted =
        || ScriptPermissions { read: vec!["./data".to_owned()], ..ScriptPermissions::default() };
    runtime().block_on(async {
        for (path, expected) in [
            ("data/in.txt", r#""in""#),
            ("./data/deep/../in.txt", r#""in""#),
            ("data/deep/in.txt", r#""deep""#),
            ("data/home.txt", r#""in""#),
            ("beside.txt", "threw reading 'beside.txt' is not permitted"),
            ("data/../beside.txt", "threw reading 'data/../beside.txt' is not permitted"),
            ("../elsewhere/out.txt", "threw reading '../elsewhere/out.txt' is not permitted"),
            ("data/link.txt", "threw reading 'data/link.txt' is not permitted"),
            ("data/folder/out.txt", "threw reading 'data/folder/out.txt' is not permitted"),
            ("/etc/passwd", "threw reading '/etc/passwd' is not permitted"),
            ("data/gone.txt", "threw ENOENT"),
        ] {
            let code =
                format!("return process.mainModule.require('fs').readFileSync('{path}', 'utf8')");
            let text = run_permitted(&host, permitted(), &code).await;
            assert!(text.starts_with(expected), "{path}: {text}");
        }
        let list = "return process.mainModule.require('fs').readdirSync('data/folder')";
        let text = run_permitted(&host, permitted(), list).await;
        assert!(text.contains("is not permitted"), "{text}");
    });
}
