//! Tests that built-in modules and globals behave as in Node. If Node is installed, it runs the same cases.

use std::process::Command;

use crate::support::{body, folder, host, shown};

/// Expressions, with Node's results.
const CASES: &[(&str, &str)] = &[
    ("path.join('/a', '../b', './c.txt')", r#""/b/c.txt""#),
    (
        "[path.dirname('/a/b/'), path.dirname('a'), path.dirname('/'), path.extname('x.tar.gz'), path.extname('.x'), path.basename('/a/b.js', '.js')]",
        r#"["/a",".","/",".gz","","b"]"#,
    ),
    (
        "[path.normalize('a//b/../c/'), path.normalize(''), path.normalize('/..'), path.relative('/a/b/c', '/a/d'), path.isAbsolute('/x'), path.resolve('/a', 'b', '../c')]",
        r#"["a/c/",".","/","../../d",true,"/a/c"]"#,
    ),
    (
        "[path.parse('/home/x/f.txt'), path.format({dir: '/a', name: 'b', ext: 'c'})]",
        r#"[{"root":"/","dir":"/home/x","base":"f.txt","ext":".txt","name":"f"},"/a/b.c"]"#,
    ),
    (
        "util.inspect({a: 1, b: ['x', {c: {d: {e: 1}}}], f() {}, [Symbol('s')]: null})",
        r#""{\n  a: 1,\n  b: [ 'x', { c: [Object] } ],\n  f: [Function: f],\n  [Symbol(s)]: null\n}""#,
    ),
    (
        "[util.inspect(new Map([[1, {a: 2}]])), util.inspect(new Set(['x'])), util.inspect([1, , 3]), util.inspect('it\\'s'), util.inspect(-0), util.inspect([]), util.inspect({}), util.inspect(class A {}), util.inspect(Object.create(null))]",
        r#"["Map(1) { 1 => { a: 2 } }","Set(1) { 'x' }","[ 1, <1 empty item>, 3 ]","\"it's\"","-0","[]","{}","[class A]","[Object: null prototype] {}"]"#,
    ),
    (
        "(() => { const a = {}; a.self = a; return util.inspect(a) })()",
        r#""<ref *1> { self: [Circular *1] }""#,
    ),
    (
        "[util.format('%s is %d%%', 'x', 4.5, 'more'), util.format('%j', {a: 1}), util.format(1, 'a'), util.format('%i', '42px')]",
        r#"["x is 4.5% more","{\"a\":1}","1 a","42"]"#,
    ),
    (
        "[util.isDeepStrictEqual({a: [1, new Set([2])]}, {a: [1, new Set([2])]}), util.isDeepStrictEqual([1], ['1']), util.isDeepStrictEqual(new Date(1), new Date(2)), util.isDeepStrictEqual(NaN, NaN)]",
        "[true,false,false,true]",
    ),
    ("await util.promisify((x, done) => done(null, x + 1))(1)", "2"),
    (
        "(() => { try { assert.strictEqual(1, 2) } catch (e) { return [e.name, e.code, e.message, e.actual, e.expected] } })()",
        r#"["AssertionError","ERR_ASSERTION","Expected values to be strictly equal:\n\n1 !== 2\n",1,2]"#,
    ),
    (
        "(() => { assert(true); assert.deepStrictEqual({a: 1}, {a: 1}); assert.throws(() => { throw new TypeError('x') }, TypeError); assert.match('abc', /b/); assert.deepEqual([1], ['1']); assert.notStrictEqual(1, 2); return 'held' })()",
        r#""held""#,
    ),
    (
        "[querystring.parse('a=1&b=2&a=3&c=%20x+y'), querystring.stringify({a: [1, 2], b: 'x y', c: true})]",
        r#"[{"a":["1","3"],"b":"2","c":" x y"},"a=1&a=2&b=x%20y&c=true"]"#,
    ),
    (
        "crypto.createHash('sha256').update('abc').digest('hex')",
        r#""ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad""#,
    ),
    (
        "[crypto.createHash('md5').update('a').update('b').digest('base64'), crypto.createHash('sha1').update('é').digest('hex'), crypto.createHmac('sha512', 'key').update('data').digest('hex').slice(0, 16)]",
        r#"["GH70Q2Ei0cwvQNwrkvDroA==","bf15be717ac1b080b4f1c456692825891ff5073d","3c5953a18f7303ec"]"#,
    ),
    (
        "[crypto.randomUUID().length, crypto.randomUUID() === crypto.randomUUID(), crypto.timingSafeEqual(Buffer.from('a'), Buffer.from('a')), crypto.randomBytes(8).length]",
        "[36,false,true,8]",
    ),
    (
        "[Buffer.from('héllo').toString('base64'), Buffer.from('aGk=', 'base64').toString(), Buffer.from('ff00', 'hex'), Buffer.byteLength('é'), Buffer.concat([Buffer.from('a'), Buffer.from('b')]).toString(), Buffer.from('abc').slice(1).toString('hex')]",
        r#"["aMOpbGxv","hi",{"type":"Buffer","data":[255,0]},2,"ab","6263"]"#,
    ),
    (
        "[Buffer.alloc(4).writeUInt16BE(258), Buffer.from([1, 2, 3, 4]).readUInt32LE(0), Buffer.from('abc').equals(Buffer.from('abc')), Buffer.isBuffer(Buffer.alloc(1)), Buffer.from('abcabc').indexOf('ca')]",
        "[2,67305985,true,true,2]",
    ),
    (
        "[new URL('../x?q=1#h', 'https://u:p@example.com:8080/a/b').href, new URL('https://EXAMPLE.com:443/').host, new URL('http://a/?x=1&x=2').searchParams.getAll('x'), URL.canParse('no')]",
        r#"["https://u:p@example.com:8080/x?q=1#h","example.com",["1","2"],false]"#,
    ),
    (
        "(() => { const u = new URL('http://a/'); u.searchParams.append('k', 'v w'); u.pathname = '/p q'; u.port = '99'; return [u.href, JSON.stringify(u), [...u.searchParams], String(new URLSearchParams({a: 1, b: '&'}))] })()",
        r#"["http://a:99/p%20q?k=v+w","\"http://a:99/p%20q?k=v+w\"",[["k","v w"]],"a=1&b=%26"]"#,
    ),
    (
        "(() => { try { new URL('nope') } catch (e) { return [e.name, e.code, e.message] } })()",
        r#"["TypeError","ERR_INVALID_URL","Invalid URL"]"#,
    ),
    (
        "[url.fileURLToPath('file:///a%20b'), url.pathToFileURL('/a b').href]",
        r#"["/a b","file:///a%20b"]"#,
    ),
    (
        "[...new TextEncoder().encode('é😀')].concat(new TextDecoder().decode(new Uint8Array([0xef, 0xbb, 0xbf, 0x61, 0xff])))",
        r#"[195,169,240,159,152,128,"a�"]"#,
    ),
    (
        "[atob('aGk='), btoa('hi'), (() => { try { btoa('é€') } catch (e) { return e.name } })()]",
        r#"["hi","aGk=","InvalidCharacterError"]"#,
    ),
    (
        "(() => { const a = {d: new Date(0), m: new Map([[1, {x: 1}]]), s: [1, 2]}; a.me = a; const b = structuredClone(a); return [b !== a, b.me === b, b.d instanceof Date, b.m.get(1).x, b.s] })()",
        "[true,true,true,1,[1,2]]",
    ),
    (
        "(() => { try { structuredClone(() => 1) } catch (e) { return e.name } })()",
        r#""DataCloneError""#,
    ),
    (
        "[typeof setImmediate, typeof performance.now(), new Headers({A: 'b'}).get('a'), new Response('x', {status: 404}).ok, AbortSignal.abort().aborted]",
        r#"["function","number","b",false,true]"#,
    ),
    ("await new Response(JSON.stringify({a: 1})).json()", r#"{"a":1}"#),
    (
        "await Promise.all([1, 2].map(async n => (await new Promise(r => setTimeout(r, n)), n)))",
        "[1,2]",
    ),
];

fn script(code: &str) -> String {
    format!(
        "const require = process.mainModule.require; const [path, util, assert, querystring, crypto, url] = \
         ['path', 'util', 'node:assert', 'querystring', 'crypto', 'url'].map(it => require(it)); return {code}"
    )
}

#[tokio::test]
async fn built_in_modules_work_like_in_node() {
    let folder = folder(&[]);
    let host = host(folder.path());
    let mut wrong = Vec::new();
    for (code, expected) in CASES {
        let shown = shown(&host.run(&body(&script(code))).await);
        if shown != *expected {
            wrong.push(format!("{code}\n  is       {shown}\n  should be {expected}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn the_expected_results_agree_with_node() {
    let mut code = "const results = []; (async () => {".to_owned();
    for (case, _) in CASES {
        let call = script(case);
        code.extend(["results.push(JSON.stringify(await (async () => { ", &call, " })()));"]);
    }
    code.push_str("})().then(() => console.log(JSON.stringify(results)))");
    let Ok(output) = Command::new("node")
        .args(["-e", &format!("process.mainModule ??= {{ require }}; {code}")])
        .output()
    else {
        eprintln!("SKIPPED: node is not installed; the expected results were not compared with it");
        return;
    };
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let results: Vec<String> = serde_json::from_slice(&output.stdout).unwrap();
    for ((code, expected), result) in CASES.iter().zip(results) {
        assert_eq!(*expected, result, "{code}");
    }
}
