//! As much JSON and base64 as an adapter needs. With `serde_json` and `base64` this file is not needed.

#[derive(Clone, Debug, PartialEq)]
pub enum Json {
    Null,
    Bool(bool),
    Number(String), // as it was written: nothing is lost, and 5 is not 5.0
    Text(String),
    List(Vec<Json>),
    Object(Vec<(String, Json)>),
}

impl Json {
    pub fn get(&self, name: &str) -> &Json {
        match self {
            Json::Object(members) => members.iter().find(|(n, _)| n == name).map_or(&Json::Null, |(_, v)| v),
            _ => &Json::Null,
        }
    }

    pub fn text(&self) -> &str {
        if let Json::Text(text) = self { text } else { "" }
    }

    pub fn list(&self) -> &[Json] {
        if let Json::List(items) = self { items } else { &[] }
    }

    pub fn written(&self) -> String {
        match self {
            Json::Null => "null".into(),
            Json::Bool(value) => value.to_string(),
            Json::Number(text) => text.clone(),
            Json::Text(text) => quoted(text),
            Json::List(items) => format!("[{}]", items.iter().map(Json::written).collect::<Vec<_>>().join(", ")),
            Json::Object(members) => {
                let members = members.iter().map(|(name, value)| format!("{}: {}", quoted(name), value.written()));
                format!("{{{}}}", members.collect::<Vec<_>>().join(", "))
            }
        }
    }
}

fn quoted(text: &str) -> String {
    let mut out = String::from("\"");
    for c in text.chars() {
        match c {
            '"' | '\\' => out.extend(['\\', c]),
            c if c < ' ' => out.push_str(&format!("\\u{:04x}", c as u32)),
            c => out.push(c),
        }
    }
    out + "\""
}

/// The value that `text` is, or `None` if it is none.
pub fn parse(text: &str) -> Option<Json> {
    let mut rest = text.chars().peekable();
    let value = value(&mut rest)?;
    skip(&mut rest);
    rest.next().is_none().then_some(value)
}

type Rest<'a> = std::iter::Peekable<std::str::Chars<'a>>;

fn skip(rest: &mut Rest) {
    while rest.next_if(|c| " \t\r\n".contains(*c)).is_some() {}
}

fn expect(rest: &mut Rest, word: &str, value: Json) -> Option<Json> {
    word.chars().all(|c| rest.next() == Some(c)).then_some(value)
}

fn value(rest: &mut Rest) -> Option<Json> {
    skip(rest);
    match rest.peek()? {
        'n' => expect(rest, "null", Json::Null),
        't' => expect(rest, "true", Json::Bool(true)),
        'f' => expect(rest, "false", Json::Bool(false)),
        '"' => string(rest).map(Json::Text),
        '[' => items(rest, ']', value).map(Json::List),
        '{' => items(rest, '}', member).map(Json::Object),
        _ => {
            let text: String = std::iter::from_fn(|| rest.next_if(|c| "+-.eE0123456789".contains(*c))).collect();
            text.parse::<f64>().ok().map(|_| Json::Number(text))
        }
    }
}

fn member(rest: &mut Rest) -> Option<(String, Json)> {
    skip(rest);
    let name = string(rest)?;
    skip(rest);
    rest.next_if_eq(&':')?;
    Some((name, value(rest)?))
}

fn items<T>(rest: &mut Rest, end: char, item: fn(&mut Rest) -> Option<T>) -> Option<Vec<T>> {
    let mut found = vec![];
    rest.next();
    skip(rest);
    if rest.next_if_eq(&end).is_some() {
        return Some(found);
    }
    loop {
        found.push(item(rest)?);
        skip(rest);
        match rest.next()? {
            ',' => continue,
            c if c == end => return Some(found),
            _ => return None,
        }
    }
}

fn string(rest: &mut Rest) -> Option<String> {
    let mut units: Vec<u16> = vec![]; // UTF-16, since escapes are
    rest.next_if_eq(&'"')?;
    loop {
        let c = match rest.next()? {
            '"' => return String::from_utf16(&units).ok(),
            '\\' => match rest.next()? {
                'u' => {
                    let digits: String = rest.take(4).collect();
                    units.push(u16::from_str_radix(&digits, 16).ok()?);
                    continue;
                }
                'n' => '\n',
                't' => '\t',
                'r' => '\r',
                'b' => '\u{8}',
                'f' => '\u{c}',
                c => c,
            },
            c => c,
        };
        units.extend_from_slice(c.encode_utf16(&mut [0; 2]));
    }
}

const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

pub fn from_base64(text: &str) -> Vec<u8> {
    let (mut out, mut bits, mut count) = (vec![], 0u32, 0);
    for c in text.bytes().filter(|c| *c != b'=') {
        bits = bits << 6 | DIGITS.iter().position(|d| *d == c).expect("base64") as u32;
        count += 6;
        if count >= 8 {
            count -= 8;
            out.push((bits >> count) as u8);
        }
    }
    out
}

pub fn base64(data: &[u8]) -> String {
    let digits = data.chunks(3).flat_map(|chunk| {
        let word = (0..3).fold(0u32, |word, i| word << 8 | *chunk.get(i).unwrap_or(&0) as u32);
        (0..4).map(move |i| if i > chunk.len() { '=' } else { DIGITS[(word >> (18 - 6 * i)) as usize & 63] as char })
    });
    digits.collect()
}
