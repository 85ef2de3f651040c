//! Reference reader of JSON texts (RFC 8259): one function per grammar rule. It keeps the text of
//! each value, and all members in their order, including duplicates.
//!
//! It recurses once per level of nesting, so it takes a limit.

/// A value with its text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Value {
    pub text: String,
    pub kind: Kind,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Kind {
    Null,
    Bool,
    Number,
    /// As UTF-16, because escapes may name half a surrogate pair.
    String(Vec<u16>),
    Array(Vec<Value>),
    Object(Vec<(Vec<u16>, Value)>),
}

/// The value of a whole text. `None` if it is not JSON, or nested deeper than `depth`.
pub fn read(text: &str, depth: usize) -> Option<Value> {
    let chars: Vec<char> = text.chars().collect();
    let mut reader = Reader { chars: &chars, at: 0 };
    reader.white_space();
    let value = reader.value(depth)?;
    reader.white_space();
    (reader.at == chars.len()).then_some(value)
}

struct Reader<'a> {
    chars: &'a [char],
    at: usize,
}

impl Reader<'_> {
    fn peek(&self) -> Option<char> {
        self.chars.get(self.at).copied()
    }

    fn take(&mut self) -> Option<char> {
        let next = self.peek()?;
        self.at += 1;
        Some(next)
    }

    /// Takes this character, if it is the next.
    fn has(&mut self, expect: char) -> bool {
        let is_it = self.peek() == Some(expect);
        self.at += usize::from(is_it);
        is_it
    }

    fn expect(&mut self, expect: char) -> Option<()> {
        self.has(expect).then_some(())
    }

    fn white_space(&mut self) {
        while matches!(self.peek(), Some(' ' | '\t' | '\n' | '\r')) {
            self.at += 1;
        }
    }

    fn value(&mut self, depth: usize) -> Option<Value> {
        let start = self.at;
        let kind = match self.peek()? {
            '{' => self.object(depth.checked_sub(1)?)?,
            '[' => self.array(depth.checked_sub(1)?)?,
            '"' => Kind::String(self.string()?),
            't' => self.word("true", Kind::Bool)?,
            'f' => self.word("false", Kind::Bool)?,
            'n' => self.word("null", Kind::Null)?,
            _ => self.number()?,
        };
        Some(Value { text: self.chars[start..self.at].iter().collect(), kind })
    }

    fn object(&mut self, depth: usize) -> Option<Kind> {
        let mut members = Vec::new();
        self.expect('{')?;
        self.white_space();
        if self.has('}') {
            return Some(Kind::Object(members));
        }
        loop {
            self.white_space();
            let name = self.string()?;
            self.white_space();
            self.expect(':')?;
            self.white_space();
            members.push((name, self.value(depth)?));
            self.white_space();
            if self.has('}') {
                return Some(Kind::Object(members));
            }
            self.expect(',')?;
        }
    }

    fn array(&mut self, depth: usize) -> Option<Kind> {
        let mut elements = Vec::new();
        self.expect('[')?;
        self.white_space();
        if self.has(']') {
            return Some(Kind::Array(elements));
        }
        loop {
            self.white_space();
            elements.push(self.value(depth)?);
            self.white_space();
            if self.has(']') {
                return Some(Kind::Array(elements));
            }
            self.expect(',')?;
        }
    }

    fn word(&mut self, word: &str, kind: Kind) -> Option<Kind> {
        for expect in word.chars() {
            self.expect(expect)?;
        }
        Some(kind)
    }

    fn number(&mut self) -> Option<Kind> {
        self.has('-');
        if !self.has('0') {
            self.digits()?;
        }
        if self.has('.') {
            self.digits()?;
        }
        if self.has('e') || self.has('E') {
            let _ = self.has('+') || self.has('-');
            self.digits()?;
        }
        Some(Kind::Number)
    }

    /// One digit or more.
    fn digits(&mut self) -> Option<()> {
        let start = self.at;
        while self.peek().is_some_and(|next| next.is_ascii_digit()) {
            self.at += 1;
        }
        (self.at > start).then_some(())
    }

    fn string(&mut self) -> Option<Vec<u16>> {
        let mut units = Vec::new();
        self.expect('"')?;
        loop {
            match self.take()? {
                '"' => return Some(units),
                '\\' => units.push(self.escape()?),
                control if control < ' ' => return None,
                plain => units.extend_from_slice(plain.encode_utf16(&mut [0; 2])),
            }
        }
    }

    fn escape(&mut self) -> Option<u16> {
        let plain = match self.take()? {
            'b' => '\u{8}',
            'f' => '\u{c}',
            'n' => '\n',
            'r' => '\r',
            't' => '\t',
            same @ ('"' | '\\' | '/') => same,
            'u' => {
                let mut unit = 0;
                for _ in 0..4 {
                    unit = unit * 16 + self.take()?.to_digit(16)? as u16;
                }
                return Some(unit);
            }
            _ => return None,
        };
        Some(plain as u16)
    }
}
