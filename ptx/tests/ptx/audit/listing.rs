//! What `nvdisasm` prints of a cubin, as instructions: functions, labels, where parameters begin, sizes of variables.

use std::collections::BTreeMap;

/// A register: `R0` to `R254`, then `UR0` to `UR62`. What always reads as zero is no register.
pub(crate) type Register = usize;
/// How many there are.
pub(crate) const REGISTERS: usize = 255 + 63;

/// One operand.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Operand {
    Register(Register),
    /// `RZ`, `URZ`, `SRZ`.
    Zero,
    Literal(i64),
    /// Bank and byte of a constant, and a register that is added.
    Constant(u32, i64, Option<Register>),
    Predicate(String),
    Address(Address),
    Label(String),
    /// Anything else, also a register that is negated or inverted.
    Other(String),
}

/// What stands in brackets.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Address {
    /// Registers that are added up, each with what stands behind its name, as `.64`.
    pub(crate) parts: Vec<(Register, String)>,
    pub(crate) offset: i64,
    /// It could be read.
    pub(crate) is_known: bool,
}

/// One machine instruction.
#[derive(Debug, Clone)]
pub(crate) struct Machine {
    /// Byte in its section.
    pub(crate) at: u64,
    /// `P0`, `!UP1`; `None` when it is always executed.
    pub(crate) guard: Option<String>,
    pub(crate) opcode: String,
    pub(crate) operands: Vec<Operand>,
    /// As printed.
    pub(crate) text: String,
    /// Of a jump through a table.
    pub(crate) targets: Vec<String>,
}

/// A section of code: a kernel and the functions that it calls.
#[derive(Debug, Default)]
pub(crate) struct Section {
    /// The kernel's name.
    pub(crate) name: String,
    pub(crate) code: Vec<Machine>,
    /// Index of the instruction behind each label.
    pub(crate) labels: BTreeMap<String, usize>,
    /// Labels that are functions.
    pub(crate) functions: Vec<String>,
    /// It is a kernel.
    pub(crate) is_entry: bool,
}

/// A disassembled cubin.
#[derive(Debug, Default)]
pub(crate) struct Listing {
    pub(crate) sections: Vec<Section>,
    /// Byte in constant bank 0 where the kernels' parameters begin.
    pub(crate) params: Option<i64>,
    /// The variable whose address each eight bytes of constant bank 4 hold.
    pub(crate) addresses: BTreeMap<i64, String>,
    /// Bytes of each variable.
    pub(crate) sizes: BTreeMap<String, u64>,
}

/// Where a reader of the listing is.
#[derive(Default)]
struct Reader {
    listing: Listing,
    section: String,
    /// Bytes of the data section so far, and where its labels are.
    data: u64,
    places: BTreeMap<String, u64>,
    /// Each variable's size as a label behind it.
    ends: Vec<(String, String)>,
    in_bank: bool,
}

/// Reads a listing.
pub(crate) fn read(text: &str) -> Listing {
    let mut reader = Reader::default();
    for line in text.lines() {
        reader.line(line.trim());
    }
    for (name, end) in &reader.ends {
        if let (Some(a), Some(b)) = (reader.places.get(name), reader.places.get(end)) {
            let sizes = &mut reader.listing.sizes;
            sizes.insert(name.clone(), b.saturating_sub(*a));
        }
    }
    reader.listing
}

impl Reader {
    fn line(&mut self, line: &str) {
        if let Some(rest) = line.strip_prefix(".section\t") {
            self.begin(rest);
        } else if line.contains("EIATTR_PARAM_CBANK") {
            self.in_bank = true;
        } else if line.starts_with("//") {
        } else if let Some(rest) = line.strip_prefix(".type") {
            if let Some((name, "@function")) = pair(rest)
                && let Some(section) = self.code()
            {
                section.functions.push(name.to_owned());
            }
        } else if line.starts_with(".other") && line.contains("STO_CUDA_ENTRY") {
            if let Some(section) = self.code() {
                section.is_entry = true;
            }
        } else if let Some(rest) = line.strip_prefix(".size") {
            if let Some((name, size)) = pair(rest)
                && let Some((end, _)) = size.trim_start_matches('(').split_once(" - ")
            {
                self.ends.push((name.to_owned(), end.to_owned()));
            }
        } else if let Some(label) = line.strip_suffix(':') {
            self.places.insert(label.to_owned(), self.data);
            if let Some(section) = self.code() {
                let at = section.code.len();
                section.labels.insert(label.to_owned(), at);
            }
        } else if let Some((address, rest)) = addressed(line) {
            self.content(address, rest);
        }
    }

    fn begin(&mut self, rest: &str) {
        let name = rest.trim().split(',').next().unwrap_or_default().trim();
        name.clone_into(&mut self.section);
        self.data = 0;
        self.in_bank = false;
        if let Some(kernel) = name.strip_prefix(".text.") {
            self.listing.sections.push(Section {
                name: kernel.to_owned(),
                ..Section::default()
            });
        }
    }

    fn code(&mut self) -> Option<&mut Section> {
        let is_code = self.section.starts_with(".text.");
        self.listing.sections.last_mut().filter(|_| is_code)
    }

    fn content(&mut self, address: u64, rest: &str) {
        if let Some(section) = self.code() {
            section.code.push(machine(address, rest));
            return;
        }
        let (word, list) = rest.split_once(char::is_whitespace).unwrap_or((rest, ""));
        let bytes = match word {
            ".byte" => 1,
            ".short" => 2,
            ".word" => 4,
            ".dword" => 8,
            _ => 0,
        };
        let count = list.split(',').count() as u64;
        let zeros = if word == ".zero" {
            number(list.trim()).unwrap_or(0)
        } else {
            0
        };
        self.data = address + bytes * count + zeros.unsigned_abs();
        // Tag, kind, length; a symbol; then the place.
        if self.in_bank && word == ".short" && !list.contains('(') {
            let at = number(list.trim());
            self.listing.params = self.listing.params.or(at);
            self.in_bank = false;
        }
        if self.section == ".nv.constant4"
            && let Ok(at) = i64::try_from(address)
        {
            self.listing.addresses.insert(at, list.trim().to_owned());
        }
    }
}

/// Returns two words that a comma parts.
fn pair(text: &str) -> Option<(&str, &str)> {
    let (a, b) = text.split_once(',')?;
    Some((a.trim(), b.trim()))
}

/// Returns the address in front of a line and the rest.
fn addressed(line: &str) -> Option<(u64, &str)> {
    let (digits, rest) = line.strip_prefix("/*")?.split_once("*/")?;
    Some((u64::from_str_radix(digits, 16).ok()?, rest.trim()))
}

fn number(text: &str) -> Option<i64> {
    let (sign, digits) = match text.strip_prefix('-') {
        Some(rest) => (-1, rest),
        None => (1, text),
    };
    let value = match digits.strip_prefix("0x") {
        Some(hex) => i64::from_str_radix(hex, 16).ok()?,
        None => digits.parse().ok()?,
    };
    Some(sign * value)
}

fn machine(at: u64, text: &str) -> Machine {
    let (text, comment) = text.split_once("(*").unwrap_or((text, ""));
    let text = text.trim().trim_end_matches(';').trim();
    let mut rest = text;
    let mut guard = None;
    if let Some(guarded) = text.strip_prefix('@') {
        let (predicate, behind) = guarded.split_once(' ').unwrap_or((guarded, ""));
        guard = Some(predicate.to_owned()).filter(|p| !matches!(p.as_str(), "PT" | "UPT"));
        rest = behind.trim();
    }
    let (opcode, list) = rest.split_once(char::is_whitespace).unwrap_or((rest, ""));
    let targets = match comment.split_once("BRANCH_TARGETS") {
        Some((_, names)) => names
            .split(['"', '*'])
            .next()
            .unwrap_or_default()
            .split(',')
            .map(|name| name.trim().to_owned())
            .collect(),
        None => Vec::new(),
    };
    Machine {
        at,
        guard,
        opcode: opcode.to_owned(),
        operands: operands(list),
        text: text.split_whitespace().collect::<Vec<_>>().join(" "),
        targets,
    }
}

fn operands(list: &str) -> Vec<Operand> {
    let mut parts = vec![String::new()];
    let mut depth = 0_i32;
    for c in list.chars() {
        match c {
            '[' | '(' => depth += 1,
            ']' | ')' => depth -= 1,
            _ => {}
        }
        match c {
            ',' if depth == 0 => parts.push(String::new()),
            _ => parts.last_mut().expect("one at least").push(c),
        }
    }
    // A target may stand behind a register without a comma.
    let parts = parts
        .iter()
        .flat_map(|p| p.trim().split(" `").map(str::to_owned).collect::<Vec<_>>());
    let parts = parts.filter(|p| !p.is_empty());
    parts.map(|p| operand(&p)).collect()
}

fn operand(text: &str) -> Operand {
    let text = text.trim().trim_start_matches('`');
    if let Some(label) = text.strip_prefix('(').and_then(|t| t.strip_suffix(')')) {
        return Operand::Label(label.to_owned());
    }
    if let Some(rest) = text.strip_prefix("c[") {
        return constant(rest).unwrap_or_else(|| Operand::Other(text.to_owned()));
    }
    if text.starts_with('[') || text.starts_with("desc[") || text.starts_with("gdesc[") {
        return Operand::Address(address(text));
    }
    let plain = text.strip_suffix(".reuse").unwrap_or(text);
    if matches!(plain, "RZ" | "URZ" | "SRZ") {
        return Operand::Zero;
    }
    if let Some(register) = register(plain) {
        return Operand::Register(register);
    }
    let name = plain.trim_start_matches('!');
    let is_predicate = |p: &str| {
        let rest = p.strip_prefix("UP").or_else(|| p.strip_prefix('P'));
        rest.is_some_and(|r| matches!(r, "T" | "R" | "0" | "1" | "2" | "3" | "4" | "5" | "6"))
    };
    if is_predicate(name) {
        return Operand::Predicate(plain.to_owned());
    }
    match number(plain) {
        Some(n) => Operand::Literal(n),
        None => Operand::Other(text.to_owned()),
    }
}

/// Returns the register of that name.
fn register(name: &str) -> Option<Register> {
    let (first, digits) = match name.strip_prefix("UR") {
        Some(digits) => (255, digits),
        None => (0, name.strip_prefix('R')?),
    };
    let n: usize = digits.parse().ok()?;
    let most = if first == 0 { 254 } else { 62 };
    (n <= most).then_some(first + n)
}

/// Reads `0x0][0x210]` or `0x4][R0+0x8]`.
fn constant(rest: &str) -> Option<Operand> {
    let (bank, rest) = rest.split_once("][")?;
    let inside = rest.strip_suffix(']')?;
    let inside = address(&format!("[{inside}]"));
    let bank = u32::try_from(number(bank)?).ok()?;
    match inside.parts.as_slice() {
        _ if !inside.is_known => None,
        [] => Some(Operand::Constant(bank, inside.offset, None)),
        [(register, _)] => Some(Operand::Constant(bank, inside.offset, Some(*register))),
        _ => None,
    }
}

fn address(text: &str) -> Address {
    let mut found = Address {
        is_known: true,
        ..Address::default()
    };
    // Behind a descriptor, whose register is no part of the address.
    let inside = text
        .rsplit_once('[')
        .map_or("", |t| t.1)
        .trim_end_matches(']');
    for part in inside.split('+').map(str::trim) {
        let (name, suffix) = part.split_once('.').unwrap_or((part, ""));
        if matches!(name, "RZ" | "URZ") {
            continue;
        }
        if let Some(register) = register(name) {
            found.parts.push((register, suffix.to_owned()));
        } else if let Some(n) = number(part) {
            found.offset += n;
        } else {
            found.is_known = false;
        }
    }
    found
}
