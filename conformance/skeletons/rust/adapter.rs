//! A first adapter in Rust, with nothing but the standard library.
//!
//!     rustc --edition 2021 -O -o adapter conformance/skeletons/rust/adapter.rs
//!     memwal conformance vectors check --adapter ./adapter
//!
//! It has the start of tier 0 for revisions A and B: names, hashes, and the version hint both ways. All the rest is
//! UNSUPPORTED. Replace the functions by calls of your implementation, and name each new message in `HELLO`.

mod json;

use json::{base64, from_base64, parse, Json};
use std::io::{self, BufRead, Write};

/// An error reply: its kind and the message. Any other failure is a panic, which ends the process: the suite calls
/// that a crash.
struct Refused(&'static str, String);

type Answer = Result<Json, Refused>;

const HELLO: &str = r#"{
    "protocol": "1", "implementation": "skeleton (Rust)", "version": "1", "revisions": ["A", "B"], "roles": [],
    "capabilities": ["eval.name", "eval.hash", "eval.decode", "eval.encode"],
    "without": ["eval.decode manifest", "eval.decode wal", "eval.decode index_details",
                "eval.encode manifest", "eval.encode wal", "eval.encode index_details"]
}"#;

fn answered(message: &str, params: &Json, revision: &mut String) -> Answer {
    match message {
        "hello" => Ok(parse(HELLO).expect("HELLO is JSON")),
        "configure" => {
            *revision = params.get("revision").text().into();
            Ok(Json::Object(vec![]))
        }
        "shutdown" => Ok(Json::Object(vec![])),
        "eval.name" => eval_name(params, revision),
        "eval.hash" => eval_hash(params),
        "eval.decode" => eval_decode(params),
        "eval.encode" => eval_encode(params),
        _ => panic!("HELLO claims {message}, and no function answers it"),
    }
}

fn object(name: &str, value: Json) -> Answer {
    Ok(Json::Object(vec![(name.into(), value)]))
}

fn eval_name(params: &Json, revision: &str) -> Answer {
    let text = params.get("number").text(); // 64-bit numbers are decimal strings
    let number: u64 = text.parse().map_err(|e| Refused("invalid_argument", format!("{text}: {e}")))?;
    let name = match (params.get("kind").text(), revision) {
        ("table_manifest", _) => format!("{:020}.manifest", u64::MAX - number),
        ("manifest", _) => format!("{:064b}.binpb", number.reverse_bits()),
        (_, "A") => format!("{:064b}.lance", number.reverse_bits()),
        _ => format!("{:064b}.arrow", number.reverse_bits()),
    };
    object("name", Json::Text(name))
}

/// The hash of each column is the seed of the next, and NULL is left out (AMB-60, several columns).
fn eval_hash(params: &Json) -> Answer {
    let mut hash = None;
    for cell in params.get("values").list() {
        if *cell.get("v") != Json::Null {
            hash = Some(murmur3(&bytes_of(cell)?, hash.unwrap_or(0)));
        }
    }
    object("hash", hash.map_or(Json::Null, |hash| Json::Number((hash as i32).to_string())))
}

/// The bytes that are hashed: one form per family of types (AMB-59, bytes that go into Murmur3).
fn bytes_of(cell: &Json) -> Result<Vec<u8>, Refused> {
    let (kind, value) = (cell.get("t").text(), cell.get("v"));
    let text = value.text();
    let bad = |e: &dyn std::fmt::Display| Refused("invalid_argument", format!("{text} as {kind}: {e}"));
    Ok(match kind {
        "utf8" => text.as_bytes().to_vec(),
        "binary" => from_base64(text),
        "bool" => ((*value == Json::Bool(true)) as i64).to_le_bytes().to_vec(),
        "float32" | "float64" => {
            // a float32 is the binary32 that its text rounds to
            let narrow = kind == "float32";
            let number = if narrow { text.parse::<f32>().map(f64::from) } else { text.parse() };
            let number: f64 = number.map_err(|e| bad(&e))? + 0.0; // one zero: -0 + 0 is 0
            let form = if number.is_nan() { 0x7ff8_0000_0000_0000 } else { number.to_bits() }; // one NaN
            form.to_le_bytes().to_vec()
        }
        "uint64" => text.parse::<u64>().map_err(|e| bad(&e))?.to_le_bytes().to_vec(),
        _ if kind.starts_with("float32[") => return Err(bad(&"a vector has no hash")),
        _ => text.parse::<i64>().map_err(|e| bad(&e))?.to_le_bytes().to_vec(), // integers, date32, timestamp_us
    })
}

fn murmur3(data: &[u8], seed: u32) -> u32 {
    let mixed = |word: u32| word.wrapping_mul(0xcc9e2d51).rotate_left(15).wrapping_mul(0x1b873593);
    let mut hash = seed;
    for chunk in data.chunks(4) {
        let word = chunk.iter().rev().fold(0, |word, byte| word << 8 | *byte as u32);
        hash ^= mixed(word);
        if chunk.len() == 4 {
            hash = hash.rotate_left(13).wrapping_mul(5).wrapping_add(0xe6546b64);
        }
    }
    hash ^= data.len() as u32;
    hash = (hash ^ hash >> 16).wrapping_mul(0x85ebca6b);
    hash = (hash ^ hash >> 13).wrapping_mul(0xc2b2ae35);
    hash ^ hash >> 16
}

/// Damaged bytes are the error `corrupt`.
fn eval_decode(params: &Json) -> Answer {
    let data = from_base64(params.get("data").text());
    let hint = std::str::from_utf8(&data).ok().and_then(parse).unwrap_or(Json::Null);
    let version = match hint.get("version") {
        Json::Number(text) => text.parse::<u64>().ok().filter(|version| *version > 0),
        _ => None,
    };
    let Some(version) = version else {
        return Err(Refused("corrupt", format!("the hint has no version: {}", String::from_utf8_lossy(&data))));
    };
    object("hint", object("version", Json::Text(version.to_string()))?)
}

fn eval_encode(params: &Json) -> Answer {
    let version = params.get("hint").get("version").text();
    object("data", Json::Text(base64(format!("{{\"version\": {version}}}").as_bytes())))
}

fn main() -> io::Result<()> {
    let mut revision = String::new();
    for line in io::stdin().lock().lines() {
        let request = parse(&line?).expect("a request is one line of JSON");
        let message = request.get("message").text();
        let told = match answered(message, request.get("params"), &mut revision) {
            Ok(result) => ("result", result.written()),
            Err(Refused(kind, text)) => {
                ("error", format!("{{\"kind\": \"{kind}\", \"message\": {}}}", Json::Text(text).written()))
            }
        };
        println!("{{\"id\": {}, \"{}\": {}}}", request.get("id").written(), told.0, told.1);
        io::stdout().flush()?;
        if message == "shutdown" {
            break;
        }
    }
    Ok(())
}
